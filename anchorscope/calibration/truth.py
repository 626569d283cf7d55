"""Swap truth: which pathway a sample really uses, from the model's behaviour alone.

The same answer is put behind other questions for which it has the other label. Where the model's
own verdict follows the question, the sample's truth is Q; where it stays with the answer, A.
Nothing is cut for this, so it can judge the knockout. The verdict under knockout and random tokens
stands beside it: it tells a failing of the knockout from a failing of the probe.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anchorscope.anchors import labels
from anchorscope.calibration import recipes, verdicts
from anchorscope.passes import partners, planning
from anchorscope.storage.counts import Counts

if TYPE_CHECKING:
    from anchorscope.models.families import Loaded
    from anchorscope.storage.room import Room

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


Asked = Any
"""A sample: a row of `_asked`."""


@dataclass(frozen=True)
class Swaps:
    """The other questions that a sample's answer is put behind.

    Attributes:
        to: questions for which the answer has the other label.
        taught: whether these are of taught facts; of others the model cannot know the label.
        random: whether no question gives the answer the other label, so that `to` are any others.
    """

    to: tuple[Asked, ...] = ()
    taught: bool = True
    random: bool = False


def truth(
    answers: pd.DataFrame,
    planned: Mapping[str, str | None],
    loaded: Loaded,
    *,
    graded: set[tuple[str, str]],
    conditions: Mapping[str, Mapping[str, Any] | None],
    batch_tokens: int,
    blocks: str = "after",
    seed: int = 0,
    room: Room | None = None,
) -> tuple[pd.DataFrame, Counts]:
    """Swap truth and the model's own verdicts, sample by sample.

    Args:
        answers: the answers table of a model whose training graded answers (prompt style `plain`).
        planned: id → the answer that training planted, None of a fact that was never taught.
        loaded: the model.
        graded: (question, answer) pairs that training graded, see `graded_pairs`.
        conditions: as for `planning.plan`; all but `knockout` and `random` are left alone.
        batch_tokens: most rows × padded length of a pass.
        blocks: which queries the knockout applies to.
        seed: chooses among the questions to swap with, and the random tokens.
        room: counts the batches halved.

    Returns:
        A row for each measured sample, in the order of the answers, with the columns `COLUMNS`
        (docs/products.md), blank where nothing was measured; and counts: samples in, with a truth,
        and without by reason.

    Raises:
        AnchorscopeError: no verdict tokens, nothing to measure, a verdict that is not finite.
    """
    passes = planning.plan(
        answers,
        conditions={name: conditions.get(name) for name in ("knockout", "random")},
        batch_tokens=batch_tokens,
        window=loaded.window,
        blocks=blocks,
        seed=seed,
    )
    own = _own(verdicts.of_samples(loaded, passes, room=room))
    samples = _asked(answers[answers["id"].astype(str).isin(own.index)], planned)
    swaps = choose(samples, seed)
    rows = [other.prompt + one.said for one in samples for other in swaps[one.id].to]
    logits = verdicts.of_texts(loaded, rows, batch_tokens=batch_tokens, room=room)
    says_wrong = {ids: logit > 0 for ids, logit in logits.items()}
    verdict = own["verdict"].to_dict()
    found = [_swapped(one, swaps[one.id], says_wrong, verdict[one.id], graded) for one in samples]
    frame = pd.DataFrame(found).join(own, on="id")[list(COLUMNS)]
    return frame, _counts(frame, passes.counts, swaps)


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
    return {
        (row.question, row.answer)
        for rows, steps, _ in recipes.stages(questions, worlds, train)
        for row in rows
        if steps and row.graded
    }


def choose(samples: Iterable[Asked], seed: int) -> dict[str, Swaps]:
    """The questions that each sample's answer is put behind, by its id.

    Of the same relation and template, about another subject, and where there is one, of a fact
    that was taught; at most `SWAPS`, chosen by the seed and the sample's id.
    """
    groups: dict[tuple[str, str] | None, list[Asked]] = defaultdict(list)
    for one in sorted(samples, key=lambda one: one.id):
        groups[one.group].append(one)
    found = {one.id: Swaps() for one in groups.pop(None, [])}
    for group in groups.values():
        golds = {one.id: one.golds for one in group}
        right = {text: partners.answered(text, golds) for text in {one.ea_text for one in group}}
        found |= {one.id: _swaps(one, group, right[one.ea_text], seed) for one in group}
    return found


def _swaps(one: Asked, group: Iterable[Asked], answered: frozenset[str], seed: int) -> Swaps:
    others = [other for other in group if other.subject != one.subject and other.golds]
    opposite = [other for other in others if (other.id in answered) == (one.label == 1)]
    random = one.kind == PLANTED_ONLY and one.as_planned and not opposite
    candidates = others if random else opposite
    taught = [other for other in candidates if other.taught]
    chosen = taught or candidates
    drawn = Random(f"swap {seed} {one.id}").sample(chosen, min(SWAPS, len(chosen)))
    return Swaps(tuple(drawn), bool(taught), random)


def _asked(answers: pd.DataFrame, planned: Mapping[str, str | None]) -> list[Asked]:
    """Rows of the answers with what their swaps need.

    `prompt` and `said` are token ids, those of the answer up to the closing token; `group` is
    relation and template of the question, None where subject or relation is unknown.
    """
    normal, found = labels.squad_normalise, []
    one: Any
    for one in answers.astype({"id": str}).itertuples(index=False):
        ids, start, group = tuple(map(int, one.input_ids)), int(one.prompt_length), None
        if pd.notna(one.subject) and pd.notna(one.relation):
            group = one.relation, partners.template(one.question, one.subject)
        own = planned[one.id]
        taught = own is not None and pd.notna(own)
        extra: dict[str, Any] = {
            "group": group,
            "prompt": ids[:start],
            "said": ids[start : int(one.final) + 1],
        }
        extra |= {"golds": tuple(one.golds), "taught": taught}
        extra |= {"as_planned": taught and normal(one.ea_text) == normal(own)}
        found.append(SimpleNamespace(**one._asdict() | extra))
    return found


def _own(passed: pd.DataFrame) -> pd.DataFrame:
    """The verdict's columns by id: clean, under knockout, share of random draws that flip it."""
    logits = passed.pivot(index="id", columns=["condition", "draw"], values="logit")
    clean, blank = logits["clean", 0], pd.Series(np.nan, logits.index)
    cut = logits.get(("knockout", 0), blank)
    random = logits.loc[:, logits.columns.get_level_values("condition") == "random"]
    flips = (random > 0).ne(clean > 0, axis=0)
    columns = {"verdict": (clean > 0).astype(int), "verdict_logit": clean}
    columns |= {"verdict_knockout": (cut > 0).where(cut.notna()).astype(float)}
    columns |= {"verdict_knockout_logit": cut}
    columns |= {"verdict_random": flips.mean(axis=1)}
    return pd.DataFrame(columns)


