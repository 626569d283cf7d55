"""The runner beyond the knockout: some layers, batches begun ahead, and errors."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS, LAYERS
from instrument import CLOSE, TOKENIZER, answers_table

from anchorscope.config.readouts import POSITIONS
from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, arrange, narrowed
from anchorscope.passes.interventions import CLEAN, REGISTRY, Intervention
from anchorscope.passes.planning import sample_of

KNOCKOUT = REGISTRY["knockout"]
READ = ["attn/final", "mlp/final", "resid/final", "resid/before_answer"]


@pytest.fixture(params=ALL_FAMILIES)
def loaded(request: Any, checkpoint: Any) -> Loaded:
    return loading.load(checkpoint(request.param, TOKENIZER[request.param]))


def planned(loaded: Loaded, *interventions: Intervention, n: int = 4) -> Plan:
    rows = answers_table(loaded.tokenizer, CORPUS[:n]).to_dict("records")
    samples = [sample_of(row) for row in rows]
    chosen = [(one, 0) for one in (CLEAN, *interventions)]
    return arrange(samples, chosen, batch_tokens=10**6)


def one_by_one(batch: Batch) -> Iterator[Batch]:
    """Split a batch into one batch per sample."""
    return (narrowed(batch, [number]) for number in batch.samples)


def test_a_cut_of_some_layers_acts_there_and_behind_them(loaded: Loaded) -> None:
    first = replace(KNOCKOUT, name="first", layers=(0, 2))
    late = replace(KNOCKOUT, name="late", layers=(2, LAYERS))
    every = replace(KNOCKOUT, name="every", layers=(0, LAYERS))
    ((_, found),) = runner.measure(loaded, planned(loaded, KNOCKOUT, first, late, every), READ)
    for readout in READ:
        names = ("clean", "knockout", "first", "late", "every")
        clean, cut, early, after, whole = (
            found[f"{name}.0/{readout.replace('/', '.')}"] for name in names
        )
        assert torch.allclose(whole, cut, **CLOSE)
        assert torch.allclose(early[:, :2], cut[:, :2], **CLOSE)
        assert torch.allclose(after[:, :2], clean[:, :2], **CLOSE)
        for one, other in ((early, cut), (after, clean)):
            assert not torch.allclose(one[:, 2:], other[:, 2:], **CLOSE)


def test_batches_begun_ahead_give_the_same_states_in_the_same_order(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(one := planned(loaded, KNOCKOUT), batches=tuple(one_by_one(one.batches[0])))
    expected = list(runner.measure(loaded, plan, READ))
    begun: list[Batch] = []
    begin = runner._begin

    def seen(given: Loaded, batch: Batch, *more: Any) -> Any:
        begun.append(batch)
        return begin(given, batch, *more)

    monkeypatch.setattr(runner, "_begin", seen)
    monkeypatch.setattr(runner, "AHEAD", {"cpu": 1})
    found = runner.measure(loaded, plan, READ)
    first = next(found)
    some = {number for batch in begun for number in batch.samples}
    assert some == {number for batch in plan.batches[:2] for number in batch.samples}
    for (batch, states), (same, others) in zip([first, *found], expected, strict=True):
        assert batch == same and states.keys() == others.keys()
        assert all(torch.equal(states[name], others[name]) for name in states)


def test_batches_passed_before_one_that_fails_are_still_returned(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = replace(one := planned(loaded), batches=tuple(one_by_one(one.batches[0])))
    row, *others = plan.batches[2].rows
    broken = replace(row, passed=replace(row.passed, positions=dict.fromkeys(POSITIONS, 10**6)))
    batches = (*plan.batches[:2], replace(plan.batches[2], rows=(broken, *others)))
    for ahead in (0, 1):
        monkeypatch.setattr(runner, "AHEAD", {"cpu": ahead})
        found: list[Batch] = []
        with pytest.raises(IndexError):
            for batch, _ in runner.measure(loaded, replace(plan, batches=batches), READ):
                found.append(batch)
        assert found == [*batches[:2]]


def test_no_hook_is_left_even_after_an_error(loaded: Loaded) -> None:
    plan = planned(loaded, replace(KNOCKOUT, name="first", layers=(0, 1)))
    row, *others = plan.batches[0].rows
    broken = replace(row, passed=replace(row.passed, positions=dict.fromkeys(POSITIONS, 10**6)))
    batch = replace(plan.batches[0], rows=(broken, *others))
    with pytest.raises(IndexError):
        list(runner.measure(loaded, replace(plan, batches=(batch,)), READ))
    modules = list(loaded.model.modules())
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in modules)
