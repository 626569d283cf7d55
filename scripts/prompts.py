"""Build the prompts of one cell."""

from anchorscope.questions.prompts import build, of_run
from anchorscope.storage import provenance
from anchorscope.storage.files import read_json, read_parquet, write_parquet
from anchorscope.styles import style_of
from anchorscope.workflow.stage import stage

with stage(snakemake):
    given, chosen = snakemake.input, snakemake.params
    tokenizer = thinking = None
    if style_of(chosen.style).templated:
        from anchorscope.models import vocabulary
        from anchorscope.models.heard import heard

        with heard():
            tokenizer = vocabulary.load(read_json(given[0])["path"])
        thinking = vocabulary.thinking(tokenizer)
    sampled = read_parquet(given.questions)
    prompts, counts = build(
        of_run(sampled, chosen.limit, chosen.finder),
        read_parquet(given.few_shot),
        style=chosen.style,
        tokenizer=tokenizer,
        anchors=chosen.anchors,
        examples=chosen.examples,
        seed=chosen.seed,
    )
    write_parquet(prompts, snakemake.output.prompts)
    counted = counts.among(len(sampled))
    provenance.of_stage(snakemake, snakemake.output.prompts, counts=counted, thinking=thinking)
