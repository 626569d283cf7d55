"""Find which pathway each sample of one calibration cell really uses."""

from pathlib import Path

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.calibration import truth, verdicts
    from anchorscope.storage.room import Room
    from anchorscope.workflow import jobs

    given, chosen, product = snakemake.input, snakemake.params, snakemake.output.truth
    located, loaded = jobs.model_of(snakemake)
    answers, questions = read_parquet(given.answers), read_parquet(given.questions)
    taught = {Path(path).stem: read_parquet(path) for path in given.taught}
    room = Room()
    table, counts = truth.truth(
        answers,
        planned=dict(zip(questions["id"], questions["planned"], strict=True)),
        loaded=loaded,
        graded=truth.graded_pairs(taught, chosen.worlds, chosen.train),
        conditions=chosen.conditions,
        batch_tokens=chosen.batch_tokens,
        blocks=chosen.blocks,
        seed=chosen.seed,
        room=room,
    )
    write_parquet(table, product)
    seal = verdicts.seal(
        loaded,
        answers,
        batch_tokens=chosen.batch_tokens,
        blocks=chosen.blocks,
        seed=chosen.seed,
        room=room,
    )
    provenance.of_stage(
        snakemake, product, counts=counts, model=located, seal=seal, halved_batches=room.halved
    )
