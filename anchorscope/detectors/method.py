"""What a method of detection is: fitted to labelled answers, it gives a scorer of others.

A scorer never gets a label, so that nothing it decides can depend on one of an answer it scores.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from anchorscope.config.readouts import before_answer

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from anchorscope.passes.features import Features
    from anchorscope.probes.fitting import Fitted, Settings

Need = Literal["before", "knockout", "p-true"]
"""What a method reads that not every cell has:

- `before`: the clean states at the same site at the prompt's end.
- `knockout`: the training answers' states of the read-out under the knockout.
- `p-true`: the model's own verdict on its answer.
"""
TEXT_COLUMNS = ("id", "question", "subject", "relation", "ea_text", "response")
"""Columns of an answer that a method may see. Labels and what decides them are not among them."""


@dataclass(frozen=True)
class Samples:
    """What a method may see of n answers."""

    answers: pd.DataFrame  # `TEXT_COLUMNS`, n rows; see `text_columns`
    readout: str  # the read-out of the figure, such as `mlp/final`
    states: Mapping[str, Features] = field(default_factory=dict)
    """Read-out → states [layers, n, width]: that of the figure, and `before`."""
    outputs: pd.DataFrame | None = None
    """Features of the token probabilities, and `p_true`, n rows; None where not measured."""

    def __len__(self) -> int:
        return len(self.answers)

    @property
    def before(self) -> str:
        """The read-out at the same site before the answer is read."""
        return before_answer(self.readout)

    def rows(self, places: np.ndarray) -> Samples:
        """Some of the samples, by their places, int64 [rows]."""
        outputs = None if self.outputs is None else self.outputs.iloc[places]
        return Samples(
            self.answers.iloc[places].reset_index(drop=True),
            self.readout,
            {name: _of_rows(states, places) for name, states in self.states.items()},
            None if outputs is None else outputs.reset_index(drop=True),
        )


@dataclass(frozen=True)
class Training:
    """Labelled answers to fit a method to; what it chooses, it chooses by the inner folds."""

    samples: Samples
    label: np.ndarray  # 1 for a wrong answer, int64 [n]
    inner: np.ndarray  # inner fold of each sample, int64 [n]; linked samples share one
    settings: Settings  # how probes are fitted: penalties, seed
    knockout: Features | None = None  # states of the read-out under the knockout
    fitted: Mapping[str, Fitted] = field(default_factory=dict)
    """Read-out → probes of these very samples and labels, [layers, 1], at balanced prior, where
    they are known; others are fitted when they are needed."""
    device: str = "cpu"

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def log_odds(self) -> float:
        """Of a label of 1 among the samples."""
        share = float(self.label.mean())
        return math.log(share / (1 - share))

    def rows(self, places: np.ndarray) -> Training:
        """Some of the samples; the probes of all of them are not theirs."""
        return replace(
            self,
            samples=self.samples.rows(places),
            label=self.label[places],
            inner=self.inner[places],
            knockout=None if self.knockout is None else _of_rows(self.knockout, places),
            fitted={},
        )

    def labelled(self, label: np.ndarray) -> Training:
        """The same samples with other labels, int64 [n], such as their pathway."""
        return replace(self, label=label, fitted={})


def _of_rows(states: Features, places: np.ndarray) -> Features:
    """The states of some samples."""
    import torch

    from anchorscope.passes.features import Reordered

    return Reordered(states, torch.as_tensor(places))


class Scorer(Protocol):
    """A method that was fitted. Implementations are frozen dataclasses of arrays and numbers."""

    def score(self, samples: Samples, /) -> np.ndarray:
        """Logits of *wrong* at the training samples' share of wrong answers, float64 [n]."""
        ...


@runtime_checkable
class Unsupervised(Protocol):
    """A scorer that has learned only its calibration."""

    def raw(self, samples: Samples, /) -> np.ndarray:
        """The score before calibration, higher for more likely wrong, float64 [n]."""
        ...


Fit = Callable[[Training], Scorer]


@dataclass(frozen=True)
class Method:
    """A way to detect wrong answers. Read whenever Snakemake starts: it loads no library."""

    name: str  # in tables
    label: str  # in figures
    about: str  # what it is, in a sentence
    source: str  # where it is fitted: `<module of methods/>:<function>`
    needs: tuple[Need, ...] = ()

    @property
    def fit(self) -> Fit:
        """Fits it."""
        module, _, function = self.source.partition(":")
        fit: Fit = getattr(
            importlib.import_module(f"anchorscope.detectors.methods.{module}"), function
        )
        return fit


def text_columns(answers: pd.DataFrame) -> pd.DataFrame:
    """What methods may see of a table of answers: `TEXT_COLUMNS`, null where not known."""
    return answers.reindex(columns=list(TEXT_COLUMNS)).reset_index(drop=True)
