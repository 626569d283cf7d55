"""Copies from and to a GPU: it works on, and nothing is read before it is there.

Here the CPU stands in the GPU's place, with copies that are complete only once they are waited for;
test_gpu.py has the copies themselves.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from instrument import READOUTS, TOKENIZER, answers_table, planned, short_of_memory

from anchorscope.models import activations, generation, hidden_states
from anchorscope.storage import partial, transfer
from anchorscope.storage.errors import AnchorscopeError

ENDING = generation.Ending("chat", (0,), frozenset())


class Late:
    """The event of a copy that is made at the last moment; until then it reads as ones."""

    def __init__(self, source: torch.Tensor) -> None:
        self.near, self.source = torch.ones_like(source), weakref.ref(source)

    def synchronize(self) -> None:
        source = self.source()
        assert source is not None, "its memory was used again before it was copied"
        self.near.copy_(source)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU in the place of a GPU."""

    def copied(source: torch.Tensor) -> tuple[torch.Tensor, Late]:
        event = Late(source)
        return event.near, event

    def pinned(tensor: torch.Tensor) -> torch.Tensor:
        assert tensor.is_contiguous(), "rows that share their memory cannot be pinned"
        return tensor.clone()

    monkeypatch.setattr(transfer, "_far", lambda device: True)
    monkeypatch.setattr(transfer, "_copied", copied)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pinned)


