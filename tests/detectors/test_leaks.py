"""No score depends on the label, the pathway or the folds of the sample that it scores."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from planted import Planted, made

from anchorscope.detectors import out_of_fold, self_awareness
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Training
from anchorscope.detectors.methods import mixture, probe
from anchorscope.detectors.registry import METHODS, Method
from anchorscope.probes import fitting


def corrupted(cell: DetectionCell, fold: int) -> DetectionCell:
    """The cell with the labels of an outer fold turned round, and its knocked-out states lost."""
    here = cell.design.fold == fold
    assert cell.knockout is not None
    cut = cell.knockout[:].clone()
    cut[:, torch.as_tensor(here)] = 100.0
    z = np.where(here, 1 - cell.design.z, cell.design.z)
    answers = cell.answers.assign(label=z)
    return replace(cell, design=replace(cell.design, z=z), answers=answers, knockout=cut)


def leaks(make: Callable[[DetectionCell], Method], cell: DetectionCell, fold: int = 0) -> bool:
    """Whether scores of a fold change with what a scorer of that fold must not know."""
    both = [out_of_fold.scores(one, [make(one)]) for one in (cell, corrupted(cell, fold))]
    before, after = (
        scores[scores["fold"] == fold].filter(regex="^(s|crossed)/") for scores in both
    )
    return not before.equals(after)


@pytest.mark.parametrize("name", METHODS)
def test_no_method_knows_what_it_scores(small: Planted, name: str) -> None:
    assert not leaks(lambda cell: METHODS[name], small.cell)


def test_no_pathway_is_predicted_from_the_knockout_of_its_own_sample(small: Planted) -> None:
    before, after = (
        self_awareness.predictions(one) for one in (small.cell, corrupted(small.cell, 0))
    )
    here = small.cell.design.fold == 0
    same = {name: np.array_equal(before[name][here], after[name][here]) for name in before}
    assert not same.pop("flips")  # what is to be predicted changed
    assert len(same) == 3 and all(same.values())


def leaky_threshold(cell: DetectionCell) -> Callable[[Training], object]:
    def moved(train: Training) -> object:
        here = np.flatnonzero(cell.design.fold == 0)
        scorer = probe.fit_probe(train)
        wrong = scorer.score(cell.clean.rows(here))[cell.design.z[here] == 1].mean()
        return replace(scorer, bias=scorer.bias - wrong)

    return moved


def leaky_pathways(cell: DetectionCell) -> Callable[[Training], object]:
    inner = fitting.inner_folds(cell.answers, cell.design.settings, "all samples")
    everyone = Training(
        cell.clean, cell.design.z, inner, cell.design.settings, knockout=cell.knockout
    )
    share = probe.pathways(everyone)[cell.design.fold == 0].mean()

    def given(train: Training) -> object:
        return replace(mixture.fit_mixture(train), gate=mixture.constant(train, share))

    return given


LEAKY = {"labels": leaky_threshold, "pathways": leaky_pathways}
"""Knowledge that a scorer must not use → a method that uses it."""


@pytest.mark.parametrize("known", LEAKY)
def test_a_planted_leak_is_caught(small: Planted, known: str) -> None:
    assert leaks(lambda cell: made(known, LEAKY[known](cell)), small.cell)
