"""Batched probes against scikit-learn, one problem at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from anchorscope.passes.features import Part
from anchorscope.probes import lbfgs, probes, standardising
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
    assert kind != "offset" or not solved.weights[..., -1].any(), "of a constant feature"
    for layer in range(len(x)):
        for problem, (train, penalty) in enumerate(zip(masks, c, strict=True)):
            expected = reference(x[layer], z, train, penalty)
            held_out = np.abs(p[layer, problem] - expected)[~train]
            assert held_out.max() < 1e-3, (layer, problem, penalty)


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
    monkeypatch.setattr(standardising, "COLUMNS", 7)
    inputs = [torch.as_tensor(value) for value in (x, z, masks, c)]
    found = probes.fit(*inputs, budget_bytes=20_000).logits(inputs[0])
    assert max(solved) < len(c) and sum(solved) == 2 * len(c)
    assert torch.allclose(found, expected, atol=2e-3)


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
    monkeypatch.setattr(probes, "ABREAST_BYTES", 1)
    x, z = features("plain", 90, 10)
    masks, c = problems(90)
    inputs = [torch.as_tensor(value) for value in (z, masks, c)]
    read = Counted(torch.as_tensor(x))
    solved = probes.fit(read, *inputs)
    assert torch.equal(solved.weights, probes.fit(read.x, *inputs).weights)
    assert torch.equal(solved.logits(read), solved.logits(read.x))
    assert read.asked == [1] * 2 * len(x)


@pytest.mark.parametrize("kind", ["plain", "correlated", "offset"])
def test_what_a_layers_probes_come_to_does_not_depend_on_the_layers_beside_it(kind: str) -> None:
    x, z = (torch.as_tensor(value) for value in features(kind, 120, 16))
    masks, c = (torch.as_tensor(value) for value in problems(120))
    together = probes.fit(x, z, masks, c).logits(x)
    for layer in range(len(x)):
        one = x[layer : layer + 1]
        alone = probes.fit(one, z, masks, c).logits(one)[0]
        torch.testing.assert_close(together[layer], alone, rtol=1e-5, atol=2e-5)


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


def test_what_cannot_be_fitted_is_refused_and_a_solve_cut_short_says_so() -> None:
    x, z = features("plain", 30, 4)
    with pytest.raises(ValueError, match="less than nothing"):
        fitted(x, z, np.linspace(-1, 1, 30)[None], np.ones(1))
    with pytest.raises(AnchorscopeError, match="all right or all wrong"):
        fitted(x, z, np.stack([np.ones(30, dtype=bool), z == 1]), np.ones(2))
    hard, labels = features("correlated", 150, 40)
    inputs = (torch.as_tensor(value) for value in (hard, labels, *problems(150)))
    assert probes.fit(*inputs, max_iterations=1).unconverged > 0
    x[1, 3, 2] = np.nan
    with pytest.raises(AnchorscopeError, match="layer 1"):
        fitted(x, z, *problems(30))


def short_of_memory(monkeypatch: pytest.MonkeyPatch, most: int) -> list[tuple[int, int]]:
    """A device on which no more than so many problems of layers fit; (layers, problems) tried."""
    solve, tried = probes._Solver.solve, list[tuple[int, int]]()

    def limited(solver: probes._Solver, x: Part, first: int) -> probes.Probes:
        size = len(x), min(solver.problems, len(solver.masks))
        tried.append(size)
        if size[0] * size[1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return solve(solver, x, first)

    monkeypatch.setattr(probes._Solver, "solve", limited)
    monkeypatch.setattr(probes, "_at_once", lambda *_: (4, 100))
    return tried


def test_layers_that_do_not_fit_are_halved_then_their_problems(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    x, z = features("plain", 90, 10)
    x, (masks, c) = np.concatenate([x, x, x]), problems(90)
    expected = fitted(x, z, masks, c)
    every = len(c)
    tried = short_of_memory(monkeypatch, every // 2)
    found = fitted(x, z, masks, c)
    assert tried == [(4, every), (2, every), (1, every), *[(1, every // 2)] * 6]
    assert torch.allclose(
        found.logits(torch.as_tensor(x)), expected.logits(torch.as_tensor(x)), atol=2e-3
    )
    assert f"{every} probes of 4 layers do not fit in memory" in caplog.text
    tried = short_of_memory(monkeypatch, 0)
    with pytest.raises(AnchorscopeError, match="one probe of one layer does not fit"):
        fitted(x, z, masks, c)
    assert tried[-1] == (1, 1)


def test_layers_take_half_of_a_gpu_however_much_is_free_and_no_more_than_the_cap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, cuda = [], torch.device("cuda")
    for free, whole in ((1, 8), (7, 8), (140, 140)):
        room = free << 30, whole << 30
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, room=room: room)
        found.append(probes._budget(cuda, None))
    assert found == [4 << 30, 4 << 30, probes.MOST_BYTES]
    layers = [probes._at_once((64, 2000, 5120), 180, budget)[0] for budget in (1, *found)]
    assert layers[0] == 1 <= layers[1] == layers[2] < layers[3]


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
    solved = probes.fit(x, *inputs)
    assert ranks == [(3, 0), (1, 40)]
    for layer in range(4):
        together, by_itself = solved.logits_at(layer, x[layer]), alone[layer].logits_at(0, x[layer])
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
    everyone = torch.ones(1, 3000)
    centre, scale, *_ = standardising._columns(rows, everyone, out, slice(None))
    assert torch.equal(centre[flat].float(), constants[flat]) and bool((scale[flat] == 1).all())
    assert not out[:, flat].any()
    assert standardising._spread(out) <= standardising.MILD


def test_the_last_steps_give_the_two_loop_recursions_direction() -> None:
    """Beyond as many steps as are kept, and with steps that tell nothing."""
    n, width = 40, 6
    draws = torch.Generator().manual_seed(0)
    w = torch.zeros(1, 1, width + 1)
    none = torch.zeros(1, 1, 1)
    block = Block(
        x=torch.zeros(1, n, width), z=torch.zeros(n), mask=torch.ones(1, n),
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


def test_a_layer_that_is_solved_is_left_out_of_later_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, n = np.random.default_rng(0), 200
    z = torch.as_tensor(draws.integers(0, 2, n))
    x = torch.as_tensor(draws.normal(size=(4, n, 60)), dtype=torch.float32)
    masks = torch.as_tensor(np.stack([np.arange(n) % 2 == k for k in (0, 1)]))
    c = torch.tensor([1e-4, 1e-4, 1.0, 1e-4])[:, None].expand(-1, 2)
    alone = [probes.fit(x[k : k + 1], z, masks, c[k]) for k in range(4)]
    steps = [one.iterations for one in alone]
    multiplied: list[int] = []
    logits = Block.logits

    def noted(self: Block, w: torch.Tensor) -> torch.Tensor:
        multiplied.append(len(w))
        return logits(self, w)

    monkeypatch.setattr(Block, "logits", noted)
    together = probes.fit(x, z, masks, c)
    assert together.iterations == steps[2] > 2 * max(*steps[:2], steps[3])
    assert multiplied[0] == 4 and multiplied == sorted(multiplied, reverse=True)
    assert multiplied.count(1) > steps[2] / 2
    for layer, one in enumerate(alone):
        found, expected = together.logits_at(layer, x[layer]), one.logits_at(0, x[layer])
        torch.testing.assert_close(found.sigmoid(), expected.sigmoid(), rtol=0, atol=1e-4)
