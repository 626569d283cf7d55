"""From questions to the figure: a small world and a small model, every product looked at."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from workflow import Workspace

from anchorscope.claims import CLAIMS, keys
from anchorscope.pairs import crossing
from anchorscope.passes import activations, interventions
from anchorscope.statistics.scores import COLUMNS as SCORES
from anchorscope.storage.files import read_csv, read_json, read_parquet

CELL = "tiny-llama/tiny-world"
LAYERS = 4
SAMPLES = 112
READOUTS = ("mlp/final", "mlp/prompt_end")
SWAPPED = tuple(one.name for one in interventions.RECORDS if one.version == interventions.CROSSED)
GOLD = ("gold", "crossed-gold")
CONDITIONS = ("knockout", "random", "rest", "question", *SWAPPED, "noop")
"""Those of the curve."""


def provenance(run: Workspace, made: str) -> Any:
    return read_json(run.results / f"{made}.provenance.json")


def counts_in(record: Any) -> Iterator[dict[str, Any]]:
    """Every count of samples in a record, however deep."""
    if isinstance(record, dict):
        if {"in", "kept", "dropped"} <= set(record):
            yield record
        for part in record.values():
            yield from counts_in(part)


@pytest.fixture(scope="module")
def answers(tiny_run: Workspace) -> pd.DataFrame:
    return read_parquet(tiny_run.results / f"answers/{CELL}.parquet")


@pytest.fixture(scope="module")
def measured(tiny_run: Workspace, answers: pd.DataFrame) -> dict[str, int]:
    """How many samples each condition was measured for; partners are not found for all."""
    table = activations.measured(answers, tiny_run.results / f"activations/{CELL}")
    crossed, gold = (int(table[f"{one}_partner"].notna().sum()) for one in ("crossed", "gold"))
    assert 0 < gold <= crossed < SAMPLES and crossed % 2 == gold % 2 == 0
    partial = dict.fromkeys(SWAPPED, crossed) | dict.fromkeys(GOLD, gold) | {"noop": 8}
    return {**dict.fromkeys(("clean", *CONDITIONS), SAMPLES), **partial}


def test_answers_are_frozen_anchored_and_labelled(answers):
    kept = answers[answers["dropped"].isna()]
    assert set(kept["label"]) == {0, 1}
    for row in kept.to_dict("records"):
        assert row["prompt_length"] <= row["ea_start"] < row["ea_end"] <= row["final"]
        assert row["final"] == len(row["input_ids"]) - 1
        assert set(row["eq_tokens"]) < set(row["question_tokens"])


def test_scores_hold_every_sample_layer_and_condition_once(tiny_run, measured):
    scores = read_parquet(tiny_run.results / f"scores/{CELL}.parquet")
    assert list(scores) == list(SCORES)
    keys = ["id", "layer", "readout", "condition", "draw", "probe"]
    assert not scores.duplicated(keys).any()
    defined = scores[scores["probe"] == "clean"]
    assert defined["p"].between(0, 1).all() and set(scores["readout"]) == set(READOUTS)
    sizes = defined.groupby("condition").size().to_dict()
    assert sizes == {name: n * LAYERS * len(READOUTS) for name, n in measured.items()}


def test_the_table_starts_with_the_agreed_columns_and_misses_no_row(tiny_run):
    table = read_csv(tiny_run.results / "tables/tiny.csv")
    agreed = (
        "model,dataset,site,position,condition,grouping,anchor,layer,n,share,delta_p,ci_low,"
        "ci_high,probe_auc,answer_accuracy,n_blocked"
    )
    assert ",".join(table.columns[:16]) == agreed and set(table["grouping"]) == {"per_layer"}
    keys = ["position", "condition", "anchor", "layer"]
    assert not table.duplicated(keys).any()
    expected = product(("final", "prompt_end"), CONDITIONS, ("Q", "A", "all"), range(LAYERS))
    assert set(table[keys].itertuples(index=False, name=None)) == set(expected)
    groups = table.pivot(index=["position", "condition", "layer"], columns="anchor", values="n")
    # Of random, means over its draws: to the digits that are written.
    assert np.allclose(groups["Q"] + groups["A"], groups["all"], rtol=0, atol=1e-3)


def test_every_claim_has_one_verdict_in_the_tables_of_cell_and_figure(tiny_run):
    """One cell needs no correction of p; `cell_signal` is the verdict on the signal."""
    claims, of_cell = (
        read_csv(tiny_run.results / f"{stem}.claims.csv")
        for stem in ("tables/tiny", f"delta_p/{CELL}")
    )
    pd.testing.assert_frame_equal(claims[of_cell.columns], of_cell)
    assert list(claims) == ["model", "dataset", *crossing.CLAIM_COLUMNS]
    assert keys(claims).tolist() == [*CLAIMS] * len(READOUTS)
    signal = claims[claims["claim"] == "signal"].set_index("position")["verdict"] == "yes"
    table = read_csv(tiny_run.results / "tables/tiny.csv")
    assert (table["cell_signal"] == table["position"].map(signal)).all()
    told = claims["verdict"].isin(["yes", "no"])
    assert claims.loc[told, ["p", "estimate"]].notna().all(axis=None)
    assert claims.loc[claims["verdict"] != "yes", "reason"].notna().all()


def test_nothing_cut_moves_nothing(tiny_run):
    """`noop`: another batch and no additive mask leave ΔP at numerical noise."""
    table = read_csv(tiny_run.results / "tables/tiny.csv")
    noop = table[(table["condition"] == "noop") & (table["anchor"] == "all")]
    assert len(noop) == LAYERS * len(READOUTS)
    assert noop["delta_p"].abs().max() < 1e-2


def test_the_figure_says_what_every_stage_was_made_from(tiny_run):
    record = provenance(tiny_run, "figures/tiny")
    for counts in counts_in(record):
        assert counts["in"] == counts["kept"] + sum(counts["dropped"].values())
    before = {found["rule"]: found for found in record["inputs"].values()}
    stages = "dataset model prompts answers activations scores delta_p table".split()
    assert sorted(before) == sorted(stages)
    assert before["model"]["model"]["revision"] and before["activations"]["device"] == "cpu"
    assert before["answers"]["dtype"] == "float32"
    for found in (before["scores"]["counts"], record["counts_by_cell"][CELL]):
        assert found == before["activations"]["counts"]


def test_activations_that_are_not_kept_go_once_they_are_scored(tiny_run, tmp_path):
    clone, change = tiny_run.copy(tmp_path / "clone"), {"keep_activations": False}
    target = f"results/delta_p/{CELL}.csv"
    clone.build(target, "--forcerun", "scores", change=change)
    assert (clone.results / f"scores/{CELL}.parquet").is_file()
    assert not (clone.results / f"activations/{CELL}").exists()
