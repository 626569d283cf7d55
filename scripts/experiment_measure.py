"""Measure one experiment in one cell, and score its passes with the cell's stored probes."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments import scored
    from anchorscope.experiments.experiment import SampledSettings
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.models.families import readable
    from anchorscope.probes import stored
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.rows
    experiment = EXPERIMENTS[snakemake.wildcards.experiment]
    attention = "eager" if experiment.reads_attention else None
    located, loaded = jobs.model_of(snakemake, attention)
    answers, probes = read_parquet(given.answers), stored.read(given.probes)
    answers = answers[answers["id"].isin(probes.ids)]
    cell = scored.Cell(
        loaded,
        answers,
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
    rows = experiment.measure(cell, settings)
    write_parquet(rows, written)
    counts = scored.counts(experiment.controls, answers, rows, cell.left_out)
    provenance.of_stage(snakemake, written, counts=counts, model=located)
