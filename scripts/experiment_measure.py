"""Measure one experiment in one cell, and score its passes with the cell's stored probes."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.experiment import SampledSettings
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.experiments.scored import Cell
    from anchorscope.models.families import readable
    from anchorscope.probes import stored
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.measured
    experiment = EXPERIMENTS[snakemake.wildcards.experiment]
    attention = "eager" if experiment.reads_attention else None
    located, loaded = jobs.model_of(snakemake, attention)
    answers, probes = read_parquet(given.answers), stored.read(given.probes)
    cell = Cell(
        loaded,
        answers[answers["id"].isin(probes.ids)],
        probes,
        readouts=readable(loaded, chosen.readouts),
        headlines=Scores.read(given.scores).headlines,
        seed=chosen.seed,
        draws=chosen.draws,
        prompts=read_parquet(given.prompts),
        style=chosen.style,
    )
    settings = experiment.settings(**chosen.settings)
    if isinstance(settings, SampledSettings):
        cell = cell.sampled(settings.samples)
    measured = experiment.module("measure").measure(cell, settings)
    measured.write(written)
    provenance.of_stage(snakemake, written, counts=cell.counts(measured), model=located)
