"""Batched probes against scikit-learn, one problem at a time."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from threads import threads

from anchorscope.models.features import InTurn, Part
from anchorscope.probes import lbfgs, matmul, probes, solving, standardising
from anchorscope.probes.lbfgs import Block
from anchorscope.storage.errors import AnchorscopeError

GRID = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0])


def features(kind: str, n: int, width: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two layers of features, float32 [2, n, width], and labels."""
    random = np.random.default_rng(seed)
    z = (random.random(n) < 0.6).astype(int)
    x = random.normal(size=(2, n, width))
    if kind == "correlated":  # condition number of the correlation matrix: 1e5 and more
        mixing = random.normal(size=(2, width, width))
        x = x @ (mixing * np.logspace(0, -3, width)[:, None])
    x[..., : width // 2] += (4.0 if kind == "separable" else 0.4) * z[:, None]
    if kind == "offset":  # means far off, spreads from 0.001 to 1000, and a constant feature
        x = x * np.logspace(-3, 3, width) + np.linspace(-50, 50, width)
        x[..., -1] = 7.0
    return x.astype(np.float32), z


def problems(n: int, folds: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Training masks [problems, n] and penalties [problems]."""
    fold = np.arange(n) % folds
    masks = np.stack([fold != k for k in range(folds)])
    return np.repeat(masks, len(GRID), axis=0), np.tile(GRID, folds)


def fitted(x: np.ndarray, z: np.ndarray, masks: np.ndarray, c: np.ndarray) -> probes.Probes:
    return probes.fit(*(torch.as_tensor(value) for value in (x, z, masks, c)))


def reference(x: np.ndarray, z: np.ndarray, train: np.ndarray, c: float) -> np.ndarray:
    """P(z = 1) of every row of x [n, width], by scikit-learn in float64."""
    exact = x.astype(np.float64)
    scaler = StandardScaler().fit(exact[train])
    model = LogisticRegression(C=c, tol=1e-10, max_iter=100_000, solver="lbfgs")
    model.fit(scaler.transform(exact[train]), z[train])
    return model.predict_proba(scaler.transform(exact))[:, 1]


@pytest.mark.parametrize("few", [True, False])
def test_few_probes_are_solved_with_and_without_taking_the_correlations_apart(
    few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(standardising, "FEW", 0)
    n, width = 300, 12
    x, z = features("plain", n, width)
    ranks: list[int] = []
    minimise = probes.minimise

    def spied(block: Block, *given: float) -> tuple[torch.Tensor, int, int]:
        ranks.append(block.values.shape[-1])
        return minimise(block, *given)

    monkeypatch.setattr(probes, "minimise", spied)
    masks, c = np.stack([np.arange(n) % 5 != k for k in range(5)]), np.ones(5)
    p = torch.sigmoid(fitted(x, z, masks, c).logits(torch.as_tensor(x))).numpy()
    assert set(ranks) == ({0} if few else {width})
    for layer in range(2):
        for problem, train in enumerate(masks):
            expected = reference(x[layer], z, train, 1.0)
            assert np.abs(p[layer, problem] - expected).max() < 1e-3


def test_correlated_features_are_taken_apart_however_few_the_probes() -> None:
    x = features("correlated", 150, 40)[0][0]
    assert standardising._spread(torch.as_tensor(x / x.std(0))) > standardising.MILD
    mild = np.random.default_rng(1).normal(size=(2000, 40)).astype(np.float32)
    exact = np.square(np.linalg.eigvalsh(np.cov(mild.T))).mean()
    assert standardising._spread(torch.as_tensor(mild)) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "n", "width"),
    [
        ("plain", 150, 12),
        ("correlated", 150, 40),
        ("separable", 120, 20),
        ("offset", 150, 20),
        ("plain", 60, 150),
        ("correlated", 60, 150),
    ],
)
def test_out_of_fold_probabilities_are_scikit_learns(kind: str, n: int, width: int) -> None:
    x, z = features(kind, n, width)
    masks, c = problems(n)
    solved = fitted(x, z, masks, c)
    p = torch.sigmoid(solved.logits(torch.as_tensor(x))).numpy()
    assert solved.unconverged == 0
    for layer in range(len(x)):
        for problem, (train, penalty) in enumerate(zip(masks, c, strict=True)):
            expected = reference(x[layer], z, train, penalty)
            held_out = np.abs(p[layer, problem] - expected)[~train]
            assert held_out.max() < 1e-3, (layer, problem, penalty)


def test_the_solution_has_no_gradient() -> None:
    x, z = features("correlated", 150, 40)
    masks, c = problems(150)
    solved = fitted(x, z, masks, c)
    logits = solved.logits(torch.as_tensor(x)).double().numpy()
    for layer in range(2):
        for problem in range(len(c)):
            train = masks[problem]
            exact = x[layer].astype(np.float64)[train]
            std = exact.std(0)
            w = solved.weights[layer, problem].double().numpy() * std
            rest = 1 / (1 + np.exp(-logits[layer, problem, train])) - z[train]
            gradient = w + c[problem] * rest @ ((exact - exact.mean(0)) / std)
            largest = c[problem] * np.abs(rest @ ((exact - exact.mean(0)) / std)).max()
            assert np.abs(gradient).max() < 2e-3 * max(largest, 1e-2)


def test_rows_outside_the_mask_teach_nothing() -> None:
    x, z = features("plain", 90, 10)
    masks, c = problems(90)
    changed, flipped = x.copy(), z.copy()
    changed[:, ~masks[0]] += 5.0
    flipped[~masks[0]] = 1 - flipped[~masks[0]]
    rows = torch.as_tensor(x)
    here = fitted(x, z, masks[:6], c[:6]).logits(rows)
    there = fitted(changed, flipped, masks[:6], c[:6]).logits(rows)
    assert torch.allclose(here, there, atol=2e-3)


def test_problems_and_layers_do_not_disturb_each_other() -> None:
    x, z = features("plain", 90, 10)
    masks, c = problems(90)
    together = fitted(x, z, masks, c).logits(torch.as_tensor(x))
    alone = fitted(x[1:], z, masks[7:8], c[7:8]).logits(torch.as_tensor(x[1:]))
    assert torch.allclose(together[1, 7], alone[0, 0], atol=2e-3)


def test_blocks_of_layers_and_of_problems_equal_single_ones() -> None:
    x, z = features("plain", 90, 10)
    masks, c = problems(90)
    rows, labels = torch.as_tensor(x), torch.as_tensor(z).float()
    inputs = (labels, torch.as_tensor(masks).float(), torch.as_tensor(c).float().expand(2, -1))
    single = fitted(x, z, masks, c)
    for together in (1, 5, len(c)):
        sizes = solving.Sizes(2, together)
        solver = probes._Solver(InTurn(rows), *inputs, 1e-4, 500, sizes, first=0)
        block = solver.whole(range(2))
        assert block
        assert torch.allclose(block.logits(rows), single.logits(rows), atol=2e-3)


def test_more_memory_means_larger_blocks_and_there_is_always_one() -> None:
    budgets = (1, 1 << 20, 1 << 30)
    layers = [solving._layers_at_once(100, 16, 30, budget) for budget in budgets]
    together = [solving._problems_at_once(100, 16, budget) for budget in budgets]
    for sizes in (layers, together):
        assert sizes[0] == 1 < sizes[1] < sizes[2]


def test_little_memory_gives_the_same_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    x, z = features("offset", 150, 20)
    masks, c = problems(150)
    expected = fitted(x, z, masks, c).logits(torch.as_tensor(x))
    solved: list[int] = []
    minimise = probes.minimise

    def spied(block: Block, *given: float) -> tuple[torch.Tensor, int, int]:
        solved.append(len(block.size))
        return minimise(block, *given)

    monkeypatch.setattr(probes, "minimise", spied)
    monkeypatch.setattr(solving, "ROWS_AT_ONCE", 7)
    inputs = [torch.as_tensor(value) for value in (x, z, masks, c)]
    found = probes.fit(*inputs, budget_bytes=20_000).logits(inputs[0])
    assert max(solved) < len(c) and sum(solved) == 2 * len(c)
    assert torch.allclose(found, expected, atol=2e-3)


def test_bfloat16_features_are_solved_in_float32() -> None:
    x, z = features("offset", 150, 20)
    half = torch.as_tensor(x).bfloat16()
    masks, c = problems(150)
    inputs = [torch.as_tensor(value) for value in (z, masks, c)]
    found, exact = probes.fit(half, *inputs), probes.fit(half.float(), *inputs)
    assert found.weights.dtype == found.bias.dtype == torch.float32
    assert torch.equal(found.weights, exact.weights) and torch.equal(found.bias, exact.bias)
    p = torch.sigmoid(found.logits(half)).numpy()
    for problem, (train, penalty) in enumerate(zip(masks, c, strict=True)):
        expected = reference(half[0].float().numpy(), z, train, penalty)
        assert np.abs(p[0, problem] - expected)[~train].max() < 1e-3


class Counted:
    """Features that are read when asked for, and note how many layers were asked for at once."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x, self.asked = x, list[int]()

    @property
    def shape(self) -> torch.Size:
        return self.x.shape

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, layers: slice) -> torch.Tensor:
        self.asked.append(len(self.x[layers]))
        return self.x[layers]


def test_only_the_layers_being_solved_or_scored_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solving, "ABREAST_BYTES", 1)
    x, z = features("plain", 90, 10)
    masks, c = problems(90)
    inputs = [torch.as_tensor(value) for value in (z, masks, c)]
    read = Counted(torch.as_tensor(x))
    solved = probes.fit(read, *inputs)
    assert torch.equal(solved.weights, probes.fit(read.x, *inputs).weights)
    assert torch.equal(solved.logits(read), solved.logits(read.x))
    assert read.asked == [1] * 2 * len(x)


