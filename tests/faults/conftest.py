"""The world that is disturbed, and the table of what became of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pytest

from faults.harness import FULL, SEED, World, undisturbed


@dataclass
class Ledger:
    """What was injected, survived and lost, by fault."""

    injected: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)

    def add(self, fault: str, *, survived: bool, lost: int = 0, times: int = 1) -> None:
        """Enter a fault: whether the run came out as it should, and how much was made again."""
        self.injected[fault] += times
        self.survived[fault] += times if survived else 0
        self.lost[fault] += lost

    def lines(self) -> list[str]:
        """The table."""
        width = max(map(len, self.injected), default=0)
        head = f"{'fault':{width}}  injected  survived  lost"
        return [head] + [
            f"{fault:{width}}  {count:8}  {self.survived[fault]:8}  {self.lost[fault]:4}"
            for fault, count in self.injected.items()
        ]


_KEY = pytest.StashKey[Ledger]()


@pytest.fixture(scope="session")
def ledger(pytestconfig: pytest.Config) -> Ledger:
    """Where every fault is entered before anything is asserted of it."""
    return pytestconfig.stash.setdefault(_KEY, Ledger())


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The undisturbed run; shared, so copy it."""
    return undisturbed(tmp_path_factory.mktemp("faults") / "undisturbed")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the table."""
    entered = config.stash.get(_KEY, None)
    if entered is None or not entered.injected:
        return
    form = "whole" if FULL else "short form; `make test-faults` runs it whole"
    terminalreporter.section(f"faults ({form}; seed {SEED})")
    for line in entered.lines():
        terminalreporter.write_line(line)
