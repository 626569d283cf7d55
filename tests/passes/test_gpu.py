"""A GPU and the CPU agree, within the tolerances that docs/performance.md states."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS
from handmade import score
from instrument import READOUTS, TOKENIZER, assert_rounded, measured, planned, short_of_memory
from test_sharing import CUTS, HEAD, assert_nothing_to_cut_changes_nothing, behind_heads

from anchorscope.answers import generation
from anchorscope.answers.endings import Ending
from anchorscope.models import loading
from anchorscope.passes import activations, runner
from anchorscope.probes import fitting
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import CHAT

DEVICE = "cuda"
FLOAT32 = {"atol": 1e-4, "rtol": 1e-4}
LOGIT = 4e-3

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def both(checkpoint, family, dtype="float32"):
    """A model on the CPU, and on the GPU."""
    folder = checkpoint(family, TOKENIZER[family])
    here, there = (loading.load(folder, dtype=dtype, device=place) for place in ("cpu", DEVICE))
    assert there.device.type == DEVICE and str(there.model.dtype).endswith(dtype)
    return here, there


def states(loaded):
    """(id, tensor name) → [layers, width] of all read-outs and conditions, on the CPU."""
    plan = planned(behind_heads(loaded.tokenizer), conditions=CUTS, batch_tokens=3000)
    assert plan.head > 5  # the shared head is among what is compared
    return {key: found.cpu() for key, found in measured(loaded, plan).items()}


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_float32_passes_are_the_cpus(checkpoint, family):
    expected, found = map(states, both(checkpoint, family))
    assert expected.keys() == found.keys()
    for key, vectors in found.items():
        torch.testing.assert_close(vectors, expected[key], **FLOAT32)


def test_files_of_many_batches_are_the_cpus_also_where_memory_is_short(checkpoint, tmp_path):
    here, there = both(checkpoint, "llama")
    plan = planned(behind_heads(here.tokenizer), conditions=CUTS, batch_tokens=900)
    one_sample = max(len(batch.columns) for batch in plan.batches)
    assert len(plan.batches) >= 4
    activations.write(tmp_path / "here", here, plan, READOUTS)
    activations.write(tmp_path / "there", there, plan, READOUTS)
    with short_of_memory(there.model, rows=one_sample):
        activations.write(tmp_path / "short", there, plan, READOUTS)
    expected = activations.outputs(tmp_path / "here")
    for folder in (tmp_path / "there", tmp_path / "short"):
        for readout in READOUTS:
            rows, states = activations.read(folder, readout, "knockout")
            same, exact = activations.read(tmp_path / "here", readout, "knockout")
            assert rows.tolist() == same.tolist()
            torch.testing.assert_close(states[:], exact[:], **FLOAT32)
        pd.testing.assert_frame_equal(activations.outputs(folder), expected, atol=1e-3)


def test_a_state_that_is_not_finite_is_refused_on_a_gpu(checkpoint):
    _, there = both(checkpoint, "llama")
    there.model.get_input_embeddings().weight.data[:] = float("nan")
    plan = planned(behind_heads(there.tokenizer), conditions=CUTS, batch_tokens=900)
    with pytest.raises(AnchorscopeError, match="not finite at layer 0"):
        list(runner.measure(there, plan, READOUTS))


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_bfloat16_passes_are_the_cpus_but_for_rounding(checkpoint, family):
    exact = states(both(checkpoint, family)[0])
    found = states(both(checkpoint, family, "bfloat16")[1])
    assert_rounded(found, exact, family)


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_a_row_with_nothing_to_cut_equals_the_clean_row_to_the_last_bit(checkpoint, family):
    _, loaded = both(checkpoint, family, "bfloat16")
    assert_nothing_to_cut_changes_nothing(loaded, behind_heads(loaded.tokenizer), 800)


@pytest.mark.parametrize("head", [HEAD, ""])
@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_float32_answers_are_the_cpus(checkpoint, family, head):
    loaded = both(checkpoint, family)
    tokenizer = loaded[0].tokenizer
    prompts = [tokenizer(head + text[: text.index("A:") + 2])["input_ids"] for text in CORPUS]
    prompts = [ids for ids in prompts if len(ids) + 8 <= (loaded[0].window or 1000)]
    ending = Ending(CHAT, (0,), frozenset({tokenizer("Q")["input_ids"][-1]}))
    expected, found = (
        generation.generate(prompts, replace(one, batch_tokens=500), ending, max_new_tokens=8)
        for one in loaded
    )
    assert len(prompts) > 4 and [one.ids for one in found] == [one.ids for one in expected]
    assert len({one.ids for one in expected}) > 1  # the prompt is heard
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)


def test_scores_are_the_cpus():
    draws = np.random.default_rng(0)
    z = (draws.random(150) < 0.6).astype(int)
    x = draws.normal(size=(3, 150, 40)) @ (draws.normal(size=(40, 40)) / 40**0.5)  # correlated
    x[..., 0] += z
    x = torch.as_tensor(x, dtype=torch.float32)
    ids = [f"q{number}" for number in range(len(z))]
    published = fitting.ProbeSettings(scoring="published")
    table = {"id": ids, "question": ids, "subject": ids, "label": z, "dropped": None}
    here, there = (
        score(
            lambda condition, draw: (ids, x - 1.0 * (condition == "knockout")),
            *(pd.DataFrame(table), "mlp/final", [("knockout", 0)], published),
            device=device,
        )
        for device in ("cpu", DEVICE)
    )
    exact = ["id", "layer", "condition", "probe", "fold", "label"]
    pd.testing.assert_frame_equal(there[exact], here[exact])
    assert np.allclose(there["s"], here["s"], atol=LOGIT)
