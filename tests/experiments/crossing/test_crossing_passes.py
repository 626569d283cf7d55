"""From answers through the model to what is claimed of them, in a small cell."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_tables import details
from handmade import drawn
from instrument import measured
from small_cell import PROBES, answers_of

from anchorscope.experiments.crossing.terms import PAIR, term
from anchorscope.experiments.knockout import cell_tables
from anchorscope.figures import figure_main, figure_pathway
from anchorscope.models.families import Loaded
from anchorscope.passes import activations, interventions, partners, planning
from anchorscope.probes.bands import Draws
from anchorscope.probes.fitting import plan_passes
from anchorscope.storage.files import read_parquet
from anchorscope.workflow.jobs import write_scores

CONDITIONS: dict[str, dict[str, int]] = {
    "knockout": {}, "random": {}, "rest": {}, "question": {}, "crossed": {}, "gold": {},
}  # fmt: skip
READOUT = "mlp/final"
Tables = dict[str, pd.DataFrame]


def tables_of(loaded: Loaded, folder: Path, answers: pd.DataFrame) -> Tables:
    """All tables of a cell, by the main run's own steps."""
    given: dict[str, Any] = {"conditions": CONDITIONS, "probe": PROBES}
    plan = plan_passes(loaded, answers, "answers", **given)
    activations.write(folder, loaded, plan, [READOUT])
    names = ("scores", "floors", "draws", "probes")
    paths = {name: str(folder / f"{name}.product") for name in names}
    found = activations.measured(answers, folder)
    chosen: dict[str, Any] = {"readouts": [READOUT], "conditions": CONDITIONS, "device": "cpu"}
    write_scores(SimpleNamespace(**paths), str(folder), found, PROBES, **chosen)
    made = cell_tables.tables(
        *(read_parquet(paths[name]) for name in ("scores", "floors")),
        *(found, Draws.read(paths["draws"])),
        bootstrap={"draws": 20, "min_n": 5, "min_clusters": 3},
        seed=0,
    )
    return {name: one.assign(model="m", dataset="d") for name, one in made.items()}


@pytest.fixture(scope="module")
def loaded(load: Callable[..., Any]) -> Loaded:
    return load("llama", "byte_level")


def test_labels_without_gold_answers_leave_truth_unmeasured_and_all_else_stands(
    loaded: Loaded, tmp_path: Path
) -> None:
    answers = answers_of(loaded.tokenizer, 72).assign(kind=None)
    answers["golds"], answers["gold_ids"] = [[[] for _ in range(72)] for _ in range(2)]
    answers["eq_tokens"] = answers["eq_tokens"].str[:1]  # questions differ in more than E_Q
    labelled = tables_of(loaded, tmp_path, answers)
    crossing, claims = labelled["crossing"], labelled["claims"].set_index("claim")
    assert claims.loc["truth", "verdict"] == "not measured"
    assert claims.loc["truth", "reason"] == "gold answers were not scored"
    head = crossing[crossing["headline"]].set_index("quantity")
    assert not head.index.str.contains("gold").any()
    assert head.loc["pair_right", "n"] + head.loc["pair_wrong", "n"] > 10
    terms = ["through_right", "through_right_knockout", "left_right_rest"]
    assert np.isfinite(head.loc[terms, "estimate"]).all()
    assert (head.loc[terms, "n"] == head.loc["pair_right", "n"]).all()
    assert not labelled["curve"]["condition"].str.contains("gold").any()
    said = details(drawn(figure_main.chart, *of_figure(labelled)))
    assert "Cannot be judged, truth: Model on Data (gold answers were not scored)." in said


def of_figure(made: Tables) -> list[pd.DataFrame]:
    """The tables that the figure draws."""
    return [made[name] for name in ("curve", "crossing", "claims")]


def test_a_cell_in_which_no_two_answers_can_be_swapped_says_so(
    loaded: Loaded, tmp_path: Path
) -> None:
    answers = answers_of(loaded.tokenizer)
    answers["relation"] = answers["id"]
    answers["gold_ids"] = [[] for _ in answers["id"]]
    tables = tables_of(loaded, tmp_path, answers)
    assert tables["crossing"].empty
    claims = tables["claims"].set_index("claim").drop(index="signal")
    assert (claims["verdict"] == "not measured").all() and len(claims) == 4
    assert (claims["reason"] == "no answers were swapped").all()
    plan = planning.plan(answers, conditions=CONDITIONS, batch_tokens=10**6)
    reasons = (partners.NO_PARTNER, partners.SHARED_WORD)
    assert plan.counts.notes.keys() == {f"crossed, {reason}" for reason in reasons}
    assert sum(plan.counts.notes.values()) == len(answers)
    spec = drawn(figure_main.chart, *of_figure(tables))
    assert figure_pathway.NOT_CROSSED in details(spec)
    assert len(spec["concat"]) == 1, "ΔP alone is drawn"


def differing_in_the_subject(tokenizer: Any) -> pd.DataFrame:
    """Right answers to questions of one template, whose subjects have as many tokens each."""
    table = answers_of(tokenizer, 24)
    table = table[table["relation"] == "trade"].iloc[:6].reset_index(drop=True)
    random, rows = np.random.default_rng(0), []
    first = table.iloc[0]
    for row in table.to_dict("records"):
        ids = [*first["input_ids"][: first["prompt_length"]]]
        for token in first["eq_tokens"]:
            ids[token] = int(random.integers(5, 300))
        answer = row["input_ids"][row["prompt_length"] :]
        start = len(ids)
        of_prompt = {"eq_tokens": first["eq_tokens"], "question_tokens": first["question_tokens"]}
        by = start - row["prompt_length"]
        moved = {name: row[name] + by for name in ("final", "ea_start", "ea_end")}
        rows.append(row | of_prompt | moved | {"input_ids": ids + answer, "prompt_length": start})
    golds = [[answer] for answer in table["ea_text"]]
    return pd.DataFrame(rows).assign(golds=golds, label=0)


@pytest.mark.parametrize("family", ["llama", "gemma3_text", "gpt_neox", "gpt2"])
def test_where_questions_differ_in_e_q_alone_nothing_of_the_pair_passes_beside_it(
    family: str, load: Callable[..., Any]
) -> None:
    loaded = load(family)
    answers = differing_in_the_subject(loaded.tokenizer)
    plan = planning.plan(answers, conditions=CONDITIONS | {"gold": None}, batch_tokens=10**6)
    index = activations.index(plan).set_index("id")
    pairs = index["crossed_partner"].dropna()
    assert len(pairs) >= 4 and index["frame"].nunique() == 1
    states = measured(loaded, plan, [READOUT])
    weights = np.random.default_rng(1).normal(size=next(iter(states.values())).shape[-1])

    def s(id_: str, condition: str) -> np.ndarray:
        return states[id_, f"{condition}.0/mlp.final"].double().numpy() @ weights

    for one, other in pairs.items():
        own, cut = (
            np.stack(
                [s(one, here.name), s(one, there.name), s(other, there.name), s(other, here.name)]
            )
            for here, there in (interventions.arms()["clean"], interventions.arms()["knockout"])
        )
        np.testing.assert_allclose(term(PAIR, cut), 0, atol=1e-5)
        assert np.abs(term(PAIR, own)).max() > 1e-3
