"""Export: the mean of the fold probes, as they score out of fold."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from planted import READOUT, WIDTH, Planted, planted

from anchorscope.detectors.detector import Origin
from anchorscope.detectors.export import export
from anchorscope.probes import fitting
from anchorscope.questions.pool import Choice, choose
from anchorscope.statistics.samples import layer_of_fold, sigmoid
from anchorscope.storage.errors import AnchorscopeError

ORIGIN = Origin(None, None, "float32", ("llama", 2, WIDTH), "plain", (), {})


@pytest.fixture(scope="module")
def small() -> Planted:
    made = planted(n=480, seed=2)
    answers = made.cell.answers.assign(answer=made.cell.answers["ea_text"], property=None)
    return replace(made, cell=replace(made.cell, answers=answers))


def fit(small: Planted, **changed: str) -> fitting.Fitted:
    design = small.cell.design
    settings = design.settings.model_copy(update=changed)
    if settings.scoring == "published":
        design = replace(design, inner=np.full_like(design.inner, -1))
    return fitting.fit(small.cell.clean.states[READOUT], replace(design, settings=settings))


@pytest.mark.parametrize("prior", ["balanced", "natural"])
def test_its_logit_is_the_mean_of_the_fold_probes_at_one_layer(small: Planted, prior: str) -> None:
    fitted, x = fit(small, prior=prior), small.cell.clean.states[READOUT]
    folds = fitted.inner_auc.shape[1]
    chosen = np.array([[0.9] * folds, [0.9 - 0.2 * (k < 3) for k in range(folds)]])
    fitted = replace(fitted, inner_auc=chosen)  # so that folds choose different layers
    assert sorted({*layer_of_fold(chosen)}) == [0, 1]
    detector = export(fitted, READOUT, small.cell.answers, x, ORIGIN)
    assert detector.layer == 0
    every = [fitting.out_of_fold(fitted, x, np.full(480, k))[0] for k in range(folds)]
    wanted = np.mean([s + fitted.shift[0, k] for k, s in enumerate(every)], axis=0)
    assert np.allclose(detector.logits(x[:1][0]), wanted)
    assert (detector.n, detector.n_wrong) == (480, 240)


def test_probes_that_are_not_calibrated_are_refused(small: Planted) -> None:
    fitted = fit(small, scoring="published")
    with pytest.raises(AnchorscopeError, match="not calibrated"):
        export(fitted, READOUT, small.cell.answers, small.cell.clean.states[READOUT], ORIGIN)


def as_they_come(n: int, seed: int) -> tuple[pd.DataFrame, torch.Tensor]:
    """Answers of which nine in ten are wrong, and their states [1, n, WIDTH]."""
    random = np.random.default_rng(seed)
    z = (random.random(n) < 0.9).astype(int)
    x = random.normal(size=(1, n, WIDTH))
    x[0, :, 0] += 1.5 * (2 * z - 1)
    text = [f"s{number:05}" for number in range(n)]
    columns = dict.fromkeys(("id", "question", "subject", "ea_text", "answer"), text)
    known = pd.DataFrame({**columns, "label": z}).assign(property=None, relation=None)
    return known, torch.as_tensor(x, dtype=torch.float32)


def test_a_detector_of_balanced_answers_is_calibrated_on_answers_as_they_come() -> None:
    """400 answers, half of them right, are chosen from 3,000, of which 90 % are wrong."""
    pool, states = as_they_come(3000, seed=0)
    stands_for = choose(pool, Choice(400, balance=True))
    rows = np.flatnonzero(stands_for)
    answers = pool.iloc[rows].reset_index(drop=True).assign(stands_for=stands_for[rows])
    assert answers["label"].mean() == 0.5
    x = states[:, rows]
    fitted = fitting.fit(x, fitting.design(answers, fitting.ProbeSettings(grid=[0.1])))
    detector = export(fitted, READOUT, answers, x, ORIGIN)
    assert (detector.n, detector.n_wrong) == (3000, pool["label"].sum())
    unseen, new = as_they_come(20_000, seed=1)
    p, wrong = sigmoid(detector.logits(new[0])), unseen["label"].to_numpy()
    assert p.mean() == pytest.approx(0.9, abs=0.01)
    for low, high in ((0.0, 0.5), (0.5, 0.9), (0.9, 0.97), (0.97, 1.0)):
        here = (p >= low) & (p < high)
        assert here.sum() > 300 and p[here].mean() == pytest.approx(wrong[here].mean(), abs=0.05)
