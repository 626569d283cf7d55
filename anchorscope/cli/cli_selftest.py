"""The self-test: whether this machine measures tiny random models as the method says.

Nothing is loaded from anywhere; what is found goes into the report of a first run on a new device.
"""

import resource
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from anchorscope.models import loading
from anchorscope.models.families import FAMILIES, Loaded, layers, window
from anchorscope.passes import planning, runner
from anchorscope.passes.batches import Plan, Sample
from anchorscope.passes.hooks import masked
from anchorscope.storage.files import write_json
from anchorscope.storage.provenance import libraries
from anchorscope.workflow.resources import MEMORY

SIZES: dict[str, Any] = {
    "vocab_size": 200, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "sliding_window": 96,
    "max_position_embeddings": 256, "initializer_range": 0.15, "pad_token_id": None,
    "bos_token_id": None, "eos_token_id": None, "num_experts": 8, "moe_intermediate_size": 48,
}  # fmt: skip
NOISE = {"float32": 1e-4, "float16": 0.05, "bfloat16": 0.15}
"""By number format: how far rounding may carry a state, as a share of its length."""
BACKENDS = ("MATH", "EFFICIENT_ATTENTION", "FLASH_ATTENTION", "CUDNN_ATTENTION")


class Verdict(NamedTuple):
    """`pass`, `fail` or `skipped`, and what was measured or why it was not."""

    check: str
    about: str
    verdict: str
    measured: str


def report(device: str, path: Path) -> bool:
    """Print the verdict of every check, write all to a JSON file; whether none failed."""
    found = []
    for verdict in run(device):
        print(f"{verdict.verdict:<8} {verdict.check:<13} {verdict.about:<20} {verdict.measured}")
        found.append(verdict._asdict())
    gpus = [torch.cuda.get_device_name(gpu) for gpu in range(torch.cuda.device_count())]
    attention = loading.attention_of(tiny("llama", torch.device(device)))
    about = {"device": device, "gpus": gpus, "cuda": torch.version.cuda, "attention": attention}
    write_json({**about, "libraries": libraries(), "verdicts": found}, path)
    print(f"written to {path}")
    return all(verdict["verdict"] != "fail" for verdict in found)


def run(device: str, families: Sequence[str] = tuple(FAMILIES)) -> Iterator[Verdict]:
    """Every check, as it is done; where one raises it has failed, and the others go on."""
    place = torch.device(device)
    loading.without_cudnn()  # as where a model is loaded
    checks: list[tuple[str, Any]] = [(name, partial(_family, name, place)) for name in families]
    checks += [(dtype, partial(_noise, families[0], place, dtype)) for dtype in NOISE]
    checks += [(name, partial(_attention, place, name)) for name in BACKENDS]
    for about, check in [*checks, (device, partial(_memory, place)), ("all GPUs", _copies)]:
        try:
            yield from check()
        except Exception as error:  # whatever a new device raises belongs into the report
            yield Verdict("error", about, "fail", f"{type(error).__name__}: {error}")


def _verdict(check: str, about: str, holds: bool, measured: str) -> Verdict:
    return Verdict(check, about, "pass" if holds else "fail", measured)


def tiny(family: str, device: torch.device, dtype: str = "float32") -> Loaded:
    """A random model of a family; no tokenizer, since no text is read."""
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    sizes = dict(SIZES)
    if family == "falcon":  # it works this one out
        del sizes["head_dim"]
    config = AutoConfig.for_model(family, **sizes)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa")
    model = model.to(device, getattr(torch, dtype)).eval().requires_grad_(False)
    none: Any = None
    return Loaded(model, none, FAMILIES[family], window(model.config), device)


def _planned() -> Plan:
    """Random tokens of unlike lengths, E_Q in two runs, two samples a batch."""
    draws, rows = Random(0), []
    for length in (24, 31, 38, 45):
        ids, start = draws.choices(range(3, SIZES["vocab_size"]), k=length), length - 6
        row = {"id": f"{length} tokens", "input_ids": ids, "prompt_length": start, "dropped": None}
        row |= {"ea_start": start, "ea_end": length - 1, "final": length - 1}
        rows.append(row | {"question_tokens": list(range(2, start - 2)), "eq_tokens": [3, 4, 8]})
    conditions: Any = {"knockout": {}, "random": {"draws": 1}, "noop": {"samples": len(rows)}}
    return planning.plan(pd.DataFrame(rows), conditions=conditions, batch_tokens=300)


def _states(loaded: Loaded, planned: Plan) -> dict[tuple[str, str], torch.Tensor]:
    """(sample, condition) → `resid` at the final token, [layers, width]."""
    return {
        (planned.samples[number].id, name.partition(".")[0]): states[place]
        for batch, tensors in runner.measure(loaded, planned, ["resid/final"])
        for name, states in tensors.items()
        for place, number in enumerate(batch.samples)
    }


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    """Largest distance of states [..., width], as a share of the second's length."""
    one, other = one.float().cpu(), other.float().cpu()
    return float(((one - other).norm(dim=-1) / other.norm(dim=-1)).max())


