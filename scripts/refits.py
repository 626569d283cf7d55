"""Fit one cell's probes anew in every bootstrap draw, at three layers."""

from functools import partial

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.knockout import refits
    from anchorscope.passes import activations
    from anchorscope.probes import stored
    from anchorscope.workflow import jobs

    given, chosen = snakemake.input, snakemake.params
    device = jobs.device_of(snakemake)
    found = refits.of_cell(
        partial(activations.read, given.activations),
        activations.measured(read_parquet(given.answers), given.activations),
        chosen.readouts,
        {**chosen.probe, "seed": chosen.seed},
        stored.read(given.probes).fitted,
        draws=chosen.draws,
        seed=chosen.seed,
        device=device,
    )
    write_csv(found, snakemake.output.refits)
    provenance.of_stage(snakemake, snakemake.output.refits, device=device)
