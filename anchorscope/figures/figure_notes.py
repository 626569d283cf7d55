"""What a figure says of its rows: sizes, what is thin, grey or missing, and notes on its models."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import pandas as pd

from anchorscope.figures.figure_caption import Caption
from anchorscope.figures.figure_data import cells_of
from anchorscope.figures.figure_request import Pair, Request
from anchorscope.figures.figure_style import ANCHORS

EVERYWHERE = "at every layer"
NO_SIGNAL = "No signal"
NO_MORE_THAN_TEXT = (
    "At these layers the probe does not demonstrably beat the text models, so its contrasts are "
    "not interpretable."
)
# a picture of cells with fewer samples, and with thin groups, is a preview
ENOUGH = 300
REFITTED = "bootstrap intervals, with the probe's own variance"
FIXED = "bootstrap intervals, probes held fixed"
GREY = "Hollow grey: layers without a signal"
CLUSTERED = f"clustered {FIXED}"


def caption(
    request: Request,
    rows: pd.DataFrame,
    what: str,
    size: str = "",
    sentences: Sequence[str] = (),
    details: Sequence[str] = (),
    *,
    claims: Sequence[str] = (),
    intervals: str = CLUSTERED,
    grey: str = GREY,
    thin: str = "Crosses: too few samples to rely on.",
) -> Caption:
    """What a picture says, with what all pictures say alike.

    Args:
        request: what is asked for.
        rows: those that are drawn, of `figure_data.labelled`; without any nothing else is said.
        what: the beginning of the first sentence.
        size: how many samples there are, or "".
        sentences: further ones of the caption.
        details: those of the page.
        claims: sentences of the caption that come before what is grey.
        intervals: of what sort they are; "" where there are none.
        grey: what is grey, where `rows` know the signal.
        thin: what thin groups look like, where `rows` know them; "" for nothing.
    """
    cells = cells_of(rows, request)
    missing = missing_note([name for name, cell in cells.items() if cell.empty])
    if rows.empty:
        return Caption(["Not measured: no sample has what this picture needs."], missing)
    level = f"{100 * request.level:g}\u00a0%"
    return Caption(
        [
            "; ".join(filter(None, [what, size, intervals and f"{level} intervals"])) + ".",
            *claims,
            grey_note(cells, grey),
            thin if "thin" in rows and rows["thin"].any() else "",
            *sentences,
        ],
        [
            *filter(None, details),
            *([f"Intervals: pointwise {level} {intervals}."] if intervals else []),
            *no_signal_notes(cells, grey),
            *missing,
            *request.notes,
        ],
    )


def left_out(rows: pd.DataFrame, of: str) -> str:
    """How many samples do not count, of rows with `n` and `n_paired`."""
    return f"Left out: {span(rows['n'] - rows['n_paired'])} of {span(rows['n'])} samples per {of}."


def model_notes(records: Mapping[str, Mapping[str, Any]], models: Sequence[Pair]) -> list[str]:
    """What the details say of each model, by the records of what a figure was made from.

    That is what its chat template does about thinking, and what it was dequantised from.
    """
    labels_by_note: dict[str, list[str]] = {}
    for key, label in models:
        for note in sorted(set(_notes_of(records, key))):
            labels_by_note.setdefault(note, []).append(label)
    return [f"{', '.join(labels)}: {note}." for note, labels in labels_by_note.items()]


def _notes_of(records: Mapping[str, Mapping[str, Any]], model: str) -> Iterator[str]:
    """The notes on a model, one for each record that has one."""
    for path, record in records.items():
        if f"/prompts/{model}/" in f"/{path}" and record.get("thinking"):
            yield str(record["thinking"])
        quantisation = record.get("model", {}).get("dequantised_from")
        if f"/models/{model}.json" in f"/{path}" and quantisation:
            yield f"weights dequantised from {quantisation}"


def sample_size(cell: pd.DataFrame) -> int:
    """Samples of a cell, at the layer that has most."""
    counts = cell["n"][cell["anchor"] == "all"].dropna()
    return int(counts.max()) if len(counts) else 0


def is_preview(cells: Mapping[str, pd.DataFrame]) -> bool:
    """Whether a cell of few samples has groups that are too thin for a line."""
    return any(sample_size(rows) < ENOUGH and rows["thin"].any() for rows in cells.values())


def thin_note(cells: Mapping[str, pd.DataFrame]) -> list[str]:
    """The details on thin groups, as `Llama-3.2-1B on NQ, Q-Anchored at layer 5`."""
    groups = []
    for (name, rows), anchor in product(cells.items(), ANCHORS):
        curve = rows[rows["anchor"] == anchor]
        if curve["thin"].any():
            groups.append(f"{name}, {anchor}-Anchored {_where(curve, curve['thin'])}")
    return [f"Too few samples to rely on: {'; '.join(groups)}."] if groups else []


def cross_note(cells: Mapping[str, pd.DataFrame]) -> str:
    """The caption's words on crosses; none where no group is thin."""
    if not thin_note(cells):
        return ""
    more = f"; draw at least {ENOUGH} samples per cell" if is_preview(cells) else ""
    return f"Crosses: too few samples to rely on{more}."


