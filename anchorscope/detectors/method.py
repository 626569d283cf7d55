"""Interface of a detection method, which is fitted to labelled answers and returns a scorer.

A scorer never sees a label, so its scores cannot depend on the label of an answer that it scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import pandas as pd
import torch

from anchorscope.config.readouts import before_answer
from anchorscope.passes.features import Features, reordered
from anchorscope.probes import platt
from anchorscope.probes.fitting import Fitted, ProbeSettings

TEXT_COLUMNS = ("id", "question", "subject", "relation", "ea_text", "response")
"""Columns of an answer that a method may see. They do not include or determine labels."""


@dataclass(frozen=True)
class Samples:
    """The input of a method: n answers."""

    answers: pd.DataFrame  # `TEXT_COLUMNS`, n rows; see `text_columns`
    readout: str  # read-out of the figure, such as `mlp/final`
    # read-out → states [layers, n, width]; the keys are `readout` and, if measured, `before`
    states: Mapping[str, Features]
    outputs: pd.DataFrame  # token features and, if measured, `p_true`, n rows

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.answers)

    @property
    def before(self) -> str:
        """The read-out of the same site at the end of the prompt, before any answer."""
        return before_answer(self.readout)

    def rows(self, places: np.ndarray) -> Samples:
        """Return the samples at the indices `places`, int64 [rows]."""
        return Samples(
            self.answers.iloc[places].reset_index(drop=True),
            self.readout,
            {name: reordered(states, places) for name, states in self.states.items()},
            self.outputs.iloc[places].reset_index(drop=True),
        )


@dataclass(frozen=True)
class Training:
    """Labelled answers to fit a method to. Methods tune and calibrate on the inner folds."""

    samples: Samples
    label: np.ndarray  # 1 for a wrong answer, int64 [n]
    inner: np.ndarray  # inner fold, int64 [n]; the same for a shared subject or question
    settings: ProbeSettings  # settings of the probes: penalties, seed
    knockout: Features | None = None  # states of the read-out under the knockout
    fitted: Mapping[str, Fitted] = field(default_factory=dict)
    """Read-out → calibrated probes of these samples and labels, [layers, 1]. Probes of other
    read-outs are fitted when a method needs them.
    """
    device: str = "cpu"

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.samples)

    @property
    def prior(self) -> float:
        """The logit of a calibrated score that tells nothing, see `platt.prior`."""
        return float(platt.prior(self.label.sum(), (1 - self.label).sum()))

    def rows(self, places: np.ndarray) -> Training:
        """Return the samples at the indices `places`, without the fitted probes."""
        return replace(
            self,
            samples=self.samples.rows(places),
            label=self.label[places],
            inner=self.inner[places],
            knockout=None if self.knockout is None else reordered(self.knockout, places),
            fitted={},
        )

    def labelled(self, label: np.ndarray) -> Training:
        """Return the same samples with another `label`, int64 [n], such as their pathways."""
        return replace(self, label=label, fitted={})


def text_columns(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the `TEXT_COLUMNS` of a table of answers, null where unknown."""
    return answers.reindex(columns=list(TEXT_COLUMNS)).reset_index(drop=True)


class Scorer(Protocol):
    """A fitted method. Implementations are frozen dataclasses of arrays and numbers."""

    def score(self, samples: Samples, /) -> np.ndarray:
        """Return float64 [n]: log-odds of *wrong*, if answers are wrong as often as in training."""
        ...


@runtime_checkable
class Unsupervised(Protocol):
    """A scorer that learns only its calibration from labels."""

    def raw(self, samples: Samples, /) -> np.ndarray:
        """Return float64 [n]: uncalibrated scores, higher for answers more likely to be wrong."""
        ...


Fit = Callable[[Training], Scorer]


@dataclass(frozen=True)
class LinearScorer:
    """A scorer whose logit is a linear function of the states at `readout` in some `layers`."""

    readout: str
    layers: tuple[int, ...]
    weights: np.ndarray  # float64 [layers, width]
    bias: float

    def score(self, samples: Samples) -> np.ndarray:
        """Return the logits of *wrong*, float64 [n]."""
        states = samples.states[self.readout]
        return self.of_states([states[layer : layer + 1][0] for layer in self.layers])

    def of_states(self, states: Sequence[np.ndarray | torch.Tensor]) -> np.ndarray:
        """Return float64 [n]: the logits. `states` holds one array [n, width] for each layer."""
        terms = [as_array(x) @ weights for x, weights in zip(states, self.weights, strict=True)]
        return np.sum(terms, axis=0) + self.bias


def as_array(states: np.ndarray | torch.Tensor) -> np.ndarray:
    """Return states as a float64 array; a tensor may be bfloat16 on a GPU."""
    return torch.as_tensor(states).detach().double().cpu().numpy()