def _swapped(
    one: Asked,
    swaps: Swaps,
    says_wrong: Mapping[tuple[int, ...], bool],
    verdict: int,
    graded: set[tuple[str, str]],
) -> dict[str, Any]:
    """What is known of a sample, and its verdict behind other questions."""
    wrong = [says_wrong[other.prompt + one.said] for other in swaps.to]
    was_graded = [(other.question, one.ea_text) in graded for other in swaps.to]
    followed = [] if swaps.random else [said == (one.label == 0) for said in wrong]
    trained = [follows for follows, was in zip(followed, was_graded, strict=False) if was]
    varied = [said != bool(verdict) for said in wrong] if swaps.random else []
    moved = _share(varied if swaps.random else followed)
    why = _why_none(one, verdict, moved, swaps.random)
    return {
        "id": one.id,
        "kind": one.kind,
        "label": int(one.label),
        "as_planned": one.as_planned,
        "n_swaps": len(followed),
        "follows": _share(followed),
        "n_trained": len(trained),
        "follows_trained": _share(trained),
        "planted_only": swaps.random,
        "n_random": len(varied),
        "varies": _share(varied),
        "truth": None if why else "A" if moved <= STAYS else "Q",
        "why_none": why,
    }


def _share(found: list[bool]) -> float:
    return float(np.mean(found)) if found else float("nan")


def _why_none(one: Asked, verdict: int, moved: float, random: bool) -> str | None:
    """Why a sample has no truth, if it has none."""
    if one.taught and not one.as_planned:
        return NOT_PLANNED
    if verdict != one.label:
        return VERDICT_WRONG
    if np.isnan(moved):
        return NO_SWAP
    # A verdict that varies has nothing to follow.
    return None if moved <= STAYS or (moved >= FOLLOWS and not random) else MIXED


def _counts(frame: pd.DataFrame, before: Counts, swaps: Mapping[str, Swaps]) -> Counts:
    told, given = frame["truth"].notna(), [one for one in swaps.values() if one.to]
    given = [one for one in given if not one.random]
    notes = {
        "truth Q": int((frame["truth"] == "Q").sum()),
        "truth A": int((frame["truth"] == "A").sum()),
        "truth A by planting": int((frame["planted_only"] & told).sum()),
        "swaps": int(frame["n_swaps"].sum()),
        "swaps graded in training": int(frame["n_trained"].sum()),
        f"samples with fewer than {SWAPS} swaps": sum(len(one.to) < SWAPS for one in given),
        "samples swapped behind no taught question": sum(not one.taught for one in given),
    }
    dropped = dict(before.dropped) | dict(Counter(frame["why_none"].dropna()))
    return Counts(before.total, int(told.sum()), dropped, notes)
