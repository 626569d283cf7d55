"""No score depends on the label, the pathway or the folds of the sample that it scores."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from planted import READOUT, Planted, made, planted, with_labels

from anchorscope.detectors import out_of_fold, self_awareness
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.linear import LinearScorer
from anchorscope.detectors.method import Method, Samples, Training
from anchorscope.detectors.methods import mixture, probe
from anchorscope.detectors.registry import METHODS
from anchorscope.probes.intervals import auc


@pytest.fixture(scope="module")
def small() -> Planted:
    return planted(n=240)


def corrupted(cell: DetectionCell, fold: int) -> DetectionCell:
    """The cell with the labels of an outer fold turned round, and its knocked-out states lost."""
    here = cell.design.fold == fold
    assert cell.knockout is not None
    cut = cell.knockout[:].clone()
    cut[:, torch.as_tensor(here)] = 100.0
    return replace(
        with_labels(cell, np.where(here, 1 - cell.design.z, cell.design.z)), knockout=cut
    )


def of_fold(cell: DetectionCell, method: Method, fold: int) -> np.ndarray:
    scores = out_of_fold.scores(cell, [method])
    return scores.loc[scores["fold"] == fold, "s"].to_numpy()


def leaks(make: Callable[[DetectionCell], Method], cell: DetectionCell, fold: int = 0) -> bool:
    """Whether scores of a fold change with what a scorer of that fold must not know."""
    other = corrupted(cell, fold)
    before, after = (of_fold(one, make(one), fold) for one in (cell, other))
    return not np.array_equal(before, after)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_knows_what_it_scores(small: Planted, name: str) -> None:
    assert not leaks(lambda cell: METHODS[name], small.cell)


def test_no_pathway_is_predicted_from_the_knockout_of_its_own_sample(small: Planted) -> None:
    before, after = (
        self_awareness.predictions(one) for one in (small.cell, corrupted(small.cell, 0))
    )
    here = before["fold"] == 0
    assert before["flips"][here].ne(after["flips"][here]).any()  # what is to be predicted changed
    assert np.array_equal(before["rank"][here], after["rank"][here])


@dataclass(frozen=True)
class Shifted:
    """A scorer whose logits are changed by some function."""

    scorer: LinearScorer
    change: Callable[[np.ndarray], np.ndarray]

    def score(self, samples: Samples) -> np.ndarray:
        return self.change(self.scorer.score(samples))


def all_rows(cell: DetectionCell) -> Training:
    """Every sample of the cell, as no method may have them."""
    return cell.whole()


def leaky_gate(cell: DetectionCell) -> Callable[[Training], object]:
    everyone = probe.with_probes(all_rows(cell))
    gate = mixture.gate(everyone, probe.pathways(everyone))
    return lambda train: replace(mixture.fit_mixture(train), gate=gate)


def leaky_threshold(cell: DetectionCell) -> Callable[[Training], object]:
    def moved(train: Training) -> object:
        here = np.flatnonzero(cell.design.fold == 0)
        scorer = probe.fit_probe(train)
        wrong = scorer.score(cell.clean.rows(here))[cell.design.z[here] == 1].mean()
        return Shifted(scorer, lambda s: s - wrong)

    return moved


def leaky_penalty(cell: DetectionCell) -> Callable[[Training], object]:
    def best(train: Training) -> object:
        here = np.flatnonzero(cell.design.fold == 0)
        fits = [
            probe.fit_probe(
                replace(
                    train, fitted={}, settings=train.settings.model_copy(update={"grid": [c, c]})
                )
            )
            for c in (1e-4, 1.0)
        ]
        z, test = cell.design.z[here], cell.clean.rows(here)
        return max(fits, key=lambda scorer: auc(scorer.score(test), z))

    return best


def leaky_weight(cell: DetectionCell) -> Callable[[Training], object]:
    x, z = cell.clean.states[READOUT][1:2][0].numpy(), cell.design.z
    direction = x[z == 1].mean(0) - x[z == 0].mean(0)
    return lambda train: LinearScorer(READOUT, (1,), direction.astype(np.float64)[None], 0.0)


def leaky_layer(cell: DetectionCell) -> Callable[[Training], object]:
    def best(train: Training) -> object:
        here = np.flatnonzero(cell.design.fold == 0)
        z, test = cell.design.z[here], cell.clean.rows(here)
        fitted = probe.learned(train, READOUT)
        layers = [probe.linear(fitted, READOUT, layer) for layer in range(2)]
        return max(layers, key=lambda scorer: auc(scorer.score(test), z))

    return best


def leaky_sign(cell: DetectionCell) -> Callable[[Training], object]:
    def turned(train: Training) -> object:
        here = np.flatnonzero(cell.design.fold == 0)
        scorer = probe.fit_probe(train)
        s = scorer.score(cell.clean.rows(here))
        sign = 1.0 if auc(s, cell.design.z[here]) > 0.5 else -1.0
        return Shifted(scorer, lambda s: sign * s)

    return turned


def leaky_pathways(cell: DetectionCell) -> Callable[[Training], object]:
    everyone = probe.with_probes(all_rows(cell))
    share = probe.pathways(everyone)[cell.design.fold == 0].mean()

    def given(train: Training) -> object:
        return replace(mixture.fit_mixture(train), gate=mixture.constant(train, share))

    return given


LEAKY = {
    "gate": leaky_gate, "threshold": leaky_threshold, "penalty": leaky_penalty,
    "weight": leaky_weight, "layer": leaky_layer, "sign": leaky_sign, "pathways": leaky_pathways,
}  # fmt: skip


@pytest.mark.parametrize("place", LEAKY)
def test_a_leak_planted_anywhere_is_caught(small: Planted, place: str) -> None:
    assert leaks(lambda cell: made(place, LEAKY[place](cell)), small.cell)
