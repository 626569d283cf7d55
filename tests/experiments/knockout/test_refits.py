"""Refits: the bootstrap with the probes fitted anew, against loops over repeated rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from anchorscope.experiments.knockout import refits
from anchorscope.probes import fitting, intervals, scores
from anchorscope.probes.fitting import Settings
from anchorscope.probes.stored import Stored
from anchorscope.questions import folds
from anchorscope.storage.errors import AnchorscopeError

N, WIDTH, LAYERS = 120, 5, 6
SETTINGS = Settings(folds=3, inner_folds=3, grid=[0.1], seed=4)


def cell() -> tuple[pd.DataFrame, torch.Tensor]:
    """Answers, and clean activations that know more at each layer up to the last but one."""
    random = np.random.default_rng(0)
    z = (random.random(N) < 0.4).astype(int)
    x = random.normal(size=(LAYERS, N, WIDTH))
    for layer in range(LAYERS):
        x[layer, :, 0] += 0.5 * min(layer, LAYERS - 2) * z
    ids, subjects = ([f"{name}{i // of}" for i in range(N)] for name, of in (("i", 1), ("s", 2)))
    texts = {"id": ids, "question": ids, "subject": subjects}
    return pd.DataFrame(texts | {"label": z}), torch.as_tensor(x, dtype=torch.float32)


def source(answers: pd.DataFrame, x: torch.Tensor) -> scores.Activations:
    """The knockout takes away half of what the first feature says, and adds noise."""
    random = np.random.default_rng(1)
    cut = x + torch.as_tensor(random.normal(size=x.shape), dtype=torch.float32)
    cut[..., 0] -= 0.7

    def read(condition: str, draw: int) -> tuple[Sequence[str], torch.Tensor]:
        assert (condition, draw) in (("clean", 0), ("knockout", 0))
        return answers["id"].tolist(), cut if condition == "knockout" else x

    return read


def refitted(
    answers: pd.DataFrame, x: torch.Tensor, settings: Settings = SETTINGS, **more: object
) -> pd.DataFrame:
    design = fitting.design(answers, settings)
    probes = Stored.of(design, {"mlp/final": fitting.fit(x, design)})
    given = source(answers, x), answers, "mlp/final", settings, probes
    return refits.refit(*given, **more)  # type: ignore[arg-type]


def slow_quantities(clean: np.ndarray, cut: np.ndarray, z: np.ndarray) -> list[float]:
    """Share, ΔP of the flippers and of all, AUC; sample by sample, pair by pair."""
    moved, flips = [], []
    for a, b in zip(clean, cut, strict=True):
        p, q = 1 / (1 + np.exp(-a)), 1 / (1 + np.exp(-b))
        moved.append(100 * (q - p) if a > 0 else 100 * ((1 - q) - (1 - p)))
        flips.append((a > 0) != (b > 0))
    pairs = [1.0 if i > j else 0.5 if i == j else 0.0 for i in clean[z == 1] for j in clean[z == 0]]
    flippers = [one for one, flip in zip(moved, flips, strict=True) if flip]
    return [float(np.mean(one)) for one in (flips, flippers, moved, pairs)]


@pytest.mark.parametrize("scoring", ["calibrated", "published"])
def test_spreads_are_those_of_probes_fitted_to_repeated_rows(scoring: str) -> None:
    settings = SETTINGS.model_copy(update={"scoring": scoring})
    answers, x = cell()
    found = refitted(answers, x, settings, draws=6)
    found = found[found["layer"] == LAYERS // 3]
    _, cut = source(answers, x)("knockout", 0)
    plan = fitting.design(answers, settings)
    clusters = folds.clusters(answers["question"].tolist(), answers["subject"].tolist())
    drawn = intervals.bootstrap(clusters, 6, 4)
    everyone = fitting.fit(x[2:3], plan)
    fixed, again = [], []
    for weights in drawn.weights:
        rows = np.repeat(np.arange(N), weights[clusters].astype(int))
        inner = plan.inner[:, rows]
        repeated = replace(plan, z=plan.z[rows], fold=plan.fold[rows], inner=inner)
        anew = fitting.fit(x[2:3, rows], repeated, everyone.c)
        for kept, fitted in ((fixed, everyone), (again, anew)):
            s = [fitting.out_of_fold(fitted, one[2:3, rows], repeated.fold)[0] for one in (x, cut)]
            kept.append(slow_quantities(s[0], s[1], repeated.z))
    s = [fitting.out_of_fold(everyone, one[2:3], plan.fold)[0] for one in (x, cut)]
    assert np.allclose(found["estimate"], slow_quantities(s[0], s[1], plan.z), atol=1e-4)
    assert found["quantity"].tolist() == list(refits.QUANTITIES)
    assert np.allclose(found["sd_fixed"], np.std(fixed, axis=0, ddof=1), rtol=1e-4)
    assert np.allclose(found["sd_refit"], np.std(again, axis=0, ddof=1), rtol=0.02)
    assert np.allclose(found["inflation"], found["sd_refit"] / found["sd_fixed"])
    assert (found["draws"] == 6).all()


def test_the_order_of_the_answers_changes_no_digit() -> None:
    answers, x = cell()
    design = fitting.design(answers, SETTINGS)
    probes = Stored.of(design, {"mlp/final": fitting.fit(x, design)})
    mixed = answers.sample(frac=1, random_state=0)
    assert (fitting.design(mixed, SETTINGS).of(design.ids).fold != design.fold).any()
    read = source(answers, x)
    tables = [
        refits.refit(read, of, "mlp/final", SETTINGS, probes, draws=2) for of in (answers, mixed)
    ]
    pd.testing.assert_frame_equal(*tables, check_exact=True)
    with pytest.raises(AnchorscopeError, match="119 samples are not the 120"):
        refits.refit(read, answers[1:], "mlp/final", SETTINGS, probes, draws=2)


def test_layers_are_at_thirds_of_the_depth_and_the_headline_layer() -> None:
    answers, x = cell()
    found = refitted(answers, x, draws=2)
    s = scores.score(source(answers, x), answers, "mlp/final", [], SETTINGS, extras=False)
    z = answers["label"].to_numpy()
    auc = [intervals.auc(one["s"].to_numpy(), z) for _, one in s.groupby("layer")]
    headline = max(layer for layer in range(LAYERS) if auc[layer] >= max(auc) - 0.01)
    assert sorted(set(found["layer"])) == sorted({2, 4, headline})
