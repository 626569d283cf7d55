"""Interchange: the same frozen answer behind another question, beside the knockout's groups."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from anchorscope import intervals, partners, samples
from anchorscope.intervals import Bootstrap
from anchorscope.samples import Effects, Readout

SWAP = (
    "site", "position", "layer", "label", "n", "n_covered", "coverage", "n_followed", "follows",
    "follows_low", "follows_high", "delta_p", "agreement", "q_and_follows", "q_only",
    "follows_only", "neither", "applies",
)  # fmt: skip
LABELS = ("all", "0", "1")


def report(
    scores: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Whether the probe follows when an answer is put behind a question that turns its truth.

    Args:
        scores: the table of `anchorscope.scores.score`; only the probe as defined counts.
        answers: as for `delta_p.curve`, with `swap_partner` where the condition is run.
        draws, level, seed: of the bootstrap, see `delta_p.curve`.

    Returns:
        A row for each read-out, layer and label (`all`; `0` right, `1` wrong answers), with the
        columns `SWAP`. `n_covered` samples have such a question, `coverage` as a share of `n`. The
        other shares are of these: `follows`, the predicted class flips against the clean pass
        (interval: clustered bootstrap); `agreement`, it flips under the swap if and only if
        under the knockout; `q_and_follows` … `neither`, the four cases of that. `delta_p`: mean
        over the covered, percentage points. `applies`: whether any question has the subject and
        relation without which there is no partner. Blanks where nothing is covered; no rows where
        the condition was not run.

    Raises:
        AnchorscopeError: scores and answers are not of the same samples.
    """
    ordered = samples.in_order(answers)
    drawn = samples.bootstrap(ordered, draws, seed)
    applies = partners.applies(ordered)
    records: list[dict[str, object]] = []
    for readout in samples.readouts(scores, ordered):
        swap = readout.effects.get("swap")
        if swap is None and "swap_partner" not in ordered:
            continue
        covered = _covered(ordered, swap, f"read-out {readout.site}/{readout.position}, swap")
        for label in LABELS:
            some = np.ones(len(ordered), dtype=bool)
            if label != "all":
                some = ordered["label"].to_numpy(dtype=np.int64) == int(label)
            fixed = readout.key | {"label": label, "n": int(some.sum()), "applies": applies}
            rows = _rows(readout, swap, some, covered & some, drawn, level)
            records += [fixed | row for row in rows]
    return pd.DataFrame(records, columns=list(SWAP))


def _covered(answers: pd.DataFrame, swap: Effects | None, where: str) -> np.ndarray:
    """Who was measured behind another question, bool [n]."""
    measured = np.zeros(len(answers), dtype=bool) if swap is None else swap.measured
    if "swap_partner" in answers:
        lost = answers["swap_partner"].notna().to_numpy() != measured
        if lost.any():
            first = answers["id"][lost].iloc[0]
            what = f"{lost.sum()} samples have a partner and no scores, or scores and no partner"
            raise samples.mismatch(f"{what}, id {first} first", where)
    return measured


def _rows(
    readout: Readout,
    swap: Effects | None,
    some: np.ndarray,
    covered: np.ndarray,
    drawn: Bootstrap,
    level: float,
) -> Iterator[dict[str, object]]:
    """A row for each layer, of one label."""
    n = int(covered.sum())
    counts = {"n_covered": n, "coverage": n / some.sum() if some.any() else np.nan}
    columns: dict[str, np.ndarray] = {}
    if swap is not None and n:
        columns = _followed(readout, swap, covered, drawn, level)
    for layer in range(len(readout.auc)):
        values = {name: found[layer] for name, found in columns.items()}
        yield {"layer": layer, **counts, "n_followed": 0, **values}


def _followed(
    readout: Readout, swap: Effects, covered: np.ndarray, drawn: Bootstrap, level: float
) -> dict[str, np.ndarray]:
    """The columns about the covered samples, each [layers]."""
    flip = swap.flip[0]
    members = np.broadcast_to(covered, flip.shape)
    low, high = intervals.percentile(drawn.means(flip.astype(np.float64), members), level)
    found = {
        "n_followed": flip[:, covered].sum(-1),
        "follows": flip[:, covered].mean(-1),
        "follows_low": low,
        "follows_high": high,
        "delta_p": swap.delta_p[0][:, covered].mean(-1),
    }
    if "knockout" not in readout.effects:
        return found
    cut = readout.effects["knockout"].flip[0]
    cases = {
        "agreement": cut == flip,
        "q_and_follows": cut & flip,
        "q_only": cut & ~flip,
        "follows_only": ~cut & flip,
        "neither": ~cut & ~flip,
    }
    return found | {name: case[:, covered].mean(-1) for name, case in cases.items()}
