"""`anchorscope show`: one cell in words, from its tables."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from figure_tables import contrasts_of, controls_of, crossing_of, curve_of

from anchorscope.experiments.crossing.table import CLAIMS
from anchorscope.experiments.knockout.contrasts import OWN, PUBLISHED
from anchorscope.storage import provenance
from anchorscope.storage.counts import Counts
from anchorscope.storage.files import read_csv, write_csv

COUNTS = Counts(100, 80, {"no answer anchor": 15, "prompt too long": 5})


@pytest.fixture
def built(clone: Path) -> Path:
    """A cell's tables, made up, where the workflow would put them."""
    folder = clone / "results/delta_p/near"
    cell = ([("near", "")], [("rows", "")], 6)
    for end, made in (
        ("", curve_of), (".contrasts", contrasts_of), (".controls", controls_of),
        (".crossing", crossing_of),
    ):  # fmt: skip
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
    curve, contrasts, beside = (
        pd.read_csv(built / f"rows{end}") for end in (".csv", ".contrasts.csv", ".controls.csv")
    )
    found = run("show", "near", "rows", "--json").json
    head = beside[beside["headline"]].iloc[0]
    assert (found["headline_layer"], found["n"]) == (head["layer"], head["n"])
    for name, source in (("probe_auc", "cell"), ("gain", "cell_gain")):
        value = head["cell_auc" if name == "probe_auc" else "cell_gain"]
        ends = {end: head[f"{source}_{end}"] for end in ("low", "high")}
        assert found[name] == {"value": value} | ends
    assert (found["signal"], found["layer_signal"]) == (head["cell_signal"], head["signal"])
    assert found["floor"] == {"name": head["cell_floor"], "auc": head["cell_floor_auc"]}
    assert found["layers_without_signal"] == list(beside["layer"][~beside["signal"]])
    at = contrasts[(contrasts["layer"] == head["layer"]) & (contrasts["quantity"] == "share")]
    of_own, of_random = (at[at["contrast"] == name].iloc[0] for name in (OWN, PUBLISHED))
    assert found["flips"] == {
        "own": pytest.approx(of_own["under"] / 100),
        "partner": pytest.approx(of_own["beside"] / 100),
        "difference": pytest.approx(
            {
                end: of_own[column] / 100
                for end, column in (("value", "estimate"), ("low", "ci_low"), ("high", "ci_high"))
            }
        ),
        "samples": 900,
        "effect": "yes",
    }
    shown = {"exact": of_random["under"] / 100, "random": of_random["beside"] / 100}
    assert found["published"] == pytest.approx(shown)
    crossing = found["crossing"]
    assert (crossing["n_right"], crossing["n_wrong"], crossing["n_gold"]) == (210, 190, 150)
    assert crossing["claims"] == {
        claim: {"verdict": "yes", "p": 0.001, "why": ""} for claim in CLAIMS
    }
    assert crossing["pair_right"] == pytest.approx({"value": 1.9, "low": 1.8, "high": 2.0})
    assert crossing["gold_wrong"] == pytest.approx({"value": 0.5, "low": 0.4, "high": 0.6})
    assert crossing["shares"] == {"question": 0.25, "answer": 0.2, "pair": 0.45}
    lines = curve.query("condition == 'knockout' and grouping == 'per_layer' and not thin")
    here = lines[lines["layer"] == head["layer"]].set_index("anchor")
    for name in "QA":
        told = {"value": "delta_p", "low": "ci_low", "high": "ci_high", "n": "n"}
        assert found["delta_p"][name] == {end: here[told[end]][name] for end in told}


def test_every_line_has_its_name_apart_from_what_it_says(run, built):
    *_, lines = run("show", "near", "rows").out.partition("\n\n")
    assert len(lines.splitlines()) > 10
    assert all(line[17] == " " and line[18] != " " for line in lines.splitlines()), lines


def test_show_tells_samples_by_reason_and_says_when_there_is_no_signal(run, built):
    said = " ".join(run("show", "near", "rows").out.split())
    for part in (
        "120 rows, 80 measured",
        "20 left out of the questions: outside the sample",
        "15 left out of the answers: no answer anchor",
        "noted: 3 empty golds left out",
        "behind the own question, 5.0 % behind the partner's",
        "of 900 samples with a partner",
        "; effect: yes",
        "answers 1.90 logits [1.80, 2.00], 210 pairs, p = 0.001)",
        "gold answers 0.90 logits [0.80, 1.00], 0.50 [0.40, 0.60] above the model's own wrong ones",
        "150 pairs, p = 0.001); mere compatibility is not excluded.",
        "90 % [80, 100] of that of wrong answers; in 40 of all 400 pairs by construction",
    ):
        assert part in said
    assert "another label" not in said
    table = pd.read_csv(built / "rows.controls.csv")
    table = table.assign(signal=False, cell_signal=False, cell_gain_low=-0.01)
    write_csv(table, built / "rows.controls.csv")
    provenance.beside(built / "rows.csv").unlink()
    weak = " ".join(run("show", "near", "rows").out.split())
    assert "No signal: AUC" in weak and "No signal" not in said
    assert "Nothing of this cell's figure can be interpreted." in weak
    assert "difference not interpretable" in weak and "effect: " not in weak
    assert "no provenance" in weak


def test_show_says_where_no_question_has_as_many_other_tokens(run, built):
    contrasts, crossing = (read_csv(built / f"rows.{end}.csv") for end in ("contrasts", "crossing"))
    none = contrasts["contrast"] == PUBLISHED
    contrasts.loc[none, ["under", "beside", "estimate"]] = np.nan
    write_csv(contrasts, built / "rows.contrasts.csv")
    write_csv(crossing.assign(n_random=100), built / "rows.crossing.csv")
    said = " ".join(run("show", "near", "rows").out.split())
    assert "random tokens not measured: no question has as many other tokens" in said
    assert "100 of all 400 pairs count, whose questions have as many other tokens" in said
    assert "nan" not in said.replace("\u00a0", " ").split()


def test_a_cell_that_is_not_built_names_the_command_that_builds_it(run, clone):
    (clone / "more.yaml").write_text("results: elsewhere\n")
    said = run("show", "near", "rows", "--config", "more.yaml")
    assert said.code == 1
    command = "snakemake --cores all elsewhere/delta_p/near/rows.csv --configfile more.yaml"
    assert command in said.err and "Traceback" not in said.err


def test_what_cannot_be_told_of_swapped_answers_is_said_with_its_reason(run, built):
    reasons = {"truth_why": object, "through_eq_why": object}
    table = pd.read_csv(built / "rows.crossing.csv").astype(reasons)
    head = table["headline"]
    table.loc[head, ["truth", "through_eq"]] = ["too few", "not measured"]
    table.loc[head, ["truth_why", "through_eq_why"]] = ["12 of 50 pairs", "no pass with tokens cut"]
    write_csv(table, built / "rows.crossing.csv")
    said = " ".join(run("show", "near", "rows").out.split())
    assert (
        "Cannot be told: whether the comparison of answer and question passes through the exact "
        "question tokens: not measured (no pass with tokens cut)."
    ) in said
    assert (
        "behind the questions they belong to, beyond the model's log-probability: too few "
        "(12 of 50 pairs)."
    ) in said
    write_csv(table.head(0), built / "rows.crossing.csv")
    assert run("show", "near", "rows", "--json").json["crossing"] is None
    assert "No answers were swapped, or no two could be." in run("show", "near", "rows").out
