"""Convert rows of any QA dataset to one schema, merge equal questions, and draw samples."""

import json
import logging
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.anchors import question_anchors
from anchorscope.anchors.words import SUBJECT
from anchorscope.questions.doubts import REMEDIES, doubts
from anchorscope.questions.fields import (
    EMPTIED,
    NAMED,
    Fields,
    Row,
    RowCells,
    check_columns,
    digest,
)
from anchorscope.questions.folds import key, named
from anchorscope.storage.counts import FOLDED, Counts
from anchorscope.storage.errors import AnchorscopeError

COLUMNS = {
    "id": "the dataset's id if it is unique, else a hash",
    "question": "text of the question, verbatim",
    "answers": "gold answers, a list",
    "subject": "what is asked about, or null",
    "property": "what is asked for, or null",
    "relation": "the template of the question, or null",
    "swap": "whether the row takes part in swapped answers",
    "popularity": "popularity of the subject",
    "split": "split of the dataset",
    "titles": "titles of supporting pages, a list",
    "response": "the answer that came with the dataset",
    "label": "label that came with the response: 0 right, 1 wrong",
    "folded": "how many equal rows were merged into this one",
    "anchors": "the exact question tokens that came with the dataset: start, end, role",
    "component": "group of rows linked by equal subjects or questions; its rows share a fold",
}
"""Column of the table → its meaning."""
SHARED_ID = "rows share their id with others and get a hash instead"
WARNINGS = {
    SHARED_ID: "if ids should be unique, correct the file or choose another column as `id`",
    EMPTIED: "if they are real texts, write them in other words",
    **REMEDIES,
}
"""Beginning of a note that is a warning → what to do."""
CANDIDATES = 200  # most candidates for worked examples beside a sample
HELD_BACK = 20  # rows to hold back for worked examples
log = logging.getLogger(__name__)


def normalise(
    rows: Sequence[Row],
    fields: Fields,
    *,
    split: str | None,
    source: object = "the dataset",
    unlabelled: bool = False,
) -> tuple[pd.DataFrame, Counts]:
    """Convert rows to the questions' table: one row for each different question and response.

    Questions are equal if their `folded_text` is. Rows with equal questions pool their gold
    answers and titles, and get their largest popularity. Different responses stay separate rows. If
    rows have the same question and response, only the row with the smallest id is kept. Its text
    stays verbatim, and its `folded` counts the other rows.

    A row keeps the dataset's id if the id is not empty and occurs once. Else the id is a hash of
    the question, and of the response if the question has several. A row without a usable gold
    answer is dropped, unless it has its own response and label, or `unlabelled` is set. A user's
    own anchors become places in the kept text (`start`, `end`, `role`). `anchors` is None if
    the row names no anchors, and empty if the question contains none of the named anchors.

    Args:
        rows: Rows of the dataset.
        fields: Name in the schema → column.
        split: Split of the dataset.
        source: Name of the dataset in errors.
        unlabelled: Whether to keep rows without gold answers.

    Returns:
        A table with the columns `COLUMNS`, and its counts. Their notes say what was changed.

    Raises:
        AnchorscopeError: A column is missing, or a cell has a wrong type.
    """
    check_columns(rows, fields, source)
    dropped, notes = Counter[str](), Counter[str]()
    cells = [RowCells(row, fields, f"{source}, row {n}", notes) for n, row in enumerate(rows, 1)]
    ids = _usable_ids(cells, notes) if fields.get("id") else [None] * len(cells)
    groups: dict[str, list[dict[str, Any]]] = {}
    for cell, own_id in zip(cells, ids, strict=True):
        entry = _entry(cell, own_id)
        if reason := _unusable(entry, unlabelled):
            dropped[reason] += 1
        else:
            groups.setdefault(folded_text(entry["question"]), []).append(entry)
    notes.update(doubts([entry for group in groups.values() for entry in group]))
    for note in (note for note in notes if note.startswith(tuple(WARNINGS))):
        log.warning("%s: %d %s", source, notes[note], note)
    entries = [entry for group in groups.values() for entry in _fold(group, notes)]
    if folded := sum(entry["folded"] for entry in entries):
        dropped[FOLDED] = folded
    frame = _frame({**entry, "split": split} for entry in entries)
    frame["component"] = named(list(frame["question"]), list(frame["subject"]))
    return frame, Counts(len(rows), len(frame), dict(dropped), dict(notes))


