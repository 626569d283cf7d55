"""Swap truth: which pathway a sample really uses, from the model's behaviour alone.

The same answer is put behind other questions for which it has the other label. Where the model's
own verdict follows the question, the sample's truth is Q; where it stays with the answer, A.
Nothing is cut for this, so it can judge the knockout. The verdict under knockout and random tokens
stands beside it: it tells a failing of the knockout from a failing of the probe.
"""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.anchors import labels
from anchorscope.calibration import verdicts
from anchorscope.calibration.curriculum import Questions, Worlds, stages
from anchorscope.models.families import Loaded
from anchorscope.passes import partners, planning
from anchorscope.storage.counts import Counts
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
        graded: (question, answer) pairs that training graded, see `graded_pairs`.
        conditions: as for `planning.plan`; all but `knockout` and `random` are left alone.
        seed: chooses among the questions to swap with, and the random tokens.

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
    asked = _asked(answers[answers["id"].astype(str).isin(own.index)], planned).join(own, on="id")
    swaps = choose(asked, seed)
    one, other = (asked.set_index("id").loc[swaps[name]] for name in ("id", "other"))
    rows = [prompt + said for prompt, said in zip(other["prompt"], one["said"], strict=True)]
    logits = verdicts.of_texts(loaded, rows, batch_tokens=batch_tokens, room=room)
    wrong = np.array([logits[row] > 0 for row in rows], dtype=bool)
    varies, follows = wrong != (one["verdict"] == 1), wrong == (one["label"] == 0)
    shown = zip(other["question"], one["ea_text"], strict=True)
    swaps = swaps.assign(
        moved=np.where(swaps["random"], varies, follows),
        graded=np.array([pair in graded for pair in shown], dtype=bool),
        taught=other["taught"].to_numpy(),
    )
    frame = _judged(asked, swaps)
    return frame[list(COLUMNS)], _counts(frame, swaps, passes.counts)


def graded_pairs(
    questions: Questions, worlds: Worlds, train: Mapping[str, Any]
) -> set[tuple[str, str]]:
    """The (question, answer) pairs that training graded, right or wrong."""
    return {
        (row.question, row.answer)
        for rows, steps, _ in stages(questions, worlds, train)
        for row in rows
        if steps and row.graded
    }


