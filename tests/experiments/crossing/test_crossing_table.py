"""The table of crossing on probes whose reading is planted."""

import importlib.util
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from anchorscope.experiments.analysis import Analysis
from anchorscope.experiments.crossing import table
from anchorscope.probes import intervals, samples
from anchorscope.probes.fitting import Settings
from anchorscope.probes.samples import Effects, Readout
from anchorscope.storage.errors import AnchorscopeError

N = 240
BENCHMARK = Path(__file__).parents[3] / "benchmarks/interval_coverage.py"


def cell(
    seed: int = 0, n: int = N, right: float = 0.5, **reads: float
) -> tuple[Readout, pd.DataFrame]:
    """A probe of three layers that adds up what it reads, each with noise of variance 1.

    `question` and `answer` follow the label; `truth` is whether the answer is right where it
    stands; `agreement` whether it stands behind its own question; `sure` makes wrong answers more
    wrong there. `weaker` is the part of question and answer that is lost behind another question.
    The first layer reads nothing of the pair, the others all.
    """
    random = np.random.default_rng(seed)
    partner = np.arange(n).reshape(-1, 2)[:, ::-1].ravel()
    z = (np.arange(n // 2) >= right * n / 2).astype(int).repeat(2)
    sign, depth = 2 * z - 1, np.array([[0.0], [1.0], [1.0]])
    names = ("question", "answer", "truth", "agreement", "sure", "weaker")
    strength = dict.fromkeys(names, 0.0) | {"noise": 1.0} | reads
    question = strength["question"] * (sign + random.normal(size=n))
    answer = strength["answer"] * (sign + random.normal(size=n))

    def s(behind: np.ndarray, wrong: np.ndarray, own: int) -> np.ndarray:
        pair = strength["truth"] * wrong - strength["agreement"] * own
        pair = pair + strength["sure"] * own * z + strength["noise"] * random.normal(size=n)
        left = 1 - depth * strength["weaker"] * (own < 0)
        return left * (question[behind] + answer) + depth * pair

    clean, crossed = s(np.arange(n), sign, 1), s(partner, np.ones(n), -1)
    measured, none = np.ones(n, dtype=bool), np.zeros((1, *clean.shape))
    flip = ((crossed > 0) != (clean > 0))[None]
    effects = {"crossed": Effects(measured, crossed[None], flip, none, none)}
    auc = np.array([intervals.auc(layer, z) for layer in clean])
    fold, chosen = np.arange(n) // 2 % 5, np.full(5, 2)
    readout = Readout("mlp", "final", clean, auc, fold, chosen, effects, {})
    ids = np.array([f"i{i:04}" for i in range(n)])
    columns: dict[str, Any] = {"id": ids, "question": ids, "subject": ids, "label": z}
    columns |= {"ea_text": "x", "crossed_partner": ids[partner], "partner_source": "relations"}
    return readout, pd.DataFrame(columns)


def report(readout: Readout, answers: pd.DataFrame, draws: int = 300, **more: Any) -> pd.DataFrame:
    drawn = samples.bootstrap(answers, draws, 0)
    return table.report(Analysis(readout, answers, drawn, **more))


def test_a_probe_that_adds_up_question_and_answer_reads_no_pair_however_strong() -> None:
    found = report(*cell(question=9.0, answer=9.0, noise=0))
    assert list(found.columns) == list(table.CROSSING)
    ends = [f"{name}{end}" for name in table.INTERVALS for end in ("", "_low", "_high")]
    assert np.abs(found[ends].to_numpy()).max() < 1e-6
    assert (found["reads"] == table.NOT_SHOWN).all()
    assert found[["pair_from", "truth_from"]].isna().all(axis=None)
    assert (found["share_pair"] < 1e-9).all()


def test_a_reader_of_truth_reads_the_pair_and_its_truth_from_its_layer_on() -> None:
    found = report(*cell(truth=2.0, question=1.0)).set_index("layer")
    assert found["reads"].tolist() == [table.NOT_SHOWN, table.TRUTH, table.TRUTH]
    assert (found["truth_from"] == 1).all() and (found["pair_from"] == 1).all()
    # right pairs: a, e = -2 and b, c = +2; wrong pairs: +2 everywhere
    assert found.loc[2, ["pair_right", "pair_wrong"]].tolist() == pytest.approx([2, 0], abs=0.2)
    assert found.loc[2, ["truth", "agreement"]].tolist() == pytest.approx([1, 1], abs=0.2)
    assert found.loc[2, "n_right"] == found.loc[2, "n_wrong"] == N / 4
    assert found.loc[2, "follows"] > 0.7 and found["headline"].tolist() == [False, False, True]


def test_a_reader_of_agreement_reads_the_pair_and_not_its_truth() -> None:
    found = report(*cell(agreement=2.0)).set_index("layer")
    assert found["reads"].tolist() == [table.NOT_SHOWN, table.PAIR, table.PAIR]
    assert (found["truth_low"] <= 0).all() and (found["truth_high"] >= 0).all()
    assert found.loc[2, "agreement"] == pytest.approx(2, abs=0.2)
    assert found["truth_from"].isna().all()


def test_truth_is_not_claimed_of_what_only_wrong_answers_tell() -> None:
    found = report(*cell(sure=1.0)).set_index("layer").loc[1:]
    assert (found["truth_low"] > 0.2).all() and (found["pair_wrong_high"] < -0.5).all()
    assert (found["pair_right_low"] < 0).all()
    assert (found["reads"] == table.NOT_SHOWN).all() and found["truth_from"].isna().all()


@pytest.mark.parametrize(("weaker", "reads"), [(0.12, table.NOT_SHOWN), (0.5, table.TRUTH)])
def test_a_score_weaker_behind_another_question_is_claimed_only_above_a_fifth(
    weaker: float, reads: str
) -> None:
    found = report(*cell(question=3.0, answer=3.0, noise=0.1, weaker=weaker)).set_index("layer")
    assert found.loc[2, "pair_right_low"] > 0 and found.loc[2, "truth_low"] > 0
    assert found.loc[2, "pair_right"] == pytest.approx(
        weaker / 2 * found.loc[2, "own_right"], rel=0.2
    )
    assert (found.loc[1:, "reads"] == reads).all()
    assert found["truth_from"].isna().all() == (reads == table.NOT_SHOWN)


def test_the_shares_are_those_planted_and_add_up_to_all() -> None:
    found = report(*cell(question=1.0, answer=2.0, truth=0.0, noise=0.0))
    shares = found[["share_question", "share_answer", "share_pair", "share_noise"]]
    assert shares.sum(axis=1).to_numpy() == pytest.approx(np.ones(3))
    assert shares.iloc[2].tolist() == pytest.approx([0.2, 0.8, 0, 0], abs=0.05)


def test_what_the_overlap_of_the_words_tells_is_not_claimed() -> None:
    readout, answers = cell(truth=0.5, noise=0.3)
    names = np.array(["".join(np.random.default_rng(n).choice([*"abdegiko"], 8)) for n in range(N)])
    right = answers["label"].to_numpy() == 0
    given = answers.assign(
        question=[f"who is {name}" for name in names],
        ea_text=np.where(right, names, [name[::-1].upper() for name in names]),
    )
    assert report(readout, answers)["reads"].tolist()[1:] == [table.TRUTH] * 2
    found = report(readout, given)
    assert (found["reads"] == table.NOT_SHOWN).all()
    assert (found["text_pair"] > found["pair_right"]).all()


def test_few_pairs_are_too_few() -> None:
    readout, answers = cell(truth=2.0, n=80, right=0.2)
    assert report(readout, answers)["reads"].tolist()[0] == table.TOO_FEW  # 8 right pairs
    readout, answers = cell(truth=2.0, n=80, right=0.8)
    found = report(readout, answers)  # 8 wrong pairs
    assert found["reads"].tolist()[1:] == [table.PAIR] * 2
    one = answers.assign(subject=np.where(answers["label"] == 0, "same", answers["id"]))
    assert report(readout, one)["reads"].tolist()[2] == table.TOO_FEW  # one cluster


def test_pairs_of_two_folds_do_not_count() -> None:
    readout, answers = cell(truth=2.0)
    fold = readout.fold.copy()
    fold[0] = (fold[0] + 1) % 5
    moved = replace(readout, fold=fold)
    assert report(moved, answers)["n_right"].iloc[0] == N / 4 - 1


def test_without_pairs_there_are_no_rows() -> None:
    readout, answers = cell()
    nobody = replace(readout.effects["crossed"], measured=np.zeros(N, dtype=bool))
    unpaired = replace(readout, effects={"crossed": nobody})
    assert report(unpaired, answers.assign(crossed_partner=None)).empty
    alone = replace(readout, effects={})
    assert list(report(alone, answers).columns) == list(table.CROSSING)


@pytest.mark.parametrize("partner", [None, "gone"])
def test_partners_and_scores_must_be_of_the_same_samples(partner: str | None) -> None:
    readout, answers = cell()
    answers.loc[3, "crossed_partner"] = partner
    with pytest.raises(
        AnchorscopeError, match="1 samples have a partner and no scores(.|\n)*i0003"
    ):
        report(readout, answers)


def test_wrong_answers_alone_claim_nothing_and_break_nothing() -> None:
    found = report(*cell(truth=2.0, right=0.0))
    assert (found["n_right"] == 0).all() and (found["reads"] == table.TOO_FEW).all()
    assert found["pair_right"].isna().all() and found["share_pair"].isna().all()


def test_pairs_that_a_subject_links_are_one_cluster() -> None:
    readout, answers = cell(truth=2.0)
    linked = answers.assign(subject=[f"s{n // 8}" for n in range(N)])
    wide, own = (report(readout, one)["n_clusters"].iloc[0] for one in (linked, answers))
    assert (own, wide) == (N / 4, N / 16)


def test_answers_of_unlike_kinds_are_counted() -> None:
    readout, answers = cell()
    answers.loc[0, "ea_text"] = "1871"
    assert report(readout, answers)["n_unlike"].iloc[0] == 1


def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("interval_coverage", BENCHMARK)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_intervals_with_refits_hold_what_the_procedure_finds_on_average() -> None:
    probe = Settings(grid=[0.01], refits=12, inner_folds=3)
    found = benchmark().simulate(partial(benchmark().claims, 200, probe=probe), 24)
    cover = benchmark().coverage(found)
    assert (cover.loc[["pair_right", "truth"], "refitted"] >= 0.8).all()
    assert cover.loc["pair_right", "fixed"] < cover.loc["pair_right", "refitted"]
    assert cover.loc["truth", "truth"] > 0.5


def test_all_that_a_probe_of_nothing_reads_is_noise() -> None:
    probe = Settings(grid=[0.01], refits=12, inner_folds=3)
    found = benchmark().simulate(partial(benchmark().claims, 200, probe=probe, shuffle=True), 12)
    means = found.groupby("seed").first().filter(like="share_").mean()
    assert means["share_noise"] > 0.6
    assert (means.drop("share_noise") < 0.2).all()
    claimed = (found["low"] > 0) & (found["probes"] == "refitted")
    assert claimed[found["quantity"] == "pair_right"].sum() <= 3
