"""Generate, anchor and label one cell's answers."""

from dataclasses import asdict

from anchorscope.storage import partial, provenance
from anchorscope.storage.files import read_json, read_parquet, write_parquet
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake):
    from anchorscope.models.answers import Settings, answer
    from anchorscope.models.models import load
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    chosen = snakemake.params
    located = read_json(snakemake.input.model)
    device = best_device(snakemake.resources.device, snakemake.resources.gpu)
    loaded = load(located["path"], dtype=chosen.dtype, device=device)
    tables = [read_parquet(snakemake.input[name]) for name in ("prompts", "questions")]
    settings = Settings(
        style=chosen.style,
        max_new_tokens=chosen.max_new_tokens,
        max_prompt_tokens=chosen.max_prompt_tokens,
        batch_tokens=chosen.batch_tokens,
        window=loaded.window,
    )
    product, device = snakemake.output.answers, loaded.device.type
    waits = partial.folder_for(snakemake, product, device, asdict(settings))
    answers, counts = answer(*tables, loaded.model, loaded.tokenizer, settings, keep=waits)
    write_parquet(answers, product)
    provenance.of_stage(
        snakemake, product, counts=counts, model=located, device=device, dtype=chosen.dtype
    )
