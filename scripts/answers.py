"""Generate, anchor and label one cell's answers."""

from dataclasses import asdict

from anchorscope.models import intact
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
    intact.check(located)
    loaded = load(located["path"], dtype=chosen.dtype, device=device)
    tables = [read_parquet(snakemake.input[name]) for name in ("prompts", "questions")]
    settings = Settings(
        style=chosen.style,
        max_new_tokens=chosen.max_new_tokens,
        max_prompt_tokens=chosen.max_prompt_tokens,
        batch_tokens=chosen.batch_tokens,
        window=loaded.window,
    )
    product = snakemake.output.answers
    fit = partial.fit(snakemake, loaded.device.type, asdict(settings))
    with partial.kept(partial.place(snakemake.wildcards.root, product, fit)) as folder:
        answers, counts = answer(*tables, loaded.model, loaded.tokenizer, settings, keep=folder)
        write_parquet(answers, product)
        provenance.of_stage(
            snakemake,
            product,
            counts=counts,
            model=located,
            device=partial.devices(folder) or str(loaded.device),
            dtype=chosen.dtype,
            waits=str(folder),
        )
