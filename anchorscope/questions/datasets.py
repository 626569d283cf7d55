"""One dataset of the catalogue as a sampled table of questions, and its few-shot candidates."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.questions import null_worlds, prompts, questions, revisions, world
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError


@dataclass(frozen=True)
class Prepared:
    """A dataset ready for prompts.

    Attributes:
        sampled: the questions' table.
        few_shot: rows outside the sample, same columns; empty where examples are never needed.
        counts: rows in, kept, dropped by reason.
        revision: commit of a hub dataset, else None.
    """

    sampled: pd.DataFrame
    few_shot: pd.DataFrame
    counts: Counts
    revision: str | None


def prepare(
    dataset: Mapping[str, Any], *, sample_size: int, seed: int, hold_back: bool = False
) -> Prepared:
    """Load, normalise and sample one dataset.

    Args:
        dataset: its catalogue entry: exactly one of `hub`, `local` and `world`.
        sample_size: most questions to keep; a world is taken whole.
        seed: decides which.
        hold_back: whether few-shot examples are wanted. If they come from the rows outside the
            sample, and too few would be left, some are kept out of the sample and counted.

    Raises:
        AnchorscopeError: not to be had, not readable, a column missing, or no usable question.
    """
    if dataset.get("world"):
        return _world(dataset["world"], seed)
    split = dataset.get("split")
    rows, revision = _rows(dataset, split)
    source = dataset.get("hub") or dataset["local"]
    frame, counts = questions.normalise(rows, dataset["fields"], split=split, source=source)
    if frame.empty:
        what = f"no usable question among {counts.total} rows ({dict(counts.dropped)})"
        do = "check `fields` and `split` of the dataset in config.yaml"
        raise AnchorscopeError(what, source, do, see="no-usable-question")
    few_shot = dataset.get("few_shot") or {}
    hold_back = hold_back and not (few_shot.get("file") or few_shot.get("split"))
    sampled, rest = questions.sample(frame, sample_size, seed, hold_back=hold_back)
    same = {**dataset, "revision": revision or dataset.get("revision")}
    counts = _sampled(counts, len(frame) - len(sampled), max(len(frame) - sample_size, 0))
    return Prepared(sampled, _few_shot(same, sampled, rest, seed), counts, revision)


def _world(settings: Mapping[str, Any], seed: int) -> Prepared:
    """A world is taken whole, since what a model was taught decides what it can be asked."""
    if settings["style"] in null_worlds.FOLLOWS:
        facts = null_worlds.samples(settings["style"], seed=settings["seed"])
    else:
        facts = world.facts(**settings)
    fields = {name: name for name in facts.columns if name != "planned"}
    rows: list[Any] = facts.to_dict("records")
    frame, counts = questions.normalise(rows, fields, split="world", source="world")
    if "planned" in facts:
        planned = facts.set_index("id")["planned"].loc[frame["id"]].to_numpy()
        frame["planned"] = pd.Series(planned, dtype=object).where(pd.notna(planned), None)
    shuffled = frame.sample(frac=1, random_state=seed).reset_index(drop=True)
    return Prepared(shuffled, frame.iloc[:0], counts, None)


def _rows(dataset: Mapping[str, Any], split: str | None) -> tuple[list[dict[str, Any]], str | None]:
    """Rows of a split, and the commit they were read from, None for rows of the user's own."""
    hub, asked = dataset.get("hub"), dataset.get("revision")
    commit = None
    if hub:
        wanted = revisions.wanted("datasets", hub, asked)
        commit = revisions.commit_of_dataset(hub, wanted)
    rows = questions.load_rows(
        fields=dataset["fields"],
        hub=hub,
        local=dataset.get("local"),
        config=dataset.get("config"),
        split=split,
        revision=commit,
    )
    if hub and commit:
        revisions.keep("datasets", hub, commit, asked)
    return rows, commit


def _few_shot(
    dataset: Mapping[str, Any], sampled: pd.DataFrame, rest: pd.DataFrame, seed: int
) -> pd.DataFrame:
    """Candidates from a file of the project, another split, or the rows outside the sample."""
    source = dataset.get("few_shot") or {}
    where: object = dataset.get("hub") or dataset["local"]
    if source.get("file"):
        where, fields = Path(source["file"]), prompts.EXAMPLE_FIELDS
        rows = prompts.read_examples(where)
    elif source.get("split"):
        fields = dataset["fields"]
        rows, _ = _rows(dataset, source["split"])
    else:
        return rest
    pool, _ = questions.normalise(
        rows, fields, split=source.get("split") or "few_shot", source=where
    )
    return questions.candidates(pool, sampled, seed)


def _sampled(counts: Counts, left: int, outside: int) -> Counts:
    """Counts of `left` rows that were not sampled; all but `outside` of them were held back."""
    reasons = {"outside the sample": outside, "held back for few-shot examples": left - outside}
    dropped = {**counts.dropped, **{reason: n for reason, n in reasons.items() if n}}
    return Counts(counts.total, counts.kept - left, dropped, counts.notes)
