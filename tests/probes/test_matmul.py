"""Products of features with few probes: packed features against plain ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from threads import threads

from anchorscope.probes import matmul, probes

CPU = torch.device("cpu")

needs_packing = pytest.mark.skipif(not matmul.packs(), reason="needs a torch that packs")


def filled(shape: tuple[int, int, int], x: torch.Tensor) -> matmul.Matrices:
    found, room = matmul.empty(shape, CPU), torch.empty(shape[1:])
    for layer in x:
        found.add(room.copy_(layer))  # one memory for all layers, as the solver has it
    return found


@pytest.mark.parametrize("problems", [1, 2, 5, 6, 40, 180])
@pytest.mark.parametrize("shape", [(3, 600, 500), (2, 513, 517), (3, 40, 7)])
def test_both_products_are_those_of_the_features(
    shape: tuple[int, int, int], problems: int
) -> None:
    layers, n, width = shape
    draws = torch.Generator().manual_seed(problems)
    x = torch.randn(*shape, generator=draws)
    weights = torch.randn(layers, problems, width, generator=draws)
    residuals = torch.randn(layers, problems, n, generator=draws)
    found = filled(shape, x)
    exact = x.double()
    for one, expected in (
        (found.logits(weights), weights.double() @ exact.mT),
        (found.sums(residuals), residuals.double() @ exact),
    ):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), expected, rtol=1e-5, atol=1e-4)
    some = torch.tensor([layers - 1])
    torch.testing.assert_close(found.at(some).logits(weights[some]), found.logits(weights)[some])
    torch.testing.assert_close(found.at(some).sums(residuals[some]), found.sums(residuals)[some])


@needs_packing
def test_large_features_are_packed_and_small_ones_are_not() -> None:
    large, small = (1, 512, 512), (1, 511, 512)
    assert isinstance(matmul.empty(large, CPU), matmul.Packed)
    assert isinstance(matmul.empty(small, CPU), matmul.Plain)
    assert isinstance(matmul.empty(large, torch.device("meta")), matmul.Plain)
    assert matmul.layer_bytes(large, CPU) == 2 * 4 * 512 * 512
    assert matmul.layer_bytes(small, CPU) == 4 * 511 * 512


@needs_packing
def test_probes_on_packed_features_are_those_on_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, n, width = np.random.default_rng(0), 700, 400
    z = draws.integers(0, 2, n)
    x = torch.as_tensor(draws.normal(size=(3, n, width)) + 0.2 * z[:, None], dtype=torch.float32)
    masks = torch.as_tensor(np.stack([np.arange(n) % 5 != k for k in range(5)]))
    given = torch.as_tensor(z), masks, torch.full((5,), 0.01)
    packed = probes.fit(x, *given)
    monkeypatch.setattr(matmul, "packs", lambda: False)
    plain = probes.fit(x, *given)
    torch.testing.assert_close(
        packed.logits(x).sigmoid(), plain.logits(x).sigmoid(), rtol=0, atol=1e-4
    )


def test_a_layer_that_is_solved_is_left_out_of_later_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    draws, n = np.random.default_rng(0), 200
    z = torch.as_tensor(draws.integers(0, 2, n))
    x = torch.as_tensor(draws.normal(size=(4, n, 60)), dtype=torch.float32)
    masks = torch.as_tensor(np.stack([np.arange(n) % 2 == k for k in (0, 1)]))
    c = torch.tensor([1e-4, 1e-4, 1.0, 1e-4])[:, None].expand(-1, 2)
    layers = [slice(k, k + 1) for k in range(4)]
    alone = [probes.fit(x[layer], z, masks, c[layer]) for layer in layers]
    steps = [one.iterations for one in alone]
    multiplied: list[int] = []
    logits = matmul.Plain.logits

    def noted(self: matmul.Plain, weights: torch.Tensor) -> torch.Tensor:
        multiplied.append(len(weights))
        return logits(self, weights)

    monkeypatch.setattr(matmul.Plain, "logits", noted)
    with threads(1):
        together = probes.fit(x, z, masks, c)
    assert together.iterations == steps[2] > 2 * max(*steps[:2], steps[3])
    assert multiplied[0] == 4 and multiplied == sorted(multiplied, reverse=True)
    assert multiplied.count(1) > steps[2] / 2
    expected = torch.cat([one.logits(x[layer]) for one, layer in zip(alone, layers, strict=True)])
    torch.testing.assert_close(together.logits(x).sigmoid(), expected.sigmoid(), rtol=0, atol=1e-4)


@needs_packing
@pytest.mark.parametrize("kind", ["gone", "other", "wrong"])
def test_a_torch_whose_operators_changed_does_not_pack(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(self: matmul.Packed, weights: torch.Tensor) -> torch.Tensor:
        if kind == "wrong":
            return torch.zeros(1, 2, 64)
        raise AttributeError("gone") if kind == "gone" else TypeError("other arguments")

    monkeypatch.setattr(matmul.Packed, "logits", changed)
    matmul.packs.cache_clear()
    try:
        assert not matmul.packs()
        assert isinstance(matmul.empty((1, 600, 600), CPU), matmul.Plain)
    finally:
        matmul.packs.cache_clear()


@needs_packing
def test_packed_layers_that_are_solved_are_left_out_too() -> None:
    draws, n, width = np.random.default_rng(0), 700, 400
    z = torch.as_tensor(draws.integers(0, 2, n))
    x = torch.as_tensor(draws.normal(size=(3, n, width)), dtype=torch.float32)
    masks = torch.as_tensor(np.stack([np.arange(n) % 2 == k for k in (0, 1)]))
    c = torch.tensor([1e-4, 1.0, 1e-4])[:, None].expand(-1, 2)
    with threads(1):
        together = probes.fit(x, z, masks, c)
    for layer in range(3):
        alone = probes.fit(x[layer : layer + 1], z, masks, c[layer])
        torch.testing.assert_close(together.weights[layer], alone.weights[0], rtol=0, atol=1e-5)
