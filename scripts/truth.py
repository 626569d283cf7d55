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
    pairs = truth.graded_pairs(taught, chosen.worlds, chosen.train)
    passes = {name: chosen[name] for name in ("batch_tokens", "blocks", "seed")}
    passes["room"] = room = Room()
    known = {"graded": pairs, "conditions": chosen.conditions}
    planned = dict(zip(questions["id"], questions["planned"], strict=True))
    found, counts = truth.truth(answers, planned, loaded, **known, **passes)
    facts = {"seal": verdicts.seal(loaded, answers, **passes), "halved_batches": room.halved}
    write_parquet(found, product)
    provenance.of_stage(snakemake, product, counts=counts, model=located, **facts)
