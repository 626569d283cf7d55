"""One cell's curve and its paired contrasts."""

from anchorscope import provenance
from anchorscope.activations import measured
from anchorscope.delta_p import contrasts, curve
from anchorscope.files import read_parquet, write_csv
from anchorscope.stage import stage

with stage(snakemake):
    chosen = snakemake.params
    scores = read_parquet(snakemake.input.scores)
    answers = measured(read_parquet(snakemake.input.answers), snakemake.input.activations)
    bootstrap = {**chosen.bootstrap, "seed": chosen.seed}
    write_csv(curve(scores, answers, grouping=chosen.grouping, **bootstrap), snakemake.output.curve)
    drawn = {name: bootstrap[name] for name in ("draws", "level", "seed")}
    write_csv(contrasts(scores, answers, **drawn), snakemake.output.contrasts)
    counts = provenance.counts_of(snakemake.input.scores)
    provenance.of_stage(snakemake, snakemake.output.curve, counts=counts)
