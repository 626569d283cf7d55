"""Measure one cell: every condition's hidden states at the read-out positions."""

from anchorscope import provenance
from anchorscope.files import atomic, read_json, read_parquet
from anchorscope.stage import stage, use_threads

with stage(snakemake):
    from anchorscope import activations, scores
    from anchorscope.devices import best_device
    from anchorscope.models import check_tokens, load

    use_threads(snakemake)
    chosen = snakemake.params
    located = read_json(snakemake.input.model)
    device = best_device(snakemake.resources.device)
    loaded = load(located["path"], dtype=chosen.dtype, device=device)
    answers = read_parquet(snakemake.input.answers)
    check_tokens(loaded.tokenizer, answers, snakemake.input.answers)
    # Not in `params` but for `swap`: other folds need no new passes otherwise.
    probe = {**(snakemake.config.get("probe") or {}), "seed": chosen.seed}
    settings = scores.Settings(**probe)
    planned = activations.plan(
        answers,
        conditions=chosen.conditions,
        batch_tokens=chosen.batch_tokens,
        window=loaded.window,
        max_positions=getattr(loaded.model.config, "max_position_embeddings", None),
        blocks=chosen.blocks,
        seed=chosen.seed,
        # A question to swap with is of the sample's own fold: no probe has learned from it then.
        fold=lambda table: scores.design(table, settings, snakemake.input.answers).fold,
    )
    # What no probe could be fitted to is not measured either.
    measured = answers[answers["id"].isin([sample.id for sample in planned.samples])]
    scores.design(measured, settings, snakemake.input.answers)
    with atomic(snakemake.output.activations) as draft:
        passes = activations.write(draft, loaded, planned, chosen.readouts)
    provenance.of_stage(
        snakemake,
        snakemake.output.activations,
        counts=planned.counts,
        model=located,
        passes=passes,
        device=passes["device"],
        dtype=passes["dtype"],
    )
