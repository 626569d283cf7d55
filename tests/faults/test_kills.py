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
    disturb_in_time,
    earlier,
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


Chain = Sequence[Trial]
"""Disturbances of one run, one after the other."""
KEEP = [stage for stage in STAGES if stage in KEEPING]


def timed(kill: Kill, stages: Sequence[str], dice: random.Random) -> Chain:
    """A random moment of each stage."""
    return [Trial(stage, Moment(share=dice.random()), kill) for stage in stages]


def counted(kill: Kill, dice: random.Random) -> Chain:
    """A moment in each stage that keeps batches, after some of them."""
    return [Trial(stage, after(stage, dice), kill) for stage in KEEP]


def after(stage: str, dice: random.Random) -> Moment:
    """Once some batches of a stage are finished."""
    return Moment(batches=dice.randint(1, KEEPING[stage][1]))


def outcomes(world: World, ledger: Ledger, folder: Path, chains: Sequence[Chain]) -> list[Outcome]:
    """A run for each chain; what came too late is tried again, alone and earlier."""
    found, attempt = list[Outcome](), 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while chains and attempt < 4:
            roots = [folder / f"{attempt}-{number}" for number in range(len(chains))]
            new = list(pool.map(lambda root, chain: survive(world, root, chain), roots, chains))
            enter(ledger, new)
            found += new
            chains = [[earlier(trial)] for outcome in new for trial in outcome.missed]
            attempt += 1
    assert not chains, f"a kill came too late (seed {SEED})"
    return found


def enter(ledger: Ledger, found: Sequence[Outcome]) -> None:
    """Enter what was done, before anything is asserted of it."""
    for outcome in found:
        for trial in outcome.injected:
            ledger.add(NAMES[trial.kill], survived=outcome.same)
        ledger.lost[NAMES[outcome.trials[0].kill]] += outcome.lost


def check(found: Sequence[Outcome]) -> None:
    assert not [outcome.failed for outcome in found if outcome.failed], f"seed {SEED}"
    assert all(outcome.same for outcome in found), f"other tables (seed {SEED})"
    assert not any(outcome.lost for outcome in found), f"finished batches lost (seed {SEED})"


@pytest.mark.skipif(not FULL, reason="make test-all runs it")
@pytest.mark.parametrize(
    ("kill", "stages", "each", "by_batch"),
    [
        (sigkill, list(STAGES), 3, 2),
        (sigterm, KEEP, 1, 1),
        (sigterm_all, KEEP, 1, 1),
        (sigkill_snakemake, KEEP, 1, 1),
    ],
    ids=["SIGKILL", "SIGTERM", "SIGTERM-all", "SIGKILL-Snakemake"],
)
def test_a_run_killed_anywhere_ends_with_the_same_tables(
    world: World,
    ledger: Ledger,
    tmp_path: Path,
    kill: Kill,
    stages: Sequence[str],
    each: int,
    by_batch: int,
) -> None:
    """Each run is killed in one stage after the other."""
    dice = random.Random(f"{SEED} {NAMES[kill]}")
    chains = [timed(kill, stages, dice) for _ in range(each)]
    chains += [counted(kill, dice) for _ in range(by_batch)]
    check(outcomes(world, ledger, tmp_path, chains))


@pytest.mark.skipif(not FULL, reason="make test-all runs it")
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
        kept = dict[tuple[str, str], int]()
        with ledger.entering(NAMES[sigkill], len(LATER)) as entry, watched(clone) as seen:
            for script, target in LATER.values():
                moment = after(script, dice) if script in KEEPING else Moment(share=dice.random())
                trial = Trial(script, moment, sigkill)
                done = disturb_in_time(world, clone, trial, target)
                kept |= {(script, name): at for name, at in done.items()}
            finish(clone, *(target for _, target in LATER.values()))
            again = [name for name, at in kept.items() if seen.get(name) != at]
            entry.lost = len(again)
            assert not again, f"seed {SEED}"
        for _, target in LATER.values():
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
    enter(ledger, [outcome])
    check([outcome])
    assert any(outcome.hits), f"every kill came too late (seed {SEED})"
