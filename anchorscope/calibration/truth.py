"""Swap truth: which pathway a sample really uses, from the model's behaviour alone.

The same answer is put behind other questions for which it has the other label. Where the model's
own verdict follows the question, the sample's truth is Q; where it stays with the answer, A.
Nothing is cut for this, so it can judge the knockout. The verdict under knockout and random tokens
stands beside it: it tells a failing of the knockout from a failing of the probe.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anchorscope.anchors import labels
from anchorscope.calibration import curriculum, recipes, verdicts
from anchorscope.calibration.verdicts import seal
from anchorscope.passes import partners
from anchorscope.storage.counts import Counts
from anchorscope.storage.errors import AnchorscopeError

if TYPE_CHECKING:
    from anchorscope.models.families import Loaded
    from anchorscope.storage.room import Room

__all__ = ["COLUMNS", "graded_pairs", "seal", "truth"]

SWAPS = 8
"""Most other questions that an answer is put behind."""
FOLLOWS, STAYS = 0.8, 0.2
PLANTED_ONLY = "myth"
"""The kind whose answer no question makes right, so that it cannot be swapped."""

NOT_PLANNED = "not as planned"
VERDICT_WRONG = "own verdict wrong"
NO_SWAP = "no swap"
MIXED = "mixed"

COLUMNS = (
    "id", "kind", "label", "as_planned", "verdict", "verdict_logit", "verdict_knockout",
    "verdict_knockout_logit", "verdict_random", "n_swaps", "follows", "n_trained",
    "follows_trained", "truth", "why_none", "planted_only", "n_random", "varies",
)  # fmt: skip


@dataclass(frozen=True)
class Asked:
    """A sample: its question, what is known of it, and its frozen answer.

    Attributes:
        prompt: token ids of the prompt.
        said: token ids of the answer, the closing token last.
        answer: E_A's text.
        label: 1 if the answer is wrong, 0 if right.
        golds: gold answers of the question.
        planned: the answer that training planted, None if the fact was never taught.
        group: relation and template of the question, None where subject or relation is unknown.
    """

    id: str
    question: str
    subject: str | None
    kind: str | None
    group: tuple[str, str] | None
    prompt: tuple[int, ...]
    said: tuple[int, ...]
    answer: str
    label: int
    golds: tuple[str, ...]
    planned: str | None

    @property
    def as_planned(self) -> bool:
        """Whether the answer is the planted one."""
        if self.planned is None:
            return False
        return labels.squad_normalise(self.answer) == labels.squad_normalise(self.planned)

    @property
    def planted_only(self) -> bool:
        """Whether the answer has its truth from the planting, no question making it right."""
        return self.kind == PLANTED_ONLY and self.as_planned


@dataclass(frozen=True)
class Swaps:
    """The other questions that a sample's answer is put behind.

    Attributes:
        to: questions for which the answer has the other label.
        known: whether these are of taught facts; others the model cannot know the label of.
        random: for a sample that is planted only, any other questions.
    """

    to: tuple[Asked, ...] = ()
    known: bool = True
    random: tuple[Asked, ...] = ()

    @property
    def every(self) -> tuple[Asked, ...]:
        return self.to + self.random


def truth(
    answers: pd.DataFrame,
    questions: pd.DataFrame,
    loaded: Loaded,
    *,
    train_rows: set[tuple[str, str]] | None,
    conditions: Mapping[str, Mapping[str, Any] | None],
    batch_tokens: int,
    blocks: str = "after",
    seed: int = 0,
    room: Room | None = None,
) -> tuple[pd.DataFrame, Counts]:
    """Swap truth and the model's own verdicts, sample by sample.

    Args:
        answers: the answers table of a model whose training graded answers (prompt style `plain`).
        questions: the questions' table; `planned` may be absent.
        loaded: the model.
        train_rows: (question, answer) pairs that training graded, see `graded_pairs`; None where
            they are not known.
        conditions: as for `planning.plan`; all but `knockout` and `random` are left alone.
        batch_tokens: most rows × padded length of a pass.
        blocks: which queries the knockout applies to.
        seed: chooses among the questions to swap with, and the random tokens.
        room: counts the batches halved.

    Returns:
        A row for each measured sample, in the order of the answers, columns `COLUMNS`:
        verdict, verdict_knockout: 1 if the model says `wrong` (its logit lies above `right`'s);
        verdict_random: share of the draws in which the verdict flips; follows: share of the
        n_swaps swaps after which the verdict is the one that the other question asks for;
        n_trained, follows_trained: the same over pairs that training graded; truth: Q, A or None,
        and why_none; planted_only: no question makes the answer right, and varies is the share of
        n_random other questions behind which the verdict changes. NaN where nothing was measured.
        And counts: samples in, with a truth, and without by reason.

    Raises:
        AnchorscopeError: no verdict tokens, nothing to measure, an answer without its question, a
            verdict that is not finite.
    """
    passes: dict[str, Any] = {"batch_tokens": batch_tokens, "blocks": blocks, "seed": seed}
    planned = verdicts.plan(loaded, answers, conditions=conditions, **passes)
    own = _own(verdicts.of_samples(loaded, planned, room=room))
    by_id = {one.id: one for one in _asked(answers, questions)}
    samples = [by_id[sample.id] for sample in planned.samples]
    swaps = choose(samples, seed)
    rows = [other.prompt + one.said for one in samples for other in swaps[one.id].every]
    logits = verdicts.of_texts(loaded, rows, batch_tokens=batch_tokens, room=room)
    known = train_rows or set()
    frame = _frame([_record(one, own[one.id], swaps[one.id], logits, known) for one in samples])
    return frame, _counts(frame, planned.counts, swaps)


def graded_pairs(
    questions: Mapping[str, pd.DataFrame],
    worlds: Mapping[str, Mapping[str, Any]],
    train: Mapping[str, Any],
) -> set[tuple[str, str]]:
    """The (question, answer) pairs that a catalogue entry's training graded, right or wrong.

    Args:
        questions: dataset name → questions' table, all that the model learned from.
        worlds: dataset name → settings of its calibration world.
        train: the catalogue's `train` entry.
    """
    rows: list[curriculum.Row] = []
    if train["steps"]:
        rows += recipes.material(questions, worlds=worlds, train=train)[0]
    for _, given in recipes.later_stages(train):
        rows += recipes.settling(questions, worlds=worlds, train=given)
    return {(row.question, row.answer) for row in rows if row.graded}


def choose(samples: Iterable[Asked], seed: int) -> dict[str, Swaps]:
    """The questions that each sample's answer is put behind, by its id.

    Of the same relation and template, about another subject, and where there is one, of a fact
    that was taught; at most `SWAPS`, chosen by the seed and the sample's id.
    """
    groups: dict[tuple[str, str], list[Asked]] = defaultdict(list)
    every = sorted(samples, key=lambda one: one.id)
    for one in every:
        if one.group is not None:
            groups[one.group].append(one)
    right = {
        (group, answer): partners.answered(answer, {one.id: one.golds for one in asked})
        for group, asked in groups.items()
        for answer in {one.answer for one in asked}
    }
    swapped = {
        one.id: _swaps(one, groups[one.group], right[one.group, one.answer], seed)
        for one in every
        if one.group is not None
    }
    return {one.id: swapped.get(one.id, Swaps()) for one in every}


def _swaps(one: Asked, group: Sequence[Asked], answered: frozenset[str], seed: int) -> Swaps:
    others = [other for other in group if other.subject != one.subject and other.golds]
    opposite = [other for other in others if (other.id in answered) == (one.label == 1)]
    draws = Random(f"swap {seed} {one.id}")
    if one.planted_only and not opposite:
        return Swaps(random=_some(_taught(others) or others, draws))
    return Swaps(_some(_taught(opposite) or opposite, draws), known=bool(_taught(opposite)))


def _taught(asked: Sequence[Asked]) -> list[Asked]:
    return [one for one in asked if one.planned is not None]


def _some(asked: Sequence[Asked], draws: Random) -> tuple[Asked, ...]:
    return tuple(draws.sample(asked, min(SWAPS, len(asked))))


def _asked(answers: pd.DataFrame, questions: pd.DataFrame) -> list[Asked]:
    kept = answers[answers["dropped"].isna()] if "dropped" in answers else answers
    known = {str(row["id"]): row for row in questions.to_dict("records")}
    missing = [str(id_) for id_ in kept["id"] if str(id_) not in known]
    if missing:
        what = f"{len(missing)} answers have no question, the first: {missing[0]}"
        do = "delete the answers of this cell and run again"
        raise AnchorscopeError(what, "answers, column id", do, see="stale-product")
    return [_one(row, known[str(row["id"])]) for row in kept.to_dict("records")]


def _one(row: Mapping[Any, Any], question: Mapping[Any, Any]) -> Asked:
    subject, relation = _text(question.get("subject")), _text(question.get("relation"))
    ids, start = tuple(map(int, row["input_ids"])), int(row["prompt_length"])
    group = None
    if subject is not None and relation is not None:
        group = relation, partners.template(question["question"], subject)
    return Asked(
        id=str(row["id"]),
        question=question["question"],
        subject=subject,
        kind=_text(question.get("kind")),
        group=group,
        prompt=ids[:start],
        said=ids[start : int(row["final"]) + 1],
        answer=row["ea_text"],
        label=int(row["label"]),
        golds=tuple(question["answers"]),
        planned=_text(question.get("planned")),
    )


def _text(value: Any) -> str | None:
    return None if value is None or pd.isna(value) else str(value)


def _own(passed: pd.DataFrame) -> dict[str, dict[str, float]]:
    """Of each id the verdict's logit `clean` and `knockout`, and `flips`, the share of draws."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"knockout": float("nan")})
    drawn: dict[str, list[float]] = defaultdict(list)
    for row in passed.to_dict("records"):
        if row["condition"] == "random":
            drawn[row["id"]].append(row["logit"])
        else:
            found[row["id"]][row["condition"]] = row["logit"]
    for id_, own in found.items():
        own["flips"] = _share([(logit > 0) != (own["clean"] > 0) for logit in drawn[id_]])
    return dict(found)


def _record(
    one: Asked,
    own: Mapping[str, float],
    swaps: Swaps,
    logits: Mapping[tuple[int, ...], float],
    train_rows: set[tuple[str, str]],
) -> dict[str, Any]:
    said = int(own["clean"] > 0)
    followed = [_says_wrong(one, other, logits) == (one.label == 0) for other in swaps.to]
    graded = [(other.question, one.answer) in train_rows for other in swaps.to]
    trained = [follows for follows, was in zip(followed, graded, strict=True) if was]
    varied = [_says_wrong(one, other, logits) != bool(said) for other in swaps.random]
    cut = own["knockout"]
    record = {
        "id": one.id,
        "kind": one.kind,
        "label": one.label,
        "as_planned": one.as_planned,
        "verdict": said,
        "verdict_logit": own["clean"],
        "verdict_knockout": float(cut > 0) if np.isfinite(cut) else np.nan,
        "verdict_knockout_logit": cut,
        "verdict_random": own["flips"],
        "n_swaps": len(followed),
        "follows": _share(followed),
        "n_trained": len(trained),
        "follows_trained": _share(trained),
        "planted_only": one.planted_only and not followed,
        "n_random": len(varied),
        "varies": _share(varied),
    }
    record["truth"], record["why_none"] = _decide(one, record)
    return record


def _says_wrong(one: Asked, other: Asked, logits: Mapping[tuple[int, ...], float]) -> bool:
    return logits[other.prompt + one.said] > 0


def _share(found: Sequence[bool]) -> float:
    return float(np.mean(found)) if found else float("nan")


def _decide(one: Asked, record: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Truth and None, or None and why there is none."""
    if one.planned is not None and not record["as_planned"]:
        return None, NOT_PLANNED
    if record["verdict"] != one.label:
        return None, VERDICT_WRONG
    planted_only = record["planted_only"]
    if not record["n_random" if planted_only else "n_swaps"]:
        return None, NO_SWAP
    moved = record["varies" if planted_only else "follows"]
    if moved <= STAYS:
        return "A", None
    # A verdict that varies has nothing to follow.
    if moved >= FOLLOWS and not planted_only:
        return "Q", None
    return None, MIXED


def _frame(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    # Made of objects first, or None would become NaN in the columns of text.
    frame = pd.DataFrame(records, columns=list(COLUMNS), dtype=object)
    numbers = frame.columns.difference(["id", "kind", "truth", "why_none"])
    return frame.assign(**{name: frame[name].infer_objects() for name in numbers})


def _counts(frame: pd.DataFrame, before: Counts, swaps: Mapping[str, Swaps]) -> Counts:
    told, given = frame["truth"].notna(), [one for one in swaps.values() if one.to]
    notes = {
        "truth Q": int((frame["truth"] == "Q").sum()),
        "truth A": int((frame["truth"] == "A").sum()),
        "truth A by planting": int((frame["planted_only"] & told).sum()),
        "swaps": int(frame["n_swaps"].sum()),
        "swaps graded in training": int(frame["n_trained"].sum()),
        f"samples with fewer than {SWAPS} swaps": sum(len(one.to) < SWAPS for one in given),
        "samples swapped behind no taught question": sum(not one.known for one in given),
    }
    dropped = dict(before.dropped) | dict(Counter(frame["why_none"].dropna()))
    return Counts(before.total, int(told.sum()), dropped, notes)
