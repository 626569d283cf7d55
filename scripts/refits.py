"""Fit one cell's probes anew in every bootstrap draw, at three layers."""

from anchorscope.storage import partial, provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake), partial.given_back(snakemake.input.activations):
    import pandas as pd

    from anchorscope.experiments import refits
    from anchorscope.models import activations
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    chosen = snakemake.params
    device = best_device("cpu" if snakemake.resources.device == "cpu" else "cuda")
    folder = snakemake.input.activations
    answers = activations.measured(read_parquet(snakemake.input.answers), folder)
    product = snakemake.output.refits
    fit = partial.fit(snakemake, device.partition(":")[0], partial.content(snakemake.input))
    with partial.kept(partial.place(snakemake.wildcards.root, product, fit)) as waits:
        found = [
            refits.refit(
                lambda condition, draw, readout=readout: activations.read(
                    folder, readout, condition, draw
                ),
                answers,
                readout,
                {**chosen.probe, "seed": chosen.seed},
                draws=chosen.draws,
                seed=chosen.seed,
                device=device,
                keep=waits,
            )
            for readout in chosen.readouts
        ]
        write_csv(pd.concat(found, ignore_index=True), product)
    provenance.of_stage(snakemake, product, device=device)
