"""Measure one cell: every condition's hidden states at the read-out positions."""

from anchorscope import provenance
from anchorscope.files import atomic, read_json, read_parquet
from anchorscope.stage import stage, use_threads

with stage(snakemake):
    from anchorscope import activations
    from anchorscope.models import best_device, load

    use_threads(snakemake)
    chosen = snakemake.params
    located = read_json(snakemake.input.model)
    loaded = load(located["path"], dtype=chosen.dtype, device=best_device(snakemake.resources.gpu))
    planned = activations.plan(
        read_parquet(snakemake.input.answers),
        conditions=chosen.conditions,
        batch_tokens=chosen.batch_tokens,
        window=loaded.window,
        blocks=chosen.blocks,
        seed=chosen.seed,
    )
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
