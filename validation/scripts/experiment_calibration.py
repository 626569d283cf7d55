"""Compare the experiments with the truth in calibration cells, and check null controls."""

from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.experiments.measured import Measurements, per_sample
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.pairs.per_sample import per_sample as pairs_of
    from anchorscope.passes.activations import measured
    from anchorscope.statistics.analysis import stacked
    from anchorscope.statistics.scores import Scores
    from anchorscope.workflow.tables import write
    from validation import experiments, requirements

    given, chosen, frames = snakemake.input, snakemake.params, []
    for place, (model, dataset) in enumerate(chosen.cells):
        scores, answers = Scores.read(given.scores[place]), read_parquet(given.answers[place])
        planted = [path for path in given.truth if path.endswith(f"/{model}/{dataset}.parquet")]
        truth = read_parquet(planted[0]) if planted else None
        passed = measured(answers, given.activations[place])
        found = {experiments.KNOCKOUT: experiments.of_knockout(scores, passed)}
        for (name, *cell), path in zip(chosen.measured, given.measured, strict=True):
            if cell == [model, dataset]:
                made = Measurements.read(path)
                found[name] = per_sample(EXPERIMENTS[name], made, scores, answers)
        pairs = pairs_of(scores, passed)
        for name, frame in found.items():
            table = experiments.of_experiment(frame, answers, truth, pairs, **chosen.bootstrap)
            frames.append(table.assign(experiment=name, model=model, dataset=dataset))
    whole = stacked(frames)[[*experiments.COLUMNS]].sort_values("experiment", kind="stable")
    checks = experiments.check(whole, chosen.calibrated, chosen.nulls)
    verdict = requirements.in_words(checks)
    write(snakemake, {"table": whole, "checks": checks}, verdict=verdict)
    print(verdict)
