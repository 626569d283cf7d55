"""Tables, pictures and words of a cell, from planted scores."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from planted import READOUT, Planted, planted

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import evaluation, given_scores, out_of_fold, reads, verdict
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.registry import METHODS, VIEWS
from anchorscope.detectors.transfer import table as transfer_table
from anchorscope.experiments.analysis import analyses, stacked
from anchorscope.experiments.crossing import table as crossing
from anchorscope.experiments.crossing.claims import LEAST_CLUSTERS, NOT_MEASURED, TOO_FEW
from anchorscope.figures.figure_fit import as_svg
from anchorscope.probes.intervals import auc
from anchorscope.storage.errors import AnchorscopeError

BOOTSTRAP = Bootstrap(draws=50)
NAMES = ("text", "question", "output", "before", "probe", "mixture-of-probes")
MODELS, DATASETS = [("one", "Model One")], [("a", "Alpha"), ("b", "Beta")]


@pytest.fixture(scope="module")
def small() -> Planted:
    return planted(n=240, seed=2)


@pytest.fixture(scope="module")
def scores(small: Planted) -> pd.DataFrame:
    return out_of_fold.scores(small.cell, [METHODS[name] for name in NAMES])


def test_a_score_and_its_opposite_differ_by_what_their_aucs_do(small: Planted) -> None:
    """Differences are paired: their interval is far narrower than that of either."""
    z = small.answers["label"].to_numpy()
    s = np.random.default_rng(1).normal(size=len(z)) + z
    frame = pd.concat([given(small.cell, "probe", s), given(small.cell, "near", s + 0.01 * z)])
    table = evaluation.table(evaluation.scored(frame, small.answers), READOUT, BOOTSTRAP, 0)
    near = table[(table["detector"] == "near") & (table["metric"] == "auroc")].iloc[0]
    assert near["vs_probe"] == pytest.approx(auc(s + 0.01 * z, z) - auc(s, z))
    assert near["vs_probe_high"] - near["vs_probe_low"] < 0.1 * (near["ci_high"] - near["ci_low"])


def given(cell: DetectionCell, name: str, score: np.ndarray) -> pd.DataFrame:
    rows = pd.DataFrame({"id": cell.design.ids, "detector": name, "score": score})
    return given_scores.scores(cell, rows, "here")[0]


def test_the_rows_order_decides_nothing(small: Planted, scores: pd.DataFrame) -> None:
    first, second = (
        evaluation.table(evaluation.scored(rows, answers), READOUT, BOOTSTRAP, 0)
        for rows, answers in (
            (scores, small.answers),
            (scores.sample(frac=1, random_state=0), small.answers.sample(frac=1, random_state=1)),
        )
    )
    keys = ["detector", "metric"]
    pd.testing.assert_frame_equal(
        first.sort_values(keys, ignore_index=True), second.sort_values(keys, ignore_index=True)
    )


def test_what_adds_up_question_and_answer_has_no_pair(small: Planted, scores: pd.DataFrame) -> None:
    table = reads.table(scores, small.answers, READOUT, BOOTSTRAP, 0).set_index("detector")
    assert table.loc["text", "share_pair"] == pytest.approx(0, abs=1e-9)
    assert table.loc["question", "share_question"] == pytest.approx(1)
    shares = table[["share_question", "share_answer", "share_pair"]].sum(axis=1)
    assert np.allclose(shares, 1)
    # three answers serve all samples, so that pairs are worth few independent ones
    assert (table["clusters_right"] < LEAST_CLUSTERS).all()
    assert (table[["interaction", "own_answer"]] == TOO_FEW).all(axis=None)


@pytest.fixture(scope="module")
def varied(small: Planted) -> pd.DataFrame:
    """The answers with a text of its own each, so that pairs are independent."""
    texts = [f"said {name}" for name in small.answers["id"]]
    return small.answers.assign(ea_text=texts)


@pytest.mark.parametrize("detector", ["question", "probe"])
def test_what_a_detector_reads_is_what_crossing_says_of_it_alone(
    varied: pd.DataFrame, scores: pd.DataFrame, detector: str
) -> None:
    row = reads.table(scores, varied, READOUT, BOOTSTRAP, 0).set_index("detector").loc[detector]
    mine = scores[scores["detector"] == detector].assign(layer=0, draw=0)
    (one,) = analyses(mine, varied, **BOOTSTRAP.model_dump())
    made = crossing.tables(one)
    terms, claims = made["crossing"].set_index("quantity"), made["claims"].set_index("claim")
    for name in reads.ESTIMATES:
        ends = terms.loc[name, ["estimate", "ci_low", "ci_high"]].astype(float)
        found = row[[name, f"{name}_low", f"{name}_high"]].astype(float)
        assert found.tolist() == pytest.approx(ends.tolist())
    for claim, side in (("interaction", "right"), ("own_answer", "wrong")):
        assert row[claim] == claims.loc[claim, "verdict"] in ("yes", "no")
        assert row[f"{claim}_p"] == pytest.approx(claims.loc[claim, "p"])
        assert row[f"clusters_{side}"] == claims.loc[claim, "clusters"] >= LEAST_CLUSTERS
        assert row[f"n_{side}"] == claims.loc[claim, "n"]
    assert row["n_unlike"] == round(terms.loc["unlike", "estimate"] * terms.loc["unlike", "n"])
    assert row["source"] == "relations"


def test_what_detectors_prefer_of_given_answers_is_not_the_models_own(
    varied: pd.DataFrame, scores: pd.DataFrame
) -> None:
    own = reads.table(scores, varied, READOUT, BOOTSTRAP, 0)
    given = reads.table(scores, varied.assign(from_user=True), READOUT, BOOTSTRAP, 0)
    assert (given["own_answer"] == NOT_MEASURED).all() and given["own_answer_p"].isna().all()
    same = [name for name in own if not name.startswith("own_answer") and name != "clusters_wrong"]
    pd.testing.assert_frame_equal(given[same], own[same])


def test_given_scores_keep_their_direction_and_are_counted(small: Planted) -> None:
    z = small.cell.design.z
    score = np.random.default_rng(2).normal(size=len(z)) - 0.7 * z  # worse than chance
    rows = pd.DataFrame({"id": small.cell.design.ids, "detector": "entropy", "score": score})
    more = pd.concat([rows, pd.DataFrame({"id": ["?"], "detector": "entropy", "score": [1.0]})])
    frame, counts = given_scores.scores(small.cell, more, "here")
    table = evaluation.table(evaluation.scored(frame, small.answers), READOUT, BOOTSTRAP, 0)
    assert table["estimate"].iloc[0] == pytest.approx(auc(score, z))
    assert auc(score, z) < 0.4
    assert counts["given scores, of no sample"] == 1


def test_given_scores_of_some_samples_are_compared_on_these(
    small: Planted, scores: pd.DataFrame
) -> None:
    probe = scores[(scores["detector"] == "probe") & (scores["condition"] == "clean")].iloc[:150]
    rows = probe.assign(detector="copy", score=probe["rank"])[["id", "detector", "score"]]
    frame, _ = given_scores.scores(small.cell, rows, "here")
    both = pd.concat([scores, frame])
    table = evaluation.table(evaluation.scored(both, small.answers), READOUT, BOOTSTRAP, 0)
    copy = table[(table["detector"] == "copy") & (table["metric"] == "auroc")].iloc[0]
    assert copy["n"] == 150
    assert (copy["vs_probe_low"], copy["vs_probe_high"]) == (0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"id": "s0000", "detector": "x"}', "no field `score`"),
        ('{"id": "s0000", "detector": "x", "score": "high"}', "no number"),
        ('{"id": "s0000", "detector": "probe", "score": 1}', "one of the methods'"),
        ('{"id": "s1", "detector": "x", "score": 1}\n' * 2, "two scores"),
        ("{", "broken JSON"),
    ],
)
def test_files_of_scores_that_cannot_be_used(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(AnchorscopeError, match=message):
        given_scores.read(str(path), METHODS)


def test_scores_of_other_samples_or_all_the_same_are_refused(small: Planted) -> None:
    rows = pd.DataFrame({"id": ["x", "y"], "detector": "d", "score": [1.0, 2.0]})
    with pytest.raises(AnchorscopeError, match="none of the 2 ids is a sample's"):
        given_scores.scores(small.cell, rows, "here")
    with pytest.raises(AnchorscopeError, match="all scores of the detector d are 3"):
        given(small.cell, "d", np.full(240, 3.0))


def test_csv_and_json_lines_are_read_alike(tmp_path: Path) -> None:
    rows = pd.DataFrame({"id": ["001", "NA"], "detector": "d", "score": [0.5, 1.5]})
    rows.to_csv(tmp_path / "a.csv", index=False)
    rows.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    read = [given_scores.read(str(tmp_path / name), ()) for name in ("a.csv", "a.jsonl")]
    pd.testing.assert_frame_equal(*read)
    assert list(read[0]["id"]) == ["001", "NA"], "text stays text"


@pytest.fixture(scope="module")
def transferred(small: Planted, scores: pd.DataFrame) -> pd.DataFrame:
    other = planted(n=240, seed=3)
    rows = out_of_fold.scores(
        other.cell, [METHODS[name] for name in ("text", "probe", "mass-mean")]
    )
    mine = pd.concat(
        [scores, out_of_fold.scores(small.cell, [METHODS["mass-mean"]])], ignore_index=True
    )
    return transfer_table({"a": small.cell, "b": other.cell}, {"a": mine, "b": rows}, BOOTSTRAP, 0)


def test_transfer_has_a_diagonal_out_of_fold(
    transferred: pd.DataFrame, small: Planted, scores: pd.DataFrame
) -> None:
    probe = transferred[transferred["detector"] == "probe"].set_index(["trained_on", "dataset"])
    rows = scores[(scores["detector"] == "probe") & (scores["condition"] == "clean")]
    own = auc(rows["rank"].to_numpy(), small.cell.design.z)
    assert probe.loc[("a", "a"), "auroc"] == pytest.approx(own)
    assert probe.loc[("a", "b"), "auroc"] > 0.6  # the same states tell the truth there
    assert len(transferred) == 2 * 2 * 3


def test_shared_subjects_leave_the_transfer(transferred: pd.DataFrame, small: Planted) -> None:
    away = transferred[transferred["trained_on"] != transferred["dataset"]]
    assert (away["n"] + away["n_shared"] == len(small.answers)).all()
    assert (transferred["n_shared"][transferred["trained_on"] == transferred["dataset"]] == 0).all()


@pytest.fixture(scope="module")
def tables(
    small: Planted, scores: pd.DataFrame, transferred: pd.DataFrame
) -> dict[str, pd.DataFrame]:
    cell = evaluation.scored(scores, small.answers)
    made = {
        "detection": evaluation.table(cell, READOUT, BOOTSTRAP, 0),
        "detection-reads": reads.table(scores, small.answers, READOUT, BOOTSTRAP, 0),
    }
    named = {name: frame.assign(model="one", dataset="a") for name, frame in made.items()}
    return named | {"transfer": transferred.assign(model="one")}


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
    words = " ".join(
        verdict.in_words(
            tables["detection"], tables["detection-reads"], tables["transfer"],
            {"one": "Model One"}, dict(DATASETS),
        )
    )  # fmt: skip
    assert (
        "Methods significantly above every text model: probe, mixture of probes (1 of 1 cell)."
        in words
    )
    assert "Methods significantly above the plain probe: mixture of probes (1 of 1 cell)." in words
    assert "the probe is significantly worse than the probe of that dataset in" in words
    assert "Methods above chance that read the question alone: none." in words


def test_cells_without_pairs_have_no_rows_of_what_is_read(
    small: Planted, scores: pd.DataFrame
) -> None:
    clean = scores[scores["condition"] == "clean"]
    assert reads.table(clean, small.answers, READOUT, BOOTSTRAP, 0).empty
    assert list(stacked([reads.table(clean, small.answers, READOUT, BOOTSTRAP, 0)])) == list(
        reads.COLUMNS
    )
