"""Scaled attention: 0 is the knockout, 1 the clean pass, and steps worked out by hand."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS
from figure_tables import details, words
from handmade import drawn, labelled, long, main_run
from instrument import TOKENIZER, answers_table
from workflow import SHIPPED, merged

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.dose import CONTROLS, DOSES, EXPERIMENT, WEIGHTS, figure
from anchorscope.experiments.tables import Products, of_cell, per_sample
from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.passes import runner
from anchorscope.passes.batches import Batch, Plan, arrange
from anchorscope.passes.interventions import CLEAN, REGISTRY, Intervention
from anchorscope.passes.planning import sample_of
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.config import load

READ = ["attn/final", "mlp/final", "resid/final"]
KNOCKOUT, RANDOM = REGISTRY["knockout"], REGISTRY["random"]


@pytest.fixture(params=ALL_FAMILIES)
def loaded(request: Any, checkpoint: Any) -> Loaded:
    return loading.load(checkpoint(request.param, TOKENIZER[request.param]))


def planned(loaded: Loaded, *interventions: Intervention) -> tuple[Plan, Batch]:
    """Three samples in one batch under these interventions."""
    rows = answers_table(loaded.tokenizer, CORPUS[:3]).to_dict("records")
    plan = arrange([*map(sample_of, rows)], [(one, 0) for one in interventions], batch_tokens=10**6)
    return plan, plan.batches[0]


def states(loaded: Loaded, *interventions: Intervention) -> dict[str, dict[str, torch.Tensor]]:
    plan, batch = planned(loaded, *interventions)
    passed = runner.run(loaded, plan, batch, read=READ).states
    by_name: dict[str, dict[str, torch.Tensor]] = {one.name: {} for one in interventions}
    for key, tensor in passed.items():
        name, _, place = key.rpartition(".0/")
        by_name[name][place] = tensor
    return by_name


def masks(loaded: Loaded, *interventions: Intervention) -> list[torch.Tensor]:
    """The mask of all samples under each intervention, [samples, queries, keys]."""
    plan, batch = planned(loaded, *interventions)
    mask = runner.inputs(loaded, plan, batch)["attention_mask"][:, 0]
    return [*mask.unflatten(0, (len(interventions), -1))]


def test_weight_0_is_the_knockout_and_its_control_the_random_cut(loaded: Loaded) -> None:
    pairs = [(KNOCKOUT, DOSES[0.0]), (RANDOM, CONTROLS[0.0])]
    every = [one for pair in pairs for one in pair]
    made = masks(loaded, CLEAN, *every, DOSES[0.25])  # a weight beside it changes nothing
    assert torch.equal(made[1], made[2]) and torch.equal(made[3], made[4])
    for one, same in pairs:  # alike in place and company
        cut, dose = (states(loaded, CLEAN, chosen)[chosen.name] for chosen in (one, same))
        for place, tensor in cut.items():
            assert torch.equal(dose[place], tensor), (one.name, place)


def test_weight_1_is_the_clean_pass(loaded: Loaded) -> None:
    one = replace(DOSES[0.5], name="one", weight=1.0)
    clean, same = masks(loaded, CLEAN, one)
    assert torch.equal(clean, same)
    passed = states(loaded, one, CLEAN)
    for place, tensor in states(loaded, CLEAN, CLEAN)["clean"].items():
        torch.testing.assert_close(passed["one"][place], tensor, atol=1e-6, rtol=1e-6)


def test_every_weight_adds_its_logarithm_where_the_knockout_cuts(loaded: Loaded) -> None:
    some = [weight for weight in WEIGHTS if weight]
    clean, cut, *weighed = masks(loaded, CLEAN, KNOCKOUT, *(DOSES[weight] for weight in some))
    acts = clean != cut
    assert acts.any()
    for weight, mask in zip(some, weighed, strict=True):
        expected = torch.where(acts, torch.tensor(math.log(weight)).to(clean), clean)
        torch.testing.assert_close(mask, expected)


def test_attention_goes_the_way_of_the_weight(checkpoint: Any) -> None:
    loaded = loading.load(checkpoint("llama", TOKENIZER["llama"]))
    loaded.model.set_attn_implementation("eager")
    plan, batch = planned(loaded, CLEAN, *(DOSES[weight] for weight in WEIGHTS))
    passed = runner.run(loaded, plan, batch, read=READ, grad=True)
    first = passed.attentions[0].detach()  # in later layers the states differ, too
    for number, row in enumerate(batch.rows):
        sample, clean = plan.samples[row.sample], first[batch.samples.index(row.sample)]
        last, exact = sample.positions["final"], list(row.tokens)
        if not exact:
            continue
        odds, before = (
            weights[:, last, exact].sum(-1) / (1 - weights[:, last, exact].sum(-1))
            for weights in (first[number], clean)
        )
        torch.testing.assert_close(odds, row.intervention.weight * before, atol=1e-5, rtol=1e-4)


def test_weights_other_than_those_offered_are_refused_in_the_config() -> None:
    def weights(*given: float) -> Any:
        return merged(SHIPPED, {"experiments": {"dose": {"weights": [*given]}}})

    assert load(weights(8, 0)).settings_of("dose").weights == [8.0, 0.0]
    for given, expected in (((1,), "multiplied by 1"), ((0.3,), "0.3"), ((0, 0), "named 2 times")):
        with pytest.raises(AnchorscopeError, match=expected):
            load(weights(*given))


CLEAN_S = {"a": -1.0, "b": -1.0, "c": 1.0, "d": 1.0}
FLIPPED = {0.0: "abc", 0.25: "ab", 0.5: "a", 2.0: "d"}
"""Weight → whose predictions flip."""


def without(flipped: str) -> dict[str, float]:
    """The scores when these predictions flip."""
    return {id_: -s if id_ in flipped else s for id_, s in CLEAN_S.items()}


def products(flipped: dict[float, str]) -> Products:
    parts = [long("clean", CLEAN_S, n_tokens=None)]
    for weight, ids in flipped.items():
        for one, some in ((DOSES[weight], ids), (CONTROLS[weight], "")):
            parts.append(long(one.name, without(some), n_tokens=1.0))
    scores, answers = main_run(CLEAN_S, without("abc")), labelled([*CLEAN_S], [0, 0, 1, 1])
    return Products(scores, answers, pd.concat(parts))


def by_hand(flipped: dict[float, str]) -> pd.DataFrame:
    return of_cell(EXPERIMENT, products(flipped), Bootstrap(draws=50))


def test_a_step_is_a_flip_with_that_at_the_next_weight_as_its_control() -> None:
    rows = per_sample(EXPERIMENT, products(FLIPPED)).set_index(["measure", "arm"])
    for arm, nearer in (("0", "0.25"), ("0.25", "0.5")):
        step = rows.loc[("step", arm)].set_index("id")
        assert step["value"].equals(rows.loc[("flip", arm)].set_index("id")["value"])
        assert step["control"].equals(rows.loc[("flip", nearer)].set_index("id")["value"])
    assert (rows.loc[("step", "0.5"), "control"] == 0).all()
    assert (rows.loc[("step", "2"), "control"] == 0).all()


def test_flips_points_and_steps_are_those_worked_out_by_hand() -> None:
    table = by_hand(FLIPPED)
    everyone = table[(table["label"].astype(str) == "all") & (table["anchor"] == "all")]
    rows = everyone.set_index("weight")
    assert list(rows.index) == [0.0, 0.25, 0.5, 2.0]
    assert rows["flips"].tolist() == [0.75, 0.5, 0.25, 0.25]
    assert rows["step"].tolist() == [0.25, 0.25, 0.25, 0.25]
    depth = 100 * (1 / (1 + math.e) - math.e / (1 + math.e))
    np.testing.assert_allclose(rows["delta_p"], depth * rows["flips"])
    assert (rows[["random", "random_delta_p"]] == 0).all().all()
    np.testing.assert_allclose(rows["delta_p_contrast"], rows["delta_p"])


def test_the_caption_counts_the_cells_in_which_flips_fall_and_names_the_others() -> None:
    falling = drawn(figure.weights, by_hand(FLIPPED))
    assert "fall with every step from 0 to 1, within intervals, in 1 of 1 cells" in words(falling)
    rising = drawn(figure.weights, by_hand({0.0: "", 0.25: "", 0.5: "abcd"}))
    assert "fall with every step from 0 to 1, within intervals, in 0 of 1 cells" in words(rising)
    assert "Flips do not fall steadily: Model on Data." in details(rising)


def test_the_line_runs_through_the_clean_pass_at_1_where_nothing_flips() -> None:
    spec = drawn(figure.weights, by_hand(FLIPPED))
    rows = [row for part in spec["datasets"].values() for row in part if "weight" in row]
    assert {row["w"] for row in rows} == {"0", "¼", "½", "1", "2"}
    assert all(row["value"] == 0 for row in rows if row["w"] == "1")
    exact = {row["w"]: row["value"] for row in rows if not row["chance"]}
    assert {"0", "2"} <= {*exact}
