"""What every method keeps to, and what single ones are."""

from dataclasses import replace

import numpy as np
import pytest
from planted import BEFORE, READOUT, Planted, made

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import evaluation, out_of_fold
from anchorscope.detectors.method import Samples, Training, text_columns
from anchorscope.detectors.methods import probe
from anchorscope.detectors.methods.output import P_TRUE
from anchorscope.detectors.registry import METHODS, named
from anchorscope.probes import fitting, floors
from anchorscope.statistics.intervals import auc
from anchorscope.storage.errors import AnchorscopeError


@pytest.fixture(scope="module")
def train(small: Planted) -> Training:
    return small.cell.training(0)


@pytest.mark.parametrize("name", METHODS)
def test_a_sample_alone_scores_as_among_others(small: Planted, train: Training, name: str) -> None:
    scorer = METHODS[name].fit(train)
    test = small.cell.clean.rows(np.flatnonzero(small.cell.design.fold == 0)[:4])
    together = scorer.score(test)
    alone = [scorer.score(test.rows(np.array([place])))[0] for place in range(4)]
    assert together.dtype == np.float64
    assert np.allclose(together, alone, atol=1e-5)


def test_methods_never_see_a_label(small: Planted) -> None:
    answers = small.answers.assign(golds=[["red"]] * len(small.answers), outcome="wrong", kind="x")
    assert not {"label", "golds", "outcome", "kind"} & {*text_columns(answers)}


def test_the_stored_probes_are_what_the_method_would_fit(small: Planted) -> None:
    """The probe method scores as the main run does, with its probes or with its own."""
    design = small.cell.design
    fitted = {
        name: fitting.fit(small.cell.clean.states[name], design) for name in (READOUT, BEFORE)
    }
    stored = replace(small.cell, fitted=fitted)
    methods = [METHODS["probe"], METHODS["before"]]
    own, given = (out_of_fold.scores(one, methods) for one in (small.cell, stored))
    columns = [f"{kind}/{one.name}" for kind in out_of_fold.KINDS for one in methods]
    assert np.allclose(own[columns], given[columns], atol=1e-3, equal_nan=True)
    s = fitting.out_of_fold(fitted[READOUT], small.cell.clean.states[READOUT], design.fold)
    layers = [probe.deepest_layer(fitted[READOUT].inner_auc[:, fold]) for fold in design.fold]
    at_own = s[layers, np.arange(len(design.z))]
    assert np.allclose(given["rank/probe"], at_own, atol=1e-5)


def test_an_auc_below_one_half_is_reported_as_it_is(small: Planted) -> None:
    """Neither a fixed score nor P(True) is turned round."""
    z = small.cell.design.z
    ranks = np.random.default_rng(0).normal(size=len(z)) - 0.74 * z
    exact = auc(ranks, z)
    assert exact < 0.4
    places = {id_: place for place, id_ in enumerate(small.cell.design.ids)}

    class Fixed:
        def score(self, samples: Samples) -> np.ndarray:
            return ranks[[places[id_] for id_ in samples.answers["id"]]]

    outputs = small.cell.clean.outputs.assign(**{P_TRUE: 1 / (1 + np.exp(ranks))})
    cell = replace(small.cell, clean=replace(small.cell.clean, outputs=outputs))
    scores = out_of_fold.scores(cell, [made("fixed", lambda train: Fixed()), METHODS["p-true"]])
    table = evaluation.table(scores, small.answers, READOUT, Bootstrap(draws=10), seed=0)
    found = table[table["metric"] == "auroc"].set_index("detector")["estimate"]
    assert found["p-true"] == pytest.approx(exact)
    assert found["fixed"] == pytest.approx(exact, abs=0.01)


def test_a_floor_of_the_figures_is_nearly_the_method_of_its_name(small: Planted) -> None:
    """A method reads from the training fold alone what a text may hold, since it leaves the cell;
    a floor from all texts."""
    names = list(floors.FLOORS)
    rows = out_of_fold.scores(small.cell, [METHODS[name] for name in names])
    none = np.zeros((0, len(small.answers)), dtype=np.int64)
    of_figures = floors.floors(small.answers, small.cell.design, none)
    for name in names:
        assert np.corrcoef(rows[f"rank/{name}"], of_figures[name][0])[0, 1] > 0.98


def test_methods_that_lack_something_are_left_out(small: Planted) -> None:
    states = {READOUT: small.cell.clean.states[READOUT]}
    outputs = small.cell.clean.outputs.drop(columns=P_TRUE)
    clean = replace(small.cell.clean, states=states, outputs=outputs)
    bare = replace(small.cell, clean=clean, knockout=None)
    lacking = {name for name, method in METHODS.items() if bare.lacks(method)}
    assert lacking == {name for name, method in METHODS.items() if method.needs}
    assert {"p-true", "before", "mixture-of-probes"} <= lacking


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(AnchorscopeError, match=r"(?s)no detection method `prob`.*did you mean"):
        named(["prob"])
    assert [one.name for one in named(["saplma", "text"])] == ["text", "saplma"]


def test_an_ensemble_is_the_calibrated_mean_of_its_probes(
    small: Planted, train: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert probe.fit_ensemble(train).layers == (1,)  # the other layer is near chance
    monkeypatch.setattr(probe, "LEAST_AUC", 0.0)
    ensemble, fitted = probe.fit_ensemble(train), probe.learned(train, READOUT)
    assert ensemble.layers == (0, 1)
    each = [probe.linear(fitted, READOUT, layer).score(small.cell.clean) for layer in (0, 1)]
    held_out = probe.held_out(train, READOUT, [0, 1]).mean(0)
    slope, offset = probe.calibration(train, held_out)
    assert np.allclose(ensemble.score(small.cell.clean), slope * np.mean(each, axis=0) + offset)
