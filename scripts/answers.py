"""Generate, anchor and label one cell's answers."""

from dataclasses import asdict

from anchorscope.storage import partial, provenance
from anchorscope.storage.files import read_parquet, write_parquet
from anchorscope.workflow.stage import log, stage

with stage(snakemake):
    from anchorscope.models import vocabulary
    from anchorscope.models.answers import Settings, answer
    from anchorscope.probes.power import hopeless
    from anchorscope.workflow import jobs

    chosen, product = snakemake.params, snakemake.output.answers
    located, loaded = jobs.model_of(snakemake)
    names = ("style", "max_new_tokens", "max_prompt_tokens", "no_answer")
    settings = Settings(**{name: chosen[name] for name in names})
    tables = [read_parquet(snakemake.input[name]) for name in ("prompts", "questions")]
    device = loaded.device.type
    waits = partial.folder_for(snakemake, product, device, asdict(settings))
    answers, counts = answer(*tables, loaded, settings, keep=waits)
    write_parquet(answers, product)
    texts = [*vocabulary.DIFFICULT, *tables[0]["question"].head(12)]
    facts = {"model": located, "device": device, "dtype": chosen.dtype}
    differs = vocabulary.differences(loaded.tokenizer, located["path"], texts)
    facts["tokenizer_differs"] = differs
    if differs:
        counts = counts.noted("texts that tokenizer.json alone reads otherwise", len(differs))
    if sentence := hopeless(answers.loc[answers["dropped"].isna(), "label"]):
        log.warning("%s on %s: %s", *map(snakemake.wildcards.get, ("model", "dataset")), sentence)
    provenance.of_stage(snakemake, product, counts=counts, **facts)
