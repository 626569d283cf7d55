"""A run's last lines: its figures with their tables, and what of the samples is not in them."""

from collections import Counter
from collections.abc import Iterable, Iterator

from anchorscope.config.settings import Config
from anchorscope.storage.files import read_csv
from anchorscope.storage.provenance import beside
from anchorscope.storage.records import funnel


def last_lines(config: Config, figures: Iterable[str]) -> Iterator[str]:
    """Three lines for each figure that was built: files, samples, points that are marked."""
    for figure in figures:
        table = f"{config.root}/tables/{figure}.csv"
        yield f"{figure}: {config.root}/figures/{figure}.html, its table {table}"
        yield f"  {_samples(config, figure)}"
        yield f"  {_marked(config, figure, table)}"


def _samples(config: Config, figure: str) -> str:
    """How many samples all cells measured, and how many were left out, by reason."""
    measured, left_out = 0, Counter[str]()
    for model, dataset in config.cells(figure):
        cell = f"{config.root}/delta_p/{model}/{dataset}.csv"
        stages = funnel(cell) if beside(cell).is_file() else []
        measured += stages[-1]["kept"] if stages else 0
        for stage in stages:
            left_out.update(stage["dropped"])
    why = ", ".join(f"{count:,} {reason}" for reason, count in left_out.most_common())
    return f"{measured:,} samples measured; left out: {why or 'none'}"


def _marked(config: Config, figure: str, table: str) -> str:
    """Points of the curves that are drawn as no result."""
    rows = read_csv(table).astype(str)
    site, position = config.figures[figure].readout.split("/")
    chosen = {"site": site, "position": position, "condition": "knockout", "anchor": "Q"}
    for name, value in (chosen | {"grouping": config.grouping}).items():
        rows = rows[rows[name] == value]
    grey, thin = rows["signal"] == "False", rows["thin"] == "True"
    return (
        f"{len(rows)} question-anchored points: {grey.sum()} without a signal (grey), "
        f"{(thin & ~grey).sum()} more with too few samples"
    )