def choose(asked: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The questions that each sample's answer is put behind, for which it has the other label.

    Of the same relation and template, about another subject, and where there is one, of a fact
    that was taught: of others the model cannot know the label. At most `SWAPS`, chosen by the seed
    and the sample's id. Behind a planted answer that no question makes right, `random` ones. A row
    for each pair: `id` and `random` of the sample, and `other`, the question's id.
    """
    rows: list[tuple[str, str, bool]] = []
    for _, part in asked.sort_values("id").groupby(["relation", "template"]):
        group: list[Any] = list(part.itertuples(index=False))
        golds = {one.id: one.golds for one in group}
        right = {text: partners.answered(text, golds) for text in set(part["ea_text"])}
        for one in group:
            others = [other for other in group if other.subject != one.subject and other.golds]
            turned = [o for o in others if (o.id in right[one.ea_text]) == (one.label == 1)]
            random = one.kind == PLANTED_ONLY and one.as_planned and not turned
            candidates = others if random else turned
            chosen = [other for other in candidates if other.taught] or candidates
            drawn = Random(f"swap {seed} {one.id}").sample(chosen, min(SWAPS, len(chosen)))
            rows += [(one.id, other.id, random) for other in drawn]
    return pd.DataFrame(rows, columns=["id", "other", "random"]).astype({"random": bool})


def _asked(answers: pd.DataFrame, planned: Mapping[str, str | None]) -> pd.DataFrame:
    """The answers with what their swaps need.

    `prompt` and `said` are token ids, those of the answer up to the closing token; `template` is
    that of the question, None where the subject is unknown.
    """
    found = answers.astype({"id": str, "label": int})
    rows: list[Any] = list(found.itertuples(index=False))
    own = pd.Series([planned[row.id] for row in rows], found.index, dtype=object)
    normal = labels.squad_normalise
    found["golds"] = found["golds"].map(tuple)
    found["prompt"] = [tuple(map(int, row.input_ids[: row.prompt_length])) for row in rows]
    found["said"] = [
        tuple(map(int, row.input_ids[row.prompt_length : row.final + 1])) for row in rows
    ]
    found["template"] = [
        partners.template(row.question, row.subject) if pd.notna(row.subject) else None
        for row in rows
    ]
    found["taught"] = own.notna()
    found["as_planned"] = own.map(normal, na_action="ignore") == found["ea_text"].map(normal)
    return found


def _own(passed: pd.DataFrame) -> pd.DataFrame:
    """The verdict's columns by id: clean, under knockout, share of random draws that flip it."""
    logits = passed.pivot(index="id", columns=["condition", "draw"], values="logit")
    clean, blank = logits["clean", 0], pd.Series(np.nan, logits.index)
    cut = logits.get(("knockout", 0), blank)
    random = logits.loc[:, logits.columns.get_level_values("condition") == "random"]
    flips = (random > 0).ne(clean > 0, axis=0)
    return pd.DataFrame(
        {
            "verdict": (clean > 0).astype(int),
            "verdict_logit": clean,
            "verdict_knockout": (cut > 0).where(cut.notna()).astype(float),
            "verdict_knockout_logit": cut,
            "verdict_random": flips.mean(axis=1),
        }
    )


def _judged(asked: pd.DataFrame, swaps: pd.DataFrame) -> pd.DataFrame:
    """What the verdicts behind other questions say of each sample."""
    found = asked.copy()
    for count, share, pairs in (
        ("n_swaps", "follows", swaps[~swaps["random"]]),
        ("n_trained", "follows_trained", swaps[~swaps["random"] & swaps["graded"]]),
        ("n_random", "varies", swaps[swaps["random"]]),
    ):
        own = pairs.groupby("id")["moved"]
        found[count] = found["id"].map(own.size()).fillna(0).astype(int)
        found[share] = found["id"].map(own.mean()).astype(float)
    found["planted_only"] = found["n_random"] > 0
    moved = found["follows"].fillna(found["varies"])
    # A verdict that varies has nothing to follow.
    told = (moved <= STAYS) | ((moved >= FOLLOWS) & ~found["planted_only"])
    reasons = {
        NOT_PLANNED: found["taught"] & ~found["as_planned"],
        VERDICT_WRONG: found["verdict"] != found["label"],
        NO_SWAP: moved.isna(),
        MIXED: ~told,
    }
    found["why_none"] = np.select(list(reasons.values()), list(reasons), "")
    found["truth"] = np.select([found["why_none"] != "", moved <= STAYS], ["", "A"], "Q")
    return found.replace({"why_none": "", "truth": ""}, None)


def _counts(frame: pd.DataFrame, swaps: pd.DataFrame, before: Counts) -> Counts:
    told, follows = frame["truth"].notna(), swaps[~swaps["random"]]
    untaught = follows.loc[~follows["taught"], "id"]
    notes = {
        "truth Q": (frame["truth"] == "Q").sum(),
        "truth A": (frame["truth"] == "A").sum(),
        "truth A by planting": (frame["planted_only"] & told).sum(),
        "swaps": len(follows),
        "swaps graded in training": follows["graded"].sum(),
        f"samples with fewer than {SWAPS} swaps": frame["n_swaps"].between(1, SWAPS - 1).sum(),
        "samples swapped behind no taught question": untaught.nunique(),
    }
    dropped = dict(before.dropped) | dict(Counter(frame["why_none"].dropna()))
    noted = {name: int(count) for name, count in notes.items()}
    return Counts(before.total, int(told.sum()), dropped, noted)
