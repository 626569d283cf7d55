"""Ways (implementations) of each stage: ours, and others as users of these libraries write them.

- `anchorscope`: as in a run.
- `one-pass`: the base model passes clean and blocked rows together, in batches of 8 sequences.
- `literal`: the published protocol. Each sequence has a clean pass, then for each layer k a pass of
  the whole model, LM head included, with attention blocked by hooks in layers 0...k.
- `scikit-learn`: fits one probe at a time, and converges as far as ours.

To generate answers, `one-pass` and `literal` call transformers' `generate` in batches of 8 and 1.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from timing import Way
from workloads import READOUT, Workload, hidden_states, padded, reading

from anchorscope.answers import generation
from anchorscope.answers.endings import Ending
from anchorscope.models import families
from anchorscope.models.families import Loaded
from anchorscope.models.hooks import mask, masked
from anchorscope.passes import planning, runner
from anchorscope.passes.interventions import tensor_name
from anchorscope.probes import probes
from anchorscope.styles import CHAT

Result = Mapping[Any, Any]
States = dict[tuple[int, str, int], torch.Tensor]
"""(sequence, condition, layer) → [width]."""
Answers = dict[int, tuple[int, ...]]
PLAIN = {"generate": "one-pass", "measure": "one-pass", "fit": "scikit-learn"}
"""Stage → the way that the others are compared with."""
AT_ONCE = 8
FOLDS = 5
CONVERGED = {"tol": 1e-6, "max_iter": 100_000}
"""Stopping criterion of scikit-learn, whose default gives less accurate probabilities than ours."""


def of(work: Workload) -> dict[str, dict[str, Way]]:
    """Return stage → way's name → `Way`, for a workload of passes.

    The stages generate greedy answers, up to one of the ids that end an answer, and measure clean
    and knocked-out states of every layer.
    """
    loaded, table, ends = work.read()
    everyone, scale = range(len(table)), len(table) / len(work.some)
    plain = partial(generate, loaded, table, new_tokens=work.new_tokens, ends=ends)
    return {
        "generate": {
            "anchorscope": Way(partial(_generated, loaded, table, work.new_tokens, ends)),
            "one-pass": Way(partial(plain, numbers=everyone, at_once=AT_ONCE)),
            "literal": Way(partial(plain, numbers=work.some, at_once=1), scale),
        },
        "measure": {
            "anchorscope": Way(partial(_measured, loaded, table)),
            "one-pass": Way(partial(one_pass, loaded, table)),
            "literal": Way(partial(literal, loaded, table, work.some), scale),
        },
    }


def fitting(samples: int) -> dict[str, Way]:
    """Return the ways to fit probes of every layer and fold to states of a shipped model."""
    x, z, fold = hidden_states(samples)
    return {
        "anchorscope": Way(partial(_fitted, x, z, fold)),
        "scikit-learn": Way(partial(scikit_learn, x, z, fold)),
    }


def _generated(
    loaded: Loaded, table: pd.DataFrame, new_tokens: int, ends: frozenset[int]
) -> Result:
    ending = Ending(CHAT, (0,), ends)
    prompts = [_prompt(table, number) for number in range(len(table))]
    found = generation.generate(prompts, loaded, ending, max_new_tokens=new_tokens)
    return {number: one.ids for number, one in enumerate(found)}


def _measured(loaded: Loaded, table: pd.DataFrame) -> Result:
    plan = planning.plan(table, conditions={"knockout": {}}, batch_tokens=loaded.batch_tokens)
    return {
        (number, condition, layer): states[layer]
        for batch, tensors in runner.measure(loaded, plan, [READOUT])
        for condition in ("clean", "knockout")
        for place, number in enumerate(batch.samples)
        for states in [tensors[tensor_name(condition, READOUT)][place]]
        for layer in range(len(states))
    }


def _fitted(x: np.ndarray, z: np.ndarray, fold: np.ndarray) -> Result:
    rows, masks = torch.as_tensor(x), np.stack([fold != k for k in range(FOLDS)])
    solved = probes.fit(rows, torch.as_tensor(z), torch.as_tensor(masks), torch.ones(FOLDS))
    p = torch.sigmoid(solved.logits(rows))
    return {k: p[:, k] for k in range(FOLDS)}


def one_pass(loaded: Loaded, table: pd.DataFrame) -> States:
    """Measure both conditions of some sequences in one pass of the base model."""
    found: States = {}
    for numbers in _batches(table, range(len(table)), AT_ONCE):
        rows = table.iloc[[*numbers, *numbers]]
        lengths = [len(ids) for ids in rows["input_ids"]]
        cuts = [()] * len(numbers) + [*rows["eq_tokens"]][len(numbers) :]
        with reading(loaded, range(len(families.layers(loaded))), list(rows["final"])) as seen:
            families.base(loaded.model)(
                input_ids=padded(rows["input_ids"]).to(loaded.device),
                attention_mask=_mask(loaded, lengths, cuts),
                use_cache=False,
            )
        for place, number in enumerate(numbers):
            for layer, states in seen.items():
                found[number, "clean", layer] = states[place].cpu()
                found[number, "knockout", layer] = states[len(numbers) + place].cpu()
    return found


def literal(loaded: Loaded, table: pd.DataFrame, numbers: Sequence[int]) -> States:
    """Measure some of the sequences by a clean pass and one pass for each layer."""
    found: States = {}
    call: Any = loaded.model
    every = range(len(families.layers(loaded)))
    for number in numbers:
        row = table.iloc[number]
        ids = torch.tensor([row["input_ids"]]).to(loaded.device)
        length, finals = [ids.shape[1]], [row["final"]]
        clear, shut = (_mask(loaded, length, [cut]) for cut in ((), row["eq_tokens"]))
        with reading(loaded, every, finals) as seen:
            call(input_ids=ids)
        found |= {(number, "clean", layer): states[0].cpu() for layer, states in seen.items()}
        for deepest in every:
            masks = [shut if layer <= deepest else clear for layer in every]
            with reading(loaded, [deepest], finals) as seen, masked(loaded, masks):
                call(input_ids=ids)
            found[number, "knockout", deepest] = seen[deepest][0].cpu()
    return found


def generate(
    loaded: Loaded,
    table: pd.DataFrame,
    numbers: Sequence[int],
    at_once: int,
    new_tokens: int,
    ends: frozenset[int],
) -> Answers:
    """Generate greedy answers to some prompts, sorted by length and padded on the left."""
    found: Answers = {}
    call: Any = loaded.model
    for some in _batches(table, numbers, at_once):
        prompts = [_prompt(table, number) for number in some]
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts])
        missing = torch.tensor([width - len(prompt) for prompt in prompts])[:, None]
        with torch.inference_mode():
            out = call.generate(
                ids.to(loaded.device),
                attention_mask=(torch.arange(width) >= missing).long().to(loaded.device),
                max_new_tokens=new_tokens,
                do_sample=False,
                eos_token_id=sorted(ends),
                pad_token_id=0,
            )
        for number, row in zip(some, out[:, width:].tolist(), strict=True):
            found[number] = _ended(row, ends)
    return found


def scikit_learn(x: np.ndarray, z: np.ndarray, fold: np.ndarray) -> dict[int, torch.Tensor]:
    """Return fold → P(z = 1) of every row by that fold's probes, float64 [layers, samples].

    One BLAS thread: with two, scikit-learn is several times slower on such shapes.
    """
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {k: np.stack([_probe(layer, z, fold != k) for layer in x]) for k in range(FOLDS)}
    return {k: torch.as_tensor(p) for k, p in found.items()}


def _probe(layer: np.ndarray, z: np.ndarray, train: np.ndarray) -> np.ndarray:
    rows = layer.astype(np.float64)
    rows = StandardScaler().fit(rows[train]).transform(rows)
    probe = LogisticRegression(**CONVERGED).fit(rows[train], z[train])
    found: np.ndarray = probe.predict_proba(rows)
    return found[:, 1]


def largest_size(states: Result) -> float:
    """Return the largest absolute number among states, 0 for answers."""
    tensors = [state for state in states.values() if isinstance(state, torch.Tensor)]
    return max((float(state.double().abs().max()) for state in tensors), default=0.0)


def largest_difference(found: Result, expected: Result) -> float:
    """Return the largest difference of shared entries; for answers, the share that differ."""
    keys = found.keys() & expected.keys()
    if not keys:
        raise ValueError("nothing to compare")
    if isinstance(found[next(iter(keys))], tuple):
        return sum(found[key] != expected[key] for key in keys) / len(keys)
    return max(float((found[key].double() - expected[key].double()).abs().max()) for key in keys)


def _ended(row: Sequence[int], ends: frozenset[int]) -> tuple[int, ...]:
    """Return a row up to and including its first end token."""
    end = next((place for place, token in enumerate(row) if token in ends), len(row) - 1)
    return tuple(row[: end + 1])


def _prompt(table: pd.DataFrame, number: int) -> list[int]:
    row = table.iloc[number]
    return list(row["input_ids"][: row["prompt_length"]])


def _mask(loaded: Loaded, lengths: Sequence[int], cuts: Sequence[Sequence[int]]) -> torch.Tensor:
    return mask(cuts, max(lengths), loaded.model.dtype).to(loaded.device)


def _batches(table: pd.DataFrame, numbers: Iterable[int], at_once: int) -> Iterator[list[int]]:
    """Yield numbers in batches, sorted by length."""
    ordered = sorted(numbers, key=lambda number: len(table["input_ids"].iloc[number]))
    for start in range(0, len(ordered), at_once):
        yield ordered[start : start + at_once]
