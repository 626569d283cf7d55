"""The interchange on a table worked out by hand, and on probes whose reading is known."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope.experiments import analysis
from anchorscope.experiments.interchange import table as interchange
from anchorscope.experiments.knockout import curve
from anchorscope.storage.errors import AnchorscopeError

IDS = ["a", "b", "c", "d", "e", "f"]
# P(z = 1); a, b, e are wrong answers, c, d, f right ones; the probe takes d for wrong
CLEAN = [0.9, 0.8, 0.2, 0.7, 0.6, 0.1]
KNOCKOUT = [0.4, 0.7, 0.9, 0.8, 0.3, 0.2]  # flips a, c, e
MATCHED = {"a": ("b", 0.3), "b": ("e", 0.9), "c": ("f", 0.6), "d": ("c", 0.1), "f": ("c", 0.3)}
PLACEBO = {"a": ("e", 0.8), "b": ("a", 0.4), "c": ("f", 0.3), "f": ("d", 0.2)}
# not counted: d's matched partner c and f's placebo partner d are classified otherwise than they


def rows(condition: str, p: dict[str, float]) -> pd.DataFrame:
    table = np.array([list(p.values())] * 2)
    at = {"id": [*p] * 2, "layer": np.repeat([0, 1], len(p)), "fold": 0, "inner_auc": np.nan}
    fixed = {"readout": "mlp/final", "condition": condition, "draw": 0, "probe": "clean"}
    return pd.DataFrame(at | fixed | {"s": np.log(table / (1 - table)).ravel()})


def scores(*without: str) -> pd.DataFrame:
    parts = {
        "clean": dict(zip(IDS, CLEAN, strict=True)),
        "knockout": dict(zip(IDS, KNOCKOUT, strict=True)),
        "matched": {id_: p for id_, (_, p) in MATCHED.items()},
        "placebo": {id_: p for id_, (_, p) in PLACEBO.items()},
    }
    return pd.concat([rows(name, p) for name, p in parts.items() if name not in without])


def answers(**changed: Any) -> pd.DataFrame:
    columns: dict[str, Any] = {
        "id": IDS,
        "question": [f"Who made {x}?" for x in IDS],
        "subject": IDS,
        "label": [1, 1, 0, 0, 1, 0],
        "matched_partner": [MATCHED.get(x, (None,))[0] for x in IDS],
        "placebo_partner": [PLACEBO.get(x, (None,))[0] for x in IDS],
        "partner_source": "relations",
    }
    return pd.DataFrame(columns | changed)


def at(table: pd.DataFrame, arm: str, label: str = "all", anchor: str = "all") -> pd.Series:
    keyed = table[table["layer"] == 0].set_index(["arm", "label", "anchor"])
    assert keyed.index.is_unique
    return keyed.loc[arm, label, anchor]


def test_only_pairs_whose_partner_is_classified_alike_are_counted() -> None:
    table = analysis.table(interchange.report, scores(), answers())
    assert list(table.columns) == list(interchange.INTERCHANGE)
    names = ["n", "n_partner", "n_paired", "coverage"]
    assert at(table, "matched")[names].tolist() == [6, 5, 4, 4 / 6]
    assert at(table, "placebo")[names].tolist() == [6, 4, 3, 3 / 6]
    assert at(table, "matched-placebo")[names].tolist() == [6, 4, 3, 3 / 6]
    assert (table["source"] == "relations").all()
    assert table.groupby("layer")["headline"].first().tolist() == [False, True]


def test_pairs_of_different_folds_do_not_count() -> None:
    apart = scores()
    apart["fold"] = (apart["id"] == "b").astype(int)
    table = analysis.table(interchange.report, apart, answers())
    # matched: c and f are left, of which c follows; placebo: a and c; both: c
    found = {arm: at(table, arm)["n_paired"] for arm in ("matched", "placebo", "matched-placebo")}
    assert found == {"matched": 2, "placebo": 2, "matched-placebo": 1}
    assert at(table, "matched")["follows"] == 1 / 2
    assert at(table, "matched")["delta_p"] == pytest.approx((-40 - 20) / 2)


def test_followers_are_those_worked_out_by_hand_by_label_and_the_knockouts_flips() -> None:
    # matched: a .9 → .3 and c .2 → .6 follow, b and f do not; placebo: b .8 → .4 alone
    table = analysis.table(interchange.report, scores(), answers())
    expected = {
        ("matched", "all", "all"): [6, 4, 2 / 4, (-60 + 10 - 40 - 20) / 4],
        ("matched", "0", "all"): [3, 2, 1 / 2, (-40 - 20) / 2],
        ("matched", "1", "all"): [3, 2, 1 / 2, (-60 + 10) / 2],
        ("matched", "0", "Q"): [1, 1, 1.0, -40],
        ("matched", "0", "A"): [2, 1, 0.0, -20],
        ("matched", "1", "Q"): [2, 1, 1.0, -60],
        ("matched", "1", "A"): [1, 1, 0.0, 10],
        ("matched", "all", "Q"): [3, 2, 1.0, (-60 - 40) / 2],
        ("placebo", "all", "all"): [6, 3, 1 / 3, (-10 - 40 - 10) / 3],
        ("matched-placebo", "all", "all"): [6, 3, 1 / 3, (-50 + 50 - 30) / 3],
        ("matched-placebo", "0", "all"): [3, 1, 1.0, -30],
    }
    for where, values in expected.items():
        row = at(table, *where)
        assert row[["n", "n_paired", "follows", "delta_p"]].tolist() == pytest.approx(values)


def cell(reads: str, n: int = 240, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A cell in which a probe reads the `question` alone, or whether question and answer `fit`.

    Behind a partner's question an answer has the score of that question, or of what is then true.
    """
    random = np.random.default_rng(seed)
    ids = np.array([f"i{number:03}" for number in range(n)])
    z = np.arange(n) % 2
    hard = random.normal(size=n) + (2 * z - 1)
    partner = np.array([random.choice(np.flatnonzero(z == z[i])) for i in range(n)])
    fits = (2.0 * z - 1) * np.abs(random.normal(size=n) + 2)
    s = {"clean": hard if reads == "question" else fits}
    s["knockout"] = np.where(random.random(n) < 0.5, -1, 1) * s["clean"]
    s["matched"] = hard[partner] if reads == "question" else -fits
    s["placebo"] = hard[partner] if reads == "question" else fits
    fixed = {"id": ids, "layer": 0, "readout": "mlp/final", "draw": 0, "probe": "clean"}
    fixed |= {"fold": 0, "inner_auc": np.nan}
    parts = [pd.DataFrame({**fixed, "condition": name, "s": one}) for name, one in s.items()]
    fixed = {"matched_partner": ids[partner], "placebo_partner": ids[partner]}
    table = pd.DataFrame({"id": ids, "question": ids, "subject": ids, "label": z, **fixed})
    return pd.concat(parts, ignore_index=True), table


