"""Two pathways and a gate of known direction: the mixture gains by its gate, by nothing else."""

import pandas as pd
import pytest
from planted import Planted, planted

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import evaluation, out_of_fold, self_awareness
from anchorscope.detectors.methods import probe
from anchorscope.detectors.registry import METHODS

NAMES = ("probe", "mixture-of-probes", "random-gate", "vanilla-experts")
BOOTSTRAP = Bootstrap(draws=200)


def gains(one: Planted) -> pd.DataFrame:
    """AUC of each method, and above the probe's."""
    scores = out_of_fold.scores(one.cell, [METHODS[name] for name in NAMES])
    table = evaluation.table(scores, one.answers, "mlp/final", BOOTSTRAP, seed=0)
    return table[table["metric"] == "auroc"].set_index("detector")


@pytest.fixture(scope="module")
def two_ways() -> Planted:
    return planted(n=600)


def test_the_mixture_gains_where_pathways_differ_and_by_its_gate_alone(two_ways: Planted) -> None:
    table = gains(two_ways)
    gain = table.loc["mixture-of-probes"]
    assert gain["vs_probe"] >= 0.05
    assert gain["vs_probe_low"] > 0
    for name in ("random-gate", "vanilla-experts"):
        assert table.loc[name, "vs_probe_low"] <= 0
        assert table.loc[name, "vs_probe"] < 0.05


def test_nothing_gains_on_shuffled_labels() -> None:
    table = gains(planted(n=600, seed=1, shuffled=True))
    assert (table["ci_low"] < 0.5).all()
    assert (table["vs_probe_low"].dropna() <= 0).all()


def test_pathways_of_training_samples_are_the_planted_ones(two_ways: Planted) -> None:
    train = two_ways.cell.training(0)
    planted_ = two_ways.pathway[two_ways.cell.design.fold != 0]
    # An answer whose score is near the threshold may stay on its side.
    assert (probe.pathways(train) == planted_).mean() > 0.8


def test_self_awareness_is_a_gain_over_text_and_score(two_ways: Planted) -> None:
    rows = pd.DataFrame(self_awareness.predictions(two_ways.cell))
    table = self_awareness.table(rows, two_ways.answers, "mlp/final", BOOTSTRAP, seed=0)
    states = table.set_index("predictor").loc["states"]
    assert states["auc"] > 0.9
    assert min(states["vs_text_low"], states["vs_score_low"]) > 0
