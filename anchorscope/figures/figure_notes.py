"""What a figure says of its rows: sizes, what is thin, grey or missing, and notes on its models."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, product
from typing import Any

import pandas as pd

from anchorscope.figures.figure_data import Pair, true
from anchorscope.figures.figure_style import ANCHORS

EVERYWHERE = "at every layer"
NO_SIGNAL = "No signal"
NO_MORE_THAN_TEXT = (
    "At these layers the probe is not shown to know more than the text models, so its contrasts "
    "are not interpretable."
)
# a picture of cells with fewer samples, and with thin groups, is a preview
ENOUGH = 300
BANDS = "bootstrap intervals, with the probe's own variance"
AUC_BANDS = "bootstrap intervals, probes held fixed"


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


def sample_size(cell: pd.DataFrame, cut: str) -> int:
    """Samples of a cell, at the layer that has most."""
    counts = cell["n"][(cell["condition"] == cut) & (cell["anchor"] == "all")].dropna()
    return int(counts.max()) if len(counts) else 0


def is_preview(cells: Mapping[str, pd.DataFrame], condition: str) -> bool:
    """Whether a cell of few samples has groups that are too thin for a line."""
    return any(
        sample_size(rows, condition) < ENOUGH and rows["thin"][rows["condition"] == condition].any()
        for rows in cells.values()
    )


def thin_note(cells: Mapping[str, pd.DataFrame], condition: str) -> list[str]:
    """The details on thin groups, as `Llama-3.2-1B on NQ, Q-Anchored at layer 5`."""
    groups = []
    for (name, rows), anchor in product(cells.items(), ANCHORS):
        curve = rows[(rows["condition"] == condition) & (rows["anchor"] == anchor)]
        if curve["thin"].any():
            groups.append(f"{name}, {anchor}-Anchored {_where(curve, curve['thin'])}")
    return [f"Too few samples to rely on: {'; '.join(groups)}."] if groups else []


def cross_note(cells: Mapping[str, pd.DataFrame], condition: str) -> str:
    """The caption's words on crosses; none where no group is thin."""
    if not thin_note(cells, condition):
        return ""
    more = f"; draw at least {ENOUGH} samples a cell" if is_preview(cells, condition) else ""
    return f"Crosses: too few samples to rely on{more}."


def grey_note(cells: Mapping[str, pd.DataFrame]) -> str:
    """The caption's words on what is grey, with the number of such cells; none where nothing is."""
    measured = [rows for rows in cells.values() if len(rows)]
    grey = sum(not true(rows["signal"]).all() for rows in measured)
    nowhere = sum(not true(rows["signal"]).any() for rows in measured)
    if not grey:
        return ""
    more = f", {nowhere} at every layer" if nowhere else ""
    return f"Hollow grey: layers without a signal (in {grey} of {len(measured)} cells{more})."


def no_signal_notes(cells: Mapping[str, pd.DataFrame]) -> list[str]:
    """The details on what is grey; cells of one read-out by name, empty ones unmeasured."""
    measured = {name: rows for name, rows in cells.items() if len(rows)}
    by_place: dict[str, list[str]] = {}
    for name, rows in measured.items():
        layers = rows.drop_duplicates("layer")
        weak = ~true(layers["signal"])
        if weak.any():
            by_place.setdefault(_where(layers, weak), []).append(name)
    places = sorted(by_place.items(), key=lambda item: len(item[1]))
    parts = [f"{'; '.join(names)} {where}" for where, names in places]
    everyone = sum(map(len, by_place.values())) == len(measured)
    if places and everyone and len(places[-1][1]) > 1:
        subject = "all other cells" if len(places) > 1 else "every cell"
        parts[-1] = f"{subject} {places[-1][0]}"
    notes = [f"{NO_SIGNAL} (hollow grey): {'; '.join(parts)}. {NO_MORE_THAN_TEXT}"] if parts else []
    blank = [name for name, rows in measured.items() if not true(rows["cell_signal"]).any()]
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
