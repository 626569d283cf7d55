"""ΔP, grouping and shares on tables worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of, without

from anchorscope.curve import controls, curve
from anchorscope.statistics import analysis
from anchorscope.statistics.scores import Scores
from anchorscope.storage.errors import AnchorscopeError

IDS = ["a", "b", "c", "d"]
# p = P(z = 1) by layer and sample. On clean, a and b are called wrong, c and d right, at layer 0;
# all four wrong at layer 1.
CLEAN = [[0.9, 0.6, 0.2, 0.4], [0.8, 0.7, 0.6, 0.9]]
KNOCKOUT = [[0.3, 0.7, 0.1, 0.8], [0.8, 0.7, 0.6, 0.9]]
RANDOM = [[[0.4, 0.5001, 0.2, 0.4], [0.8, 0.7, 0.6, 0.9]], [[0.9, 0.2, 0.3, 0.4], CLEAN[1]]]


NOOP = [[0.9, 0.55, np.nan, np.nan], [0.45, 0.7, np.nan, np.nan]]


def logits(p: Any) -> np.ndarray:
    return np.log(np.array(p) / (1 - np.array(p)))


def scores(**more: list[list[float]]) -> Scores:
    """Scores of all conditions, and of `more`, with blanks for `_` in their names."""
    found: dict[str | tuple[str, int], Any] = {"knockout": KNOCKOUT, "clean": CLEAN, "noop": NOOP}
    found |= {("random", draw): p for draw, p in enumerate(RANDOM)}
    found |= {name.replace("_", "-"): p for name, p in more.items()}
    return scores_of({name: logits(p) for name, p in found.items()}, IDS)


def answers() -> pd.DataFrame:
    texts = {"id": IDS, "question": ["q1", "q2", "q3", "q4"], "subject": ["s1", "s1", None, "s4"]}
    blocked = {"n_blocked_knockout": [2, 4, 6, 8], "n_blocked_random": [2.0, 4.0, 5.0, 8.0]}
    known = {"label": [1, 0, 0, 1], "random_complete": [True, True, False, True]}
    of_group = {"popularity": [8.0, None, 4.0, 2.0], "ea_logprob": [-1.0, -2.0, None, -4.0]}
    return pd.DataFrame(texts | blocked | known | of_group)


def at(table: pd.DataFrame, **where: Any) -> pd.Series:
    """The one row with these keys, grouped per layer unless said."""
    for name, value in where.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def made() -> pd.DataFrame:
    return analysis.cell_table(curve.curve, scores(), answers())


def test_groups_shares_and_delta_p_are_those_worked_out_by_hand() -> None:
    # layer 0: a .9 → .3 flips, ΔP −60; b .6 → .7, +10; c 1 − .2 → 1 − .1, +10;
    #          d 1 − .4 → 1 − .8 flips, −40.
    table = made()
    expected = {
        "Q": [2, 0.5, -50.0, 0.0, 5.0, 5.0, -2.5],
        "A": [2, 0.5, 10.0, 1.0, 5.0, 4.0, -2.0],
        "all": [4, 1.0, -20.0, 0.5, 5.0, 14 / 3, -7 / 3],
    }
    names = ["n", "share", "delta_p", "answer_accuracy", "n_blocked", "popularity", "logprob"]
    by_anchor = {x: at(table, condition="knockout", anchor=x, layer=0) for x in expected}
    for anchor, values in expected.items():
        assert by_anchor[anchor][names].tolist() == pytest.approx(values)
    assert list(table.columns) == list(curve.CURVE)
    assert list(dict.fromkeys(table["condition"])) == ["knockout", "random", "noop"]
    # layer 0: wrong a, d at .9, .4 against right b, c at .6, .2: three of four pairs in order
    assert (table.loc[table["layer"] == 0, "probe_auc"] == 0.75).all()
    logit = {p: np.log(p / (1 - p)) for p in (0.9, 0.3, 0.4, 0.8)}
    by_hand = ((logit[0.3] - logit[0.9]) + (logit[0.4] - logit[0.8])) / 2
    assert by_anchor["Q"]["delta_logit"] == pytest.approx(by_hand)
    assert by_anchor["A"]["n_clusters"] == 2 and by_anchor["all"]["n_clusters"] == 3
    row = at(table, condition="knockout", anchor="Q", layer=1)
    assert (row["n"], row["share"], row["thin"]) == (0, 0, True)
    assert row[["ci_low", "ci_high", "delta_logit", *names[2:]]].isna().all()


def test_each_condition_is_grouped_by_its_own_flips_and_each_draw_by_its_own() -> None:
    # draw 0 flips a (−50); draw 1 flips b (−40).
    table = made()
    row = at(table, condition="random", anchor="Q", layer=0)
    assert (row["n"], row["share"], row["answer_accuracy"]) == (1, 0.25, 0.5)
    assert row["delta_p"] == pytest.approx((-50 - 40) / 2)
    # draw 0 leaves b at −9.99, c and d at 0; draw 1 leaves c at −10, a and d at 0.
    row = at(table, condition="random", anchor="A", layer=0)
    assert row["delta_p"] == pytest.approx((-9.99 / 3 - 10 / 3) / 2)


def cell(n: int) -> tuple[Scores, pd.DataFrame]:
    """Scores at two layers where knockout moves a third of the samples, and answers in pairs."""
    random = np.random.default_rng(0)
    z = np.arange(n) % 2
    clean = (2 * z - 1) * 2 + random.normal(size=(2, n)) * 0.3
    third = np.arange(n) // 2 % 3 == 0
    ids = [f"i{i:03}" for i in range(n)]
    moved = {
        "clean": clean,
        "knockout": clean - np.where(third, 4, 0.1) * np.sign(clean),
        "random": clean + random.normal(size=(2, n)) * 0.1,
    }
    texts = {"id": ids, "question": ids, "subject": [f"s{i // 2}" for i in range(n)]}
    known = {"label": z, "random_complete": True}
    return scores_of(moved, ids), pd.DataFrame(texts | known)


def test_intervals_are_those_of_a_slow_bootstrap_that_regroups() -> None:
    measured, table = cell(60)
    found = analysis.cell_table(curve.curve, measured, table, draws=200, seed=4)
    found = at(found, condition="knockout", anchor="Q", layer=0)
    s = (measured.probes[key][0, 0] for key in ("mlp/final/clean/0", "mlp/final/knockout/0"))
    clean, knockout = (1 / (1 + np.exp(-of.astype(np.float64))) for of in s)
    points = 100 * np.where(clean > 0.5, 1, -1) * (knockout - clean)
    flips = (knockout > 0.5) != (clean > 0.5)
    random, means, shares = np.random.default_rng(4), [], []
    for weights in random.multinomial(30, np.full(30, 1 / 30), size=200):
        copies = np.repeat(np.arange(60), np.repeat(weights, 2))
        means.append(points[copies][flips[copies]].mean())
        shares.append(flips[copies].mean())
    assert [found["ci_low"], found["ci_high"]] == pytest.approx(np.quantile(means, [0.025, 0.975]))
    expected = np.quantile(shares, [0.025, 0.975])
    assert [found["share_ci_low"], found["share_ci_high"]] == pytest.approx(expected)


def test_points_of_few_samples_or_few_clusters_are_thin() -> None:
    measured, table = cell(60)
    linked = table.assign(subject=[f"s{i // 2 % 9}" for i in range(60)])
    for given, min_n, thin in ((table, 20, False), (table, 21, True), (linked, 20, True)):
        found = analysis.cell_table(curve.curve, measured, given, draws=20, min_n=min_n)
        assert at(found, condition="knockout", anchor="Q", layer=0)["thin"] == thin


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda a: a[:3], "4 samples do not match 3 rows"),
        (lambda a: pd.concat([a, a[:1]]), "4 samples do not match 5 rows"),
        (lambda a: a.drop(columns="random_complete"), "random is complete"),
    ],
)
def test_scores_and_answers_of_different_samples_are_refused(spoil: Any, message: str) -> None:
    with pytest.raises(AnchorscopeError, match=message):
        analysis.cell_table(curve.curve, scores(), spoil(answers()))


def test_flips_are_counted_among_the_paired_samples_as_in_the_contrasts() -> None:
    # a, b and d have a complete control. Knockout flips a and d at layer 0; random a, then b.
    table, paired = made(), analysis.cell_table(controls.contrasts, scores(), answers())
    same = at(paired, contrast="knockout-random", quantity="share", layer=0)
    for condition, share, column in (("knockout", 2 / 3, "under"), ("random", 1 / 3, "beside")):
        row = at(table, condition=condition, anchor="all", layer=0)
        assert row["flip_share"] == pytest.approx(share)
        assert row["n_paired"] == 3 < row["n"] == 4
        assert 100 * row["flip_share"] == pytest.approx(same[column])
    bare = without(scores(), "random")
    alone = analysis.cell_table(curve.curve, bare, answers().drop(columns="random_complete"))
    assert at(alone, condition="knockout", anchor="all", layer=0)["n_paired"] == 4


# Behind the other question a, called wrong, loses 40 points and flips; c gains 10 as `right`.
BLANK = np.nan
BEHIND = {
    "crossed": [[0.6, BLANK, 0.3, BLANK], [0.8, BLANK, 0.6, BLANK]],
    "crossed_knockout": [[0.2, BLANK, 0.2, BLANK], [0.8, BLANK, 0.6, BLANK]],
}


def test_a_cut_behind_another_prompt_is_compared_with_that_prompts_uncut_pass() -> None:
    table = analysis.cell_table(curve.curve, scores(**BEHIND), answers())
    for anchor, n, points in (("Q", 1, -40), ("A", 1, 10), ("all", 2, -15)):
        row = at(table, condition="crossed-knockout", anchor=anchor, layer=0)
        assert (row["n"], row["share"]) == (n, n / 4)
        assert row["delta_p"] == pytest.approx(points)


def test_shares_and_accuracies_are_of_all_answers_that_the_samples_stand_for() -> None:
    # 18 wrong answers and 2 right ones
    chosen = replace(scores(), stands_for=np.array([9.0, 1.0, 1.0, 9.0]))
    table = analysis.cell_table(curve.curve, chosen, answers())
    plain = made()
    by_anchor = {x: at(table, condition="knockout", anchor=x, layer=0) for x in ("Q", "A", "all")}
    shares = {"Q": (18 / 20, 0.0), "A": (2 / 20, 1.0), "all": (1.0, 2 / 20)}
    for anchor, (share, accuracy) in shares.items():
        row, same = by_anchor[anchor], at(plain, condition="knockout", anchor=anchor, layer=0)
        assert row[["share", "answer_accuracy"]].tolist() == pytest.approx([share, accuracy])
        assert row["n"] == same["n"] and row["delta_p"] == same["delta_p"], "of the measured ones"
        assert (row["n_answers"], same["n_answers"]) == (20 * share, same["n"])
        assert row["n_right"] == {"Q": 0, "A": 2, "all": 2}[anchor]
    assert by_anchor["Q"]["share_ci_low"] <= 0.9 <= by_anchor["Q"]["share_ci_high"]
    assert by_anchor["all"]["popularity"] == pytest.approx((9 * 8 + 4 + 9 * 2) / 19)
    assert table["probe_auc"].equals(plain["probe_auc"])
