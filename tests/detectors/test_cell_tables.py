"""Tables, pictures and words of a cell, from planted scores."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of
from planted import READOUT, Planted

from anchorscope.claims import keys
from anchorscope.claims.claim import LEAST_CLUSTERS, TOO_FEW
from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import evaluation, given_scores, out_of_fold, reads, verdict
from anchorscope.detectors.method import Samples
from anchorscope.detectors.registry import METHODS, VIEWS, Method
from anchorscope.figures.fit import as_svg
from anchorscope.pairs import crossing
from anchorscope.statements import say
from anchorscope.statistics.analysis import analyses
from anchorscope.statistics.intervals import auc
from anchorscope.storage.errors import AnchorscopeError

BOOTSTRAP = Bootstrap(draws=50)
NAMES = ("text", "question", "output", "before", "probe", "mass-mean", "mixture-of-probes")
MODELS, DATASETS = [("one", "Model One")], [("a", "Alpha"), ("b", "Beta")]


@pytest.fixture(scope="module")
def scores(small: Planted) -> pd.DataFrame:
    return out_of_fold.scores(small.cell, [METHODS[name] for name in NAMES])


def test_a_score_and_its_opposite_differ_by_what_their_aucs_do(small: Planted) -> None:
    """Differences are paired: their interval is far narrower than that of either."""
    z = small.answers["label"].to_numpy()
    s = np.random.default_rng(1).normal(size=len(z)) + z
    scores = pd.DataFrame({f"{kind}/probe": s for kind in ("s", "rank")})
    scores = scores.assign(**{f"{kind}/near": s + 0.01 * z for kind in ("s", "rank")})
    table = evaluation.table(scores, small.answers, READOUT, BOOTSTRAP, 0)
    near = table[(table["detector"] == "near") & (table["metric"] == "auroc")].iloc[0]
    assert near["vs_probe"] == pytest.approx(auc(s + 0.01 * z, z) - auc(s, z))
    assert near["vs_probe_high"] - near["vs_probe_low"] < 0.1 * (near["ci_high"] - near["ci_low"])


def test_scores_of_other_samples_than_the_answers_are_refused(
    small: Planted, scores: pd.DataFrame
) -> None:
    (readout,) = out_of_fold.by_readout(scores, small.answers)
    assert readout == READOUT
    with pytest.raises(AnchorscopeError, match="different samples"):
        out_of_fold.by_readout(scores, small.answers[::-1])


class Lost:
    """A scorer that has no score for one question."""

    def score(self, samples: Samples) -> np.ndarray:
        return np.where(samples.answers["question"] == "lost", np.nan, 0.0)


def test_a_score_of_a_swapped_answer_that_is_not_finite_is_refused(
    small: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Method, "fit", lambda *_: Lost())
    crossed = small.cell.crossed
    asked = replace(crossed, answers=crossed.answers.assign(question="lost"))
    with pytest.raises(AnchorscopeError, match="not finite"):
        out_of_fold.scores(replace(small.cell, crossed=asked), [METHODS["text"]])


def test_what_adds_up_question_and_answer_has_no_pair(small: Planted, scores: pd.DataFrame) -> None:
    table = reads.table(scores, small.answers, READOUT, BOOTSTRAP, 0).set_index("detector")
    assert table.loc["text", "share_pair"] == pytest.approx(0, abs=1e-9)
    assert table.loc["question", "share_question"] == pytest.approx(1)
    shares = table[["share_question", "share_answer", "share_pair"]].sum(axis=1)
    assert np.allclose(shares, 1)
    # three answers serve all samples, so that pairs are worth few independent ones
    assert (table["clusters_right"] < LEAST_CLUSTERS).all()
    assert (table[["comparison_right", "comparison_wrong"]] == TOO_FEW).all(axis=None)


def test_what_a_detector_reads_is_what_crossing_says_of_it_alone(
    small: Planted, scores: pd.DataFrame
) -> None:
    # each answer has a text of its own, so that pairs are independent
    varied = small.answers.assign(ea_text=[f"said {name}" for name in small.answers["id"]])
    row = reads.table(scores, varied, READOUT, BOOTSTRAP, 0).set_index("detector").loc["probe"]
    mine = {"clean": scores["s/probe"], "crossed": scores["crossed/probe"]}
    made = scores_of(mine, scores["id"])
    (one,) = analyses(made, varied, **BOOTSTRAP.model_dump())
    made = crossing.tables(one)
    terms, claims = (
        made["crossing"].set_index("quantity"),
        made["claims"].set_index(keys(made["claims"])),
    )
    for name in reads.ESTIMATES:
        ends = terms.loc[name, ["estimate", "ci_low", "ci_high"]].astype(float)
        found = row[[name, f"{name}_low", f"{name}_high"]].astype(float)
        assert found.tolist() == pytest.approx(ends.tolist())
    for claim, side in (("comparison_right", "right"), ("comparison_wrong", "wrong")):
        assert row[claim] == claims.loc[claim, "verdict"] in ("yes", "no")
        assert row[f"{claim}_p"] == pytest.approx(claims.loc[claim, "p"])
        assert row[f"clusters_{side}"] == claims.loc[claim, "clusters"] >= LEAST_CLUSTERS
        assert row[f"n_{side}"] == claims.loc[claim, "n"]
    assert row["n_unlike"] == round(terms.loc["unlike", "estimate"] * terms.loc["unlike", "n"])
    assert row["source"] == "relations"


def test_given_scores_keep_their_direction_and_are_compared_on_their_samples(
    small: Planted, scores: pd.DataFrame, tmp_path: Path
) -> None:
    probe = scores.iloc[:150]
    files = []
    for name, sign in (("copy", 1), ("opposite", -1)):
        rows = [*zip(probe["id"], sign * probe["rank/probe"], strict=True), ("?", 1.0)]
        files.append(tmp_path / f"{name}.jsonl")
        pd.DataFrame(rows, columns=["id", "score"]).assign(detector=name).to_json(
            files[-1], orient="records", lines=True, double_precision=15
        )
    columns, counts = given_scores.scores(small.cell, given_scores.read(map(str, files)))
    assert counts == {"given scores": 302, "given scores, of no sample": 2}
    table = evaluation.table(scores.assign(**columns), small.answers, READOUT, BOOTSTRAP, 0)
    found = table[table["metric"] == "auroc"].set_index("detector")
    assert [*found.loc["copy", ["n", "vs_probe_low", "vs_probe_high"]]] == [150, 0, 0]
    assert found.loc["opposite", "estimate"] == pytest.approx(1 - found.loc["copy", "estimate"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "s0000", "detector": "x"}', "no field `score`"),
        ('{"id": "s0000", "detector": "x", "score": "high"}', "not a finite number"),
        ('{"id": "s0000", "detector": "probe", "score": 1}', "the name of a method"),
        ('{"id": "s1", "detector": "x", "score": 1}\n' * 2, "two scores"),
        ("{", "broken JSON"),
    ],
)
def test_files_of_scores_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AnchorscopeError, match=message):
        given_scores.read([str(path)])


def test_two_files_that_score_one_answer_by_one_detector_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    for path in paths:
        path.write_text('{"id": "s1", "detector": "x", "score": 1}', encoding="utf-8")
    with pytest.raises(AnchorscopeError, match="two scores") as raised:
        given_scores.read(map(str, paths))
    assert raised.value.where == f"{paths[1]}, row 1"


def test_scores_of_other_samples_or_of_one_class_are_refused(small: Planted) -> None:
    right = [*small.cell.design.ids[small.cell.design.z == 0]]
    for ids, said in ((["x", "y"], "none of the 2 ids is the id"), (right, "the same label")):
        rows = pd.DataFrame({"id": ids, "detector": "d", "score": 1.0, "where": "here"})
        with pytest.raises(AnchorscopeError, match=said):
            given_scores.scores(small.cell, rows)


@pytest.fixture(scope="module")
def tables(small: Planted, scores: pd.DataFrame) -> dict[str, pd.DataFrame]:
    made = {
        "detection": evaluation.table(scores, small.answers, READOUT, BOOTSTRAP, 0),
        "detection-reads": reads.table(scores, small.answers, READOUT, BOOTSTRAP, 0),
    }
    return {name: frame.assign(model="one", dataset="a") for name, frame in made.items()}


@pytest.mark.parametrize("view", VIEWS)
def test_every_picture_is_drawn_and_says_so_where_nothing_was_measured(
    tables: dict[str, pd.DataFrame], view: str
) -> None:
    given_tables = [tables[name] for name in VIEWS[view].tables]
    keywords = {"title": VIEWS[view].title, "panels": MODELS, "datasets": DATASETS}
    svg = as_svg(VIEWS[view].chart(*given_tables, **keywords).to_dict())
    assert "NaN" not in svg
    assert "Alpha" in svg
    assert "Beta" in svg
    empty = [frame.iloc[:0] for frame in given_tables]
    assert "not measured" in as_svg(VIEWS[view].chart(*empty, **keywords).to_dict())


def test_the_verdict_says_what_beats_what(tables: dict[str, pd.DataFrame]) -> None:
    words = verdict.in_words(tables["detection"].assign(thin=False), tables["detection-reads"])
    assert words[2:] == [
        say.beating("the plain probe", [(1, ["mixture of probes"])], 1, 6),
        "Methods that are above chance but read the question alone: none.",
    ]
