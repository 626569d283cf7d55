"""The experiments in the calibration's cells, and in those that must come out empty."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_csv
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import experiment_floors, experiments
    from anchorscope.experiments import tables
    from anchorscope.experiments.analysis import stacked
    from anchorscope.experiments.crossing.per_sample import per_sample as pairs_of
    from anchorscope.experiments.registry import EXPERIMENTS
    from anchorscope.passes.activations import measured

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output
    frames = []
    for place, (model, dataset) in enumerate(chosen.cells):
        scores, answers, text_floors = (
            read_parquet(given[kind][place]) for kind in ("scores", "answers", "floors")
        )
        planted = [path for path in given.truth if path.endswith(f"/{model}/{dataset}.parquet")]
        truth = read_parquet(planted[0]) if planted else None
        passed = measured(answers, given.activations[place])
        per_sample = {experiments.KNOCKOUT: experiments.of_knockout(scores, passed)}
        for (name, its_model, its_dataset), path in zip(chosen.measured, given.rows, strict=True):
            if (its_model, its_dataset) == (model, dataset):
                rows = read_parquet(path)
                products = tables.Products(scores, answers, rows, text_floors, truth)
                per_sample[name] = tables.per_sample(EXPERIMENTS[name], products)
        pairs = pairs_of(scores, passed)
        bootstrap = experiments.BootstrapSettings(**chosen.bootstrap)
        for name, frame in per_sample.items():
            table = experiments.of_experiment(frame, answers, truth, pairs, bootstrap)
            frames.append(table.assign(experiment=name, model=model, dataset=dataset))
    columns = list(experiments.COLUMNS)
    whole = stacked(frames, columns)[columns].sort_values("experiment", kind="stable")
    floors = experiment_floors.judged(whole, chosen.calibrated, chosen.nulls)
    verdict = experiment_floors.in_words(floors)
    write_csv(whole, written.table)
    write_csv(floors, written.floors)
    provenance.of_stage(snakemake, written.table, verdict=verdict)
    print(verdict)
