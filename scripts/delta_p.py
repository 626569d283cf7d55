"""One cell's curve, its paired contrasts, and the controls beside them."""

from anchorscope import provenance
from anchorscope.activations import measured
from anchorscope.files import read_parquet, write_csv
from anchorscope.progress import Progress
from anchorscope.stage import stage

with stage(snakemake):
    from anchorscope import controls, delta_p, interchange

    chosen, written = snakemake.params, snakemake.output
    scores, text = read_parquet(snakemake.input.scores), read_parquet(snakemake.input.text)
    answers = measured(read_parquet(snakemake.input.answers), snakemake.input.activations)
    drawn = {**{n: chosen.bootstrap[n] for n in ("draws", "level")}, "seed": chosen.seed}
    bootstrap = {**chosen.bootstrap, "seed": chosen.seed}
    balanced = chosen.probe["scoring"] == "calibrated" and chosen.probe["prior"] == "balanced"
    tables = {
        "curve": lambda: delta_p.curve(scores, answers, text=text, **bootstrap),
        "contrasts": lambda: delta_p.contrasts(scores, answers, **drawn),
        "controls": lambda: controls.controls(scores, text, answers, balanced=balanced, **drawn),
        "swap": lambda: interchange.report(scores, answers, **drawn),
    }
    with Progress(total=len(tables) * chosen.bootstrap["draws"], unit="draws") as progress:
        for name, table in tables.items():
            write_csv(table(), written[name])
            progress.update(chosen.bootstrap["draws"])
    write_csv(controls.density(scores, answers), written.density)
    counts = provenance.counts_of(snakemake.input.scores)
    provenance.of_stage(snakemake, written.curve, counts=counts)