def _family(family: str, device: torch.device) -> Iterator[Verdict]:
    """The one pass of a family against the plain model, the literal loop, and itself."""
    loaded, planned = tiny(family, device), _planned()
    found, again = (_states(loaded, planned) for _ in range(2))
    plain = cut = moved = 0.0
    for one in planned.samples:
        clean, knockout = found[one.id, "clean"], found[one.id, "knockout"]
        plain = max(plain, _apart(clean[:-1], _alone(loaded, one)))
        moved = max(moved, _apart(knockout, clean))
        for layer in range(len(clean) - 1):
            cut = max(cut, _apart(knockout[layer], _alone(loaded, one, layer)[layer]))
    most, same = NOISE["float32"], all(torch.equal(found[key], again[key]) for key in found)
    yield _verdict("plain model", family, plain <= most, f"off by {plain:.0e}")
    said = f"off by {cut:.0e}, where the knockout moves states by {moved:.0e}"
    yield _verdict("literal loop", family, cut <= most < moved, said)
    yield _verdict("determinism", family, same, f"a second run {'equal' if same else 'differs'}")


@torch.inference_mode()
def _alone(loaded: Loaded, sample: Sample, deepest: int | None = None) -> torch.Tensor:
    """States of one unpadded row after all blocks but the last, [layers - 1, width].

    In layers up to `deepest` attention to E_Q is cut; None: in no layer.
    """
    ids = torch.tensor([sample.input_ids], device=loaded.device)
    asked = {"output_hidden_states": True, "use_cache": False}
    if deepest is None:
        out = loaded.model.base_model(ids, **asked)
    else:
        length, eq = ids.shape[1], list(sample.eq_tokens)
        seen = torch.ones(length, length, device=loaded.device).tril()
        hidden = seen.clone()
        for query in set(range(length)) - set(eq):
            hidden[query, eq] = 0
        least = torch.finfo(loaded.model.dtype).min
        whole, cut = (torch.where(one > 0, 0.0, least)[None, None] for one in (seen, hidden))
        masks = [cut if k <= deepest else whole for k in range(len(layers(loaded)))]
        with masked(loaded, masks):
            out = loaded.model.base_model(ids, attention_mask=whole, **asked)
    return torch.stack([states[0, -1] for states in out.hidden_states[1:-1]])


def _noise(family: str, device: torch.device, dtype: str) -> Iterator[Verdict]:
    """The same rows in another batch and without our mask."""
    found = _states(tiny(family, device, dtype), _planned())
    clean = {sample: states for (sample, name), states in found.items() if name == "clean"}
    worst = max(_apart(found[sample, "noop"], states) for sample, states in clean.items())
    yield _verdict("noise", dtype, worst <= NOISE[dtype], f"{worst:.0e} of a state's length")


def _attention(device: torch.device, backend: str) -> Iterator[Verdict]:
    """A back-end's time with an explicit mask, and its result against plain arithmetic."""
    cpu = device.type == "cpu"
    dtype, shape = (torch.float32, (4, 4, 128, 64)) if cpu else (torch.bfloat16, (32, 32, 512, 128))
    torch.manual_seed(0)
    q, k, v = (torch.randn(shape, device=device, dtype=dtype) for _ in range(3))
    mask = torch.full((shape[2],) * 2, torch.finfo(dtype).min, device=device, dtype=dtype).triu(1)

    def attend(name: str, times: int = 1) -> torch.Tensor:
        with sdpa_kernel([getattr(SDPBackend, name)]):
            for _ in range(times):
                found = scaled_dot_product_attention(q, k, v, attn_mask=mask[None, None])
        return found.cpu()  # waits for the device

    try:
        worst = _apart(attend(backend), attend("MATH"))
    except RuntimeError:
        yield Verdict("attention", backend, "skipped", "does not take a mask on this device")
        return
    began = time.perf_counter()
    attend(backend, 10)
    said = f"{100 * (time.perf_counter() - began):.2f} ms a call, off by {worst:.0e}"
    yield _verdict("attention", backend, worst <= 0.05, said)


def _memory(device: torch.device) -> Iterator[Verdict]:
    """The peak of this process, which has loaded all that a job loads, against a job's demand."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    most = MEMORY["passes"][0]
    said = f"{peak:.0f} MB, where a job asks for {most}"
    if device.type == "cuda":
        said += f"; on the GPU {torch.cuda.max_memory_allocated(device) / 1e6:.0f} MB"
    yield _verdict("memory", str(device), peak <= most, said)


def _copies() -> Iterator[Verdict]:
    """What one GPU sends another arrives; broken peer-to-peer copies give finite garbage."""
    gpus, sent = range(torch.cuda.device_count()), torch.randn(1 << 22)
    if len(gpus) < 2:
        yield Verdict("copies", "between GPUs", "skipped", f"{len(gpus)} GPUs")
    for one in gpus:
        for other in (gpu for gpu in gpus if gpu != one):
            same = torch.equal(sent.to(f"cuda:{one}").to(f"cuda:{other}").cpu(), sent)
            yield _verdict("copies", f"GPU {one} to {other}", same, "equal" if same else "differs")
