"""Measure one cell, every condition's hidden states at the read-out positions."""

from anchorscope.storage import partial, provenance
from anchorscope.storage.files import read_json, read_parquet
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake):
    from anchorscope.models import activations
    from anchorscope.models.models import check_tokens, load, positions
    from anchorscope.probes import fitting
    from anchorscope.workflow.devices import best_device

    use_threads(snakemake)
    chosen = snakemake.params
    located = read_json(snakemake.input.model)
    device = best_device(snakemake.resources.device, snakemake.resources.gpu)
    loaded = load(located["path"], dtype=chosen.dtype, device=device)
    answers = read_parquet(snakemake.input.answers)
    check_tokens(loaded.tokenizer, answers, snakemake.input.answers)
    # Not in `params` but for the partners: other folds need no new passes otherwise.
    probe = {**(snakemake.config.get("probe") or {}), "seed": chosen.seed}
    settings = fitting.Settings(**probe)
    planned = activations.plan(
        answers,
        conditions=chosen.conditions,
        batch_tokens=chosen.batch_tokens,
        window=loaded.window,
        max_positions=positions(loaded.model.config),
        blocks=chosen.blocks,
        seed=chosen.seed,
        # A partner is of the sample's own fold: the probe has not learned from it then.
        fold=lambda table: fitting.design(table, settings, snakemake.input.answers).fold,
    )
    # What no probe could be fitted to is not measured either.
    measured = answers[answers["id"].isin([sample.id for sample in planned.samples])]
    fitting.design(measured, settings, snakemake.input.answers)
    product = snakemake.output.activations
    waits = partial.folder_for(snakemake, product, loaded.device.type, planned)
    passes = activations.write(waits, loaded, planned, chosen.readouts)
    partial.publish(waits, product)
    provenance.of_stage(
        snakemake,
        product,
        counts=planned.counts,
        model=located,
        passes=passes,
        device=passes["device"],
        dtype=passes["dtype"],
    )
