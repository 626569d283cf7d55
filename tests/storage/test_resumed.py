"""Jobs that died: what is finished is not done again."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from instrument import CONDITIONS, READOUTS, TOKENIZER, answers_table, planned

from anchorscope.passes import activations, planning


@contextmanager
def counted(model: Any, dies_at: int | None = None) -> Iterator[list[int]]:
    """Rows of each pass; the process dies in pass number `dies_at`."""
    rows: list[int] = []

    def see(_: Any, args: Any, kwargs: Any) -> None:
        if len(rows) == dies_at:
            raise KeyboardInterrupt
        rows.append(len(kwargs["input_ids"]))

    handle = model.base_model.register_forward_pre_hook(see, with_kwargs=True)
    try:
        yield rows
    finally:
        handle.remove()


@pytest.fixture
def cell(load: Any) -> tuple[Any, Any]:
    loaded = load("llama", TOKENIZER["llama"])
    return loaded, planned(answers_table(loaded.tokenizer), batch_tokens=400)


def states(folder: Path) -> dict[tuple[str, int, str], Any]:
    """(condition, draw, read-out) → ids and states, in memory: the files may change."""
    found = {
        (condition, draw, readout): activations.read(folder, readout, condition, draw)
        for condition, draw in planning.conditions_of(CONDITIONS)
        for readout in READOUTS
    }
    return {key: (ids, stored[:]) for key, (ids, stored) in found.items()}


@pytest.mark.parametrize("dies_at", [1, 9])
def test_a_measuring_job_that_died_loses_the_batch_in_flight_only(
    cell: Any, tmp_path: Path, dies_at: int
) -> None:
    loaded, plan = cell
    with counted(loaded.model) as undisturbed:
        whole = activations.write(tmp_path / "whole", loaded, plan, READOUTS)
    with pytest.raises(KeyboardInterrupt), counted(loaded.model, dies_at):
        activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    kept = len(list((tmp_path / "cell").glob("batch-*")))
    with counted(loaded.model) as rest:
        stats = activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    # The head may be passed again; else no more than the passes of one batch, two at most.
    assert dies_at + len(rest) <= len(undisturbed) + 3
    assert kept == 0 or len(rest) < len(undisturbed)
    for key, (ids, stored) in states(tmp_path / "cell").items():
        expected_ids, expected = states(tmp_path / "whole")[key]
        assert ids == expected_ids and torch.equal(stored, expected)
    assert {**stats, "seconds": 0} == {**whole, "seconds": 0}
    with counted(loaded.model) as none:
        assert activations.write(tmp_path / "cell", loaded, plan, READOUTS) == stats
    assert not none
