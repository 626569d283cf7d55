"""Export: the mean of the fold probes, as they score out of fold."""

from dataclasses import replace

import numpy as np
import pytest
from planted import READOUT, WIDTH, Planted, planted

from anchorscope.detectors.detector import Origin, export
from anchorscope.probes import fitting
from anchorscope.probes.samples import layer_of_fold
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
