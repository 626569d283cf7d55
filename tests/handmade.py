"""Small tables of an experiment, written by hand: the tests work out what must come of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from figure_tables import CHECKED

from anchorscope.cell.tables import join
from anchorscope.probes import fitting, scores
from anchorscope.statistics.bands import Draws

FLOORS = ("answer", "question", "response", "text")
HOME = np.array([1.0, 0.0, 0.0, 1.0])[:, None]
"""1 for the two of a pair's four scores whose answer follows its own question."""


def scores_of(
    s: Mapping[str | tuple[str, int], Any], ids: Sequence[str], **columns: Any
) -> pd.DataFrame:
    """A table of scores, float64 [layers, n] or [n], by condition, or by condition and draw.

    Without rows of what was not measured, NaN. `columns` are one value, or one by sample.
    """
    frames = []
    for name, of_layers in s.items():
        condition, draw = (name, 0) if isinstance(name, str) else name
        at = {"readout": "mlp/final", "condition": condition, "draw": draw}
        at |= {"probe": "clean", "fold": 0}
        for layer, values in enumerate(np.atleast_2d(of_layers)):
            frames.append(pd.DataFrame({"id": ids, "layer": layer, "s": values, **at | columns}))
    return pd.concat(frames, ignore_index=True).dropna(subset="s")


def main_run(clean: dict[str, float], knockout: dict[str, float]) -> pd.DataFrame:
    """Scores of the main run under both conditions, by id."""
    both = [long("clean", clean), long("knockout", knockout)]
    return pd.concat(both).assign(inner_auc=np.nan)


def floors(s: dict[str, float]) -> pd.DataFrame:
    """The same scores of every text model, by id."""
    one = pd.DataFrame({"id": [*s], "s": [*s.values()]})
    return pd.concat([one.assign(floor=name) for name in FLOORS])


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


def long(condition: str, s: dict[str, float], **columns: Any) -> pd.DataFrame:
    """Scores of some samples, by id, under a condition, at one layer."""
    return scores_of({condition: [*s.values()]}, [*s], **columns)


def labelled(ids: Sequence[str], labels: Sequence[int], **columns: Any) -> pd.DataFrame:
    """Answers with these labels, each with a subject of its own and an E_Q of one token."""
    texts = dict.fromkeys(("id", "question", "subject"), ids)
    answers = pd.DataFrame({**texts, "label": labels, "dropped": None})
    return answers.assign(eq_tokens=[[3]] * len(ids)).assign(**columns)


def score(
    read: Callable[[str, int], Any],
    answers: pd.DataFrame,
    readout: str,
    conditions: Sequence[scores.Condition],
    settings: fitting.ProbeSettings,
    *,
    draws: Draws | None = None,
    device: str = "cpu",
) -> pd.DataFrame:
    """`read` takes condition and draw; `draws` take the scores of probes learned from each."""
    design = fitting.design(answers, settings, f"read-out {readout}")
    draws = draws or Draws(design.ids, np.zeros((0, len(design.ids)), dtype=np.int64))
    given = lambda _, *of: read(*of), design, draws, [readout], conditions, device
    return pd.concat(scores.CellScores(*given).tables(), ignore_index=True)
