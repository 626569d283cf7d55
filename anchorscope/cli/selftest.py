"""`anchorscope selftest`: check on tiny random models that this machine measures correctly.

Nothing is downloaded. Verdicts are written to a file to send with a report on a new kind of device.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import permutations
from random import Random
from typing import Any, NamedTuple

import pandas as pd
import torch

from anchorscope.models import families, fitness, loading, tiny
from anchorscope.models.families import Loaded, layers
from anchorscope.models.hooks import masked
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import Plan, Sample
from anchorscope.storage.provenance import libraries
from anchorscope.workflow import trials

FAMILIES = (
    "llama", "qwen3", "mistral", "gemma3_text", "gemma4_text", "phi3", "smollm3", "olmo2",
    "mixtral", "gpt_neox", "qwen3_5_text", "nemotron_h",
)  # fmt: skip
"""Families of the tiny models: with attention alone, a mixture of experts, parallel blocks, and
recurrent layers."""
NOISE = {"float32": 1e-4, "float16": 0.05, "bfloat16": 0.15}
"""Dtype → largest distance that rounding causes between two states, relative to their norm."""


class Verdict(NamedTuple):
    """The result of one check."""

    check: str
    about: str  # family, dtype or devices that were checked
    verdict: str  # `pass`, `fail` or `skipped`
    measured: str  # measured value, or reason why there is none


def report(device: str) -> bool:
    """Print and store the verdict of every check. Return False if a check failed."""
    verdicts = []
    for verdict in run(device):
        print(f"{verdict.verdict:<8} {verdict.check:<13} {verdict.about:<20} {verdict.measured}")
        verdicts.append(verdict)
    gpus = [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())]
    about = {"device": device, "gpus": gpus, "cuda": torch.version.cuda}
    found = [verdict._asdict() for verdict in verdicts]
    trials.write({**about, "libraries": libraries(), "verdicts": found})
    print(f"written to {trials.FILE}")
    return all(verdict.verdict != "fail" for verdict in verdicts)


def run(device: str, names: Sequence[str] = FAMILIES) -> Iterator[Verdict]:
    """Run every check and yield its verdicts. A check that raises fails; the others still run."""
    place = torch.device(device)
    loading.without_cudnn()  # as when a model is loaded
    checks: list[tuple[str, Any]] = [(name, partial(_family, name, place)) for name in names]
    checks += [(dtype, partial(_noise, names[0], place, dtype)) for dtype in NOISE]
    for about, check in [*checks, ("all GPUs", _copies)]:
        try:
            yield from check()
        except Exception as error:  # any error of a new device belongs in the report
            yield Verdict("error", about, "fail", f"{type(error).__name__}: {error}")


def _verdict(check: str, about: str, holds: bool, measured: str) -> Verdict:
    return Verdict(check, about, "pass" if holds else "fail", measured)


def _planned() -> Plan:
    """Plan samples of random tokens and different lengths, with E_Q in two separate spans."""
    generator, rows = Random(0), []
    for length in (24, 31, 38, 45):
        start = length - 6
        rows.append(
            {
                "id": f"{length} tokens",
                "input_ids": generator.choices(range(3, tiny.SIZES["vocab_size"]), k=length),
                "prompt_length": start,
                "dropped": None,
                "ea_start": start,
                "ea_end": length - 1,
                "final": length - 1,
                "question_tokens": list(range(2, start - 2)),
                "eq_tokens": [3, 4, 8],
            }
        )
    conditions: Any = {"knockout": {}, "random": {"draws": 1}, "noop": {"samples": len(rows)}}
    return planning.plan(pd.DataFrame(rows), conditions=conditions, batch_tokens=300)


def _states(loaded: Loaded, planned: Plan) -> dict[tuple[str, str], torch.Tensor]:
    """Return (sample, condition) → `resid` at the final token, [layers, width]."""
    return {
        (planned.samples[number].id, name.partition(".")[0]): states[place]
        for batch, tensors in runner.measure(loaded, planned, ["resid/final"])
        for name, states in tensors.items()
        for place, number in enumerate(batch.samples)
    }


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the largest distance between states [..., width], relative to `other`'s norm."""
    one, other = one.float().cpu(), other.float().cpu()
    return float(((one - other).norm(dim=-1) / other.norm(dim=-1)).max())


