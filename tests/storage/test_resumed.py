"""Jobs that died: what is finished is not done again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from held import Held
from instrument import CONDITIONS, READOUTS, TOKENIZER, answers_table, planned, short_of_memory

from anchorscope.calibration import verdicts
from anchorscope.experiments import refits
from anchorscope.models import activations, generation, models
from anchorscope.probes import fitting, probes, scores, solved
from anchorscope.storage import partial
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import write_parquet_parts
from anchorscope.storage.room import Room

PROMPTS = [[5 + n, 9, 11 + 2 * n, *range(7, 7 + n % 3)] for n in range(9)]
ENDING = generation.Ending("chat", (0,), frozenset())
SIZES = {"max_new_tokens": 5, "batch_tokens": 24}


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
        for condition, draw in activations.conditions_of(CONDITIONS)
        for readout in READOUTS
    }
    return {key: (ids, stored[:]) for key, (ids, stored) in found.items()}


def same(first: dict[Any, Any], second: dict[Any, Any]) -> bool:
    return first.keys() == second.keys() and all(
        first[key][0] == second[key][0] and torch.equal(first[key][1], second[key][1])
        for key in first
    )


@pytest.mark.parametrize("dies_at", [1, 5, 9])
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
    assert same(states(tmp_path / "cell"), states(tmp_path / "whole"))
    assert {**stats, "seconds": 0} == {**whole, "seconds": 0}


def test_what_is_finished_needs_no_pass_and_no_weights(
    cell: Any, tmp_path: Path, checkpoint: Any
) -> None:
    loaded, plan = cell
    whole = activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    empty = models.load(checkpoint("llama", TOKENIZER["llama"]), weights=False)
    assert {weights.device.type for weights in empty.model.parameters()} == {"meta"}
    assert empty.model.config.to_dict() == loaded.model.config.to_dict()
    assert activations.write(tmp_path / "cell", empty, plan, READOUTS) == whole
    with pytest.raises((NotImplementedError, RuntimeError)):
        activations.write(tmp_path / "other", empty, plan, READOUTS)


def test_a_damaged_batch_alone_is_measured_anew(cell: Any, tmp_path: Path) -> None:
    loaded, plan = cell
    activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    before = states(tmp_path / "cell")
    path = tmp_path / "cell/batch-00001.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with counted(loaded.model) as rows:
        activations.write(tmp_path / "cell", loaded, plan, READOUTS)
    assert 0 < len(rows) <= 3
    assert same(states(tmp_path / "cell"), before)


def test_batches_that_changed_places_are_refused_and_measured_anew(
    cell: Any, tmp_path: Path
) -> None:
    """Each file is whole; read by their places alone, every number would be another sample's."""
    loaded, plan = cell
    folder = tmp_path / "cell"
    activations.write(folder, loaded, plan, READOUTS)
    before = states(folder)
    masked = [n for n, batch in enumerate(plan.batches) if batch.masked]
    one, two = (folder / f"batch-{number:05d}.safetensors" for number in masked[:2])
    one.rename(folder / "aside")
    two.rename(one)
    (folder / "aside").rename(two)
    with pytest.raises(AnchorscopeError, match="not of the samples") as caught:
        activations.read(folder, "mlp/final", "clean")
    assert caught.value.where == one
    with counted(loaded.model) as rows:
        activations.write(folder, loaded, plan, READOUTS)
    assert rows and same(states(folder), before)


def test_a_batch_of_nobody_knows_which_samples_is_measured_anew(cell: Any, tmp_path: Path) -> None:
    """One that was written before batches said it."""
    loaded, plan = cell
    activations.write(tmp_path, loaded, plan, READOUTS)
    before, path = states(tmp_path), partial.batch(tmp_path, 1)
    notes = partial.notes(path)
    del notes["samples"]
    partial.save(partial.read(path), path, **notes)
    with pytest.raises(AnchorscopeError, match="not of the samples"):
        activations.read(tmp_path, "mlp/final", "clean")
    with counted(loaded.model) as rows:
        activations.write(tmp_path, loaded, plan, READOUTS)
    assert 0 < len(rows) <= 3 and same(states(tmp_path), before)


