"""How long each method of detection takes to learn from one training fold, and to score another.

Answers, states and token probabilities are invented: time does not depend on what they say. The
rows of `probe` and `before` are fits of the probes of all layers; to the other methods these are
given, as they are in a run.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import timing
import torch
import workloads

from anchorscope.config.readouts import before_answer
from anchorscope.detectors.method import Method, Samples, Training
from anchorscope.detectors.methods.output import FEATURES, P_TRUE
from anchorscope.detectors.methods.probe import with_probes
from anchorscope.detectors.registry import RECORDS
from anchorscope.probes import fitting

NAME = "detectors"
SAMPLES, QUICK_SAMPLES = 1_000, 200
SCORED = 5
"""One of so many samples is scored, and the others are learned from."""
WORDS = 400
PROBES = ("probe", "before")
AGREE = 1e-5
"""Largest difference of scores of all samples together, and one at a time."""
Rows = list[dict[str, Any]]


def timed(rounds: int, kind: str, say: Callable[[str], None], *, quick: bool) -> Rows:
    """Rows of the benchmark's table, ratios to `probe`: `fit`, and `score` of the others.

    `max_difference` is that between scores of all samples together and one at a time.

    Raises ValueError: these do not agree.
    """
    train, samples = problem(QUICK_SAMPLES if quick else SAMPLES, quick=quick)
    bare = replace(train, fitted={})
    seconds: dict[tuple[str, str], list[float]] = {}
    peaks: dict[tuple[str, str], float] = {}
    differences: dict[str, float] = {}
    for number in range(rounds):
        for method in timing.in_turn(RECORDS, number):
            own = bare if method.name in PROBES else train
            scorer, fit = timing.timed(lambda: method.fit(own), kind)  # noqa: B023 -- called at once
            scores, score = timing.timed(lambda: scorer.score(samples), kind)  # noqa: B023
            for stage, taken in (("fit", fit), ("score", score)):
                key = (stage, method.name)
                seconds.setdefault(key, []).append(taken.seconds)
                peaks[key] = max(taken.peak_mb, peaks.get(key, 0.0))
            differences[method.name] = _difference(method, scorer, samples, scores)
            say(f"{NAME} {method.name} {fit.seconds:.2f} s to fit, {score.seconds:.3f} s to score")
    return [
        {"workload": NAME, "stage": stage, "way": method.name}
        | {"max_difference": differences[method.name], "peak_mb": peaks[stage, method.name]}
        | timing.medians(seconds[stage, method.name], seconds[stage, "probe"])
        for stage in ("fit", "score")
        for method in RECORDS
    ]


def _difference(method: Method, scorer: Any, samples: Samples, scores: np.ndarray) -> float:
    """Largest difference of `scores` to those of some samples by themselves."""
    some = range(0, len(samples), 20)
    alone = [scorer.score(samples.rows(np.array([row])))[0] for row in some]
    difference = float(np.abs(scores[list(some)] - alone).max())
    if difference > AGREE:
        raise ValueError(f"{method.name}: a score alone differs by {difference:.1e}")
    return difference


def problem(n: int, *, quick: bool = False) -> tuple[Training, Samples]:
    """Labelled answers to learn from, four of five, with their probes; and the others."""
    shape = workloads.TINY if quick else workloads.Shape()
    x, z, fold = workloads.features(replace(workloads.PLAIN, samples=n, shape=shape))
    draws = np.random.default_rng(0)
    readout = workloads.READOUT
    moved = x + draws.standard_normal(x.shape, dtype=np.float32)
    states = {readout: torch.as_tensor(x), before_answer(readout): torch.as_tensor(moved)}
    everyone = Samples(texts(n, draws), readout, states, outputs(z, draws))
    inner = draws.permutation(n) % SCORED
    cut = torch.as_tensor(moved)
    whole = Training(everyone, z, inner, fitting.Settings(), knockout=cut)
    train = with_probes(whole.rows(np.flatnonzero(fold)))
    return train, everyone.rows(np.flatnonzero(fold == 0))


def texts(n: int, draws: np.random.Generator) -> pd.DataFrame:
    """Questions and answers of invented words."""
    words = np.array([f"word{number}" for number in range(WORDS)], dtype=object)
    questions = [" ".join(row) for row in draws.choice(words, size=(n, 10))]
    answers = draws.choice(words, size=n)
    return pd.DataFrame(
        {
            "id": [str(number) for number in range(n)],
            "question": questions,
            "subject": None,
            "relation": draws.choice(words[:16], size=n),
            "ea_text": answers,
            "response": [f" It is {answer}." for answer in answers],
        }
    )


def outputs(z: np.ndarray, draws: np.random.Generator) -> pd.DataFrame:
    """Token probabilities that tell a little of the label."""
    values = draws.standard_normal((len(z), len(FEATURES))) + 0.3 * z[:, None]
    table = pd.DataFrame(values, columns=list(FEATURES))
    return table.assign(**{P_TRUE: draws.uniform(0.01, 0.99, len(z))})
