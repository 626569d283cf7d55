"""Questions: rows of any QA dataset in one schema, equal questions folded, sampled by the seed."""

import ast
import hashlib
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.anchors import own_anchors, question_anchors
from anchorscope.anchors.labels import squad_normalise
from anchorscope.questions import reading
from anchorscope.questions.folds import key
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.storage.progress import Progress
from anchorscope.storage.provenance import Counts

COLUMNS = (
    "id", "question", "answers", "subject", "property", "relation", "kind", "popularity",
    "split", "titles", "response", "label", "folded", "anchors",
)  # fmt: skip
FIELDS = (*COLUMNS[:8], "titles", "response", "label", "anchors")
_SURROGATE = re.compile("[\ud800-\udfff]")
CANDIDATES = 200  # few-shot candidates kept beside a sample
NAMED = 5  # own anchors without a place that are named, for each reason
HELD_BACK = 20  # rows kept out of a sample that would leave fewer, at most a tenth of all

Row = Mapping[str, Any]
Fields = Mapping[str, Any]


def load_rows(
    *,
    fields: Fields,
    hub: str | None = None,
    local: str | Path | None = None,
    config: str | None = None,
    split: str | None = None,
    revision: str | None = None,
) -> list[dict[str, Any]]:
    """Rows of a dataset on the hub, or in a local file or folder, with the columns of `fields`.

    Args:
        fields: schema name → dotted path of a column (`answers`: a list of paths).
        hub: hub id, read with the `datasets` library.
        local: a .jsonl, .json, .csv or .parquet file, or a folder of them.
        config: the dataset's configuration; for a folder, a subfolder of that name if there is one.
        split: split on the hub; for a folder, chooses the files `<split>*`.
        revision: commit on the hub; None is the newest.

    Raises:
        AnchorscopeError: hub not reached, dataset gated or missing, file unreadable, or a column
            of `fields` missing.
    """
    if (hub is None) == (local is None):
        raise AnchorscopeError(
            "a dataset needs exactly one source",
            f"hub: {hub}, local: {local}",
            "give one of them",
            see="config",
        )
    paths = {path for _, path in _paths(fields)}
    keep = paths | {path.split(".")[0] for path in paths}
    rows: list[dict[str, Any]] = []
    if hub is not None:
        data = reading.hub_split(hub, config, split, revision)
        # Before the others are left out, so that the error lists every column there is.
        _check_columns([dict.fromkeys(data.column_names)], fields, hub)
        rows = data.select_columns([n for n in data.column_names if n in keep]).to_list()
        _check_columns(rows, fields, hub)
        return rows
    for file in reading.local_files(Path(str(local)).expanduser(), config, split):
        part = reading.file_rows(file)
        _check_columns(part, fields, file)
        rows += [{key: value for key, value in row.items() if key in keep} for row in part]
    return rows


def normalise(
    rows: Sequence[Row], fields: Fields, *, split: str | None, source: object = "the dataset"
) -> tuple[pd.DataFrame, Counts]:
    """Rows in the schema of the questions' table, one row for each different question and response.

    Two questions are equal if their text is the same after Unicode NFC and with every run of
    whitespace taken as one space; case counts. The fold keeps the row with the smallest id, whose
    text stays verbatim, and unites answers and titles; `popularity` is that of the most popular;
    `folded` counts the other rows. Responses of the user's own to one question stay rows of their
    own, which share its answers, titles and popularity.

    An id is the dataset's where it is not empty and occurs once, else a hash of the question, and
    of the response where there are several; such rows are counted, and the first ids that occur
    twice are named.

    Gold answers that are empty, or that normalise to nothing, are left out and counted; a row is
    dropped for having none, unless it brings its own response and label.

    A user's own question anchors become entries of `start`, `end` and `role` in the kept text
    (None where a row gives none; an empty list where nothing of what it gives is in the question).
    What marks nothing is counted by reason, and the first ones are named in the notes.

    Halves of a UTF-16 pair, which JSON can spell and no file can hold, become one character where
    both are there, else U+FFFD; the rows are counted.

    Args:
        rows: as `load_rows` returns them.
        fields: as for `load_rows`; `id`, `subject`, `property`, `relation`, `kind`, `popularity`,
            `titles`, `response`, `label` and `anchors` are optional.
        split: name of the split, kept in the table.
        source: what error messages call the dataset.

    Returns:
        A table with the columns `COLUMNS`, and counts of what was dropped, folded and left out.

    Raises:
        AnchorscopeError: a column is missing, or a label is not 0 or 1 (or true, false).
    """
    _check_columns(rows, fields, source)
    dropped: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    rows = [_encodable(row, notes) for row in rows]
    ids = _usable_ids(rows, fields, notes)
    groups: dict[str, list[dict[str, Any]]] = {}
    pairs = Progress(zip(rows, ids, strict=True), total=len(rows), unit="rows")
    for number, (row, given) in enumerate(pairs, start=1):
        entry = _entry(row, fields, given, notes, f"{source}, row {number}")
        reason = _unusable(entry)
        if reason:
            dropped[reason] += 1
        else:
            groups.setdefault(_folded_text(entry["question"]), []).append(entry)
    kept = [entry for group in groups.values() for entry in _fold(group, notes)]
    if folded := sum(entry["folded"] for entry in kept):
        dropped["equal question folded"] = folded
    frame = _frame({**entry, "split": split} for entry in kept)
    return frame, Counts(len(rows), len(frame), dict(dropped), dict(notes))