def _family(family: str, device: torch.device) -> Iterator[Verdict]:
    """Compare states with those of the plain model, of single passes and of a second run.

    Only the second run must agree exactly. The others must agree up to noise. A single pass is for
    one sample and one layer k. It blocks E_Q in layers 0…k by a mask, which recurrent layers do not
    have.
    """
    loaded, planned = tiny.build(family, device), _planned()
    states, again = (_states(loaded, planned) for _ in range(2))
    from_plain = from_loop = moved = 0.0
    for sample in planned.samples:
        clean, knockout = states[sample.id, "clean"], states[sample.id, "knockout"]
        from_plain = max(from_plain, _distance(clean[:-1], _alone(loaded, sample)))
        moved = max(moved, _distance(knockout, clean))
        for layer in range(len(clean) - 1) if loaded.attends else ():
            literal = _alone(loaded, sample, layer)[layer]
            from_loop = max(from_loop, _distance(knockout[layer], literal))
    most, same = NOISE["float32"], all(torch.equal(states[key], again[key]) for key in states)
    fitness.check(loaded, family)
    yield _verdict("sites", family, True, ", ".join(families.sites(loaded)))
    yield _verdict("plain model", family, from_plain <= most, f"off by {from_plain:.0e}")
    measured = f"off by {from_loop:.0e}; the knockout moves states by {moved:.0e}"
    if loaded.attends:
        yield _verdict("one by one", family, from_loop <= most < moved, measured)
    else:
        yield Verdict("one by one", family, "skipped", "no mask can block tokens in some layers")
    yield _verdict("determinism", family, same, f"a second run {'is equal' if same else 'differs'}")


@torch.inference_mode()
def _alone(loaded: Loaded, sample: Sample, deepest: int | None = None) -> torch.Tensor:
    """Return [layers - 1, width]: states of one unpadded row, after every block but the last.

    Attention to E_Q is blocked in layers up to `deepest`, or in no layer if `deepest` is None.
    """
    ids = torch.tensor([sample.input_ids], device=loaded.device)
    options = {"output_hidden_states": True, "use_cache": False}
    if deepest is None:
        out = families.base(loaded.model)(ids, **options)
    else:
        length, eq = ids.shape[1], list(sample.eq_tokens)
        causal = torch.ones(length, length, device=loaded.device).tril()
        without_eq = causal.clone()
        for query in set(range(length)) - set(eq):
            without_eq[query, eq] = 0
        least = torch.finfo(loaded.model.dtype).min
        whole, cut = (
            torch.where(allowed > 0, 0.0, least)[None, None] for allowed in (causal, without_eq)
        )
        masks = [cut if k <= deepest else whole for k in range(len(layers(loaded)))]
        with masked(loaded, masks):
            out = families.base(loaded.model)(ids, attention_mask=whole, **options)
    return torch.stack([states[0, -1] for states in out.hidden_states[1:-1]])


def _noise(family: str, device: torch.device, dtype: str) -> Iterator[Verdict]:
    """Compare clean states with `noop`, which passes the same rows in another batch."""
    states = _states(tiny.build(family, device, dtype), _planned())
    clean = {sample: of for (sample, condition), of in states.items() if condition == "clean"}
    worst = max(_distance(states[sample, "noop"], of) for sample, of in clean.items())
    yield _verdict("noise", dtype, worst <= NOISE[dtype], f"{worst:.0e} of a state's norm")


def _copies() -> Iterator[Verdict]:
    """Check copies between GPUs: broken peer-to-peer copies give wrong but finite numbers."""
    gpus, sent = range(torch.cuda.device_count()), torch.randn(1 << 22)
    if len(gpus) < 2:
        yield Verdict("copies", "between GPUs", "skipped", f"{len(gpus)} GPUs")
    for source, target in permutations(gpus, 2):
        same = torch.equal(sent.to(f"cuda:{source}").to(f"cuda:{target}").cpu(), sent)
        about = f"GPU {source} to {target}"
        yield _verdict("copies", about, same, "equal" if same else "differs")
