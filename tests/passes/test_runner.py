"""The runner beyond the knockout: some layers, weights, and gradients."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS, LAYERS
from instrument import TOKENIZER, answers_table

from anchorscope.config.readouts import POSITIONS
from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.passes import runner
from anchorscope.passes.batches import arrange
from anchorscope.passes.interventions import CLEAN, REGISTRY, Intervention
from anchorscope.passes.planning import sample_of

KNOCKOUT = REGISTRY["knockout"]
READ = ["attn/final", "mlp/final", "resid/final", "resid/before_answer"]


@pytest.fixture(params=ALL_FAMILIES)
def loaded(request: Any, checkpoint: Any) -> Loaded:
    return loading.load(checkpoint(request.param, TOKENIZER[request.param]))


def passed(loaded: Loaded, *interventions: Intervention, n: int = 4, **how: Any) -> Any:
    rows = answers_table(loaded.tokenizer, CORPUS[:n]).to_dict("records")
    samples = [sample_of(row) for row in rows]
    chosen = [(one, 0) for one in (CLEAN, *interventions)]
    planned = arrange(samples, chosen, batch_tokens=10**6)
    return planned, runner.run(loaded, planned.batches[0], read=READ, **how)


def of(found: runner.Passed, name: str) -> dict[str, torch.Tensor]:
    mark = f"{name}.0/"
    return {key.removeprefix(mark): s for key, s in found.states.items() if key.startswith(mark)}


def test_a_cut_of_some_layers_acts_there_and_behind_them(loaded: Loaded) -> None:
    first = replace(KNOCKOUT, name="first", layers=(0, 2))
    late = replace(KNOCKOUT, name="late", layers=(2, LAYERS))
    every = replace(KNOCKOUT, name="every", layers=(0, LAYERS))
    _, found = passed(loaded, KNOCKOUT, first, late, every)
    for key, clean in of(found, "clean").items():
        cut, early, after, whole = (
            of(found, n)[key] for n in ("knockout", "first", "late", "every")
        )
        assert torch.equal(whole, cut)
        assert torch.equal(early[:, :2], cut[:, :2]) and not torch.equal(early[:, 2:], cut[:, 2:])
        assert torch.equal(after[:, :2], clean[:, :2])
        assert not torch.equal(after[:, 2:], clean[:, 2:])


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_gradients_are_those_of_one_row_at_a_time(checkpoint: Any, implementation: str) -> None:
    loaded = loading.load(checkpoint("qwen3", TOKENIZER["qwen3"]))
    loaded.model.set_attn_implementation(implementation)

    def gradients(n: int) -> tuple[torch.Tensor, Any]:
        planned, found = passed(loaded, n=n, grad=True)
        loss = of(found, "clean")["mlp.final"][:, -1].square().sum()
        (slope,) = torch.autograd.grad(loss, found.embeddings, retain_graph=True)
        place = planned.batches[0].samples.index(0)
        length = len(planned.samples[0].input_ids)
        weights = torch.autograd.grad(loss, found.attentions) if found.attentions else ()
        return slope[place, :length], [w[place, :, :length, :length] for w in weights]

    (one, weights), (several, same) = gradients(1), gradients(4)
    assert one.abs().max() > 0
    torch.testing.assert_close(several, one, atol=1e-5, rtol=1e-4)
    assert len(weights) == (LAYERS if implementation == "eager" else 0)
    for a, b in zip(same, weights, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_a_run_leaves_no_graph_and_no_hook_even_after_an_error(loaded: Loaded) -> None:
    plan, found = passed(loaded, replace(KNOCKOUT, name="first", layers=(0, 1)))
    assert found.embeddings is None and not any(s.requires_grad for s in found.states.values())
    row, *others = plan.batches[0].rows
    broken = replace(row, passed=replace(row.passed, positions=dict.fromkeys(POSITIONS, 10**6)))
    with pytest.raises(IndexError):
        runner.run(loaded, replace(plan.batches[0], rows=(broken, *others)), read=READ)
    modules = list(loaded.model.modules())
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in modules)
