"""Fit one cell's probes anew in every bootstrap draw, at three layers."""

from functools import partial

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.storage.progress import Progress
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake):
    import pandas as pd

    from anchorscope.experiments import refits
    from anchorscope.models import activations
    from anchorscope.probes import stored
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    given, chosen = snakemake.input, snakemake.params
    device = best_device("cpu" if snakemake.resources.device == "cpu" else "cuda")
    answers = activations.measured(read_parquet(given.answers), given.activations)
    probes = stored.read(given.probes)
    found = []
    for readout in Progress(chosen.readouts, unit="read-outs"):
        table = refits.refit(
            partial(activations.read, given.activations, readout),
            answers,
            readout,
            {**chosen.probe, "seed": chosen.seed},
            probes.fitted[readout],
            draws=chosen.draws,
            seed=chosen.seed,
            device=device,
        )
        found.append(table)
    write_csv(pd.concat(found, ignore_index=True), snakemake.output.refits)
    provenance.of_stage(snakemake, snakemake.output.refits, device=device)
