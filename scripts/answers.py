"""Generate, anchor and label one cell's answers."""

from anchorscope import provenance
from anchorscope.files import read_json, read_parquet, write_parquet
from anchorscope.stage import stage, use_threads

with stage(snakemake):
    from anchorscope.answers import answer
    from anchorscope.devices import best_device
    from anchorscope.models import load

    use_threads(snakemake)
    chosen = snakemake.params
    located = read_json(snakemake.input.model)
    device = best_device(snakemake.resources.device)
    loaded = load(located["path"], dtype=chosen.dtype, device=device)
    answers, counts = answer(
        read_parquet(snakemake.input.prompts),
        read_parquet(snakemake.input.questions),
        loaded.model,
        loaded.tokenizer,
        style=chosen.style,
        max_new_tokens=chosen.max_new_tokens,
        max_prompt_tokens=chosen.max_prompt_tokens,
        batch_tokens=chosen.batch_tokens,
        window=loaded.window,
    )
    write_parquet(answers, snakemake.output.answers)
    provenance.of_stage(
        snakemake,
        snakemake.output.answers,
        counts=counts,
        model=located,
        device=str(loaded.device),
        dtype=chosen.dtype,
    )
