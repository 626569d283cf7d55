"""Build one cell's prompts."""

from anchorscope.questions.prompts import build
from anchorscope.storage import provenance
from anchorscope.storage.files import read_json, read_parquet, write_parquet
from anchorscope.workflow.stage import stage

with stage(snakemake):
    chosen = snakemake.params
    tokenizer = None
    if chosen.style == "chat":
        from anchorscope.models.models import load_tokenizer

        tokenizer = load_tokenizer(read_json(snakemake.input[0])["path"])
    sampled = read_parquet(snakemake.input.questions)
    questions = sampled.head(chosen.limit)
    if chosen.finder == "offline":
        # From the question's text alone.
        questions = questions.assign(
            subject=None, property=None, anchors=None, titles=[[] for _ in range(len(questions))]
        )
    prompts, counts = build(
        questions,
        read_parquet(snakemake.input.few_shot),
        style=chosen.style,
        tokenizer=tokenizer,
        anchors=chosen.anchors,
        examples=chosen.examples,
        replicate=chosen.replicate,
        seed=chosen.seed,
    )
    write_parquet(prompts, snakemake.output.prompts)
    counts = counts.among(len(sampled))
    provenance.of_stage(snakemake, snakemake.output.prompts, counts=counts)