def grey_note(cells: Mapping[str, pd.DataFrame], grey: str = GREY) -> str:
    """The caption's words on what is grey; none where nothing is."""
    measured = [rows for rows in cells.values() if len(rows) and "signal" in rows]
    return "" if all(rows["signal"].all() for rows in measured) else f"{grey}."


def no_signal_notes(cells: Mapping[str, pd.DataFrame], grey: str = GREY) -> list[str]:
    """The details on what is grey; cells of one read-out by name, empty ones unmeasured."""
    measured = {name: rows for name, rows in cells.items() if len(rows) and "signal" in rows}
    by_place: dict[str, list[str]] = {}
    for name, rows in measured.items():
        layers = rows.drop_duplicates("layer")
        if not layers["signal"].all():
            by_place.setdefault(_where(layers, ~layers["signal"]), []).append(name)
    places = sorted(by_place.items(), key=lambda item: len(item[1]))
    parts = [
        f"{'; '.join(names)}{', each' if len(names) > 1 else ''} {where}" for where, names in places
    ]
    everyone = sum(map(len, by_place.values())) == len(measured)
    if places and everyone and len(places[-1][1]) > 1:
        subject = "all other cells" if len(places) > 1 else "every cell"
        parts[-1] = f"{subject} {places[-1][0]}"
    look = grey.partition(":")[0].lower()
    notes = [f"{NO_SIGNAL} ({look}): {'; '.join(parts)}. {NO_MORE_THAN_TEXT}"] if parts else []
    known = {name: rows for name, rows in measured.items() if "cell_signal" in rows}
    blank = [name for name, rows in known.items() if not rows["cell_signal"].any()]
    others = [name for name in blank if name not in by_place.get(EVERYWHERE, [])]
    return notes + ([f"{NO_SIGNAL} in the cell as a whole: {'; '.join(others)}."] if others else [])


def _where(rows: pd.DataFrame, chosen: pd.Series) -> str:
    """At which layers the chosen ones of the rows lie, in words."""
    layers = sorted(rows["layer"][chosen].astype(int))
    return EVERYWHERE if chosen.all() else f"at {layer_list(layers)}"


def missing_note(names: Sequence[str]) -> list[str]:
    """The details on what was not measured."""
    return [f"Not measured: {'; '.join(names)}."] if names else []


def span(values: Iterable[float], factor: float = 1) -> str:
    """Least to greatest in size, in whole numbers: `900`, `812 to 1,000`, `−75 to −88`."""
    by_size = sorted((factor * value for value in values), key=abs) or [0]
    ends = dict.fromkeys(f"{end:,.0f}" for end in (by_size[0], by_size[-1]))
    return " to ".join(ends).replace("-", "\u2212")


def size_note(counts: Iterable[float]) -> str:
    """The same in a caption."""
    return f"n\u00a0=\u00a0{span(counts)}"


def few(items: Sequence[str], most: int = 3) -> str:
    """The first of them in words, and how many more there are."""
    words = "; ".join(items[:most])
    return f"{words}; and {len(items) - most} more" if len(items) > most else words


def layer_list(layers: Sequence[int]) -> str:
    """[5] as `layer 5`, [0, 1, 2, 5] as `layers 0–2, 5`."""
    runs = [
        [layer for _, layer in run]
        for _, run in groupby(enumerate(layers), key=lambda item: item[1] - item[0])
    ]
    named = ", ".join(f"{run[0]}–{run[-1]}" if run[1:] else str(run[0]) for run in runs)
    return f"layer{'' if len(layers) == 1 else 's'} {named}"
