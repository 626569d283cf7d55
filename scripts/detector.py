"""Fit one cell's detector to all its samples, and write its folder."""

from anchorscope.storage import provenance
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    from anchorscope.config.settings import Config
    from anchorscope.detectors.saved import training
    from anchorscope.models.rows import arounds_of
    from anchorscope.models.vocabulary import check_tokens
    from anchorscope.workflow import jobs

    given, chosen, written = snakemake.input, snakemake.params, snakemake.output.detector
    located, loaded = jobs.model_of(snakemake)
    answers = read_parquet(given.answers)
    check_tokens(loaded.tokenizer, answers, given.answers)
    from_hub = located["source"] not in ("trained", "local")
    name, commit = located["path"], None
    if from_hub:
        name, commit = located["source"], located["revision"]
    settings = {**chosen.settings, "batch_tokens": chosen.batch_tokens}
    detector = training.of_answers(
        loaded,
        answers,
        Config(models={}, datasets={}, figures={}, **settings),
        style=chosen.style,
        around=arounds_of(read_parquet(given.prompts), answers),
        readout=chosen.readout,
        source={"name": name, "revision": commit},
    )
    detector.save(written)
    counts = detector.report["counts"]
    provenance.of_stage(snakemake, written, counts=counts, model=located)