def test_a_generating_job_that_died_goes_on_where_it_was(load: Any, tmp_path: Path) -> None:
    loaded = load("llama")
    call = (PROMPTS, loaded.model, loaded.tokenizer, ENDING)
    with counted(loaded.model) as undisturbed:
        whole = generation.generate(*call, **SIZES)
    with pytest.raises(KeyboardInterrupt), counted(loaded.model, 7):
        generation.generate(*call, **SIZES, keep=tmp_path)
    kept = len(list(tmp_path.glob("batch-*")))
    assert kept
    with counted(loaded.model) as rest:
        assert generation.generate(*call, **SIZES, keep=tmp_path) == whole
    assert len(rest) == len(undisturbed) - kept * SIZES["max_new_tokens"]
    with counted(loaded.model) as none:
        assert generation.generate(*call, **SIZES, keep=tmp_path) == whole
    assert not none


def test_answers_to_other_prompts_are_not_taken_for_these(load: Any, tmp_path: Path) -> None:
    loaded = load("llama")
    rest = (loaded.model, loaded.tokenizer, ENDING)
    generation.generate(PROMPTS[:4], *rest, **SIZES, keep=tmp_path)
    fresh = generation.generate(PROMPTS, *rest, **SIZES)
    assert generation.generate(PROMPTS, *rest, **SIZES, keep=tmp_path) == fresh


