"""The measured passes against other ways to the same states, side by side in one process.

    OMP_NUM_THREADS=1 python benchmarks/bench_measure.py [--rounds 3] [--prefixes 0 150]

A random-weight Llama (16 layers × 512), 64 sequences of 40 to 80 tokens, 3 tokens blocked near the
20th; with and without 150 tokens in front that all share. The read-out is `mlp/final`, under
`clean` and `knockout`. Ways:

- `anchorscope`: `anchorscope.activations.measure`.
- `one-pass`: clean and blocked rows stacked, base model, batches of 8 sequences sorted by length.
- `literal-1`: the published protocol, a pass of its own for the clean row and for each layer k
  with layers 0...k blocked, one sequence at a time, with the LM head. Timed on 8 of the sequences
  and scaled to all.

On one thread CPU time is measured, which a busy machine hardly changes; on more, wall time. Every
round times each way once; the medians are printed with their ratio to `one-pass`, after all
ways were found to agree within 1e-5.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from anchorscope import activations, knockout, models

if TYPE_CHECKING:
    from anchorscope.passes import Plan

LAYERS, WIDTH, VOCABULARY = 16, 512, 32000
SEQUENCES, TIMED, AT_ONCE, ANSWER = 64, 8, 8, 8
READOUT = "mlp/final"
CONDITIONS = ("clean", "knockout")
TOLERANCE = 1e-5

States = dict[tuple[int, str], torch.Tensor]
"""(sample, condition) → [layers, width]."""


def model() -> models.Loaded:
    """The random-weight model; it is never asked for text, so it has no tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=1408,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=1024,
    )
    made: Any = LlamaForCausalLM(config)
    without: Any = None
    return models.Loaded(
        made.eval().requires_grad_(False),
        without,
        models.FAMILIES["llama"],
        None,
        torch.device("cpu"),
    )


def answers(prefix: int) -> pd.DataFrame:
    """The sequences as an answers table, `prefix` shared tokens in front."""
    draws = random.Random(0)

    def ids(count: int) -> list[int]:
        return [draws.randrange(5, VOCABULARY) for _ in range(count)]

    shared = ids(prefix)
    records = []
    for number in range(SEQUENCES):
        length = prefix + draws.randrange(40, 81)
        first = prefix + draws.randrange(18, 23)
        records.append(
            {
                "id": str(number),
                "input_ids": shared + ids(length - prefix),
                "prompt_length": length - ANSWER,
                "ea_start": length - ANSWER,
                "ea_end": length - 2,
                "final": length - 1,
                "eq_tokens": [first, first + 1, first + 2],
                "question_tokens": list(range(prefix + 4, length - ANSWER - 2)),
                "dropped": None,
            }
        )
    return pd.DataFrame(records)


def anchorscope(loaded: models.Loaded, plan: Plan) -> States:
    """The way of this project."""
    site, position = READOUT.split("/")
    return {
        (number, condition): states[place]
        for batch, tensors in activations.measure(loaded, plan, [READOUT])
        for condition in CONDITIONS
        for states in [tensors[f"{condition}.0/{site}.{position}"]]
        for place, number in enumerate(batch.samples)
    }


def one_pass(loaded: models.Loaded, plan: Plan) -> States:
    """All rows of a batch in full, in one pass of the base model."""
    found: States = {}
    for batch in plan.batches:
        finals = [plan.passed(row).positions["final"] for row in batch.rows]
        given = activations.inputs(loaded, plan, batch)
        run = partial(loaded.model.base_model, **given, use_cache=False)
        seen = _outputs(loaded, run, finals)
        found |= {(row.sample, row.condition): seen[n] for n, row in enumerate(batch.rows)}
    return found


def literal(loaded: models.Loaded, plan: Plan) -> States:
    """The clean pass, then one pass a layer with the block in the layers up to it."""
    call: Any = loaded.model
    found: States = {}
    for number, sample in enumerate(plan.samples[:TIMED]):
        ids, final = torch.tensor([sample.input_ids]), [sample.positions["final"]]
        shut, clear = (
            knockout.mask([len(sample.input_ids)], [cut], dtype=torch.float32)
            for cut in (sample.eq_tokens, ())
        )
        run = partial(call, input_ids=ids, use_cache=False)
        found[number, "clean"] = _outputs(loaded, run, final)[0]
        states = []
        for deepest in range(LAYERS):
            handles = [
                models.part(loaded, block, "attn").register_forward_pre_hook(
                    partial(_with_mask, shut if layer <= deepest else clear), with_kwargs=True
                )
                for layer, block in enumerate(models.layers(loaded))
            ]
            states.append(_outputs(loaded, run, final)[0, deepest])
            for handle in handles:
                handle.remove()
        found[number, "knockout"] = torch.stack(states)
    return found


def _with_mask(
    mask: torch.Tensor, _: object, args: tuple[Any, ...], given: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What an attention module is called with, the mask put in its place."""
    return args, given | {"attention_mask": mask}


def _outputs(loaded: models.Loaded, run: Callable[[], object], places: list[int]) -> torch.Tensor:
    """The MLP outputs of a pass at one token of each row: [rows, layers, width]."""
    seen: list[torch.Tensor] = []
    rows = range(len(places))
    handles = [
        models.part(loaded, block, "mlp").register_forward_hook(
            lambda _, __, output: seen.append(output[rows, places])
        )
        for block in models.layers(loaded)
    ]
    with torch.inference_mode():
        run()
    for handle in handles:
        handle.remove()
    return torch.stack(seen, dim=1)


WAYS: dict[str, tuple[Callable[[models.Loaded, Any], States], float]] = {
    "one-pass": (one_pass, 1.0),
    "anchorscope": (anchorscope, 1.0),
    "literal-1": (literal, SEQUENCES / TIMED),
}


def compare(loaded: models.Loaded, prefix: int, rounds: int) -> None:
    """Print a line a way.

    Raises:
        SystemExit: two ways do not agree.
    """
    plan = activations.plan(
        answers(prefix),
        conditions={"knockout": {}},
        batch_tokens=len(CONDITIONS) * AT_ONCE * (prefix + 80),
    )
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    found: dict[str, States] = {}
    for _ in range(rounds):
        for name, (way, scale) in WAYS.items():
            started = clock()
            found[name] = way(loaded, plan)
            seconds[name].append(scale * (clock() - started))
    expected = found["one-pass"]
    plain = statistics.median(seconds["one-pass"])
    for name, states in found.items():
        apart = max(float((states[key] - expected[key]).abs().max()) for key in states)
        if apart > TOLERANCE:
            raise SystemExit(f"{name} differs from one-pass by {apart:.1e}")
        median = statistics.median(seconds[name])
        print(
            f"prefix {prefix:>3}  {name:<12} {median:8.2f} s  ratio {median / plain:6.2f}  "
            f"largest difference {apart:.0e}",
            flush=True,
        )


def main() -> None:
    """Compare the ways with each prefix."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prefixes", type=int, nargs="+", default=[0, 150])
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    loaded = model()
    for prefix in chosen.prefixes:
        compare(loaded, prefix, chosen.rounds)


if __name__ == "__main__":
    main()