def sample(
    frame: pd.DataFrame, size: int | None, seed: int, *, hold_back: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw `size` questions (None: all). Return them, and `candidates` from the other rows.

    The draw depends on ids and seed only, not on the order of rows. A smaller sample is the
    beginning of a larger one with the same seed. `hold_back` keeps some rows outside the
    sample, see `_held_back`.
    """
    ordered = _shuffled(frame, seed)
    held = _held_back(ordered["component"]) if hold_back else np.zeros(len(ordered), dtype=bool)
    free = ordered[~held]
    size = len(free) if size is None else size
    sampled = free.iloc[:size].reset_index(drop=True)
    return sampled, candidates(pd.concat([free.iloc[size:], ordered[held]]), sampled, seed)


def _held_back(component: pd.Series) -> np.ndarray:
    """Return bool [n]: the rows to hold back, in whole components.

    `HELD_BACK` rows are enough, or a tenth of all rows if that is fewer. The smallest components
    come first; of equal ones, those whose last row is nearest the end. At most half of the rows are
    held back, so that a large component stays in the sample.
    """
    least = min(HELD_BACK, len(component) // 10)
    places = pd.Series(np.arange(len(component))).groupby(component.to_numpy()).agg(["size", "max"])
    order = places.sort_values(["size", "max"], ascending=[True, False])
    total = order["size"].cumsum()
    chosen = (total - order["size"] < least) & (total <= len(component) // 2)
    return component.isin(order.index[chosen]).to_numpy()


def candidates(pool: pd.DataFrame, sampled: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return rows of `pool` that may be worked examples, in an order that depends on the seed.

    A candidate shares no question or subject with the sample, and no question with another
    candidate. Texts are compared by letters and digits only, as for folds. A row's subjects are its
    `subject` and `titles`. If it has no `subject`, subjects marked by the user's own anchors or the
    offline finder are added. Rows without gold answers are left out.
    """
    questions = {key(text) for text in sampled["question"]}
    subjects = {name for row in sampled.to_dict("records") for name in _subjects(row)}
    chosen: list[Mapping[Any, Any]] = []
    for row in _shuffled(pool, seed).to_dict("records"):
        if len(chosen) == CANDIDATES:
            break
        repeats = key(row["question"]) in questions or not subjects.isdisjoint(_subjects(row))
        if row["answers"] and not repeats:
            chosen.append(row)
            questions.add(key(row["question"]))
    return _frame(chosen)


def _entry(cells: RowCells, own_id: str | None) -> dict[str, Any]:
    question = cells.question
    entry = {
        "id": own_id or (question and _hashed_id(question)),
        "question": question,
        "answers": cells.golds,
        "titles": cells.titles,
        "popularity": cells.popularity,
        "label": cells.label,
        "anchors": cells.anchors(question or ""),
        **{name: cells.text(name) for name in ("subject", "property", "response")},
        "relation": cells.text("relation", number=True),
        "swap": cells.swap,
    }
    if entry["label"] is not None and entry["response"] is None:
        what, do = "a label without a response", "name the responses' column under fields: response"
        raise AnchorscopeError(what, cells.where, do, see="label-or-popularity")
    return entry


def _unusable(entry: Mapping[str, Any], unlabelled: bool) -> str | None:
    if entry["question"] is None:
        return "no question"
    # A response with its own label needs no gold answer.
    labelled = entry["response"] is not None and entry["label"] is not None
    return None if entry["answers"] or labelled or unlabelled else "no answers"


def _usable_ids(cells: Iterable[RowCells], notes: Counter[str]) -> list[str | None]:
    """Return the id of each row. A missing or shared id becomes None, and is counted in `notes`."""
    ids = [cell.text("id", number=True) for cell in cells]
    times = Counter(ids)
    if missing := times.pop(None, 0):
        notes["rows without an id, which get a hash"] = missing
    if shared := {name: count for name, count in times.items() if count > 1}:
        some = ", ".join(f"`{name}` ({n:,} rows)" for name, n in [*shared.items()][:NAMED])
        notes[f"{SHARED_ID}, such as {some}"] = sum(shared.values())
    return [name if times[name] == 1 else None for name in ids]


def _hashed_id(question: str, *response: str) -> str:
    return digest(folded_text(question), *response)[:16]


def folded_text(text: str) -> str:
    """Return a text in Unicode NFC with single spaces, for comparison."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def _fold(group: Sequence[dict[str, Any]], notes: Counter[str]) -> list[dict[str, Any]]:
    """Merge the rows of one question into one row for each response to it."""
    # Sorted by id, so that the result does not depend on the order of rows.
    group = sorted(group, key=lambda entry: (entry["id"], json.dumps(entry, sort_keys=True)))
    popularity = [e["popularity"] for e in group if e["popularity"] is not None]
    shared = {
        "answers": list(dict.fromkeys(a for e in group for a in e["answers"])),
        "titles": list(dict.fromkeys(t for e in group for t in e["titles"])),
        "popularity": max(popularity, default=None),
    }
    by_response: dict[str | None, list[dict[str, Any]]] = {}
    for entry in group:
        by_response.setdefault(entry["response"], []).append(entry)
    several = len(by_response) > 1
    return [_merged(entries, shared, several, notes) for entries in by_response.values()]


def _merged(
    group: Sequence[dict[str, Any]], shared: dict[str, Any], several: bool, notes: Counter[str]
) -> dict[str, Any]:
    """Merge equal rows; `several` says whether the question has other responses, too."""
    first = group[0] | shared | {"folded": len(group) - 1}
    question, response = first["question"], first["response"]
    if several and response and first["id"] == _hashed_id(question):
        first["id"] = _hashed_id(question, response)
    # Anchors are places in a row's own text, so they are taken from a row with the kept text.
    anchored = [e for e in group if e["anchors"] is not None]
    first["anchors"] = next((e["anchors"] for e in anchored if e["question"] == question), None)
    if other_anchors := sum(e["anchors"] != first["anchors"] for e in anchored):
        notes["folded rows with other anchors"] += other_anchors
    if other_label := sum(e["label"] != first["label"] for e in group):
        notes["folded rows with another label"] += other_label
    return first


def _shuffled(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    return frame.iloc[frame["id"].map(lambda name: digest(str(seed), name)).argsort()]


def _subjects(row: Mapping[Any, Any]) -> set[str]:
    names = [row["subject"], *row["titles"]]
    if not row["subject"]:
        question = row["question"]
        spans = question_anchors.find(question, titles=row["titles"], own=row.get("anchors"))
        names += [question[s.start : s.end] for s in spans if s.role == SUBJECT]
    return {folded for name in names if (folded := key(name)) is not None}


def _frame(entries: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(list(entries), columns=list(COLUMNS), dtype=object)
    return frame.astype({"popularity": "float64", "folded": "int64", "label": "Int64"})
