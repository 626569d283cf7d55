"""The tables of crossing on probes whose reading is planted."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import FLOORS, joined, scores_of

from anchorscope.claims import CLAIMS, keys
from anchorscope.claims.claim import NOT_MEASURED, TOO_FEW
from anchorscope.pairs import crossing
from anchorscope.passes import interventions
from anchorscope.passes.interventions import REGISTRY, Intervention
from anchorscope.statistics import analysis
from anchorscope.statistics.intervals import auc
from anchorscope.storage.errors import AnchorscopeError

N = 240
IDS = np.array([f"i{i:04}" for i in range(N)])
PARTNER = np.arange(N).reshape(-1, 2)[:, ::-1].ravel()
FOLD = np.arange(N) // 2 % 5
DEPTH = np.array([[0.0], [1.0], [1.0]])
"""The first layer reads nothing of the pair, the others all."""
ARMS = {name: [one.name for one in both] for name, both in interventions.arms().items()}
"""Arm → its conditions behind the own question, and behind the partner's."""
SWAPPED = ["comparison_right", "comparison_wrong", "through_eq"]
"""Claims about swapped answers."""
Scores = Mapping[str, np.ndarray]


def answers(right: float = 0.5) -> pd.DataFrame:
    """Samples in pairs of one label, so many of them right, each with a frame of its own."""
    z = (np.arange(N // 2) >= right * N / 2).astype(int).repeat(2)
    columns: dict[str, Any] = {"id": IDS, "question": IDS, "subject": IDS, "label": z}
    columns |= {"ea_text": [f"said {id_}" for id_ in IDS], "golds": [[f"is {id_}"] for id_ in IDS]}
    columns |= {"crossed_partner": IDS[PARTNER], "frame": IDS, "partner_source": "relations"}
    return pd.DataFrame(columns)


def reading(
    z: np.ndarray, seed: int = 0, *, through: float = 1.0, kept: float = 1.0, **reads: float
) -> dict[str, np.ndarray]:
    """Condition → scores of *wrong*, [3, n], of a probe that adds up what it reads.

    Of the question after which an answer stands, and of the answer, `question` and `answer`
    follow the label; `truth` is whether the answer is right there, `own` whether it is the model's
    own there. `through` is the share of truth and own that passes through E_Q; `kept` what any
    blocking leaves of all. With `noise`.
    """
    random = np.random.default_rng(seed)
    names = ("question", "answer", "truth", "own")
    strength = dict.fromkeys(names, 0.0) | {"noise": 0.3} | reads
    sign = 2 * z - 1
    question = strength["question"] * (sign + random.normal(size=N))
    said = {
        kind: strength["answer"] * (wrong + random.normal(size=N))
        for kind, wrong in (("clean", sign), ("gold", -np.ones(N)))
    }
    found = {}
    for arm, both in ARMS.items():
        kind = "gold" if arm == "gold" else "clean"
        blocked = kept if arm in interventions.blocked_arms() else 1.0
        left = blocked * (1 - through if arm == "knockout" else 1.0)
        for name, at_home in zip(both, (True, False), strict=True):
            behind = np.arange(N) if at_home else PARTNER
            right = at_home & ((z == 0) | (kind == "gold"))
            own = at_home & (kind == "clean")
            pair = strength["truth"] * np.where(right, -1, 1) + strength["own"] * (1 - 2 * own)
            found[name] = blocked * (question[behind] + said[kind]) + DEPTH * left * pair
            found[name] += strength["noise"] * random.normal(size=(3, N))
    for name in ARMS["gold"]:
        found[name][:, z == 0] = np.nan
    return found


def analysed(
    scores: Scores, given: pd.DataFrame, *, draws: int = 20, **more: Any
) -> analysis.Analysis:
    (one,) = analysis.analyses(scores_of(scores, IDS, fold=FOLD, **more), given, draws=draws)
    return one


def tables(scores: Scores, given: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return crossing.tables(analysed(scores, given))


def judged(made: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The claims, by key."""
    return made["claims"].set_index(keys(made["claims"]))


def by_layer(made: dict[str, pd.DataFrame], value: str = "estimate") -> pd.DataFrame:
    """A column for each quantity, by layer."""
    return made["crossing"].pivot(index="layer", columns="quantity", values=value)


def planted(right: float = 0.5, seed: int = 0, **reads: float) -> tuple[Scores, pd.DataFrame]:
    """The scores of a probe that reads so, and the answers."""
    given = answers(right)
    return reading(given["label"].to_numpy(), seed, **reads), given


def test_sums_that_tell_of_the_label_have_a_signal_and_no_other_claim() -> None:
    found = judged(tables(*planted(question=1.0, answer=2.0, kept=0.5)))
    assert [*found.index] == [*CLAIMS]
    assert found["verdict"].tolist() == ["yes", NOT_MEASURED, "no", "no", "no"]
    sides = found["answers"].tolist()
    assert sides == ["", "", "right", "wrong", ""]


def test_a_reader_of_truth_and_a_reader_of_own_answers_compare_each_in_its_own_way() -> None:
    for name, expected in (("truth", [1, 0, 1]), ("own", [1, 1, 0])):
        made = tables(*planted(**{name: 1.0, "question": 1.0, "answer": 1.0}))
        found = by_layer(made)
        terms = found.loc[2, ["pair_right", "pair_wrong", "pair_gold"]]
        assert terms.tolist() == pytest.approx(expected, abs=0.1)
        assert (found.loc[0, terms.index].abs() < 0.1).all()
        shares = found[["share_right", "share_wrong", "share_gold"]]
        high = shares.loc[2] > 0.65
        assert high.tolist() == [bool(one) for one in expected]
        assert shares.loc[0].tolist() == pytest.approx([0.5] * 3, abs=0.1)
        said = judged(made).loc[SWAPPED[:2]]
        assert said["verdict"].tolist() == ["yes" if one else "no" for one in expected[:2]]
        assert (said["n"] == N / 4).all() and (said["layer"] == 2).all()


def test_p_of_a_swap_share_is_that_of_more_than_one_half() -> None:
    found = tables(*planted(truth=1.0, question=1.0, answer=1.0))["crossing"]
    rows = found[found["quantity"].str.fullmatch("share_(right|wrong|gold)(_[a-z]+)?")]
    assert len(rows) and ((rows["p"] < 0.05) == (rows["ci_low"] > 0.5)).all()
    other = found[found["quantity"] == "gold_wrong_share"]
    assert ((other["p"] < 0.05) == (other["ci_low"] > 0)).all()


def test_each_blocked_arm_has_its_swap_share() -> None:
    made = tables(*planted(truth=1.0, answer=1.0, through=1.0))
    shares = by_layer(made).loc[2]
    assert shares["share_right"] > 0.9 and shares["share_right_rest"] > 0.9
    assert shares["share_right_knockout"] == pytest.approx(0.5, abs=0.1)


def test_wrong_answers_that_score_lower_at_home_are_named() -> None:
    row = judged(tables(*planted(truth=1.0, own=-1.0, answer=1.0))).loc["comparison_wrong"]
    assert (row["verdict"], row["answers"]) == ("yes", "wrong") and row["ci_high"] < 0.45
    assert row["reason"] == "they score lower after their own question"


def test_the_answer_adds_what_the_probe_at_the_prompts_end_does_not_know() -> None:
    """Compare the same scores with a probe that knows less, and with one that knows all."""
    scores, given = planted(question=1.0, answer=1.0, noise=0.5)
    z = given["label"].to_numpy()
    for known, verdict in ((0.2, "yes"), (1.0, "no")):
        noise = np.random.default_rng(3).normal(size=(3, N)) * (1 - known)
        before = {"clean": known * scores["clean"] + noise}
        both = [
            scores_of(some, IDS, readout=name, fold=FOLD)
            for some, name in ((scores, "mlp/final"), (before, "mlp/prompt_end"))
        ]
        one, other = analysis.analyses(joined(*both), given, draws=200)
        row = judged(crossing.tables(one)).loc["answer_adds"]
        expected = auc(one.readout.own, z) - auc(other.readout.own, z)
        assert row["estimate"] == pytest.approx(expected)
        assert (row["verdict"], row["ci_low"] > 0) == (verdict, verdict == "yes")
        told = judged(crossing.tables(other))
        assert (told["verdict"].drop("signal") == "by design").all()


def test_the_table_has_a_row_for_each_quantity_and_layer() -> None:
    scores, given = planted(truth=1.0, own=0.5, answer=1.0)
    found = tables(scores, given)["crossing"]
    layers = found.groupby("quantity")["layer"].agg(list)
    for name, words in crossing.QUANTITIES.items():
        pattern = re.sub("<.*?>", "[a-z]+", name)
        of_name = [at for quantity, at in layers.items() if re.fullmatch(pattern, quantity)]
        at_headline = "headline layer" in words or "likewise" in words
        assert of_name and all(at == ([2] if at_headline else [0, 1, 2]) for at in of_name), name
        layers = layers[~layers.index.str.fullmatch(pattern)]
    assert layers.empty, "every quantity is documented"


def test_what_passes_through_e_q_is_told_beside_what_passes_through_the_rest() -> None:
    for through, said in ((0.9, "yes"), (0.0, "no")):
        reads = {"truth": 1.0, "own": 0.5, "answer": 1.0, "question": 2.0, "noise": 0.1}
        made = tables(*planted(**reads, through=through, kept=0.6))
        found, claim = by_layer(made).loc[2], judged(made).loc["through_eq"]
        assert found["left_right_knockout"] == pytest.approx(0.6, abs=0.06)
        assert found["left_wrong_rest"] == pytest.approx(0.6, abs=0.06)
        assert found["through_right"] == pytest.approx(1.5, abs=0.1)
        assert found["through_right_knockout"] == pytest.approx(1.5 * (1 - through), abs=0.2)
        assert found["through_wrong_rest"] == pytest.approx(0.5, abs=0.1)
        parts = claim["reason"].split("; ")
        assert claim["verdict"] == said and parts[-1].startswith("judged on ")
        assert claim["estimate"] == pytest.approx(through, abs=0.1)
        assert (len(parts) == 1) == (said == "yes")


@pytest.mark.parametrize("frames", ["same", "mirrored"])
def test_where_questions_differ_in_nothing_else_the_claim_could_not_fail(frames: str) -> None:
    scores, given = planted(truth=1.0, answer=1.0)
    if frames == "same":
        given["frame"] = "f"
    else:  # two pairs of the same two subjects, each in both wordings
        four = np.arange(N) // 4
        given["subject"] = [f"s{k}.{i % 2}" for i, k in enumerate(four)]
        given["frame"] = [f"f{(i + i // 2) % 2}" for i in range(N)]
    made = tables(scores, given)
    claim = judged(made).loc["through_eq"]
    assert claim["verdict"] == "by design" and np.isnan(claim["p"]) and claim["n"] == 0
    assert claim["reason"] == "the paired questions differ only in the exact question tokens"
    rows = made["crossing"].set_index("quantity")
    facts = rows.loc[["same_frame", "mirrored"], "estimate"].tolist()
    assert facts == ([1, 0] if frames == "same" else [0, 1])
    assert not rows.index.str.contains("through|left").any()
    assert judged(made).loc["comparison_right", "verdict"] == "yes"


def test_pairs_of_one_frame_do_not_count_for_what_passes_and_unknown_frames_bind_none() -> None:
    scores, given = planted(truth=1.0, answer=1.0)
    some = np.arange(N) // 2 % 3 == 0
    partly = given.assign(frame=np.where(some, "f", IDS))
    made = tables(scores, partly)
    claim = judged(made).loc["through_eq"]
    assert claim["verdict"] == "yes" and claim["n"] == N / 4 * 2 / 3
    strange = {
        name: s + 9.0 * some * (name in ARMS["knockout"]) * np.arange(N)
        for name, s in scores.items()
    }
    assert judged(tables(strange, partly)).loc["through_eq", "p"] == claim["p"]
    assert judged(tables(scores, given.assign(frame=None))).loc["through_eq", "n"] == N / 4


def test_each_pair_is_judged_at_the_layer_that_its_own_fold_chose() -> None:
    # All questions read alike, so no text says anything at any layer.
    given, layer = answers().assign(question="?"), np.array([2, 0, 1, 1, 0])
    z = given["label"].to_numpy()
    scores = reading(z, truth=0.6, own=0.4, question=1.0, answer=1.0, through=0.7, kept=0.8)
    one = analysed(scores, given, inner_auc=0.6 + 0.3 * (layer == np.arange(3)[:, None]))
    assert one.readout.layer_of_fold.tolist() == layer.tolist() and one.readout.headline == 1
    at_own = {name: s[layer[FOLD], np.arange(N)] for name, s in scores.items()}
    found, expected = crossing.tables(one)["claims"], tables(at_own, given)["claims"]
    assert (found["layer"] == 1).all()
    pd.testing.assert_frame_equal(found.drop(columns="layer"), expected.drop(columns="layer"))


def test_pairs_of_one_cluster_are_too_few_and_have_no_interval() -> None:
    scores, given = planted(truth=2.0, own=1.0, answer=1.0)
    made = tables(scores, given.assign(subject="one"))
    found = judged(made).loc[SWAPPED]
    assert set(found["verdict"]) == {TOO_FEW}
    assert found["reason"].str.contains("1 clusters, and at least 10 are needed").all()
    assert found[["p", "ci_low"]].isna().all(axis=None)
    assert by_layer(made, "ci_low")["pair_right"].isna().all()


def test_without_golds_there_are_no_rows_about_them() -> None:
    scores, given = planted(truth=1.0, own=0.5, answer=1.0)
    bare = {name: s for name, s in scores.items() if "gold" not in name}
    found = tables(bare, given.assign(golds=[[] for _ in IDS]))
    pd.testing.assert_frame_equal(found["claims"], tables(scores, given)["claims"])
    assert not found["crossing"]["quantity"].str.contains("gold").any()


def test_what_the_overlap_of_the_words_explains_is_not_claimed() -> None:
    given = answers()
    scores = reading(given["label"].to_numpy(), question=1.0, answer=1.0, noise=0.2)
    names = np.array(["".join(np.random.default_rng(n).choice([*"abdegiko"], 8)) for n in range(N)])
    told = np.arange(N) // 2 % 2 == 0  # of half of the pairs
    given["question"] = [f"who is {name}" for name in names]
    given["ea_text"] = np.where(told, names, [f"{name[::-1].upper()}" for name in names])
    for name, sign in (("clean", -1), ("crossed", 1)):
        scores[name][1:] += sign * 0.5 * told
    made = tables(scores, given)
    terms, low = by_layer(made).loc[2], by_layer(made, "ci_low").loc[2]
    assert terms["pair_right"] == pytest.approx(0.25, abs=0.06) and low["pair_right"] > 0
    assert abs(terms["right_above_text"]) < 0.1
    found = judged(made)
    assert found["verdict"][SWAPPED[:2]].tolist() == ["no"] * 2


def test_without_pairs_there_are_no_rows_of_crossing_and_only_the_signal_is_judged() -> None:
    scores, given = planted(truth=1.0)
    alone = {name: scores[name] for name in ("clean", "knockout", "rest")}
    made = tables(alone, given.assign(crossed_partner=None))
    assert made["crossing"].empty and list(made["crossing"]) == list(crossing.CROSSING)
    found = judged(made)
    assert found.loc["signal", "verdict"] == "yes"
    assert (found["verdict"].drop("signal") == NOT_MEASURED).all()


@pytest.mark.parametrize("partner", [None, "gone"])
def test_partners_and_scores_must_be_of_the_same_samples(partner: str | None) -> None:
    scores, given = planted()
    given.loc[3, "crossed_partner"] = partner
    with pytest.raises(
        AnchorscopeError, match="2 samples have a partner and no scores(.|\n)*i0002"
    ):
        tables(scores, given)


def known(told: float) -> Scores:
    """Scores of the floors, of which `text` knows so much of the label."""
    random, z = np.random.default_rng(5), answers()["label"].to_numpy()
    by_name = dict.fromkeys(FLOORS, 0.0) | {"text": told}
    return {name: size * (2 * z - 1) + random.normal(size=N) for name, size in by_name.items()}


@pytest.mark.parametrize(
    ("told", "verdict", "reason"),
    [
        (0.0, "yes", "the gain is over the text model `question`, the hardest to beat"),
        (2.0, "no", "the AUC is not significantly above the text model `text`"),
    ],
)
def test_the_signal_is_judged_against_what_is_hardest_to_beat_and_names_it(
    told: float, verdict: str, reason: str
) -> None:
    one = analysed(*planted(question=0.8, noise=0.5), draws=200, floors=known(told))
    row = judged(crossing.tables(one)).loc["signal"]
    gain = one.over_text.estimate
    assert (row["verdict"], row["reason"]) == (verdict, reason)
    assert row["p"] == gain.p and row["estimate"] == gain.value
    assert one.signal == (verdict == "yes") == (row["ci_low"] > 0)


def test_without_refits_each_claim_is_judged_by_fixed_probes() -> None:
    scores, given = planted(truth=1.0, answer=1.0, kept=0.6)
    found = judged(crossing.tables(analysed(scores, given, floors=known(0.0))))
    assert found["verdict"].tolist() == ["yes", NOT_MEASURED, "yes", "no", "yes"]


def test_with_one_label_alone_there_is_no_signal_to_judge() -> None:
    found = judged(tables(*planted(right=0.0, truth=1.0, own=1.0, answer=1.0)))["verdict"]
    assert found.tolist() == ["too few", NOT_MEASURED, "too few", "yes", "yes"]


def cells(**p: list[float]) -> pd.DataFrame:
    """Claims of three cells at one read-out, with these p; NaN is too few pairs."""
    frames = []
    for claim, values in p.items():
        verdicts = ["too few" if np.isnan(one) else "yes" if one < 0.05 else "no" for one in values]
        rows = {"model": ["a", "b", "c"], "dataset": "d", "site": "mlp", "position": "final"}
        frames.append(
            pd.DataFrame(rows | {"claim": claim, "answers": "", "p": values, "verdict": verdicts})
        )
    return pd.concat(frames, ignore_index=True).assign(reason="")


def test_the_p_of_a_figures_cells_are_corrected_claim_by_claim_and_read_out_by_read_out() -> None:
    here = cells(through_eq=[0.02, 0.03, 0.04], answer_adds=[0.001, np.nan, 0.03])
    here["reason"] = ["right answers", np.nan, "", "", "few", "why"]
    other = cells(through_eq=[0.04, np.nan, np.nan]).assign(position="last_answer")
    found = crossing.corrected(pd.concat([here, other], ignore_index=True), 0.95)
    assert found["p"].tolist() == pytest.approx(
        [0.06, 0.06, 0.06, 0.002, np.nan, 0.03, 0.04, np.nan, np.nan], nan_ok=True
    )
    assert found["verdict"].tolist() == [
        "no", "no", "no", "yes", "too few", "yes", "yes", "too few", "too few"
    ]  # fmt: skip
    lost = "not significant once p is corrected for the figure's cells"
    reasons = [f"{lost}; right answers", lost, lost, "", "few", "why", "", "", ""]
    assert found["reason"].tolist() == reasons


def test_the_signal_of_a_figures_cells_is_what_its_claims_say() -> None:
    found = crossing.corrected(cells(signal=[0.001, 0.03, 0.04], answer_adds=[0.9, 0.9, 0.9]), 0.95)
    curve = pd.DataFrame({"model": [*"cabba"], "dataset": "d", "site": "mlp", "position": "final"})
    curve["cell_signal"] = True
    told = crossing.with_signal(curve, found)
    assert found["verdict"][:3].tolist() == ["yes", "no", "no"]
    assert told["cell_signal"].tolist() == [False, True, False, False, True]
    others = ["model", "dataset", "site", "position"]
    pd.testing.assert_frame_equal(told[others], curve[others])


def test_an_arm_added_as_a_record_has_its_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    own = REGISTRY["question"]
    twin = Intervention(
        "crossed-question", "every question token blocked, partner's question",
        "attention to every question token of the partner's question is blocked",
        ("crossed", "question"), "question", interventions.CROSSED,
    )  # fmt: skip
    monkeypatch.setitem(REGISTRY, twin.name, twin)
    scores, given = planted(truth=2.0, answer=1.0)
    rest = (scores[name] for name in ARMS["rest"])
    half = dict(zip((own.name, twin.name), rest, strict=True))
    made = tables({**scores, **half}, given)
    quantities = {f"{name}_right_question" for name in ("through", "left", "share")}
    assert quantities <= {*made["crossing"]["quantity"]}
