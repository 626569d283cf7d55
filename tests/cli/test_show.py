"""`anchorscope show`: one cell in words, from its tables."""

from pathlib import Path

import pandas as pd
import pytest
from figure_tables import judged
from verdicts import TABLES

from anchorscope.cell import summary
from anchorscope.claims import CLAIMS, keys
from anchorscope.storage import provenance
from anchorscope.storage.counts import Counts
from anchorscope.storage.files import read_csv, write_csv

COUNTS = Counts(100, 80, {"no answer anchor": 15, "prompt too long": 5})


@pytest.fixture
def built(clone: Path) -> Path:
    """A cell's tables, made up, where the workflow would put them."""
    folder = clone / "results/delta_p/near"
    cell = ([("near", "")], [("rows", "")], 6)
    for end, made in TABLES.items():
        write_csv(made(*cell).drop(columns=["model", "dataset"]), folder / f"rows{end}.csv")
    notes = {"empty golds left out": 3, "folded rows with another label": 0}
    sampled = Counts(120, 100, {"outside the sample": 20}, notes).as_dict()
    data, answers = "results/data/rows.parquet", "results/answers/near/rows.parquet"
    inputs = {
        data: {"rule": "dataset", "counts": sampled, "made_from": []},
        answers: {"rule": "answers", "counts": COUNTS.as_dict(), "made_from": [data]},
    }
    provenance.record(folder / "rows.csv", identity="", settings={}, inputs=inputs, rule="delta_p")
    return folder


def test_show_says_what_the_tables_hold(run, built):
    curve, contrasts, beside, claims = (
        read_csv(built / f"rows{end}.csv") for end in ("", ".contrasts", ".controls", ".claims")
    )
    found = run("show", "near", "rows", "--json").json
    of_knockout = curve.query("anchor == 'all' and condition == 'knockout'")
    at_headline, head = (
        of_knockout[of_knockout["headline"]].iloc[0],
        beside[beside["headline"]].iloc[0],
    )
    assert (found["headline_layer"], found["n"]) == (head["layer"], at_headline["n"])
    assert found["detection"] == pytest.approx(
        summary.numbers(read_csv(built / "rows.summary.csv"))
    )
    flags = (at_headline["cell_signal"], at_headline["predicts"])
    assert (found["signal"], found["layer_predicts"]) == flags
    weak = list(of_knockout["layer"][~of_knockout["predicts"]])
    assert found["layers_not_predicting"] == weak
    everyone = curve.query("anchor == 'all' and condition == 'crossed-knockout'")
    assert found["flips"] == {
        "own": pytest.approx(head["flip_share"]),
        "n": at_headline["n"],
        "partner": pytest.approx(head["crossed-knockout_flip_share"]),
        "n_partner": everyone["n"][everyone["layer"] == head["layer"]].sum(),
    }
    at = contrasts[(contrasts["layer"] == head["layer"]) & (contrasts["quantity"] == "share")]
    shown = {"exact": at["under"].item() / 100, "random": at["beside"].item() / 100}
    assert found["random_tokens"] == pytest.approx(shown | {"n": 900})
    assert [*found["claims"]] == [*CLAIMS]
    for key, row in zip(keys(claims), claims.to_dict("records"), strict=True):
        reason = "" if pd.isna(row["reason"]) else row["reason"]
        assert found["claims"][key] == pytest.approx(
            {"verdict": "yes", "p": row["p"], "value": row["estimate"], "low": row["ci_low"],
             "high": row["ci_high"], "n": row["n"], "reason": reason}
        )  # fmt: skip
    shares = found["crossing"]["shares"]
    assert found["crossing"]["source"] == "relations" and [*shares] == ["right", "wrong", "gold"]
    assert shares["right"] == pytest.approx({"value": 0.78, "low": 0.68, "high": 0.88})
    lines = curve.query("condition == 'knockout' and not thin")
    here = lines[lines["layer"] == head["layer"]].set_index("anchor")
    for name in "QA":
        told = {"value": "delta_p", "low": "ci_low", "high": "ci_high", "n": "n"}
        assert found["delta_p"][name] == {end: here[told[end]][name] for end in told}


def test_show_tells_samples_by_reason_and_says_when_there_is_no_signal(run, built):
    said = " ".join(run("show", "near", "rows").out.split())
    for part in (
        "120 rows, 80 measured",
        "20 left out of the questions: outside the sample",
        "15 left out of the answers: no answer anchor",
        "noted: 3 empty golds left out",
        "flips, knockout 33.6 % of 1,000 samples",
        "at the headline layer: 78 % [68, 88] of right answers, 24 % [14, 34] of wrong answers",
        "(swap share 78 % [62, 94] without the text imitator's part, 210 pairs, p = 0.001). The",
        "(80 % [64, 96] of the pair term taken, 170 pairs, p = 0.001; judged on right answers)",
        "p not corrected for the other cells of a figure",
    ):
        assert part in said
    assert "a signal is detectable" not in said
    few = {"n": 60, "n_right": 20, "n_answers": 60}
    write_csv(read_csv(built / "rows.csv").assign(**few), built / "rows.csv")
    few = " ".join(run("show", "near", "rows").out.split())
    assert "34.9 % wrong of 60 With 60 answers, a signal is detectable" in few
    table = judged(read_csv(built / "rows.claims.csv"), "no", "signal")
    write_csv(table, built / "rows.claims.csv")
    provenance.beside(built / "rows.csv").unlink()
    weak = " ".join(run("show", "near", "rows").out.split())
    words = f"Not shown: that {CLAIMS['signal'].says} ("
    assert words in weak and words not in said
    assert "no provenance" in weak


def test_a_cell_that_is_not_built_names_the_command_that_builds_it(run, clone):
    (clone / "more.yaml").write_text("results: elsewhere\n")
    said = run("show", "near", "rows", "--configfile", "more.yaml")
    assert said.code == 1
    command = "snakemake --cores all elsewhere/delta_p/near/rows.csv --configfile more.yaml"
    assert command in said.err and "Traceback" not in said.err


def test_what_cannot_be_judged_of_swapped_answers_is_said_with_its_reason(run, built):
    table = judged(read_csv(built / "rows.claims.csv"), "too few", "answer_adds")
    write_csv(judged(table, "by design", "through_eq"), built / "rows.claims.csv")
    said = " ".join(run("show", "near", "rows").out.split())
    few = "too few: 12 pairs, and at least 50 are needed"
    for claim, why in (("answer_adds", few), ("through_eq", "by design: ")):
        assert f"Cannot be judged: whether {CLAIMS[claim].says} ({why}" in said


def test_show_tells_how_many_answers_were_chosen_and_judges_the_size_of_these(run, built):
    chosen = {"n": 60, "n_right": 30, "n_answers": 600, "answer_accuracy": 0.1}
    write_csv(read_csv(built / "rows.csv").assign(**chosen), built / "rows.csv")
    said = " ".join(run("show", "near", "rows").out.split())
    assert "10.0 % right, 90.0 % wrong of 600 30 right and 30 wrong answers were chosen of" in said
    assert "With 60 answers" in said or "60 answers are too few to detect a signal" in said
