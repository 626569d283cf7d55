"""Fit one cell's probes anew in every bootstrap draw, at three layers."""

import functools

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake):
    import pandas as pd

    from anchorscope.experiments import refits
    from anchorscope.models import activations
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    chosen = snakemake.params
    device = best_device("cpu" if snakemake.resources.device == "cpu" else "cuda")
    folder = snakemake.input.activations
    answers = activations.measured(read_parquet(snakemake.input.answers), folder)
    found = [
        refits.refit(
            functools.partial(activations.read, folder, readout),
            answers,
            readout,
            {**chosen.probe, "seed": chosen.seed},
            draws=chosen.draws,
            seed=chosen.seed,
            device=device,
        )
        for readout in chosen.readouts
    ]
    write_csv(pd.concat(found, ignore_index=True), snakemake.output.refits)
    provenance.of_stage(snakemake, snakemake.output.refits, device=device)
