"""Measure one experiment in one cell, and score its passes with the cell's stored probes."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments import scored
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.probes import stored
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.rows
    experiment = EXPERIMENTS[snakemake.wildcards.experiment]
    located, loaded = jobs.model_of(snakemake)
    answers, probes = read_parquet(given.answers), stored.read(given.probes)
    answers = answers[answers["id"].isin(probes.ids)]
    cell = scored.Cell(loaded, answers, probes, chosen.readouts, chosen.batch_tokens, chosen.seed)
    rows = experiment.module("measure").measure(cell)
    write_parquet(rows, written)
    apart = scored.apart(rows, read_parquet(given.scores))
    counts = scored.counts(answers, rows)
    provenance.of_stage(snakemake, written, counts=counts, model=located, clean_scores_apart=apart)
