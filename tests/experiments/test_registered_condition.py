"""A registered condition has all that follows from its record."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import score
from instrument import answers_table, cuts, planned

from anchorscope.curve import controls, curve
from anchorscope.passes import activations, planning
from anchorscope.passes.interventions import CONTROLS, REGISTRY, TOKENS, Intervention, random_tokens
from anchorscope.probes import fitting, scoring
from anchorscope.probes.fitting import ProbeSettings
from anchorscope.statistics import analysis

CUT = Intervention(
    "first", "first question tokens blocked", "attention to the first question tokens is blocked",
    ("first",), "first",
)  # fmt: skip
CONTROL = Intervention(
    "first-random", "as many random tokens blocked",
    "attention to as many random tokens is blocked",
    ("first-random",), "elsewhere",
)  # fmt: skip
CONDITIONS = {"knockout": {}, "random": {}, "first": {}, "first-random": {"draws": 2}}
READOUT = "mlp/final"


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The registry, to be changed; it is as it was afterwards."""
    before = dict(REGISTRY)

    def first(question: Sequence[int], *_: Any) -> list[int]:
        return sorted(question)[:2]

    def elsewhere(question: Sequence[int], _: Any, key: str) -> list[int]:
        return random_tokens(question, first(question), key)

    monkeypatch.setitem(TOKENS, "first", first)
    monkeypatch.setitem(TOKENS, "elsewhere", elsewhere)
    monkeypatch.setitem(CONTROLS, "first", "elsewhere")
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


def cell(tokenizer: Any) -> pd.DataFrame:
    """Answers; of every third question all tokens but one are the first ones."""
    table = pd.concat([answers_table(tokenizer, seed=seed) for seed in range(6)], ignore_index=True)
    for place in range(0, len(table), 3):
        question = table.at[place, "question_tokens"][:3]
        table.at[place, "question_tokens"] = question
        table.at[place, "eq_tokens"] = question[:1]
    table["id"] = [f"q{number:02}" for number in range(len(table))]
    random = np.random.default_rng(0)
    table["question"] = [f"question {i}" for i in range(len(table))]
    return table.assign(label=random.integers(0, 2, len(table)), subject=table["id"])


def states(answers: pd.DataFrame, condition: str, draw: int) -> Any:
    """Rows and clean states [2, n, 6] that know the label, which the cuts take away."""
    import torch

    n = len(answers)
    x = np.random.default_rng(1).normal(size=(2, n, 6)) + 2.0 * answers["label"].to_numpy()[:, None]
    if condition == "first":
        x[:, ::2] *= -1
    return np.arange(n), torch.as_tensor(x + 0.1 * draw, dtype=torch.float32)


def test_a_made_up_condition_has_all_that_follows_from_its_role_and_control(
    byte_level: Any, registry: None
) -> None:
    REGISTRY.update({one.name: one for one in (CUT, CONTROL)})
    answers = cell(byte_level)
    plan = planned(answers, conditions=CONDITIONS)
    passed = [("clean", 0), *planning.conditions_of(CONDITIONS)]
    found = cuts(plan)
    assert {(condition, draw) for _, condition, draw in found} == {*passed}
    for (_, condition, _), (sample, tokens) in found.items():
        first = sorted(sample.question_tokens)[:2]
        if condition == "first":
            assert list(tokens) == first
        if condition == "first-random":  # elsewhere than what it controls, not than E_Q
            assert not {*tokens} & {*first} and len(tokens) == min(
                2, len(sample.question_tokens) - 2
            )

    index = activations.index(plan)
    assert (index["n_blocked_first"] == 2).all()
    few = np.arange(len(index)) % 3 == 0  # one token is left
    assert np.array_equal(index["n_blocked_first-random"], np.where(few, 1, 2))
    assert index["first-random_complete"].tolist() == list(~few)

    measured = index.merge(answers, on="id")
    settings = ProbeSettings(folds=3, inner_folds=3, grid=[0.1])
    given = partial(states, measured), measured, READOUT, passed, settings
    weights = scoring.refit_weights(measured, fitting.design(measured, settings))
    scores = score(*given, weights=weights)
    assert f"{READOUT}/first/0" in scores.probes and f"{READOUT}/first-random/1" in scores.probes

    made = {
        made.__name__: analysis.cell_table(made, scores, measured, draws=20)
        for made in (curve.curve, controls.contrasts)
    }
    curves, paired = made["curve"], made["contrasts"]
    both = paired.query("contrast == 'first-first-random' and quantity == 'share'")
    assert (both["n"] == (~few).sum()).all() and (both["estimate"] > 0).all()
    assert set(paired["contrast"]) == {"first-first-random", "knockout-random"}
    mine = curves.query("condition == 'first' and anchor == 'all'")
    assert len(mine) and (mine["n_paired"] == (~few).sum()).all() and (mine["n_blocked"] == 2).all()
    (one,) = analysis.analyses(scores, measured, draws=20)
    quiet = controls.controls(one)
    assert list(quiet) == list(controls.columns())
    assert quiet[["first_flip_share", "first-random_flip_share"]].notna().all(axis=None)