def test_a_probe_of_the_question_alone_never_follows_and_one_of_the_pair_always_does() -> None:
    for reads, follows in (("question", 0.0), ("pair", 1.0)):
        found = analysis.table(interchange.report, *cell(reads), draws=20)
        matched = found[found["arm"] == "matched"]
        assert (matched["n_paired"] > 20).all()
        assert (matched["follows"] == follows).all()
        away = matched["follows_low" if follows else "follows_high"] - follows
        assert (away.abs() < 0.2).all() and (away != 0).all()  # n is known, the rest is not
        assert (found.loc[found["arm"] == "placebo", "follows"] == 0).all()


def test_the_curve_has_the_counted_pairs_by_the_knockouts_flips() -> None:
    rows = analysis.table(curve.curve, scores(), answers(), draws=20)
    rows = rows[(rows["condition"] == "matched") & (rows["layer"] == 0)]
    assert set(rows["grouping"]) == {"per_layer", "reference_layer"}
    rows = rows[rows["grouping"] == "per_layer"].set_index("anchor")
    assert rows["n"].to_dict() == {"Q": 2, "A": 2, "all": 4}
    assert rows["share"].to_dict() == pytest.approx({"Q": 2 / 6, "A": 2 / 6, "all": 4 / 6})
    assert rows["delta_p"].to_dict() == pytest.approx({"Q": -50, "A": -5, "all": -27.5})
    # of the right answers that count, c flips under the knockout and follows, f does neither
    assert rows["flip_share"].to_dict() == {"Q": 1.0, "A": 0.0, "all": 0.5}
    assert rows["n_paired"].to_dict() == {"Q": 1, "A": 1, "all": 2}


def test_the_contrast_is_over_right_answers_that_count_in_both_arms() -> None:
    contrasts = analysis.table(curve.contrasts, scores(), answers(), draws=20)
    found = contrasts[contrasts["layer"] == 0].set_index(["quantity", "contrast"])
    assert (found["n"] == 1).all()  # c alone
    arms = ["matched", "placebo", "matched-placebo"]
    assert found["estimate"]["share"][arms].tolist() == pytest.approx([100, 0, 100])
    assert found["estimate"]["delta_p"][arms].tolist() == pytest.approx([-40, -10, -30])
    alone = scores("placebo"), answers(placebo_partner=None)
    assert analysis.table(curve.contrasts, *alone, draws=20).empty


def test_an_arm_that_was_not_measured_has_no_rows() -> None:
    alone = analysis.table(interchange.report, scores("placebo"), answers(placebo_partner=None))
    assert set(alone["arm"]) == {"matched"}
    without = answers().drop(columns=["matched_partner", "placebo_partner", "partner_source"])
    none = analysis.table(interchange.report, scores("matched", "placebo"), without)
    assert none.empty and list(none.columns) == list(interchange.INTERCHANGE)


@pytest.mark.parametrize(
    "partners",
    [["b", "e", "f", "c", None, None], ["b", "e", "f", "c", "a", "c"], ["x", *"efc", None, "c"]],
    ids=["no partner", "no scores", "unknown"],
)
def test_partners_and_scores_of_different_samples_are_refused(partners: list[str | None]) -> None:
    with pytest.raises(AnchorscopeError, match="1 samples have a partner and no scores"):
        analysis.table(interchange.report, scores(), answers(matched_partner=partners))
