"""Jobs that died, and batches that do not fit: no finished batch is done again, no number moves."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from instrument import CONDITIONS, READOUTS, TOKENIZER, answers_table, planned, short_of_memory

from anchorscope.answers import generation
from anchorscope.answers.endings import Ending
from anchorscope.passes import activations, planning
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.room import Room, out_of_memory
from anchorscope.styles import CHAT

ENDING = Ending(CHAT, (0,), frozenset())


@contextmanager
def counted(model: Any, dies_at: int | None = None) -> Iterator[list[int]]:
    """Rows of each pass; the process dies in pass number `dies_at`."""
    rows: list[int] = []

    def see(_: Any, args: Any, kwargs: Any) -> None:
        if len(rows) == dies_at:
            raise KeyboardInterrupt
        rows.append(len(kwargs["input_ids"]))

    with model.base_model.register_forward_pre_hook(see, with_kwargs=True):
        yield rows


def check_states(folder: Path, other: Path, atol: float) -> None:
    for (condition, draw), readout in product(planning.conditions_of(CONDITIONS), READOUTS):
        rows, stored = activations.read(folder, readout, condition, draw)
        expected_rows, expected = activations.read(other, readout, condition, draw)
        assert rows.tolist() == expected_rows.tolist()
        torch.testing.assert_close(stored[:], expected[:], atol=atol, rtol=0)


def test_a_measuring_job_that_died_loses_the_batch_in_flight_only(
    load: Any, tmp_path: Path
) -> None:
    loaded, dies_at = load("llama", TOKENIZER["llama"]), 5
    plan = planned(answers_table(loaded.tokenizer), batch_tokens=400)
    with counted(loaded.model) as undisturbed:
        activations.write(tmp_path / "whole", loaded, plan, READOUTS)
    with pytest.raises(KeyboardInterrupt), counted(loaded.model, dies_at):
        activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    kept = len(list((tmp_path / "cell").glob("batch-*")))
    with counted(loaded.model) as rest:
        activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    # The head may be passed again; else no more than the passes of one batch, two at most.
    assert dies_at + len(rest) <= len(undisturbed) + 3
    assert kept and len(rest) < len(undisturbed)
    check_states(tmp_path / "cell", tmp_path / "whole", atol=0)
    with counted(loaded.model) as none:
        activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    assert not none


def test_parts_come_in_order_and_later_batches_are_halved_before_they_are_tried() -> None:
    tried: list[int] = []

    def work(some: Sequence[int]) -> list[int]:
        tried.append(len(some))
        if len(some) > 2:
            raise torch.OutOfMemoryError
        return list(some)

    room = Room()
    first = room.run(range(8), len, work)
    assert [number for part in first for number in part] == list(range(8))
    assert tried == [8, 4, 2, 2, 2, 2]
    tried.clear()
    second = room.run(range(5), len, work)
    assert [number for part in second for number in part] == list(range(5))
    assert tried == [2, 3, 1, 2]
    assert room.run([7], len, work) == [[7]]


def test_one_sample_that_does_not_fit_is_named_and_other_errors_stay_what_they_are() -> None:
    def fails(error: RuntimeError) -> None:
        raise error

    with pytest.raises(AnchorscopeError, match="a single sample of 50 tokens"):
        Room().run([1, 2], lambda some: 50 * len(some), lambda _: fails(torch.OutOfMemoryError()))
    with pytest.raises(RuntimeError, match="mat1"):
        Room().run([1, 2], len, lambda _: fails(RuntimeError("mat1 and mat2 differ")))
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert out_of_memory(caught.value)  # the CPU's allocator says it in words only
    assert out_of_memory(RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"))
    assert not out_of_memory(RuntimeError("CUDA error: device-side assert triggered"))


def test_halved_passes_give_the_same_states(load: Any, tmp_path: Path) -> None:
    loaded = load("llama", TOKENIZER["llama"])
    plan = planned(answers_table(loaded.tokenizer), batch_tokens=10**6)
    activations.write(tmp_path / "whole", loaded, plan, READOUTS)
    with short_of_memory(loaded.model, 6):
        activations.write(tmp_path / "halved", loaded, plan, READOUTS)
    check_states(tmp_path / "halved", tmp_path / "whole", atol=1e-5)


def test_halved_batches_of_answers_say_the_same(load: Any, tmp_path: Path) -> None:
    loaded = load("llama")
    prompts = [[5 + n, 9, 11 + 2 * n, 7] for n in range(8)]
    call = (prompts, replace(loaded, batch_tokens=4 * 9), ENDING)
    whole = generation.generate(*call, max_new_tokens=5)
    with short_of_memory(loaded.model, 2):
        halved = generation.generate(*call, max_new_tokens=5, keep=tmp_path)
    assert [one.ids for one in halved] == [one.ids for one in whole]
    for one, other in zip(halved, whole, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert generation.generate(*call, max_new_tokens=5, keep=tmp_path) == halved


def test_a_model_that_is_no_numbers_says_nothing(load: Any) -> None:
    """NaN is the largest of all: its token would be written, and the answer labelled."""
    loaded = load("llama")
    head = loaded.model.get_output_embeddings().weight
    before = head.detach().clone()
    head.data[17] = float("nan")  # a single token's, as a flipped bit makes it
    call = [[5, 9, 7], [5, 8, 11, 7]], loaded, ENDING
    try:
        with pytest.raises(AnchorscopeError, match="not finite") as caught:
            generation.generate(*call, max_new_tokens=3, names=["a", "b"])
    finally:
        head.data.copy_(before)
    assert caught.value.where in ("sample a", "sample b")
