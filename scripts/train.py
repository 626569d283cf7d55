"""Train one small model from its recipe."""

from pathlib import Path

from anchorscope.storage import partial
from anchorscope.storage.files import atomic, read_parquet
from anchorscope.workflow.stage import stage, use_threads

with stage(snakemake):
    from anchorscope.calibration import recipes

    use_threads(snakemake)
    names = [Path(path).stem for path in snakemake.input]
    tables = {name: read_parquet(path) for name, path in zip(names, snakemake.input, strict=True)}
    product = Path(snakemake.output.checkpoint)
    fit = partial.fit(snakemake, "cpu", partial.content(snakemake.input))
    waits = partial.place(product.parents[1], product, fit)
    with partial.kept(waits) as folder, atomic(product) as draft:
        recipes.make(
            draft,
            tables,
            worlds=snakemake.params.worlds,
            train=snakemake.params.train,
            recipe=snakemake.params.recipe,
            keep=folder,
        )
    Path(snakemake.output.fresh).touch()
