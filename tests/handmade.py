"""Small tables of an experiment, written by hand: the tests work out what must come of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

CLEAN_PROBE = {"probe": "clean", "fold": 0, "inner_auc": np.nan}
"""What scores of the main run say beside those of an experiment."""


class MeanProbes:
    """Stands in for stored probes: s is the mean of the states."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids, self.fold = np.array(ids, dtype=object), np.zeros(len(ids), dtype=int)

    def logits(self, states: torch.Tensor, readout: str, ids: list[str]) -> np.ndarray:
        return np.asarray(states.double().mean(-1))


def long(condition: str, s: dict[str, float], **columns: Any) -> pd.DataFrame:
    """Scores of some samples, by id, under a condition, at one layer."""
    frame = pd.DataFrame({"id": [*s], "readout": "mlp/final", "layer": 0, "s": [*s.values()]})
    return frame.assign(condition=condition, **{"draw": 0} | columns)


def labelled(ids: Sequence[str], labels: Sequence[int], **columns: Any) -> pd.DataFrame:
    """Answers with these labels, each with a subject of its own and an E_Q of one token."""
    texts = dict.fromkeys(("id", "question", "subject"), ids)
    answers = pd.DataFrame({**texts, "label": labels, "dropped": None})
    return answers.assign(eq_tokens=[[3]] * len(ids)).assign(**columns)