@pytest.fixture
def cell(load: Any) -> tuple[Any, Any]:
    loaded = load("llama", TOKENIZER["llama"])
    return loaded, planned(answers_table(loaded.tokenizer), batch_tokens=400)


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Batches given to the model and written, in order."""
    order: list[str] = []
    given, save = hidden_states._Passes.given, partial.save

    def giving(passes: Any, batch: Any) -> Any:
        order.append(f"given {passes.planned.batches.index(batch)}")
        return given(passes, batch)

    def saving(tensors: Any, path: Path, **notes: str) -> None:
        order.append(f"written {int(path.stem.partition('-')[2])}")
        save(tensors, path, **notes)

    monkeypatch.setattr(hidden_states._Passes, "given", giving)
    monkeypatch.setattr(partial, "save", saving)
    return order


def write(folder: Path, cell: Any) -> dict[str, Any]:
    return activations.write(folder, *cell, READOUTS)


def batches(folder: Path) -> dict[str, dict[str, torch.Tensor]]:
    return {path.name: partial.read(path) for path in sorted(folder.glob("batch-*"))}


def same(one: Path, other: Path) -> bool:
    """Whether two folders hold the same batches, to the last bit."""
    first, second = batches(one), batches(other)
    return first.keys() == second.keys() and all(
        first[path].keys() == second[path].keys()
        and all(torch.equal(first[path][name], second[path][name]) for name in first[path])
        for path in first
    )


def test_on_a_cpu_nothing_is_copied() -> None:
    tensor = torch.arange(6).reshape(2, 3)
    arriving = transfer.down({"x": tensor})
    assert not arriving.under_way and arriving.wait()["x"] is tensor
    assert transfer.up(tensor, "cpu") is tensor


@pytest.mark.usefixtures("late")
def test_what_has_not_arrived_yet_is_not_what_was_sent() -> None:
    """The copies that the other tests hold against the truth can be read too early."""
    tensors = {"x": torch.arange(5.0), "flag": torch.tensor([False, True])}
    arriving = transfer.down(tensors)
    assert arriving.under_way
    assert not any(torch.equal(arriving._near[name], tensors[name]) for name in tensors)
    assert all(torch.equal(found, tensors[name]) for name, found in arriving.wait().items())


def test_a_cpu_passes_a_batch_after_the_one_before_is_written(
    cell: Any, tmp_path: Path, happened: list[str]
) -> None:
    write(tmp_path, cell)
    numbers = range(len(cell[1].batches))
    assert happened == [said for n in numbers for said in (f"given {n}", f"written {n}")]


def test_a_gpu_is_given_one_batch_while_the_one_before_is_written(
    cell: Any, tmp_path: Path, happened: list[str], late: None
) -> None:
    write(tmp_path, cell)
    last = len(cell[1].batches) - 1
    between = [said for n in range(1, last + 1) for said in (f"given {n}", f"written {n - 1}")]
    assert last > 3 and happened == ["given 0", *between, f"written {last}"]


def test_states_that_come_late_are_the_same_to_the_last_bit(
    cell: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    whole = write(tmp_path / "cpu", cell)
    request.getfixturevalue("late")
    found = write(tmp_path / "late", cell)
    assert {**found, "seconds": 0} == {**whole, "seconds": 0}
    assert same(tmp_path / "late", tmp_path / "cpu")


@pytest.mark.parametrize(("place", "waiting"), [("cpu", 0), ("late", 1)])
def test_no_more_than_one_batch_waits_while_another_is_passed(
    cell: Any, tmp_path: Path, request: pytest.FixtureRequest, place: str, waiting: int
) -> None:
    if place == "late":
        request.getfixturevalue("late")
    flights: list[list[weakref.ref[torch.Tensor]]] = []
    held: list[int] = []
    given = hidden_states._Passes.given

    def giving(passes: Any, batch: Any) -> Any:
        held.append(sum(any(state() is not None for state in flight) for flight in flights))
        flight = given(passes, batch)
        states = [state for _, part in flight.parts for state in part._near.values()]
        flights.append([weakref.ref(state) for state in states])
        return flight

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hidden_states._Passes, "given", giving)
        write(tmp_path, cell)
    assert held == [0, *[waiting] * (len(cell[1].batches) - 1)]


@pytest.fixture
def whole(cell: Any, tmp_path: Path) -> Path:
    """The cell as the CPU measures it."""
    write(tmp_path / "whole", cell)
    return tmp_path / "whole"


def dies_in(at: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job dies when batch number 2 is given to the device, or when it is written."""
    where, name = {"given": (hidden_states._Passes, "given"), "written": (partial, "save")}[at]
    real, calls = getattr(where, name), []

    def dying(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise error
        return real(*given, **named)

    monkeypatch.setattr(where, name, dying)


@pytest.mark.parametrize(
    ("at", "error", "kept"),
    [
        ("given", RuntimeError("a kernel failed"), 2),  # what was passed before is written first
        ("given", KeyboardInterrupt(), 1),
        ("written", KeyboardInterrupt(), 2),
    ],
)
def test_a_job_that_dies_loses_the_batch_being_written_and_the_one_being_passed(
    cell: Any,
    whole: Path,
    tmp_path: Path,
    late: None,
    monkeypatch: pytest.MonkeyPatch,
    at: str,
    error: BaseException,
    kept: int,
) -> None:
    with monkeypatch.context() as during, pytest.raises(type(error)):
        dies_in(at, error, during)
        write(tmp_path / "cell", cell)
    assert list(batches(tmp_path / "cell")) == sorted(batches(whole))[:kept]
    write(tmp_path / "cell", cell)
    assert same(tmp_path / "cell", whole)


def halved(folder: Path) -> dict[str, str]:
    """What each batch says of how often it was halved."""
    return {path.name: partial.notes(path)["halved"] for path in sorted(folder.glob("batch-*"))}


def test_a_batch_that_does_not_fit_is_halved_and_counted_where_it_belongs(
    cell: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    handle = short_of_memory(cell[0].model, 4)
    try:
        expected = write(tmp_path / "cpu", cell)
        request.getfixturevalue("late")
        found = write(tmp_path / "late", cell)
    finally:
        handle.remove()
    assert {**found, "seconds": 0} == {**expected, "seconds": 0}
    assert same(tmp_path / "late", tmp_path / "cpu")
    counts = halved(tmp_path / "late")
    assert counts == halved(tmp_path / "cpu") and len(set(counts.values())) > 1


def test_memory_that_turns_out_too_small_when_the_states_come_is_no_loss(
    cell: Any, whole: Path, tmp_path: Path, late: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive, calls = Late.synchronize, []

    def short(event: Late) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        arrive(event)

    monkeypatch.setattr(Late, "synchronize", short)
    write(tmp_path / "cell", cell)
    assert len(calls) > 3 and same(tmp_path / "cell", whole)


@pytest.mark.parametrize("value", [float("nan"), 0.0])
def test_broken_states_are_found_before_they_are_written(
    checkpoint: Callable[..., Path], tmp_path: Path, late: None, value: float
) -> None:
    from anchorscope.models import models

    loaded = models.load(checkpoint("llama", TOKENIZER["llama"]))
    models.layers(loaded)[1].mlp.down_proj.weight.data.fill_(value)
    plan = planned(answers_table(loaded.tokenizer), batch_tokens=400)
    with pytest.raises(AnchorscopeError, match="output of mlp is .* at layer 1"):
        activations.write(tmp_path, loaded, plan, ["mlp/final"])
    assert not list(tmp_path.glob("batch-*"))


def generated(loaded: Any) -> tuple[list[tuple[int, ...]], int]:
    """Answers of unlike lengths, and how many passes they took."""
    prompts = [[5 + n, 9, 11 + 2 * n, *range(7, 7 + n % 3)] for n in range(9)]
    likely = generation.generate(
        prompts, loaded.model, loaded.tokenizer, ENDING, max_new_tokens=8, batch_tokens=10**6
    )
    ending = generation.Ending("chat", (0,), frozenset({likely[0][1], likely[3][4]}))
    passes: list[int] = []
    handle = loaded.model.base_model.register_forward_pre_hook(lambda *_: passes.append(1))
    try:
        said = generation.generate(
            prompts, loaded.model, loaded.tokenizer, ending, max_new_tokens=8, batch_tokens=50
        )
    finally:
        handle.remove()
    return said, len(passes)


def test_answers_whose_tokens_come_late_are_the_same_for_a_pass_more_a_batch(
    load: Any, request: pytest.FixtureRequest
) -> None:
    expected, passes = generated(load("llama"))
    assert len(set(map(len, expected))) > 2
    request.getfixturevalue("late")
    found, more = generated(load("llama"))
    assert found == expected
    batches = 3  # nine rows of up to 13 tokens, 50 to a batch
    assert passes <= more <= passes + batches


def test_logits_that_are_no_numbers_are_found_although_they_come_late(
    load: Any, late: None
) -> None:
    loaded = load("llama")
    head = loaded.model.get_output_embeddings().weight
    before = head.detach().clone()
    call = ([[5, 9, 7], [5, 8, 11, 7]], loaded.model, loaded.tokenizer, ENDING)
    head.data[17] = float("nan")
    try:
        with pytest.raises(AnchorscopeError, match="not finite"):
            generation.generate(*call, max_new_tokens=3, batch_tokens=64, names=["a", "b"])
    finally:
        head.data.copy_(before)