def test_threads_that_take_a_layer_each_find_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the last bit: a block of its own is all that a thread sees."""
    x, z = features("correlated", 120, 16)
    inputs = [torch.as_tensor(value) for value in (z, *problems(120))]
    monkeypatch.setattr(solving, "STATE_BYTES", len(inputs[2]) * solving._state_bytes(120, 16))
    read = Counted(torch.as_tensor(np.concatenate([x, 2 * x, x[:1] + 1])))
    solve, by = probes._Solver._solve, set[tuple[str, int]]()
    together = threading.Barrier(1)

    def noted(*given: Any) -> probes.Probes:
        by.add((threading.current_thread().name, torch.get_num_threads()))
        together.wait(60)
        return solve(*given)

    monkeypatch.setattr(probes._Solver, "_solve", noted)
    with threads(1):
        alone = probes.fit(read, *inputs)
    assert {name for name, _ in by} == {"MainThread"}
    by.clear()
    together = threading.Barrier(5)
    with threads(5):
        found = probes.fit(read, *inputs)
    assert len(by) == 5
    assert all(name.startswith("probes") and number == 1 for name, number in by)
    assert torch.equal(found.weights, alone.weights) and torch.equal(found.bias, alone.bias)
    assert read.asked == [1] * 2 * len(read)


def test_few_threads_have_layers_of_their_own_where_these_are_wide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solving, "ABREAST_BYTES", 2 * 4 * 90 * 10)
    shape, cpu = (6, 90, 10), torch.device("cpu")
    with threads(4):
        for together, workers in ((1, 2), (2, 1), (6, 1)):
            assert solving.workers(shape, together, cpu, None) == workers
        assert solving.workers(shape, 1, cpu, 4 * 90 * 10) == 1
        assert solving.workers(shape, 1, torch.device("cuda"), None) == 1
    monkeypatch.setattr(solving, "ABREAST_BYTES", 5 * 4 * 90 * 10)
    for number, workers in ((1, 1), (4, 4), (5, 5), (8, 4), (9, 3)):
        with threads(number):
            assert solving.workers(shape, 1, cpu, None) == workers, "none of them idle"


def test_what_a_thread_finds_wrong_names_its_layer() -> None:
    x, z = features("plain", 30, 4)
    x[1, 3, 2] = np.nan
    with threads(2), pytest.raises(AnchorscopeError, match="layer 1"):
        fitted(x, z, *problems(30))


@pytest.mark.parametrize("kind", ["plain", "correlated", "offset"])
def test_what_a_layers_probes_come_to_does_not_depend_on_the_layers_beside_it(kind: str) -> None:
    x, z = (torch.as_tensor(value) for value in features(kind, 120, 16))
    masks, c = (torch.as_tensor(value) for value in problems(120))
    together = probes.fit(x, z, masks, c).logits(x)
    for layer in range(len(x)):
        one = x[layer : layer + 1]
        alone = probes.fit(one, z, masks, c).logits(one)[0]
        torch.testing.assert_close(together[layer], alone, rtol=1e-5, atol=2e-5)


def test_a_constant_feature_has_no_weight() -> None:
    x, z = features("offset", 90, 10)
    masks, c = problems(90)
    assert not fitted(x, z, masks, c).weights[..., -1].any()


def test_chosen_problems_are_each_layers_own() -> None:
    x, z = features("plain", 90, 10)
    solved = fitted(x, z, *problems(90))
    chosen = solved.take(torch.tensor([[3, 0], [5, 17]]))
    assert torch.equal(chosen.weights[1, 0], solved.weights[1, 5])
    assert torch.equal(chosen.bias[0], solved.bias[0, [3, 0]])


@pytest.mark.parametrize("kind", ["plain", "correlated", "offset"])
def test_a_row_of_weight_two_is_the_row_twice(kind: str) -> None:
    x, z = features(kind, 120, 16)
    weights = np.random.default_rng(4).poisson(1.0, size=(3, 120))
    c = np.array([1e-3, 0.1, 10.0])
    solved = fitted(x, z, weights, c)
    assert solved.unconverged == 0
    p = torch.sigmoid(solved.logits(torch.as_tensor(x))).numpy()
    for layer in range(2):
        for problem in range(3):
            rows = np.repeat(np.arange(120), weights[problem])
            scaler = StandardScaler().fit(x[layer].astype(np.float64)[rows])
            model = LogisticRegression(C=c[problem], tol=1e-10, max_iter=100_000)
            model.fit(scaler.transform(x[layer].astype(np.float64)[rows]), z[rows])
            expected = model.predict_proba(scaler.transform(x[layer].astype(np.float64)))[:, 1]
            assert np.abs(p[layer, problem] - expected).max() < 1e-3, (layer, problem)


def test_weighted_problems_take_no_more_steps_than_repeated_rows() -> None:
    x, z = features("correlated", 150, 40)
    weights = np.random.default_rng(4).integers(0, 9, size=150)
    rows = np.repeat(np.arange(150), weights)
    masks = np.ones((1, len(rows)), dtype=bool)
    repeated = fitted(x[:, rows], z[rows], masks, np.array([1.0]))
    weighted = fitted(x, z, weights[None], np.array([1.0]))
    assert weighted.iterations <= 1.5 * repeated.iterations


def test_each_layer_may_have_penalties_of_its_own() -> None:
    x, z = features("plain", 90, 10)
    masks, _ = problems(90)
    own = np.stack([np.geomspace(1e-3, 1, len(masks)), np.geomspace(10, 0.1, len(masks))])
    together = fitted(x, z, masks, own)
    for layer in range(2):
        alone = fitted(x[layer : layer + 1], z, masks, own[layer])
        assert torch.allclose(together.weights[layer], alone.weights[0], atol=2e-3)


def test_a_negative_weight_is_refused() -> None:
    x, z = features("plain", 30, 4)
    with pytest.raises(ValueError, match="less than nothing"):
        fitted(x, z, np.linspace(-1, 1, 30)[None], np.ones(1))


def test_a_solve_cut_short_says_so() -> None:
    x, z = features("correlated", 150, 40)
    inputs = (torch.as_tensor(value) for value in (x, z, *problems(150)))
    assert probes.fit(*inputs, max_iterations=1).unconverged > 0


def test_one_class_in_training_is_refused() -> None:
    x, z = features("plain", 30, 4)
    masks = np.stack([np.ones(30, dtype=bool), z == 1])
    with pytest.raises(AnchorscopeError, match="all right or all wrong"):
        fitted(x, z, masks, np.ones(2))


def test_features_that_are_not_finite_are_refused_by_layer() -> None:
    x, z = features("plain", 30, 4)
    x[1, 3, 2] = np.nan
    with pytest.raises(AnchorscopeError, match="layer 1"):
        fitted(x, z, *problems(30))


def short_of_memory(
    monkeypatch: pytest.MonkeyPatch, most: int, said: str = "CUDA out of memory"
) -> list[tuple[int, int]]:
    """A device on which no more than so many problems of layers fit; (layers, problems) tried."""
    solve, tried = probes._Solver._solve, list[tuple[int, int]]()

    def limited(solver: probes._Solver, x: Part, together: int) -> probes.Probes:
        size = len(x), min(together, len(solver.masks))
        tried.append(size)
        if size[0] * size[1] > most:
            raise torch.OutOfMemoryError(said)
        return solve(solver, x, together)

    monkeypatch.setattr(probes._Solver, "_solve", limited)
    monkeypatch.setattr(solving, "that_fit", lambda *_: solving.Sizes(4, 100))
    return tried


def test_blocks_are_even_and_as_many_for_each_thread() -> None:
    assert solving.spans(16, 3, 2) == [
        range(0, 2),
        range(2, 5),
        range(5, 8),
        *(range(8, 10), range(10, 13), range(13, 16)),
    ]
    for layers, most, workers in ((5, 4, 1), (5, 4, 2), (1, 3, 4), (33, 7, 3)):
        found = solving.spans(layers, most, workers)
        sizes = [len(block) for block in found]
        assert [layer for block in found for layer in block] == [*range(layers)]
        assert max(sizes) <= most and max(sizes) - min(sizes) <= 1
        assert len(sizes) % workers == 0 or len(sizes) == layers


@pytest.mark.parametrize("number", [1, 2])
def test_a_block_that_does_not_fit_is_halved_by_layers_then_by_problems(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    """After the others, if there are several threads: what they hold may be all that it lacks."""
    x, z = features("plain", 90, 10)
    x, (masks, c) = np.concatenate([x, x, x]), problems(90)
    expected = fitted(x, z, masks, c)
    most = len(c) // 2
    tried = short_of_memory(monkeypatch, most)
    with threads(number):
        found = fitted(x, z, masks, c)
    every = len(c)
    alone = [(3, every), (1, every), *[(1, every // 2)] * 6]
    assert tried[-len(alone) :] == alone
    assert sorted(tried[: -len(alone)]) in ([(3, every)], [(3, every), (3, every)])
    assert found.weights.shape == expected.weights.shape
    assert torch.allclose(
        found.logits(torch.as_tensor(x)), expected.logits(torch.as_tensor(x)), atol=2e-3
    )
    assert f"{every} probes of 3 layers do not fit in memory" in caplog.text


def test_a_single_probe_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    x, z = features("plain", 90, 10)
    tried = short_of_memory(monkeypatch, 0)
    with pytest.raises(AnchorscopeError, match="one probe of one layer does not fit"):
        fitted(x, z, *problems(90))
    assert tried[-1] == (1, 1)


def test_other_errors_of_the_device_are_not_taken_for_want_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(probes._Solver, "_solve", broken)
    x, z = features("plain", 90, 10)
    with pytest.raises(RuntimeError, match="device-side assert"):
        fitted(x, z, *problems(90))


@pytest.mark.parametrize("free", [1, 7])
def test_a_block_takes_half_of_a_gpu_however_much_is_free_and_no_more_than_the_cap(
    monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free << 30, 8 << 30))
    device = torch.device("cuda")
    assert solving._room(device) == 4 << 30
    little = solving.that_fit((64, 2000, 5120), 180, device, None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (140 << 30, 140 << 30))
    assert solving._room(device) == solving.MOST_BYTES
    much = solving.that_fit((64, 2000, 5120), 180, device, None)
    assert 1 <= little.layers < much.layers
    assert solving.that_fit((64, 2000, 5120), 180, torch.device("cpu"), None).layers == 1


@pytest.mark.parametrize("n", [50, 150])
@pytest.mark.parametrize("far", [1e4, 1e5, 1e6, 1.1e6, 3e6, 5e6])
def test_a_row_far_off_does_not_hold_up_the_others(far: float, n: int) -> None:
    x, z = features("plain", n, 12)
    masks, c = problems(n)
    steps = fitted(x, z, masks, c).iterations
    x[0, 4, 3] = far
    solved = fitted(x, z, masks, c)
    assert solved.unconverged == 0 and solved.iterations <= 2 * steps
    p = torch.sigmoid(solved.logits(torch.as_tensor(x))).numpy()
    for problem in (5, 11, 17):
        expected = reference(x[0], z, masks[problem], c[problem])
        assert np.abs(p[0, problem] - expected)[~masks[problem]].max() < 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_few_probes_of_a_layer_do_not_depend_on_how_the_layers_beside_it_correlate(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = np.random.default_rng(2)
    z = (draws.random(400) < 0.5).astype(int)
    mild = draws.normal(size=(2, 400, 40)) + 0.3 * z[:, None]
    steep = mild[:1] @ (draws.normal(size=(40, 40)) * np.logspace(0, -3, 40)[:, None])
    x = torch.as_tensor(np.concatenate([mild, steep, mild[:1]])).to(dtype)
    masks, c = np.stack([np.arange(400) % 3 != k for k in range(3)]), np.ones(3)
    inputs = [torch.as_tensor(value) for value in (z, masks, c)]
    alone = [probes.fit(x[layer : layer + 1], *inputs) for layer in range(4)]
    ranks: list[tuple[int, int]] = []
    minimise = probes.minimise

    def spied(block: Block, *given: float) -> tuple[torch.Tensor, int, int]:
        ranks.append((len(block.values), block.values.shape[-1]))
        return minimise(block, *given)

    monkeypatch.setattr(probes, "minimise", spied)
    for number in (1, 2, 4):
        ranks.clear()
        with threads(number):
            solved = probes.fit(x, *inputs)
        assert number > 1 or ranks == [(3, 0), (1, 40)]
        assert sorted(rank for layers, rank in ranks for _ in range(layers)) == [0, 0, 0, 40]
        for layer in range(4):
            together = probes.part(solved, [layer]).logits(x[layer : layer + 1])
            by_itself = alone[layer].logits(x[layer : layer + 1])
            torch.testing.assert_close(together, by_itself, rtol=0, atol=2 * probes.TOLERANCE)
    p = torch.sigmoid(solved.logits(x)).numpy()
    for layer in range(4):
        expected = reference(x[layer].double().numpy(), z, masks[0], 1.0)
        assert np.abs(p[layer, 0] - expected).max() < 1e-3


@pytest.mark.parametrize("kind", ["one", "all"])
def test_what_is_constant_is_nothing_once_standardised(kind: str) -> None:
    draws = np.random.default_rng(3)
    rows = torch.as_tensor(draws.normal(size=(3000, 40)), dtype=torch.float32)
    constants = torch.as_tensor(draws.normal(size=40) * 0.1 + 0.1, dtype=torch.float32)
    flat = slice(0, 39) if kind == "one" else slice(0, 40)
    rows[:, flat] = constants[flat]
    out = torch.empty_like(rows)
    centre, scale = standardising._standardise(rows, out, 0)
    assert torch.equal(centre[flat], constants[flat]) and bool((scale[flat] == 1).all())
    assert not out[:, flat].any()
    assert standardising._spread(out) <= standardising.MILD


def test_two_rows_give_probes() -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 3)).astype(np.float32)
    solved = fitted(x, np.array([0, 1]), np.ones((1, 2), dtype=bool), np.ones(1))
    p = torch.sigmoid(solved.logits(torch.as_tensor(x))).numpy()[0, 0]
    assert p[0] < 0.5 < p[1]


def test_the_last_steps_give_the_two_loop_recursions_direction() -> None:
    """Beyond as many steps as are kept, and with steps that tell nothing."""
    n, width = 40, 6
    draws = torch.Generator().manual_seed(0)
    w = torch.zeros(1, 1, width + 1)
    none = torch.zeros(1, 1, 1)
    block = Block(
        x=matmul.Plain(torch.zeros(1, n, width)), z=torch.zeros(n), mask=torch.ones(1, n),
        root=None, c=none + 1, size=torch.full((1, 1), n), mean=w[..., :-1], inv_std=w[..., :-1],
        vectors=torch.zeros(1, width, 0), values=torch.zeros(1, 1, 0),
    )  # fmt: skip
    past, kept = lbfgs._Past(w), list[tuple[torch.Tensor, torch.Tensor]]()
    mixing = torch.randn(width + 1, width + 1, generator=draws)
    for step in range(3 * lbfgs.MEMORY):
        s = torch.randn(width + 1, generator=draws)
        y = -s if step % 4 == 3 else s @ (mixing @ mixing.T / width + torch.eye(width + 1))
        past.add(s.view_as(w), y.view_as(w))
        kept = [*kept, (s, y)][-lbfgs.MEMORY :]
        gradient = torch.randn(width + 1, generator=draws)
        q, steps = gradient.clone(), [(s, y) for s, y in kept if s @ y > 0]
        a = list[torch.Tensor]()
        for s, y in reversed(steps):
            a.append(s @ q / (s @ y))
            q -= a[-1] * y
        q = block.precondition(q.view_as(w), none + 2)[0, 0]
        for s, y in steps:
            q += (a.pop() - y @ q / (s @ y)) * s
        found = past.direction(block, gradient.view_as(w), none + 2)[0, 0]
        torch.testing.assert_close(found, -q, rtol=1e-3, atol=1e-3)
