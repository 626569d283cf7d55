"""The strata of a cell, on samples drawn at random and worked out one by one."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of

from anchorscope.experiments import analysis
from anchorscope.experiments.knockout import strata
from anchorscope.probes.samples import sigmoid

N = 60
RNG = np.random.default_rng(0)
Z = RNG.integers(0, 2, N)
CLEAN = (2 * Z - 1) + RNG.normal(0, 1, N)
CUT = {("knockout", 0): RNG.normal(0, 1, N)} | {
    ("random", draw): CLEAN + RNG.normal(0, 1, N) for draw in range(2)
}
HALF = np.arange(N) % 2 == 0
BEHIND = np.where(HALF, CLEAN + RNG.normal(0, 1, N), np.nan)
"""Behind the partner's question, which every second sample has."""
CUT["crossed-knockout", 0] = BEHIND + RNG.normal(0, 1, N)
CUT["rest", 0] = CLEAN + RNG.normal(0, 1, N)
IDS = [f"{i:02}" for i in range(N)]


def scores() -> pd.DataFrame:
    return scores_of({"clean": CLEAN, "crossed": BEHIND, **CUT}, IDS)


def answers(**changed: Any) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "id": IDS,
        "question": [" ".join(["word"] * (i % 5) + [name]) for i, name in enumerate(IDS)],
        "subject": [f"s{i // 2}" for i in range(N)],
        "label": Z,
        "popularity": [None if i % 10 == 0 else float(i) for i in range(N)],
        "relation": [None if i == 0 else "rare" if i < 4 else f"r{i % 2}" for i in range(N)],
        "ea_sure": pd.array([i % 4 > 0 for i in range(N)], dtype="boolean"),
        "random_complete": np.arange(N) % 3 > 0,
    }
    return pd.DataFrame(columns | changed)


def report(**changed: Any) -> pd.DataFrame:
    return analysis.table(
        strata.report, scores(), answers(**changed), draws=50, min_n=5, min_clusters=3
    )


def expected(condition: str, members: np.ndarray) -> dict[str, float]:
    """Sample by sample, draw by draw."""
    found: dict[str, list[float]] = {"flip_share": [], "delta_p": [], "delta_p_q": []}
    for s in [s for (name, _), s in CUT.items() if name == condition]:
        flips, moved = [], []
        for i in np.flatnonzero(members):
            sign = 1 if CLEAN[i] > 0 else -1
            flips.append((s[i] > 0) != (CLEAN[i] > 0))
            moved.append(100 * sign * (sigmoid(s[i]) - sigmoid(CLEAN[i])))
        depth = np.array(moved)[flips].sum() / sum(flips) if any(flips) else np.nan
        for name, value in zip(found, (_mean(flips), _mean(moved), depth), strict=True):
            found[name].append(float(value))
    return {name: _mean(values) for name, values in found.items()}


def _mean(values: list[float]) -> float:
    known = [one for one in values if not np.isnan(one)]
    return float(np.mean(known)) if known else np.nan


def members(stratum: str, value: str) -> np.ndarray:
    table = answers()
    if stratum == "label":
        return (value == "wrong") == Z
    if stratum == "predicted":
        return (CLEAN > 0) == (value == "wrong")
    if stratum == "relation":
        of = table["relation"].where(table["relation"] != "rare", strata.OTHERS)
        return (of == value).to_numpy()
    if stratum == "length":
        return (np.arange(N) % 5 > 2) == (value == "longer")
    if stratum == "sure":
        return (np.arange(N) % 4 > 0) == (value == "sure")
    rank = table["popularity"].rank(pct=True)
    return {"low": rank <= 1 / 3, "high": rank > 2 / 3}.get(
        value, (rank > 1 / 3) & (rank <= 2 / 3)
    ).to_numpy()


def test_each_stratum_is_what_its_samples_do_one_by_one() -> None:
    table = report()
    assert list(table.columns) == list(strata.STRATA)
    assert [*table["stratum"].unique()] == "label predicted popularity relation length sure".split()
    assert set(table["condition"]) == {"knockout", "random"}, "neither swapped nor the rest"
    complete = answers()["random_complete"].to_numpy()
    for row in table.to_dict("records"):
        some = members(row["stratum"], row["value"])
        some = some & complete if row["condition"] == "random" else some
        for name, value in expected(row["condition"], some).items():
            assert row[name] == pytest.approx(value, nan_ok=True), row
        assert row["n"] == some.sum()
        if row["stratum"] == "label":
            assert pd.isna([row["auc"], row["auc_low"], row["auc_high"]]).all()
        else:
            pairs = CLEAN[some & (Z == 1)][:, None] - CLEAN[some & (Z == 0)][None]
            if not pairs.size:
                assert np.isnan(row["auc"])
                continue
            assert row["auc"] == pytest.approx((pairs > 0).mean())
            assert row["auc_low"] <= row["auc"] <= row["auc_high"]
        assert row["n_clusters"] == answers()["subject"][some].nunique()
        assert row["thin"] == (row["n"] < 5 or row["n_clusters"] < 3)
        assert row["flip_low"] <= row["flip_share"] <= row["flip_high"]
        assert row["ci_low"] <= row["delta_p"] <= row["ci_high"]


def test_values_stand_in_an_order_of_their_own_and_rare_relations_together() -> None:
    cut = report()[lambda table: table["condition"] == "knockout"]
    values = cut.groupby("stratum", sort=False)["value"].agg(list).to_dict()
    assert values["popularity"] == ["low", "middle", "high"]
    assert values["relation"] == ["r0", "r1", "other relations"]
    assert values["length"] == ["shorter", "longer"]
    assert cut.set_index("value").loc["other relations", "thin"]


def test_what_is_unknown_or_the_same_for_all_makes_no_stratum_nor_what_was_not_run_a_row() -> None:
    same = {"popularity": None, "relation": "one", "ea_sure": True}
    bare = report(**same, question=[f"Who made {i}?" for i in IDS])
    assert set(bare["stratum"]) == {"label", "predicted"}
    some = scores()[lambda table: table["condition"].isin(["clean", "knockout"])]
    table = analysis.table(strata.report, some, answers().drop(columns="random_complete"), draws=10)
    assert set(table["condition"]) == {"knockout"}
