"""Every way to do a stage of a workload: how it is called, and by how much its time is scaled."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import baselines
import numpy as np
import pandas as pd
import torch
from workloads import READOUT, Workload, answers, features, llama, read_published

from anchorscope.models import generation
from anchorscope.models.families import Loaded
from anchorscope.passes import planning, runner
from anchorscope.probes import probes
from anchorscope.styles import CHAT

Result = Mapping[Any, Any]
CELL = ("generate", "measure", "fit")
"""The stages that measuring a cell takes, whose times add up to `end to end`."""
STAGES = CELL
REQUIRED = ("anchorscope", "one-pass", "literal-1", "literal-32")
"""The default of the config."""
LITERAL = 32
TOLERANCES = (1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 3e-8, 1e-8)
EQUAL = 1e-4
"""Largest error of a probability that counts as converged."""


@dataclass(frozen=True)
class Way:
    """One way to do a stage.

    Attributes:
        run: does it; what it returns is compared, entry by entry, with what `one-pass` returns.
        scale: its time is multiplied by this, where it does a part of the work only.
        same: a way that it is one with in this stage: not run, its row is that way's.
    """

    run: Callable[[], Result] | None
    scale: float = 1.0
    same: str = ""


def measuring(work: Workload, loaded: Loaded, table: pd.DataFrame) -> dict[str, Way]:
    """The measured passes: clean and knocked-out states of every layer."""
    depth = work.shape.layers
    most = min(LITERAL, len(table))
    every = [n * len(table) // most for n in range(most)]
    # A pass costs the same whatever it blocks, so a few of the L + 1 tell the time of all.
    deepest = [0, depth - 1]
    return {
        "anchorscope": Way(partial(_measured, loaded, table)),
        "one-pass": Way(partial(baselines.one_pass, loaded, table)),
        "literal-1": Way(
            partial(baselines.literal, loaded, table, work.some, 1, range(depth)),
            len(table) / len(work.some),
        ),
        "literal-32": Way(
            partial(baselines.literal, loaded, table, every, LITERAL, deepest),
            len(table) / most * (depth + 1) / (len(deepest) + 1),
        ),
    }


def _measured(loaded: Loaded, table: pd.DataFrame) -> Result:
    """The way of this project, planned as in a run."""
    plan = planning.plan(table, conditions={"knockout": {}}, batch_tokens=loaded.batch_tokens)
    name = READOUT.replace("/", ".")
    return {
        (number, condition, layer): states[layer]
        for batch, tensors in runner.measure(loaded, plan, [READOUT])
        for condition in ("clean", "knockout")
        for place, number in enumerate(batch.samples)
        for states in [tensors[f"{condition}.0/{name}"][place]]
        for layer in range(len(states))
    }


def generating(
    work: Workload, loaded: Loaded, table: pd.DataFrame, ends: frozenset[int]
) -> dict[str, Way]:
    """Greedy answers to every prompt, up to one of the ids that end an answer."""
    plain = partial(baselines.generate, loaded, table, new_tokens=work.new_tokens, ends=ends)
    most = min(LITERAL, len(table))
    some = [n * len(table) // most for n in range(most)]
    everyone = range(len(table))
    return {
        "anchorscope": Way(partial(_generated, loaded, table, work.new_tokens, ends)),
        "one-pass": Way(partial(plain, numbers=everyone, at_once=baselines.AT_ONCE)),
        "literal-1": Way(partial(plain, numbers=work.some, at_once=1), len(table) / len(work.some)),
        "literal-32": Way(partial(plain, numbers=some, at_once=LITERAL), len(table) / most),
    }


def _generated(
    loaded: Loaded, table: pd.DataFrame, new_tokens: int, ends: frozenset[int]
) -> Result:
    ending = generation.Ending(CHAT, (0,), ends)
    found = generation.generate(baselines.prompts(table), loaded, ending, max_new_tokens=new_tokens)
    return {number: one.ids for number, one in enumerate(found)}


def fitting(x: np.ndarray, z: np.ndarray, fold: np.ndarray, folds: int = 5) -> dict[str, Way]:
    """The probes of every layer and fold; scikit-learn is timed on so many folds of five."""
    some = range(folds)
    reference = baselines.scikit_learn(x, z, fold, some, tol=1e-10, max_iter=100_000)
    equal = _tolerance(x, z, fold, some, reference)
    plain = partial(_scikit_learn, x, z, fold, some)
    scale = 5 / folds
    return {
        "anchorscope": Way(partial(_fitted, x, z, fold)),
        "one-pass": Way(plain, scale),
        "scikit-learn-converged": Way(partial(plain, tol=equal, max_iter=100_000), scale),
        "literal-1": Way(None, same="one-pass"),
        "literal-32": Way(None, same="one-pass"),
        "reference": Way(lambda: _by_fold(reference, some)),
    }


def _tolerance(
    x: np.ndarray, z: np.ndarray, fold: np.ndarray, some: range, reference: np.ndarray
) -> float:
    """The loosest tolerance at which scikit-learn is converged at every layer.

    Raises:
        ValueError: it is at none.
    """

    def converged(tolerance: float, layers: slice) -> bool:
        how = {"tol": tolerance, "max_iter": 100_000}
        found = baselines.scikit_learn(x[layers], z, fold, some, **how)
        return bool(np.abs(found - reference[layers]).max() <= EQUAL)

    # The deepest layer, where the signal is strongest, tells of most that they are too loose.
    for tolerance in TOLERANCES:
        if converged(tolerance, slice(-1, None)) and converged(tolerance, slice(None)):
            return tolerance
    raise ValueError(f"scikit-learn is not within {EQUAL} of the optimum at any tolerance")


def _scikit_learn(
    x: np.ndarray, z: np.ndarray, fold: np.ndarray, some: range, **how: float
) -> Result:
    return _by_fold(baselines.scikit_learn(x, z, fold, some, **how), some)


def _by_fold(p: np.ndarray, some: range) -> Result:
    """Fold → probabilities [layers, samples]."""
    return {k: torch.as_tensor(p[:, place]) for place, k in enumerate(some)}


def _fitted(x: np.ndarray, z: np.ndarray, fold: np.ndarray) -> Result:
    """The way of this project."""
    rows, masks = torch.as_tensor(x), np.stack([fold != k for k in range(5)])
    solved = probes.fit(rows, torch.as_tensor(z), torch.as_tensor(masks), torch.ones(5))
    p = torch.sigmoid(solved.logits(rows))
    return {k: p[:, k] for k in range(5)}


def of(work: Workload, stages: Collection[str] = STAGES) -> dict[str, dict[str, Way]]:
    """Stage → way's name → `Way`, of a workload."""
    loaded, table, ends = model_and_sequences(work)
    makers: dict[str, Callable[[], dict[str, Way]]] = {
        "generate": partial(generating, work, loaded, table, ends),
        "measure": partial(measuring, work, loaded, table),
    }
    if not work.checkpoint:  # `hidden` fits probes to states of a model
        makers["fit"] = lambda: fitting(*features(work), work.folds)
    return {stage: make() for stage, make in makers.items() if stage in stages}


def model_and_sequences(work: Workload) -> tuple[Loaded, pd.DataFrame, frozenset[int]]:
    """A workload's model, its sequences, and the ids that end an answer."""
    if work.checkpoint:
        return read_published(work)
    loaded = llama(work.shape)
    return loaded, answers(work), baselines.eos(loaded)


def largest_size(states: Result) -> float:
    """The largest number among states; 0 of answers."""
    tensors = [state for state in states.values() if isinstance(state, torch.Tensor)]
    return max((float(state.double().abs().max()) for state in tensors), default=0.0)


def largest_difference(found: Result, expected: Result) -> float:
    """Largest difference of the entries that both have; of answers, the share that differ."""
    keys = found.keys() & expected.keys()
    if not keys:
        raise ValueError("nothing to compare")
    if isinstance(found[next(iter(keys))], tuple):
        return sum(found[key] != expected[key] for key in keys) / len(keys)
    return max(float((found[key].double() - expected[key].double()).abs().max()) for key in keys)
