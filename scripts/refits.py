"""Fit one cell's probes anew in every bootstrap draw, at three layers."""

from functools import partial

import pandas as pd

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.knockout.refits import refit
    from anchorscope.passes import activations
    from anchorscope.probes import stored
    from anchorscope.probes.fitting import Settings
    from anchorscope.workflow import jobs

    given, chosen = snakemake.input, snakemake.params
    device = jobs.device_of(snakemake)
    answers = activations.measured(read_parquet(given.answers), given.activations)
    settings = Settings(**chosen.probe, seed=chosen.seed)
    probes = stored.read(given.probes)
    more = {"draws": chosen.draws, "device": device}
    tables = []
    for readout in chosen.readouts:
        read = partial(activations.read, given.activations, readout)
        tables.append(refit(read, answers, readout, settings, probes, **more))
    write_csv(pd.concat(tables, ignore_index=True), snakemake.output.refits)
    provenance.of_stage(snakemake, snakemake.output.refits, device=device)