def asked(row: Row, fields: Fields) -> dict[str, Any]:
    """What a row asks, without its answers: question, subject, property, relation and titles."""

    def text(name: str) -> str | None:
        return _text(_get(row, fields[name])) if fields.get(name) else None

    question = _get(row, fields["question"])
    titles = _titles(_get(row, fields["titles"])) if fields.get("titles") else []
    return {
        "question": question if isinstance(question, str) else _text(question),
        **{name: text(name) for name in ("subject", "property", "relation")},
        "titles": titles,
    }


def sample(
    frame: pd.DataFrame, size: int | None, seed: int, *, hold_back: bool = False
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw `size` questions, and few-shot candidates from the rest.

    The draw depends on ids and seed only, not on the order of rows; a smaller sample is the
    beginning of a larger one with the same seed.

    Args:
        frame: questions, as `normalise` returns them.
        size: most questions to draw; None is all.
        seed: decides which.
        hold_back: leave at least `HELD_BACK` rows (at most a tenth of all) outside the sample,
            where few-shot examples come from.

    Returns:
        The sample, and at most 200 of the other rows, see `candidates`.
    """
    if size is not None and size < 0:
        raise AnchorscopeError(
            f"a sample of {size} questions", "sample_size", "give 0 or more", see="config"
        )
    ordered = _shuffled(frame, seed)
    size = len(ordered) if size is None else min(size, len(ordered))
    if hold_back:
        size = min(size, len(ordered) - min(HELD_BACK, len(ordered) // 10))
    sampled = ordered.iloc[:size].reset_index(drop=True)
    return sampled, candidates(ordered.iloc[size:], sampled, seed)


def candidates(
    pool: pd.DataFrame, sampled: pd.DataFrame, seed: int, limit: int = CANDIDATES
) -> pd.DataFrame:
    """Rows of `pool` that may serve as few-shot examples: none shares a question or a subject.

    Questions and subjects are compared as folds compare them, by letters and digits only. A row's
    subjects are its `subject` and `titles`; without a `subject`, also what the offline finder
    takes for one. A row without gold answers has nothing to show.
    """
    questions = {key(text) for text in sampled["question"]}
    subjects = {name for row in sampled.to_dict("records") for name in _subjects(row)}
    chosen: list[Mapping[Any, Any]] = []
    for row in _shuffled(pool, seed).to_dict("records"):
        if len(chosen) == limit:
            break
        if not row["answers"] or key(row["question"]) in questions:
            continue
        if not subjects.isdisjoint(_subjects(row)):
            continue
        chosen.append(row)
        questions.add(key(row["question"]))
    return _frame(chosen)


def _paths(fields: Fields) -> Iterator[tuple[str, str]]:
    for name, value in fields.items():
        if name not in FIELDS:
            raise AnchorscopeError(
                f"unknown field `{name}`", "fields", nearest(name, FIELDS), see="missing-column"
            )
        for path in [value] if isinstance(value, str) else value or []:
            yield name, path
    for name in ("question", "answers"):
        if not fields.get(name):
            raise AnchorscopeError(
                f"no column is named for `{name}`", "fields", "name one", see="missing-column"
            )


def _check_columns(rows: Sequence[Row], fields: Fields, source: object) -> None:
    """A column that no row has is a mistake; one that some rows lack is empty there."""
    if not rows:
        raise AnchorscopeError(
            "the dataset has no rows", source, "check the file, or the split", see="rows-of-a-file"
        )
    for name, path in _paths(fields):
        if any(_has(row, path) for row in rows):
            continue
        existing = dict.fromkeys(key for row in rows[:1000] for key in _column_names(row))
        raise AnchorscopeError(
            f"column `{path}` (field `{name}`) is missing",
            f"{source}; its columns are {', '.join(existing)}",
            nearest(path, existing, f"name an existing column under fields: {name}"),
            see="missing-column",
        )


def _column_names(row: Row) -> Iterator[str]:
    for name, value in row.items():
        yield name
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in _column_names(value))


def _has(row: Any, path: str) -> bool:
    if isinstance(row, list):
        return not row or any(_has(item, path) for item in row)
    if not isinstance(row, Mapping):
        return row is None
    if path in row:
        return True
    head, _, rest = path.partition(".")
    return bool(rest) and head in row and _has(row[head], rest)


def _get(row: Any, path: str) -> Any:
    """Value at a dotted path; lists of records give the list of their values."""
    if isinstance(row, list):
        return [_get(item, path) for item in row]
    if not isinstance(row, Mapping):
        return None
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    return _get(row.get(head), rest) if rest else None


def _entry(
    row: Row, fields: Fields, given: str | None, notes: Counter[str], where: str
) -> dict[str, Any]:
    def text(name: str) -> str | None:
        return _text(_get(row, fields[name])) if fields.get(name) else None

    paths = fields["answers"]
    raw = [_get(row, path) for path in ([paths] if isinstance(paths, str) else paths)]
    answers = _answers(raw, notes)
    entry = asked(row, fields) | {name: text(name) for name in ("kind", "response")}
    entry |= {
        "answers": answers,
        "popularity": _number(text("popularity"), where),
        "label": _label(_get(row, fields["label"]), where) if fields.get("label") else None,
    }
    given_anchors = _get(row, fields["anchors"]) if fields.get("anchors") else None
    entry["anchors"] = _anchors(entry["question"] or "", given_anchors, notes, where)
    if entry["label"] is not None and entry["response"] is None:
        raise AnchorscopeError(
            "a label without a response",
            where,
            "name the responses' column under fields: response",
            see="label-or-popularity",
        )
    hashed = given is None and entry["question"] is not None
    entry["id"] = _hashed_id(entry["question"]) if hashed else given
    return entry


def _encodable(row: Row, notes: Counter[str]) -> Row:
    """A row whose texts can be written as UTF-8."""
    mended = {name: _paired(value) for name, value in row.items()}
    # As text: a NaN equals nothing, not even itself.
    if repr(mended) == repr(dict(row)):
        return row
    notes["rows with broken characters mended"] += 1
    return mended


def _paired(value: Any) -> Any:
    if isinstance(value, str):
        if not _SURROGATE.search(value):
            return value
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {name: _paired(inner) for name, inner in value.items()}
    return [_paired(inner) for inner in value] if isinstance(value, list | tuple) else value


def _text(value: Any) -> str | None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip() or None


def _number(text: str | None, where: str) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        raise AnchorscopeError(
            f"popularity `{text}` is no number",
            where,
            "correct it or leave it empty",
            see="label-or-popularity",
        ) from None


def _anchors(
    question: str, value: Any, notes: Counter[str], where: str
) -> list[dict[str, Any]] | None:
    """A user's own anchors as places in the question; None if there are none."""
    value = _plain(value)
    listed = _listed(value) if isinstance(value, str) else value
    if not isinstance(listed, list | tuple):  # a single entry, or nothing
        listed = [value] if isinstance(value, Mapping) or _text(value) else []
    if not listed:
        return None
    found, failed = own_anchors.resolve(question, [_plain(entry) for entry in listed])
    for reason, entry in failed:
        total = f"own anchors, {reason}"
        notes[total] += 1
        if notes[total] <= NAMED:
            notes[f"{total}: {where}, `{entry}`"] += 1
    return [{"start": start, "end": end, "role": role} for start, end, role in found]


def _plain(entry: Any) -> Any:
    """Arrays of a parquet file as lists; its structs carry keys that a row leaves empty."""
    if isinstance(entry, Mapping):
        return {name: value for name, value in entry.items() if value is not None}
    return entry if isinstance(entry, str) or not hasattr(entry, "tolist") else entry.tolist()


def _titles(value: Any) -> list[str]:
    return list(dict.fromkeys(title for v in _flat(value) if (title := _text(v))))


def _flat(value: Any) -> Iterator[Any]:
    """Single values of a value that may be a list, a string, or a string that holds a list."""
    if isinstance(value, str) and (listed := _listed(value)) is not None:
        value = listed
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item) if isinstance(item, list | tuple) else [item]
    else:
        yield value


