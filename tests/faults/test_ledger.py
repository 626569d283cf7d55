"""The table of faults: nothing that went wrong, or could not be tried, is missing from it."""

from __future__ import annotations

import pytest

from faults.conftest import Ledger


def test_a_fault_that_raises_is_entered_as_not_survived() -> None:
    """Wherever it is: a recovery that fails raises long before anything is compared."""
    ledger = Ledger()
    with pytest.raises(AssertionError), ledger.entering("disk full") as entry:
        entry.lost = 3
        raise AssertionError
    with pytest.raises(TimeoutError), ledger.entering("disk full"):
        raise TimeoutError
    with ledger.entering("disk full") as entry:
        entry.lost = 1
    assert [line.split() for line in ledger.lines()[1:]] == [["disk", "full", "3", "1", "4"]]


def test_a_fault_that_cannot_be_tried_here_is_listed_with_the_reason() -> None:
    ledger = Ledger()
    with pytest.raises(pytest.skip.Exception), ledger.entering("read-only results"):
        pytest.skip("no disk can be mounted here: permission denied")
    with ledger.entering("clock jumps"):
        pass
    assert ledger.lines()[-1].startswith("read-only results   not run: no disk can be mounted")
    assert ledger.lines()[1].startswith("clock jumps ")
