"""Prepare a dataset: sample its questions, and choose candidates for worked examples."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from anchorscope.questions import questions, reading
from anchorscope.storage.counts import FOR_EXAMPLES, OUTSIDE_SAMPLE, Counts, in_words
from anchorscope.storage.errors import AnchorscopeError

EXAMPLE_FIELDS = {
    "question": "question",
    "answers": "answer",
    "subject": "subject",
    "property": "property",
    "relation": "relation",
}


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """A dataset ready for prompts."""

    sampled: pd.DataFrame  # the questions' table
    few_shot: pd.DataFrame  # candidates for worked examples, same columns
    counts: Counts
    revision: str | None  # commit of a hub dataset


def prepare(
    dataset: Mapping[str, Any], *, sample_size: int | None, seed: int, hold_back: bool = False
) -> Prepared:
    """Load, normalise and sample one dataset.

    `dataset` is an entry of the catalogue. `sample_size` is None for all rows. `hold_back` keeps
    some rows outside the sample, for worked examples.

    Raises:
        AnchorscopeError: The dataset is unavailable or unreadable, a column is missing, or there is
            no usable question.
    """
    frame, counts, revision = _questions(dataset, dataset.get("split"))
    if frame.empty:
        what = f"no usable question among {counts.total:,} rows: {in_words(counts.dropped)}"
        do = "check `fields` and `split` of the dataset in the config"
        where = dataset.get("hub") or dataset["local"]
        raise AnchorscopeError(what, where, do, see="no-usable-question")
    few_shot = dataset.get("few_shot") or {}
    elsewhere = bool(few_shot.get("file") or few_shot.get("split"))
    if sample_size is not None and len(frame) < sample_size:
        log.info("%d questions are wanted; all %d are taken", sample_size, len(frame))
    held = hold_back and not elsewhere
    sampled, rest = questions.sample(frame, sample_size, seed, hold_back=held)
    if path := few_shot.get("file"):
        rest = questions.candidates(_written(path), sampled, seed)
    elif elsewhere:
        same = {**dataset, "revision": revision or dataset.get("revision")}
        rest = questions.candidates(_questions(same, few_shot["split"])[0], sampled, seed)
    outside = max(len(frame) - sample_size, 0) if sample_size is not None else 0
    held_back = len(frame) - len(sampled) - outside
    left_out = {OUTSIDE_SAMPLE: outside, FOR_EXAMPLES: held_back}
    dropped = {**counts.dropped, **{reason: n for reason, n in left_out.items() if n > 0}}
    counts = Counts(counts.total, len(sampled), dropped, counts.notes)
    return Prepared(sampled, rest, counts, revision)


def _questions(
    dataset: Mapping[str, Any], split: str | None
) -> tuple[pd.DataFrame, Counts, str | None]:
    """Return the questions of a split, their counts, and the commit (None for local rows)."""
    rows, commit = reading.load_rows(dataset, split)
    source = dataset.get("hub") or dataset["local"]
    return (*questions.normalise(rows, dataset["fields"], split=split, source=source), commit)


def read_examples(path: str | Path) -> list[dict[str, Any]]:
    """Read worked examples from a YAML file, as rows with the fields `EXAMPLE_FIELDS`."""
    try:
        rows = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        what = f"cannot read the examples: {error}"
        raise AnchorscopeError(what, path, "correct the file or its path", see="few-shot") from None
    for row in rows if isinstance(rows, list) and rows else [None]:
        if not isinstance(row, dict) or not row.get("question") or not row.get("answer"):
            what, do = f"not an example: {row!r}", "list entries with `question` and `answer`"
            raise AnchorscopeError(what, path, do, see="few-shot")
    return [dict.fromkeys(EXAMPLE_FIELDS.values()) | row for row in rows]


def _written(path: str) -> pd.DataFrame:
    rows = read_examples(path)
    return questions.normalise(rows, EXAMPLE_FIELDS, split="few_shot", source=path)[0]
