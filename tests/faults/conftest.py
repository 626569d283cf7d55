"""The world that is disturbed, and the table of what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from faults.harness import FULL, SEED, World, undisturbed


@dataclass
class Entry:
    """What a test found out about a fault beside whether it was survived."""

    lost: int = 0


@dataclass
class Ledger:
    """What was injected, survived and lost, by fault; and what could not be tried here, and why."""

    injected: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    not_run: dict[str, str] = field(default_factory=dict)

    def add(self, fault: str, times: int = 1, *, survived: bool, lost: int = 0) -> None:
        """Enter a fault: whether the run came out as it should, and how much was made again."""
        self.injected[fault] += times
        self.survived[fault] += times * survived
        self.lost[fault] += lost

    @contextmanager
    def entering(self, fault: str, times: int = 1) -> Iterator[Entry]:
        """Enter a fault however the block ends: where it raises, none was survived."""
        entry = Entry()
        try:
            yield entry
        except pytest.skip.Exception as skipped:
            self.not_run[fault] = str(skipped)
            raise
        except BaseException:
            self.add(fault, times, survived=False, lost=entry.lost)
            raise
        self.add(fault, times, survived=True, lost=entry.lost)

    def lines(self) -> list[str]:
        """The table."""
        missing = {name: why for name, why in self.not_run.items() if name not in self.injected}
        width = max(map(len, [*self.injected, *missing]), default=0)
        head = f"{'fault':{width}}  injected  survived  lost"
        entered = [
            f"{fault:{width}}  {count:8}  {self.survived[fault]:8}  {self.lost[fault]:4}"
            for fault, count in self.injected.items()
        ]
        return [head, *entered, *(f"{n:{width}}   not run: {why}" for n, why in missing.items())]


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
    if entered is None or not (entered.injected or entered.not_run):
        return
    form = "whole" if FULL else "short form; `make test-all` runs it whole"
    terminalreporter.section(f"faults ({form}; seed {SEED})")
    for line in entered.lines():
        terminalreporter.write_line(line)
