"""Fitting and evaluating a detector: what is told of it, and what is refused."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from own_rows import SETTINGS, rows

import anchorscope
from anchorscope.detectors import verdict
from anchorscope.detectors.linear import LinearScorer, is_linear
from anchorscope.detectors.registry import METHODS
from anchorscope.detectors.saved.evidence import FITTED_TO, REPEATED
from anchorscope.experiments.crossing.claims import SAYS
from anchorscope.probes import intervals
from anchorscope.storage.errors import AnchorscopeError


def fit(load: Any, given: Any, **changed: Any) -> anchorscope.Detector:
    loaded = load("llama")
    return anchorscope.fit(loaded.model, loaded.tokenizer, given, **SETTINGS | changed)


def evaluate(detector: Any, load: Any, given: Any, **how: Any) -> Any:
    loaded = load("llama")
    return detector.evaluate(loaded.model, loaded.tokenizer, given, **how)


def test_what_it_tells_of_itself_was_scored_out_of_fold(detector, load):
    """A probe of width 32 learns most of 60 labels by heart, even if they mean nothing."""
    assert detector.report["n"] == 60 and detector.report["n_wrong"] == 30
    z = np.random.default_rng(0).permutation(np.arange(60) % 2)
    meaningless = [{**row, "label": int(label)} for row, label in zip(rows(), z, strict=True)]
    by_heart = SETTINGS["probe"] | {"grid": [10.0]}
    learned, loaded = fit(load, meaningless, probe=by_heart), load("llama")
    p = learned.score(loaded.model, loaded.tokenizer, rows())["p_wrong"].to_numpy(float)
    told = learned.report["out_of_fold"]["probe"]["auroc"]
    assert intervals.auc(p, z) > 0.75 and told["ci_low"] < 0.5 and told["estimate"] < 0.65
    assert "do not use it" in " ".join(learned.report["verdicts"])


def test_the_same_rows_give_the_same_detector(detector, load):
    again = fit(load, rows())
    assert again.report == detector.report
    assert np.array_equal(again.scorers[0].weights, detector.scorers[0].weights)


@pytest.mark.parametrize(
    ("given", "changed", "said"),
    [
        (rows(49), {}, "49 samples are too few"),
        ([{**row, "answers": ["Rome", "Oslo"]} for row in rows()], {}, "all 60 answers are right"),
        ([{**row, "response": " "} for row in rows()], {}, "60 of 60 responses are empty"),
        (rows(), {"readout": "mlp/prompt_end"}, "closing token, not `prompt_end`"),
        (rows(), {"readout": "mlp/last"}, "mlp/last"),
        ([{"q": row["question"]} for row in rows()], {}, "column `question`"),
        (rows(), {"probe": {"folds": 1}}, "probe.folds"),
    ],
)
def test_what_no_detector_can_be_fitted_to_is_refused(load, given, changed, said):
    with pytest.raises(AnchorscopeError, match=said):
        fit(load, given, **changed)


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if is_linear(one)])
def test_every_method_that_is_linear_in_the_states_is_saved_and_loaded(load, tmp_path, name):
    fitted, loaded = fit(load, rows(), method=name), load("llama")
    assert all(isinstance(one, LinearScorer) for one in fitted.scorers) and len(fitted.scorers) == 2
    fitted.save(tmp_path / "d")
    again, given = anchorscope.load(tmp_path / "d"), rows(5, first=100)
    scores = [one.score(loaded.model, loaded.tokenizer, given) for one in (fitted, again)]
    pd.testing.assert_frame_equal(*scores)
    assert scores[0]["p_wrong"].notna().all() and again.method == name
    assert METHODS[name].about in (tmp_path / "d" / "README.md").read_text()


def test_what_a_method_says_it_returns_need_not_be_importable():
    def linear(train: "Nowhere") -> "LinearScorer": ...  # noqa: F821

    def other(train: "Nowhere") -> "Scorer": ...  # noqa: F821

    def silent(train): ...

    assert [is_linear(SimpleNamespace(fit=fit)) for fit in (linear, other, silent)] == [
        True, False, False
    ]  # fmt: skip


def test_other_methods_are_refused(load):
    for name, said in (("saplma", "saplma is not linear"), ("prob", "no detection method `prob`")):
        with pytest.raises(AnchorscopeError, match=said):
            fit(load, rows(), method=name)


def test_one_empty_response_among_many_is_named_by_its_row(detector, load):
    given = rows(5, first=100)
    given[3]["response"] = ""
    for call in (detector.score, detector.evaluate):
        with pytest.raises(AnchorscopeError, match="1 of 5 responses") as raised:
            call(load("llama").model, load("llama").tokenizer, given, source="new.jsonl")
        assert raised.value.where == "new.jsonl, row 4"


def test_a_setting_that_there_is_not_is_an_error_in_the_call(load):
    with pytest.raises(TypeError, match=r"fit\(\) takes no `readouts`"):
        fit(load, rows(), readouts=["mlp/final"])


def test_rows_it_was_fitted_to_do_not_count_in_an_evaluation(detector, load):
    given = rows(40, first=30)
    given += [{**given[-1], "id": "twice"}]
    given += [{"question": "Who wrote The Red House?", "response": "Anna", "subject": "House"}]
    found = evaluate(detector, load, given)
    assert found.n == 10 and found.counts.total == 42
    assert found.counts.dropped == {FITTED_TO: 30, REPEATED: 1, "no gold answer": 1}
    assert found.measures["auroc"].low <= found.measures["auroc"].value
    assert repr(found).startswith("10 answers, ") and repr(found).count("\n") == len(found.measures)
    respelled = [{**row, "subject": row["subject"].upper() + "!"} for row in rows(5)]
    with pytest.raises(AnchorscopeError, match="no answer can be evaluated: 5 of a question"):
        evaluate(detector, load, respelled)


def test_answers_of_one_class_are_refused(detector, load):
    right = [{**row, "answers": [row["response"]]} for row in rows(8, first=100)]
    with pytest.raises(AnchorscopeError, match="all 8 answers are right"):
        evaluate(detector, load, right)


def said(interaction: str | None = "yes", **changed: float) -> str:
    """What is said of a detector that beats everything, but for some columns."""
    names = ("answer", "question", "response", "text", "before")
    auc = {"ci_low": 0.8} | {f"vs_{name}_low": 0.1 for name in names}
    return " ".join(verdict.of_detector(auc | changed, interaction))


def test_the_verdict_says_what_is_beaten_and_what_is_read():
    assert "significantly better than every model of the text" in said()
    assert f"The {SAYS['interaction'].removeprefix('the ')}." in said()
    weak = said(vs_text_low=-0.02)
    assert "not shown to beat the text alone (text)" in weak and "every model" not in weak
    assert "not shown to read more than the question" in said(vs_before_low=-0.1)
    assert "do not use it" in said(ci_low=0.55)
    assert "cannot be said" in said("too few")
    assert "cannot be said" in said(None)
    assert f"not shown that {SAYS['interaction']}" in said("no")


def test_worked_examples_are_shown_again_before_what_is_scored(load):
    shown = {"style": "few_shot", "generation": {"max_new_tokens": 4, "few_shot_examples": 2}}
    detector = fit(load, rows(70), **shown)
    (around,) = detector.prompting["around"]
    assert around["before"].count("Q: ") == 3 and around["after"] == "\nA:"
    assert around["relation"] is None and detector.report["n"] == 63
    loaded, given = load("llama"), rows(4, first=100)
    whole = detector.score(loaded.model, loaded.tokenizer, given)["p_wrong"]
    alone = [detector.score(loaded.model, loaded.tokenizer, [row])["p_wrong"][0] for row in given]
    assert np.abs(whole - alone).max() <= 1e-5
    shown = {**around, "before": "Q: x\nA: y\n\nQ: "}
    other = replace(detector, prompting={**detector.prompting, "around": [shown]})
    moved = other.score(loaded.model, loaded.tokenizer, given)["p_wrong"]
    assert np.abs(whole - moved).max() > 1e-5
