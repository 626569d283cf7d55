"""The table of crossing on probes whose reading is planted."""

import importlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of

from anchorscope.experiments import analysis
from anchorscope.experiments.crossing import claims, table
from anchorscope.experiments.knockout.contrasts import OWN, UNCLEAR, contrasts
from anchorscope.storage.errors import AnchorscopeError

N = 240
IDS = np.array([f"i{i:04}" for i in range(N)])
PARTNER = np.arange(N).reshape(-1, 2)[:, ::-1].ravel()
FOLD = np.arange(N) // 2 % 5
DEPTH = np.array([[0.0], [1.0], [1.0]])
"""The first layer reads nothing of the pair, the others all."""
ANSWERS = {"": ("clean", "crossed"), "gold": ("gold", "crossed-gold")}
CUTS = {"knockout": ("knockout", "crossed-knockout"), "random": ("random", "crossed-random")}
Scores = Mapping[str, np.ndarray]


def answers(right: float = 0.5) -> pd.DataFrame:
    """Samples in pairs of one label, so many of them right."""
    z = (np.arange(N // 2) >= right * N / 2).astype(int).repeat(2)
    columns: dict[str, Any] = {"id": IDS, "question": IDS, "subject": IDS, "label": z}
    columns |= {"ea_text": [f"said {id_}" for id_ in IDS], "golds": [[f"is {id_}"] for id_ in IDS]}
    frames = np.arange(N) // 2 % 2 == 0
    columns |= {
        "crossed_partner": IDS[PARTNER], "same_frame": frames, "partner_source": "relations"
    }  # fmt: skip
    random = np.random.default_rng(9)
    columns |= {f"logprob_{name}": -9 + random.normal(size=N) for both in ANSWERS.values()
                for name in both}  # fmt: skip
    return pd.DataFrame(columns | {"random_complete": True, "crossed-random_complete": True})


def reading(
    z: np.ndarray, seed: int = 0, *, through: float = 1.0, **reads: float
) -> dict[str, np.ndarray]:
    """Condition → scores of *wrong*, [3, n], of a probe that adds up what it reads.

    Of the question behind which an answer stands, and of the answer, `question` and `answer`
    follow the label; `truth` is whether the answer is right there, `own` whether it is the model's
    own there. `weaker` is what share is lost behind another question; `through` the share of
    truth and own that passes through E_Q. With `noise`.
    """
    random = np.random.default_rng(seed)
    names = ("question", "answer", "truth", "own", "weaker")
    strength = dict.fromkeys(names, 0.0) | {"noise": 0.3} | reads
    sign = 2 * z - 1
    question = strength["question"] * (sign + random.normal(size=N))
    said = {
        kind: strength["answer"] * (wrong + random.normal(size=N))
        for kind, wrong in (("", sign), ("gold", -np.ones(N)))
    }
    found = {}
    for kind, both in ANSWERS.items():
        for name, at_home in zip(both, (True, False), strict=True):
            behind = np.arange(N) if at_home else PARTNER
            right = at_home & ((z == 0) | (kind == "gold"))
            own = at_home & (kind == "")
            pair = strength["truth"] * np.where(right, -1, 1) + strength["own"] * (1 - 2 * own)
            added = question[behind] + said[kind]
            left = 1 - (0 if at_home else strength["weaker"]) * DEPTH
            for cut, lost in {"": 0.0, "knockout": through, "random": 0.0}.items():
                if cut and kind:
                    continue
                noise = strength["noise"] * random.normal(size=(3, N))
                condition = CUTS[cut][not at_home] if cut else name
                found[condition] = left * added + DEPTH * (1 - lost) * pair + noise
    golds = z == 1
    for name in ANSWERS["gold"]:
        found[name][:, ~golds] = np.nan
    return found


def long(scores: Scores) -> pd.DataFrame:
    """The table of scores, without what was not measured."""
    return scores_of(scores, IDS, fold=FOLD, probe="clean")


def report(scores: Scores, given: pd.DataFrame, **settings: Any) -> pd.DataFrame:
    every = {"draws": 20} | settings
    return analysis.table(table.report, long(scores), given, **every)


def planted(right: float = 0.5, seed: int = 0, **reads: float) -> pd.DataFrame:
    """The table of a probe that reads so."""
    given = answers(right)
    return report(reading(given["label"].to_numpy(), seed, **reads), given)


def sums(z: np.ndarray, size: float = 9.0) -> dict[str, np.ndarray]:
    """Scores that add up something read off the question and something read off the answer.

    What a cut does to either is anybody's guess.
    """
    random = np.random.default_rng(0)
    found = {}
    for kind, of_kind in ANSWERS.items():
        for pair in [of_kind] if kind else [of_kind, *CUTS.values()]:
            question, answer = size * random.normal(size=(2, 3, N))
            for name, behind in zip(pair, (np.arange(N), PARTNER), strict=True):
                found[name] = question[:, behind] + answer
                if kind:
                    found[name][:, z == 0] = np.nan
    return found


def test_sums_of_question_and_answer_read_no_pair_however_strong() -> None:
    given = answers()
    found = report(sums(given["label"].to_numpy()), given)
    assert list(found.columns) == list(table.CROSSING)
    values = found[[name for name in table.BY_LAYER if "text" not in name]]
    assert np.abs(values.to_numpy()).max() < 1e-9
    head = found[found["headline"]].iloc[0]
    assert [head[claim] for claim in table.CLAIMS] == ["no"] * 4
    assert (found["share_pair"] < 1e-9).all() and (found["share_question"] > 0.1).all()
    for side in ("right", "wrong"):
        more = own_less_crossed(sums(given["label"].to_numpy()), given, side)
        np.testing.assert_allclose(more, 0, atol=1e-9)


@pytest.mark.parametrize("control", ["random", "crossed-random"])
def test_pairs_without_as_many_other_tokens_do_not_count_where_random_tokens_are_cut(
    control: str,
) -> None:
    few = np.arange(N) // 2 % 3 == 0  # one sample of a pair is enough
    given = answers().assign(**{f"{control}_complete": ~(few & (np.arange(N) % 2 == 0))})
    scores = reading(given["label"].to_numpy(), truth=1.0, through=0.5)
    found = report(scores, given)
    strange = {name: scores[name] + few * 9.0 * (name == control) for name in scores}
    pd.testing.assert_frame_equal(report(strange, given), found)
    assert (found["n_random"] == N // 2 - few.sum() // 2).all()
    assert (report(strange, answers())["pair_right_random"] != found["pair_right_random"]).any()
    some = found.set_index("layer").loc[2]
    assert some["pair_right_random"] == pytest.approx(some["pair_right"], abs=0.15)
    none = report(scores, given.assign(**{f"{control}_complete": False}))
    head = none[none["headline"]].iloc[0]
    assert head["n_random"] == 0 and head["through_eq"] == claims.TOO_FEW
    assert "right: 0 of 10 pairs with as many other tokens" in head["through_eq_why"]
    assert none[["pair_right_random", "right_random_cut"]].isna().all(axis=None)


def own_less_crossed(scores: Scores, given: pd.DataFrame, side: str) -> np.ndarray:
    """By how much more the knockout moves the logit behind the own question, [layers]."""
    found = analysis.table(contrasts, long(scores), given, draws=2)
    rows = found[(found["contrast"] == OWN) & (found["quantity"] == f"logit_{side}")]
    assert len(rows) == 3 and rows["under"].abs().min() > 1e-3
    return rows["estimate"].to_numpy()


@pytest.mark.parametrize("side", ["right", "wrong"])
def test_own_less_crossed_is_twice_what_the_pair_term_loses(side: str) -> None:
    given = answers(right=0.4)
    z = given["label"].to_numpy()
    scores = reading(z, question=2.0, answer=2.0, truth=1.0, own=0.5, through=0.7, weaker=0.2)
    found = report(scores, given)
    lost = (found[f"pair_{side}"] - found[f"pair_{side}_cut"]).to_numpy()
    np.testing.assert_allclose(own_less_crossed(scores, given, side), -2 * lost, atol=1e-9)
    assert abs(lost[2]) > 0.3


def test_a_reader_of_truth_is_told_from_a_reader_of_own_answers() -> None:
    for name, expected in (("truth", [1, 0, 1]), ("own", [1, 1, 0])):
        found = planted(**{name: 1.0, "question": 1.0, "answer": 1.0}).set_index("layer")
        terms = found.loc[2, ["pair_right", "pair_wrong", "pair_gold"]]
        assert terms.tolist() == pytest.approx(expected, abs=0.1)
        assert (found.loc[0, terms.index].abs() < 0.1).all()
        said = found.loc[2, ["interaction", "own_answer", "truth"]].tolist()
        assert said == ["yes" if one else "no" for one in expected]
        assert found.loc[2, "n_right"] == found.loc[2, "n_wrong"] == found.loc[2, "n_gold"] == N / 4
    assert found["headline"].tolist() == [False, False, True]
    blank = found.loc[:1, [f"{claim}{end}" for claim in table.CLAIMS for end in ("", "_p")]]
    assert blank.isna().all(axis=None), "claims are judged at the headline layer"


def test_what_passes_through_e_q_is_told_by_both_cuts() -> None:
    for through, said in ((0.75, "yes"), (0.0, "no")):
        found = planted(truth=1.0, own=0.5, through=through).set_index("layer").loc[2]
        assert found["pair_right_cut"] == pytest.approx(1.5 * (1 - through), abs=0.1)
        assert found["pair_wrong_random"] == pytest.approx(0.5, abs=0.1)
        assert found["right_passes"] == pytest.approx(through, abs=0.1)
        assert found["through_eq"] == said


def test_where_questions_differ_in_e_q_alone_nothing_is_said_of_what_passes_through_it() -> None:
    given = answers().assign(same_frame=True)
    found = report(reading(given["label"].to_numpy(), truth=1.0), given)
    alike = found.set_index("layer").loc[2]
    assert alike["interaction"] == "yes"
    assert alike["through_eq"] == "not measured" and np.isnan(alike["through_eq_p"])
    assert alike["through_eq_why"] == "in 120 of 120 pairs the questions differ in nothing else"


def test_the_shares_are_those_planted_and_add_up_to_all() -> None:
    found = planted(question=1.0, answer=2.0, noise=0.0)
    shares = found[["share_question", "share_answer", "share_pair", "share_noise"]]
    assert shares.sum(axis=1).to_numpy() == pytest.approx(np.ones(3))
    assert shares.iloc[2].tolist() == pytest.approx([0.2, 0.8, 0, 0], abs=0.06)


def test_following_the_partners_question_is_counted() -> None:
    assert planted(truth=2.0)["follows"].tolist()[1:] == pytest.approx([1, 1], abs=0.02)
    assert planted(answer=9.0, noise=0.0)["follows"].max() == 0


def test_few_pairs_are_too_few() -> None:
    few = planted(truth=2.0, right=7 / 120).iloc[2]  # 7 right pairs
    assert few[["interaction", "own_answer", "truth"]].tolist() == ["too few", "no", "yes"]
    assert few["interaction_why"] == "7 of 10 pairs"
    none = planted(truth=2.0, right=0.0)
    assert (none["n_right"] == 0).all() and none["pair_right"].isna().all()
    assert none["interaction"].iloc[2] == claims.TOO_FEW


def test_pairs_of_one_cluster_are_too_few_and_have_no_interval() -> None:
    given = answers().assign(subject="one")
    scores = reading(given["label"].to_numpy(), truth=2.0, own=1.0)
    found = report(scores, given).iloc[2]
    for claim in table.CLAIMS:
        assert found[claim] == claims.TOO_FEW and "1 of 10 clusters" in found[f"{claim}_why"]
        assert np.isnan(found[f"{claim}_p"])
    assert found["pair_right"] == pytest.approx(3, abs=0.1)
    assert found[["pair_right_low", "pair_right_high", "pair_right_p"]].isna().all()
    own = analysis.table(contrasts, long(scores), given, floors=known(given), draws=20)
    own = own[own["contrast"] == OWN].query("layer == 2")
    assert own["signal"].all() and set(own["n_clusters"]) == {1}
    assert set(own["effect"]) == {UNCLEAR}


def known(given: pd.DataFrame) -> pd.DataFrame:
    """Floors that know nothing."""
    random = np.random.default_rng(5)
    floors = ("answer", "question", "response", "text")
    return pd.concat([given[["id"]].assign(floor=one, s=random.normal(size=N)) for one in floors])


def test_without_golds_truth_is_not_measured_and_everything_else_stands() -> None:
    given = answers()
    scores = reading(given["label"].to_numpy(), truth=1.0, own=0.5)
    whole = report(scores, given).set_index("layer")
    bare = {name: s for name, s in scores.items() if "gold" not in name}
    unknown = given.assign(golds=[[] for _ in IDS])
    found = report(bare, unknown.drop(columns=["logprob_gold", "logprob_crossed-gold"]))
    found = found.set_index("layer")
    assert found.loc[2, "truth"] == claims.NOT_MEASURED
    assert found.loc[2, "truth_why"] == "gold answers were not scored"
    assert (found["n_gold"] == 0).all() and found["pair_gold"].isna().all()
    others = ["interaction", "own_answer", "through_eq"]
    assert found.loc[2, others].tolist() == whole.loc[2, others].tolist() == ["yes"] * 3
    same = [name for name in table.BY_LAYER if "gold" not in name and "text" not in name]
    pd.testing.assert_frame_equal(found[same], whole[same])


def test_what_the_overlap_of_the_words_explains_is_not_claimed() -> None:
    given = answers()
    scores = reading(given["label"].to_numpy(), question=1.0, answer=1.0, noise=0.2)
    names = np.array(["".join(np.random.default_rng(n).choice([*"abdegiko"], 8)) for n in range(N)])
    told = np.arange(N) // 2 % 2 == 0  # of half of the pairs
    given["question"] = [f"who is {name}" for name in names]
    given["ea_text"] = np.where(told, names, [f"{name[::-1].upper()}" for name in names])
    for name, sign in (("clean", -1), ("crossed", 1)):
        scores[name][1:] += sign * 0.5 * told
    head = report(scores, given).iloc[2]
    assert head["pair_right"] == pytest.approx(0.25, abs=0.06) and head["pair_right_low"] > 0
    assert abs(head["right_above_text"]) < 0.1
    assert head["interaction"] == head["own_answer"] == "no"


def test_the_p_of_a_figures_cells_are_corrected_by_read_out() -> None:
    one = planted(truth=1.0, own=0.5)
    cells = [one.assign(interaction_p=p, own_answer="too few", own_answer_p=np.nan)
             for p in (0.02, 0.03, 0.04)]  # fmt: skip
    other = one.assign(position="last_answer", interaction_p=0.04)
    found = table.corrected(pd.concat([*cells, other], ignore_index=True), 0.95).query("headline")
    assert found["interaction_p"].tolist() == pytest.approx([0.06, 0.06, 0.06, 0.04])
    assert found["interaction"].tolist() == ["no"] * 3 + ["yes"]
    assert found["own_answer"].tolist() == ["too few"] * 3 + ["yes"]


def test_without_pairs_there_are_no_rows() -> None:
    given = answers()
    scores = reading(given["label"].to_numpy())
    alone = {name: scores[name] for name in ("clean", "knockout", "random")}
    found = report(alone, given.assign(crossed_partner=None))
    assert found.empty and list(found.columns) == list(table.CROSSING)


@pytest.mark.parametrize("partner", [None, "gone"])
def test_partners_and_scores_must_be_of_the_same_samples(partner: str | None) -> None:
    given = answers()
    scores = reading(given["label"].to_numpy())
    given.loc[3, "crossed_partner"] = partner
    with pytest.raises(
        AnchorscopeError, match="2 samples have a partner and no scores(.|\n)*i0002"
    ):
        report(scores, given)


def test_answers_of_unlike_kinds_are_counted() -> None:
    given = answers().assign(ea_text="words")
    scores = reading(given["label"].to_numpy())
    given.loc[0, "ea_text"] = "1871"
    assert report(scores, given)["n_unlike"].iloc[0] == 1


def simulated(monkeypatch: pytest.MonkeyPatch, worlds: int, **given: Any) -> pd.DataFrame:
    """The benchmark's own worlds, of fewer samples and learned in less time."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    benchmark = importlib.import_module("interval_coverage")
    probe = {"grid": [0.01], "refits": 12, "inner_folds": 3}
    found = benchmark.simulate(partial(benchmark.pairs, 200, probe=probe, **given), worlds)
    found.attrs["coverage"] = benchmark.coverage(found)
    return found


def test_intervals_with_refits_hold_what_the_procedure_finds_on_average(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    covered = simulated(monkeypatch, 24).attrs["coverage"]
    assert (covered["refitted"] >= 0.75).all()
    assert covered.loc["pair_right", "fixed"] < covered.loc["pair_right", "refitted"]
    assert covered.loc["pair_right", "truth"] > 0.5


def test_all_that_a_probe_of_nothing_reads_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    found = simulated(monkeypatch, 12, shuffle=True)
    means = found.groupby("seed").first().filter(like="share_").mean()
    assert means["share_noise"] > 0.6
    assert (means.drop("share_noise") < 0.2).all()
    claimed = (found["low"] > 0) & (found["probes"] == "refitted")
    assert claimed.sum() <= 3