def _listed(text: str) -> list[Any] | None:
    """The list that a string spells, as PopQA's columns do in JSON, or tables saved by pandas."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    parsers: tuple[Callable[[str], Any], ...] = (json.loads, ast.literal_eval)
    for parse in parsers:
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError):
            continue
        return value if isinstance(value, list) else None
    return None


def _answers(raw: Iterable[Any], notes: Counter[str]) -> list[str]:
    answers: dict[str, None] = {}
    for value in raw:
        for item in _flat(value):
            text = _text(item)
            if text is None:
                # No list at all is a row without answers, not an empty gold.
                notes["empty golds left out"] += int(item is not None)
            elif not squad_normalise(text):
                notes["golds that normalise to nothing left out"] += 1
            else:
                answers[text] = None
    return list(answers)


def _label(value: Any, where: str) -> int | None:
    text = _text(value)
    labels = {"0": 0, "1": 1, "false": 0, "true": 1}
    if text is None:
        return None
    if text.lower() not in labels:
        raise AnchorscopeError(
            f"label `{text}` is none of 0, 1, true, false",
            where,
            "write 1 (true) for a hallucinated answer, 0 (false) for a right one",
            see="label-or-popularity",
        )
    return labels[text.lower()]


def _unusable(entry: Mapping[str, Any]) -> str | None:
    if not (entry["question"] or "").strip():
        return "no question"
    # A response with its own label is taken as it is: nothing is left to compare.
    judged = entry["response"] is not None and entry["label"] is not None
    return None if entry["answers"] or judged else "no answers"


def _usable_ids(rows: Sequence[Row], fields: Fields, notes: Counter[str]) -> list[str | None]:
    """Ids that occur once; the others are counted, and the first ones named."""
    path = fields.get("id")
    if not path:
        return [None] * len(rows)
    given = [_text(_get(row, path)) for row in rows]
    times = Counter(given)
    if missing := times.pop(None, 0):
        notes["rows without an id, which get a hash"] = missing
    twice = {text: count for text, count in times.items() if count > 1}
    if twice:
        total = "rows whose id is not theirs alone, which get a hash"
        notes[total] = sum(twice.values())
        notes.update({f"{total}: `{text}`": count for text, count in [*twice.items()][:NAMED]})
    return [None if text in twice else text for text in given]


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def _hashed_id(question: str, *response: str) -> str:
    return _digest(_folded_text(question), *response)[:16]


def _folded_text(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _fold(group: Sequence[dict[str, Any]], notes: Counter[str]) -> list[dict[str, Any]]:
    """The rows that are left of one question, one for each response to it."""
    # By id, so that the outcome does not hang on the order of rows.
    group = sorted(group, key=lambda entry: (entry["id"], json.dumps(entry, sort_keys=True)))
    popularity = [e["popularity"] for e in group if e["popularity"] is not None]
    shared = {
        "answers": list(dict.fromkeys(a for e in group for a in e["answers"])),
        "titles": list(dict.fromkeys(t for e in group for t in e["titles"])),
        "popularity": max(popularity, default=None),
    }
    alike: dict[str | None, list[dict[str, Any]]] = {}
    for entry in group:
        alike.setdefault(entry["response"], []).append(entry)
    return [_one(entries, shared, len(alike) > 1, notes) for entries in alike.values()]


def _one(
    group: Sequence[dict[str, Any]],
    shared: dict[str, Any],
    several: bool,
    notes: Counter[str],
) -> dict[str, Any]:
    """The row that equal rows make; `several` if there are other responses to its question."""
    first = group[0] | shared | {"folded": len(group) - 1}
    question, response = first["question"], first["response"]
    if several and response and first["id"] == _hashed_id(question):
        first["id"] = _hashed_id(question, response)
    first["anchors"], other = _folded_anchors(group)
    if other:
        notes["folded rows with other anchors"] += other
    if lost := sum(entry["label"] != first["label"] for entry in group):
        notes["folded rows with another label"] += lost
    return first


def _folded_anchors(
    group: Sequence[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]] | None, int]:
    """The first anchors given for the kept text, and how many rows give others."""
    text = group[0]["question"]
    given = [e for e in group if e["anchors"] is not None]
    kept = next((e["anchors"] for e in given if e["question"] == text), None)
    return kept, sum(e["anchors"] != kept for e in given)


def _shuffled(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    keys = [_digest(str(seed), name) for name in frame["id"]]
    return frame.iloc[sorted(range(len(frame)), key=keys.__getitem__)]


def _subjects(row: Mapping[Any, Any]) -> set[str]:
    names = [row["subject"], *row["titles"]]
    if not row["subject"]:
        question = row["question"]
        spans = question_anchors.find(question, titles=row["titles"], own=row.get("anchors"))
        names += [question[s.start : s.end] for s in spans if s.role == own_anchors.SUBJECT]
    return {folded for name in names if (folded := key(name)) is not None}


def _frame(entries: Iterable[Mapping[Any, Any]]) -> pd.DataFrame:
    entries = list(entries)
    columns = {name: [entry.get(name) for entry in entries] for name in COLUMNS}
    frame = pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in columns.items()})
    frame["popularity"] = frame["popularity"].astype("float64")
    frame["folded"] = frame["folded"].astype("int64")
    frame["label"] = pd.array(
        [None if pd.isna(value) else int(value) for value in columns["label"]], dtype="Int64"
    )
    return frame
