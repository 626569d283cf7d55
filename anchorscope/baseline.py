"""Text baseline: what the answer's words and the relation tell of the label, without any model."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope import fitting, scores
from anchorscope.errors import AnchorscopeError
from anchorscope.intervals import auc
from anchorscope.samples import kept

COLUMNS = ("id", "fold", "c", "t", "s", "p")
LONGEST = 4
LEAST_SAMPLES = 2
MOST_NGRAMS = 20_000
LARGEST_C = 0.1

log = logging.getLogger(__name__)


def text_baseline(
    answers: pd.DataFrame,
    settings: fitting.Settings | Mapping[str, Any],
    *,
    device: str | torch.device = "cpu",
) -> pd.DataFrame:
    """Predict the label from the answer string and the relation alone, out of fold.

    The logistic regression, its folds and calibration are those of the probes: the words are scored
    as if they were activations of one layer. But one C serves all folds, that of the highest
    out-of-fold AUC: a baseline to be beaten is to be as strong as it can be, and what the choice
    gains by chance makes it stronger still. C above 0.1 is left out: so weak a penalty leaves
    thousands of n-grams that tell far fewer answers apart without a solution that a solver finds
    in good time.

    Args:
        answers: the samples: id, question, subject, label, `ea_text` (the text of E_A) and, where
            known, `relation`; rows with a `dropped` reason are left.
        settings: of the probes.
        device: where it is fitted.

    Returns:
        A row for each sample, in the order of the answers, with the columns `COLUMNS`: see
        `scores.score`.

    Raises:
        AnchorscopeError: a sample without answer text, or nothing that could be fitted.
    """
    if not isinstance(settings, fitting.Settings):
        settings = fitting.Settings(**settings)
    answers = kept(answers)
    missing = answers["id"][answers["ea_text"].isna()]
    if len(missing):
        raise AnchorscopeError(
            f"{len(missing)} samples have no exact answer (`ea_text`)",
            f"answers, id {missing.iloc[0]} first",
            "delete the answers of this cell and run snakemake again",
            see="stale-product",
        )
    relations = answers["relation"] if "relation" in answers else [None] * len(answers)
    x = torch.as_tensor(features(list(answers["ea_text"]), list(relations)))[None]
    ids = answers["id"].astype(str).tolist()
    z = answers["label"].to_numpy(dtype=np.int64)
    tables = [
        scores.score(
            lambda condition, draw: (ids, x),
            answers,
            "text",
            [],
            replace(settings, grid=[c]),
            extras=False,
            device=device,
        )
        for c in _moderate(settings.penalties)
    ]
    best = max(tables, key=lambda table: auc(table["s"].to_numpy(dtype=np.float64), z))
    return best[list(COLUMNS)]


def to_fit(answers: pd.DataFrame, settings: fitting.Settings | Mapping[str, Any]) -> int:
    """How many probes `text_baseline` fits."""
    if not isinstance(settings, fitting.Settings):
        settings = fitting.Settings(**settings)
    chosen = [replace(settings, grid=[c]) for c in _moderate(settings.penalties)]
    return sum(scores.to_fit(answers, [], one, extras=False) for one in chosen)


def _moderate(grid: np.ndarray) -> list[float]:
    return [float(c) for c in grid if c <= LARGEST_C] or [float(grid.min())]


def features(texts: Sequence[str], relations: Sequence[object]) -> np.ndarray:
    """Which n-grams a text holds and which relation was asked for, 0 or 1.

    Of the character 1- to 4-grams those that at least two texts hold, at most 20,000, the most
    frequent first; how many are left out is logged.

    Returns:
        float32 [texts, n-grams and relations]; at least one column, of zeros if need be.
    """
    grams = [_ngrams(text) for text in texts]
    counts = Counter(gram for some in grams for gram in some)
    ranked = sorted(counts, key=lambda gram: (-counts[gram], gram))
    shared = [gram for gram in ranked if counts[gram] >= LEAST_SAMPLES]
    used = shared[:MOST_NGRAMS]
    log.info(
        "text baseline: %d n-grams; left out: %d in one sample only, %d as less frequent",
        *(len(used), len(counts) - len(shared), len(shared) - len(used)),
    )
    words = _indicators(grams, used)
    known = [{name} if isinstance(name, str) else set[str]() for name in relations]
    asked = _indicators(known, sorted(set().union(*known)))
    found = np.concatenate([words, asked], axis=1)
    return found if found.shape[1] else np.zeros((len(texts), 1), dtype=np.float32)


def _ngrams(text: str) -> set[str]:
    ends = ((start, start + n) for n in range(1, LONGEST + 1) for start in range(len(text) - n + 1))
    return {text[start:end] for start, end in ends}


def _indicators(sets: Sequence[set[str]], names: Sequence[str]) -> np.ndarray:
    """Which of the names each set holds, float32 [sets, names]."""
    place = {name: column for column, name in enumerate(names)}
    found = np.zeros((len(sets), len(names)), dtype=np.float32)
    for row, some in enumerate(sets):
        found[row, [place[name] for name in some if name in place]] = 1.0
    return found
