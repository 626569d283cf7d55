"""One cell's curve, its paired contrasts, and the controls beside them."""

from anchorscope.models.activations import measured
from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments import controls, delta_p, interchange, strata
    from anchorscope.probes import draws

    chosen, written = snakemake.params, snakemake.output
    scores, floors = read_parquet(snakemake.input.scores), read_parquet(snakemake.input.floors)
    answers = measured(read_parquet(snakemake.input.answers), snakemake.input.activations)
    refits = {"draws_of_refits": draws.read(snakemake.input.draws)}
    drawn = {**{n: chosen.bootstrap[n] for n in ("draws", "level")}, "seed": chosen.seed}
    bootstrap = {**chosen.bootstrap, "seed": chosen.seed}
    balanced = chosen.probe["scoring"] == "calibrated" and chosen.probe["prior"] == "balanced"
    before = controls.before_the_answer(scores)
    made = delta_p.by_readout(
        scores,
        answers,
        {
            "curve": lambda s: delta_p.curve(s, answers, floors=floors, **refits, **bootstrap),
            "contrasts": lambda s: delta_p.contrasts(s, answers, floors=floors, **refits, **drawn),
            "controls": lambda s: controls.controls(
                s, floors, answers, before=before, balanced=balanced, **drawn
            ),
            "interchange": lambda s: interchange.report(s, answers, **refits, **bootstrap),
            "strata": lambda s: strata.report(s, answers, floors=floors, **bootstrap),
            "density": lambda s: controls.density(s, answers),
        },
    )
    for name, table in made.items():
        write_csv(table, written[name])
    counts = provenance.counts_of(snakemake.input.scores)
    provenance.of_stage(snakemake, written.curve, counts=counts)
