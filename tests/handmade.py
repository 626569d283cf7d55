"""Small tables of an experiment, written by hand: the tests work out what must come of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from figure_tables import CHECKED

from anchorscope.cell.tables import join
from anchorscope.experiments.measured import Measurements
from anchorscope.probes import fitting, scoring
from anchorscope.statistics.scores import Scores

FLOORS = ("answer", "question", "response", "text")
HOME = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
"""1 for the two of a pair's four scores whose answer follows its own question."""


def scores_of(
    s: Mapping[str | tuple[str, int], Any],
    ids: Sequence[str],
    *,
    readout: str = "mlp/final",
    fold: Any = 0,
    stands_for: Any = 1.0,
    inner_auc: Any = 0.0,
    floors: Mapping[str, Any] | None = None,
) -> Scores:
    """Scores, float64 [layers, n] or [n], by condition, or by condition and draw.

    NaN is what was not measured. `fold` and `stands_for` are one value, or one by sample.
    `inner_auc` is one value, or [layers, folds]; by default each fold chooses the deepest layer.
    """
    n = len(ids)
    folds, none = np.broadcast_to(fold, n), np.zeros((0, n), dtype=np.int64)
    each = np.broadcast_to(stands_for, n)
    texts = {name: np.array([values]) for name, values in (floors or {}).items()}
    made = Scores(np.array(ids, dtype=object), none.sum(0), folds, each, none, floors=texts)
    for name, of_layers in s.items():
        condition = (name, 0) if isinstance(name, str) else name
        whole = np.atleast_2d(np.asarray(of_layers, dtype=np.float64))
        measured = np.flatnonzero(~np.isnan(whole[0]))
        made.add(readout, condition, measured, whole[None][..., measured])
    shape = (len(whole), folds.max() + 1)
    made.inner_auc[readout] = np.broadcast_to(inner_auc, shape).astype(np.float64)
    return made


def joined(*parts: Scores) -> Scores:
    """The scores of several read-outs of the same samples."""
    dicts = ("probes", "inner_auc", "floors", "shuffled")
    found = {name: {k: v for one in parts for k, v in getattr(one, name).items()} for name in dicts}
    return replace(parts[0], **found)


def without(scores: Scores, condition: str) -> Scores:
    """The scores of all other conditions."""
    others = {key: s for key, s in scores.probes.items() if key.split("/")[2] != condition}
    return replace(scores, probes=others)


def main_run(
    clean: dict[str, float], knockout: dict[str, float], text: dict[str, float] | None = None
) -> Scores:
    """Scores of the main run under both conditions and, if given, of every text model, by id."""
    floors = {name: [*text.values()] for name in FLOORS} if text else None
    by_condition = {"clean": [*clean.values()], "knockout": [*knockout.values()]}
    return scores_of(by_condition, [*clean], floors=floors)


NAMED: dict[str, Any] = {
    "title": "T", "panels": [("m", "Model")], "datasets": [("d", "Data")],
    "readout": ("mlp", "final"),
}  # fmt: skip


def drawn(chart: Callable[..., Any], *tables: pd.DataFrame, **more: Any) -> dict[str, Any]:
    """The specification of a view of tables of a cell, or of a figure."""
    given = [table if "model" in table else join([("m", "d")], [table]) for table in tables]
    return dict(chart(*given, **NAMED | more).to_dict(validate=CHECKED))


class MeanProbes:
    """Stands in for stored probes: s is the mean of the states."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids, self.fold = np.array(ids, dtype=object), np.zeros(len(ids), dtype=int)

    def logits(self, states: torch.Tensor, readout: str, ids: list[str]) -> np.ndarray:
        return np.asarray(states.double().mean(-1))


def measured(s: Mapping[str, Any], ids: Sequence[str], **facts: Any) -> Measurements:
    """Make measurements at one read-out from scores, [layers, n] or [n], by condition."""
    made = Measurements(np.array(ids, dtype=object))
    for condition, values in s.items():
        made.add("mlp/final", condition, ids, np.atleast_2d(values)[None])
    made.arrays.update({name: np.array(fact) for name, fact in facts.items()})
    return made


def labelled(ids: Sequence[str], labels: Sequence[int], **columns: Any) -> pd.DataFrame:
    """Answers with these labels, each with a subject of its own; one of three tokens is E_Q."""
    texts = dict.fromkeys(("id", "question", "subject"), ids)
    answers = pd.DataFrame({**texts, "label": labels, "dropped": None})
    tokens = {"eq_tokens": [[3]] * len(ids), "question_tokens": [[3, 4, 5]] * len(ids)}
    return answers.assign(**tokens | columns)


def score(
    read: Callable[[str, int], Any],
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[scoring.Condition],
    settings: fitting.ProbeSettings,
    *,
    weights: np.ndarray | None = None,
    device: str = "cpu",
) -> Scores:
    """`read` takes condition and draw; probes are refitted to each draw in `weights`."""
    design = fitting.design(answers, settings, f"read-out {readout}")
    if weights is None:
        weights = np.zeros((0, len(design.ids)), dtype=np.int64)
    given = lambda _, *of: read(*of), design, weights, [readout], conditions, device
    return scoring.Scoring(*given).run()


def table(scores: Scores) -> pd.DataFrame:
    """The table of scores that users read."""
    return pd.concat(scores.tables(), ignore_index=True)
