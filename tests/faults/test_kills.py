"""Killed at any moment: the same command goes on, and the tables come out the same."""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults.conftest import Ledger
from faults.harness import (
    FULL,
    KEEPING,
    LATER,
    SEED,
    STAGES,
    Kill,
    Moment,
    Outcome,
    Trial,
    World,
    disturb,
    finish,
    sigkill,
    sigkill_snakemake,
    sigterm,
    sigterm_all,
    survive,
    tables,
    watched,
)

AT_ONCE = 2
NAMES: dict[Kill, str] = {
    sigkill: "SIGKILL of a stage",
    sigterm: "SIGTERM of a stage, then SIGKILL",
    sigterm_all: "SIGTERM of the whole run, then SIGKILL",
    sigkill_snakemake: "SIGKILL of Snakemake",
}


def trials(kill: Kill, stages: Sequence[str], each: int, by_batch: int) -> list[Trial]:
    """Random moments of each stage, and of those that keep batches after some of them."""
    dice = random.Random(f"{SEED} {NAMES[kill]}")
    timed = [Trial(s, Moment(share=dice.random()), kill) for s in stages for _ in range(each)]
    kept = [stage for stage in KEEPING if stage in STAGES] if by_batch else []
    counted = [Trial(s, after(s, dice), kill) for s in [*kept, *["activations"] * by_batch]]
    return timed + counted


def after(stage: str, dice: random.Random) -> Moment:
    """Once some batches of a stage are finished."""
    return Moment(batches=dice.randint(1, KEEPING[stage][1]))


def outcomes(world: World, folder: Path, found: Sequence[Trial]) -> list[Outcome]:
    """Each disturbance in a run of its own; one that came too late is tried again, earlier."""

    def one(numbered: tuple[int, Trial]) -> Outcome:
        number, trial = numbered
        for attempt in range(4):
            outcome = survive(world, folder / f"{number}-{attempt}", [trial])
            if outcome.injected or outcome.failed:
                break
            early = Moment((trial.moment.share or 0.5) / 2)
            trial = Trial(trial.stage, early, trial.kill)
        return outcome

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, enumerate(found)))


def entered(ledger: Ledger, kill: Kill, found: Sequence[Outcome]) -> None:
    for outcome in found:
        ledger.add(NAMES[kill], survived=outcome.same, lost=outcome.lost)
    assert not [outcome.failed for outcome in found if outcome.failed], f"seed {SEED}"
    assert all(outcome.injected for outcome in found), f"a kill came too late (seed {SEED})"
    assert all(outcome.same for outcome in found), f"other tables (seed {SEED})"
    assert not any(outcome.lost for outcome in found), f"finished batches lost (seed {SEED})"


@pytest.mark.skipif(not FULL, reason="make test-faults runs it")
@pytest.mark.parametrize(
    ("kill", "each", "by_batch"),
    [(sigkill, 3, 4), (sigterm, 0, 1), (sigterm_all, 0, 1), (sigkill_snakemake, 0, 1)],
    ids=["SIGKILL", "SIGTERM", "SIGTERM-all", "SIGKILL-Snakemake"],
)
def test_a_run_killed_anywhere_ends_with_the_same_tables(
    world: World, ledger: Ledger, tmp_path: Path, kill: Kill, each: int, by_batch: int
) -> None:
    found = trials(kill, list(STAGES), each, by_batch)
    found += [] if each else trials(kill, ["train", "answers", "scores"], 1, 0)
    entered(ledger, kill, outcomes(world, tmp_path, found))


@pytest.mark.skipif(not FULL, reason="make test-faults runs it")
def test_what_comes_after_the_table_is_killed_and_comes_out_the_same(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    dice = random.Random(f"{SEED} later")
    made = [target for _, target in LATER.values() if not target.endswith(".html")]
    with (
        world.before("table", tmp_path / "plain") as plain,
        world.before("table", tmp_path / "clone") as clone,
    ):
        finish(plain, *made)
        for script, target in LATER.values():
            moment = after(script, dice) if script in KEEPING else Moment(share=dice.random())
            with ledger.entering(NAMES[sigkill]) as entry, watched(clone) as seen:
                done = disturb(world, clone, Trial(script, moment, sigkill), target)
                assert done is not None
                finish(clone, target)
                again = [name for name, at in done.items() if seen.get((script, name)) != at]
                entry.lost = len(again)
                assert not again, f"seed {SEED}"
                assert (clone.root / target).stat().st_size
        assert tables(clone) == tables(plain)
        for target in made:
            assert (clone.root / target).read_bytes() == (plain.root / target).read_bytes(), target


def test_a_run_killed_thrice_ends_with_the_same_tables(
    world: World, ledger: Ledger, tmp_path: Path
) -> None:
    """One run: a stage is killed, then the whole run asked to end, then Snakemake is killed."""
    dice = random.Random(SEED)
    chain = [
        Trial("activations", after("activations", dice), sigkill),
        Trial("scores", after("scores", dice), sigterm),
        Trial("delta_p", Moment(share=dice.uniform(0.0, 0.3)), sigkill_snakemake),
    ]
    outcome = survive(world, tmp_path / "clone", chain)
    # A stage may be over before its moment on a fast machine; only what was done is counted.
    for trial, hit in zip(chain, outcome.hits, strict=True):
        if hit or outcome.failed:
            ledger.add(NAMES[trial.kill], survived=outcome.same)
    ledger.lost[NAMES[sigkill]] += outcome.lost
    assert not outcome.failed, outcome.failed
    assert outcome.injected, f"every kill came too late (seed {SEED})"
    assert outcome.same and not outcome.lost, f"seed {SEED}"
