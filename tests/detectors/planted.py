"""A cell of invented states in which a gate of known direction decides which of two signals tells
the truth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Fit, Samples, text_columns
from anchorscope.detectors.methods.output import FEATURES, P_TRUE
from anchorscope.detectors.registry import Method
from anchorscope.probes import fitting

READOUT, BEFORE = "mlp/final", "mlp/prompt_end"
SETTINGS = fitting.ProbeSettings(folds=4, inner_folds=3, grid=[0.01, 0.1, 1.0])
STRONG, MISLEADING, WIDTH = 1.3, 0.6, 12


@dataclass(frozen=True)
class Planted:
    """A cell, its answers, and which of them use the question's signal."""

    cell: DetectionCell
    answers: pd.DataFrame
    pathway: np.ndarray  # int64 [n]


def planted(n: int = 480, seed: int = 0, shuffled: bool = False) -> Planted:
    """State 0 is the gate. Of states 1 and 2 one tells the truth and the other misleads, by the
    gate; the knockout turns both round in answers that use the first.

    With `shuffled` the labels mean nothing.
    """
    generator = np.random.default_rng(seed)
    z = generator.permutation(np.arange(n) % 2)
    pathway = generator.permutation(np.arange(n) // 2 % 2)
    sign = 2 * z - 1
    x = generator.normal(size=(2, n, WIDTH))
    x[1, :, 0] += 3 * (2 * pathway - 1)
    x[1, :, 1] += sign * np.where(pathway, STRONG, -MISLEADING)
    x[1, :, 2] += sign * np.where(pathway, -MISLEADING, STRONG)
    cut = x.copy()
    cut[:, pathway == 1, 1:3] *= -1
    if shuffled:
        z = generator.permutation(z)
    words = generator.choice([f"word{i}" for i in range(40)], size=(n, 3))
    answers = pd.DataFrame(
        {
            "id": [f"s{i:04}" for i in range(n)],
            "question": [f"What is {' '.join(row)} {i}?" for i, row in enumerate(words)],
            "subject": [f"{row[0]} {i // 2}" for i, row in enumerate(words)],
            "relation": "is",
            "ea_text": generator.choice(["red", "blue", "green"], n),
            "label": z,
        }
    )
    answers["response"] = " " + answers["ea_text"] + "."
    design = fitting.design(answers, SETTINGS)
    outputs = pd.DataFrame(generator.normal(size=(n, len(FEATURES))), columns=list(FEATURES))
    outputs[P_TRUE] = generator.uniform(0.01, 0.99, n)
    before = generator.normal(size=(2, n, WIDTH))
    states = {READOUT: tensor(x), BEFORE: tensor(before)}
    clean = Samples(text_columns(answers), READOUT, states, outputs)
    partners, crossed_rows = pairs(design.fold, z)
    others = np.array([int(partners[row]) for row in crossed_rows])
    answers["crossed_partner"] = None
    answers.loc[crossed_rows, "crossed_partner"] = answers["id"].to_numpy()[others]
    answers["partner_source"] = "relations"
    moved = text_columns(answers.iloc[crossed_rows])
    moved["question"] = answers["question"].to_numpy()[others]
    crossed = Samples(
        moved,
        READOUT,
        {name: one[:, torch.as_tensor(crossed_rows)] for name, one in states.items()},
        outputs.iloc[crossed_rows].reset_index(drop=True),
    )
    cell = DetectionCell(design, answers, clean, crossed, tensor(cut))
    return Planted(cell, answers, pathway)


def tensor(x: np.ndarray) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float32)


def pairs(fold: np.ndarray, z: np.ndarray) -> tuple[list[int | None], np.ndarray]:
    """Two answers of one fold and label each; None for those left over."""
    partners: list[int | None] = [None] * len(z)
    for k in np.unique(fold):
        for label in (0, 1):
            rows = np.flatnonzero((fold == k) & (z == label))
            for one, other in zip(rows[::2], rows[1::2], strict=False):
                partners[one], partners[other] = int(other), int(one)
    return partners, np.array([row for row, other in enumerate(partners) if other is not None])


@dataclass(frozen=True)
class Made(Method):
    """A method of a test's own, fitted by a function."""

    function: Callable[..., object] = print

    @property
    def fit(self) -> Fit:
        return self.function  # type: ignore[return-value]


def made(name: str, function: Callable[..., object], *needs: str) -> Method:
    return Made(name, name, "", needs, function)  # type: ignore[arg-type]
