"""A figure's words: a caption of at most four lines, and the details that its page tells.

They say of the rows how many samples there are, and what is thin, grey or missing.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product

import pandas as pd

from anchorscope.figures.figure_data import cells_of
from anchorscope.figures.figure_request import Request
from anchorscope.figures.figure_style import ANCHORS, balanced

LINES = 4
"""Most lines of a caption."""
EVERYWHERE = "at every layer"
NO_SIGNAL = "No signal"
NO_MORE_THAN_TEXT = (
    "At these layers the probe does not significantly beat the text models. Nothing can be "
    "concluded from ΔP or flips there."
)
# a picture of cells with fewer samples, and with thin groups, is a preview
ENOUGH = 300
REFITTED = "bootstrap intervals, with the probe's own variance"
FIXED = "bootstrap intervals, probes held fixed"
GREY = "Hollow grey: layers without a signal"
CLUSTERED = f"clustered {FIXED}"
GROUPS = "groups formed at each layer by its own flips"


@dataclass(frozen=True)
class Caption:
    """What a figure says of itself.

    Attributes:
        sentences: the caption: what is drawn, n, what grey means, the verdict. Those that the
            caption has no room for move to the details, the last ones first.
        details: further sentences, for the figure's page.
    """

    sentences: Sequence[str]
    details: Sequence[str] = field(default=())

    def wrapped(self, characters: int) -> tuple[list[str], list[str]]:
        """The caption's lines, at most `LINES` of a given length, and the details."""
        kept: list[str] = []
        left: list[str] = []
        for sentence in filter(None, self.sentences):
            fits = len(textwrap.wrap(" ".join([*kept, sentence]), characters)) <= LINES
            (kept if fits else left).append(sentence)
        lines = balanced(" ".join(kept), characters) if kept else _cut(left, characters)
        return lines, [*left, *self.details]


def _cut(sentences: Sequence[str], characters: int) -> list[str]:
    """The beginning of the first sentence, where even that has no room."""
    first = sentences[0] if sentences else ""
    return textwrap.wrap(first, characters, max_lines=LINES, placeholder=" …")


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
    empty = [name for name, cell in cells.items() if cell.empty]
    missing = [f"Not measured: {'; '.join(empty)}."] if empty else []
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


def delta_p_caption(
    request: Request,
    rows: pd.DataFrame,
    subject: str,
    claims: Sequence[str] = (),
    details: Sequence[str] = (),
) -> Caption:
    """Of pictures of ΔP: `subject`, groups, n and the claims, and what all pictures say alike.

    `rows` are labelled rows of `figure_data.select`, of one condition. `details` stand before the
    other details.
    """
    cells = cells_of(rows, request)
    measured = [cell for cell in cells.values() if len(cell)]
    missing = len(cells) - len(measured)
    refitted = "inflation" not in rows or (rows["inflation"] > 1).any()
    return caption(
        request,
        rows,
        f"{subject}; {GROUPS}",
        f"{size_note(map(sample_size, measured))} samples per cell",
        [
            small_note(rows[rows["anchor"] == "all"]),
            f"{missing} cells were not measured." if missing else "",
        ],
        [*details, *thin_note(cells)],
        claims=[*claims, request.no_answers],
        intervals=REFITTED if refitted else FIXED,
        thin=cross_note(cells),
    )


def small_note(everyone: pd.DataFrame) -> str:
    """The caption's words on cells too small to be called a signal; none where none is.

    Of the rows of all samples; cells that have a signal at some layer are large enough.
    """
    from anchorscope.probes.power import too_small  # loads scipy, which most pictures can spare

    small = []
    for _, cell in everyone.groupby(["model", "dataset"]):
        n, right = int(cell["n"].max()), float(cell["answer_accuracy"].max())
        both_classes = 0 < right < 1
        if both_classes and not cell["signal"].any() and too_small(n, 1 - right):
            small.append(n)
    if not small:
        return ""
    cells = "1 cell has" if len(small) == 1 else f"{len(small)} cells have"
    return f"{cells} too few right or wrong answers to detect a signal of typical size."


def left_out(rows: pd.DataFrame, of: str) -> str:
    """How many samples do not count, of rows with `n` and `n_paired`."""
    return f"Left out: {span(rows['n'] - rows['n_paired'])} of {span(rows['n'])} samples per {of}."


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


def grey_note(cells: Mapping[str, pd.DataFrame], grey: str) -> str:
    """The caption's words on what is grey; none where nothing is."""
    measured = [rows for rows in cells.values() if len(rows) and "signal" in rows]
    return "" if all(rows["signal"].all() for rows in measured) else f"{grey}."


def no_signal_notes(cells: Mapping[str, pd.DataFrame], grey: str) -> list[str]:
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