@pytest.fixture
def graded(load: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model of which two ordinary tokens stand for the verdicts."""
    monkeypatch.setattr(verdicts, "verdict_tokens", lambda loaded: (70, 91))
    return load("llama", TOKENIZER["llama"])


@pytest.mark.parametrize("dies_at", [0, 1, 3])
def test_a_job_of_verdicts_that_died_passes_no_finished_batch_again(
    graded: Any, tmp_path: Path, dies_at: int
) -> None:
    answers = answers_table(graded.tokenizer)
    plan = verdicts.plan(graded, answers, conditions={"knockout": {}}, batch_tokens=150)
    texts = [tuple(ids[: 9 + n % 3]) for n, ids in enumerate(answers["input_ids"])]

    def all_of(keep: Path | None = None) -> tuple[pd.DataFrame, dict[tuple[int, ...], float]]:
        own = verdicts.of_samples(graded, plan, keep=keep)
        return own, verdicts.of_texts(graded, texts, batch_tokens=20, keep=keep)

    with counted(graded.model) as undisturbed:
        whole = all_of()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), counted(graded.model, dies_at):
            all_of(tmp_path)
    with counted(graded.model) as rest:
        own, swapped = all_of(tmp_path)
    assert len(rest) == len(undisturbed) - 2 * dies_at > 0
    pd.testing.assert_frame_equal(own, whole[0], check_exact=True)
    assert swapped == whole[1]


def test_halved_batches_of_verdicts_stay_counted(graded: Any, tmp_path: Path) -> None:
    answers = answers_table(graded.tokenizer)
    plan = verdicts.plan(graded, answers, conditions={"knockout": {}}, batch_tokens=10**6)
    rooms = Room(), Room()
    handle = short_of_memory(graded.model, 4)
    try:
        first = verdicts.of_samples(graded, plan, keep=tmp_path, room=rooms[0])
    finally:
        handle.remove()
    again = verdicts.of_samples(graded, plan, keep=tmp_path, room=rooms[1])
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    assert rooms[1].halved == rooms[0].halved > 0


N, WIDTH, DEPTH = 60, 4, 4
SETTINGS = fitting.Settings(folds=3, inner_folds=2, grid=(0.01, 1.0))
TO_SCORE = [("knockout", 0), ("random", 0), ("question", 0), ("noop", 0), ("matched", 0)]


class Probed:
    """A cell whose probes are fitted; one block of layers is a batch.

    Attributes:
        solves: layers of each solve.
        dies_at: solve in which the process dies.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        z = torch.arange(N) % 3 == 0
        noise = torch.randn(DEPTH, N, WIDTH, generator=torch.Generator().manual_seed(0))
        self.x = noise + z[:, None] * torch.tensor([1.0, 0.0, 0.0, 0.0])
        ids = [f"i{n}" for n in range(N)]
        self.answers = pd.DataFrame({"id": ids, "question": ids, "label": z.int(), "dropped": None})
        self.asked: list[int] = []
        self.solves: list[int] = []
        self.dies_at: int | None = None
        real = probes.fit

        def fit(x: Any, *given: Any, **more: Any) -> probes.Probes:
            if len(self.solves) == self.dies_at:
                raise KeyboardInterrupt
            self.solves.append(len(x))
            return real(x, *given, **more)

        monkeypatch.setattr(probes, "fit", fit)
        monkeypatch.setattr(solved, "BLOCK_BYTES", 4 * N * WIDTH)
        monkeypatch.setattr(refits, "PROBLEMS_AT_ONCE", 30)

    def read(self, condition: str, draw: int) -> tuple[list[str], Held]:
        ids = self.answers["id"].tolist()
        moved = self.x - 0.8 * (condition == "knockout") - 0.1 * (condition == "random")
        some = {"noop": 7, "matched": 0}.get(condition, N)
        return ids[:some], Held(moved[:, :some], self.asked)

    def frames(self, keep: Path | None = None) -> Iterator[pd.DataFrame]:
        given = (self.read, self.answers, "mlp/final", TO_SCORE, SETTINGS)
        return scores.frames(*given, keep=keep)

    def refits(self, keep: Path | None = None) -> pd.DataFrame:
        given = (self.read, self.answers, "mlp/final", SETTINGS)
        return refits.refit(*given, draws=12, keep=keep)


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> Probed:
    return Probed(monkeypatch)


@pytest.mark.parametrize("dies_at", [0, 3, 8, 13])
def test_a_scoring_job_that_died_loses_the_layers_in_flight_only(
    probed: Probed, tmp_path: Path, dies_at: int
) -> None:
    write_parquet_parts(probed.frames(), tmp_path / "whole")
    # A layer each: the clean probes and the shuffled ones, then those refitted, twice.
    assert probed.solves == [1] * DEPTH * 4
    probed.solves, probed.dies_at = [], dies_at
    with pytest.raises(KeyboardInterrupt):
        write_parquet_parts(probed.frames(tmp_path / "waits"), tmp_path / "table")
    probed.solves, probed.dies_at = [], None
    write_parquet_parts(probed.frames(tmp_path / "waits"), tmp_path / "table")
    in_flight = dies_at % 2 if dies_at < 2 * DEPTH else 0
    assert len(probed.solves) == 4 * DEPTH - dies_at + in_flight
    assert (tmp_path / "table").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_finished_scoring_job_reads_no_features_again(probed: Probed, tmp_path: Path) -> None:
    first = list(probed.frames(tmp_path))
    probed.solves, probed.asked[:] = [], []
    again = list(probed.frames(tmp_path))
    assert not probed.solves and not probed.asked
    for one, two in zip(first, again, strict=True):
        pd.testing.assert_frame_equal(one, two, check_exact=True)
    each = scores.to_fit(probed.answers, TO_SCORE, SETTINGS)
    assert solved.waiting(tmp_path) == DEPTH * each
    damaged = sorted(tmp_path.glob("batch-mlp.final-clean.0-*"))[2]
    damaged.write_bytes(damaged.read_bytes()[:5])
    assert solved.waiting(tmp_path) < DEPTH * each


@pytest.mark.parametrize("hurt", ["knockout.0-0003", "clean.0-0001", "noop.0-0000"])
def test_damaged_layers_alone_are_named_and_solved_anew(
    probed: Probed, tmp_path: Path, caplog: pytest.LogCaptureFixture, hurt: str
) -> None:
    first = list(probed.frames(tmp_path))
    probed.solves = []
    (path,) = tmp_path.glob(f"batch-mlp.final-{hurt}*")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    again = list(probed.frames(tmp_path))
    assert len(probed.solves) == {"knockout": 1, "clean": 2, "noop": 0}[hurt.partition(".")[0]]
    assert path.name in caplog.text and partial.finished(path) is not None
    for one, two in zip(first, again, strict=True):
        pd.testing.assert_frame_equal(one, two, check_exact=True)


def test_layers_of_other_samples_are_not_taken_for_these(probed: Probed, tmp_path: Path) -> None:
    list(probed.frames(tmp_path))
    probed.answers["id"] = [f"j{n}" for n in range(N)]
    probed.solves = []
    fresh = list(probed.frames(tmp_path))
    assert probed.solves == [1] * DEPTH * 4
    assert fresh[0]["id"].str.startswith("j").all()


@pytest.mark.parametrize("dies_at", [3, DEPTH + 1])
def test_a_refitting_job_that_died_loses_the_draws_in_flight_only(
    probed: Probed, tmp_path: Path, dies_at: int
) -> None:
    whole = probed.refits()
    undisturbed = len(probed.solves)
    assert undisturbed > DEPTH + 2
    probed.solves, probed.dies_at = [], dies_at
    with pytest.raises(KeyboardInterrupt):
        probed.refits(tmp_path)
    probed.solves, probed.dies_at = [], None
    pd.testing.assert_frame_equal(probed.refits(tmp_path), whole, check_exact=True)
    assert len(probed.solves) == undisturbed - dies_at
    probed.solves = []
    pd.testing.assert_frame_equal(probed.refits(tmp_path), whole, check_exact=True)
    assert not probed.solves
