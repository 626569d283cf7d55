"""A detector: what it scores, what it refuses, and that its folder gives it back."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from figure_tables import summary_of
from own_rows import SETTINGS, rows

import anchorscope
from anchorscope import Detector
from anchorscope.detectors.detector import CARD, COLUMNS, FILE, WEIGHTS
from anchorscope.models.families import Loaded
from anchorscope.probes.platt import prior
from anchorscope.storage.errors import AnchorscopeError


def score(detector: Detector, loaded: Loaded, given: Any, **how: Any) -> pd.DataFrame:
    return detector.score(loaded.model, loaded.tokenizer, given, **how)


@pytest.fixture(scope="module")
def llama(load: Any) -> Loaded:
    return load("llama")


def test_a_batch_gets_the_scores_of_one_at_a_time(detector: Detector, llama: Loaded) -> None:
    given = rows(12, first=100)
    whole = score(detector, llama, given)
    alone = pd.concat([score(detector, llama, [row]) for row in given], ignore_index=True)
    small = score(detector, llama, given, batch_tokens=1)
    for other in (alone, small):
        assert np.abs(whole["p_wrong"] - other["p_wrong"]).max() <= 1e-5
    assert whole["p_wrong"].nunique() > 1


def test_states_read_by_plain_transformers_get_the_same_scores(load: Any) -> None:
    loaded = load("llama")
    measured = anchorscope.measure(
        loaded.model, loaded.tokenizer, rows(), readouts=["resid/final"], **SETTINGS
    )
    detector, given = measured.detector(), rows(5, first=100)
    detector = replace(detector, layer=1)  # the last block's output is normed in transformers
    states = []
    for row in given:
        text = f"Q: {row['question']} A: {row['response']} ."
        ids = loaded.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            out = loaded.model(ids, output_hidden_states=True)
        states.append(out.hidden_states[detector.layer + 1][0, -1])
    found = detector._scored(loaded, given, "rows")["logit"]
    assert np.allclose(detector.logits(torch.stack(states)), found, atol=1e-5)


def test_a_row_comes_back_for_each_row_given_in_its_order(
    detector: Detector, llama: Loaded
) -> None:
    given = rows(4, first=100)
    given = [given[2], given[0], {**given[2], "id": "again"}, {"question": " "}, given[1]]
    table = score(detector, llama, given)
    assert tuple(table) == COLUMNS
    assert table["id"].tolist() == ["r102", "r100", "again", "4", "r101"]
    assert table["p_wrong"][0] == table["p_wrong"][2] != table["p_wrong"][1]
    assert table["dropped"].tolist() == [None, None, None, "no question", None]
    assert table["p_wrong"].isna().tolist() == [False, False, False, True, False]
    assert table["response"].tolist()[:2] == table["ea_text"].tolist()[:2] == ["Oslo", "Rome"]


def test_labels_and_gold_answers_change_no_score(detector: Detector, llama: Loaded) -> None:
    given = rows(6, first=100)
    bare = [{key: row[key] for key in row if key not in ("id", "answers")} for row in given]
    ours, theirs = (score(detector, llama, one)["p_wrong"] for one in (given, bare))
    assert ours.tolist() == theirs.tolist()


def test_rows_that_cannot_be_read_are_refused(detector: Detector, llama: Loaded) -> None:
    with pytest.raises(AnchorscopeError, match="no question can be used: 2 no question"):
        score(detector, llama, [{"question": None}, {"question": " "}])
    given = rows(5, first=100)
    given[3]["response"] = ""
    with pytest.raises(AnchorscopeError, match="1 of 5 responses are empty") as raised:
        score(detector, llama, given, source="new.jsonl")
    assert raised.value.where == "new.jsonl, row 4"


def test_p_wrong_has_the_share_of_the_answers_it_was_fitted_to_and_p_balanced_has_not(
    detector: Detector, llama: Loaded
) -> None:
    table = score(replace(detector, n=80, n_wrong=60), llama, rows(6, first=100))
    odds = [table[name] / (1 - table[name]) for name in ("p_wrong", "p_balanced")]
    assert np.allclose(odds[0] / odds[1], np.exp(prior(60, 20)))


def test_a_folder_gives_back_the_detector(detector: Detector, tmp_path: Path) -> None:
    detector.save(tmp_path / "d")
    assert anchorscope.load(tmp_path / "d") == detector
    assert {path.name for path in (tmp_path / "d").iterdir()} == {FILE, WEIGHTS, CARD}
    assert "weights" not in json.loads((tmp_path / "d" / FILE).read_text())
    assert f"mlp/final, layer {detector.layer}" in repr(detector)


def test_a_detector_without_a_signal_says_so_once_when_it_is_loaded(
    detector: Detector, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for verdict in ("no", "yes"):
        replace(detector, table={"auc": 0.55, "signal": verdict}).save(tmp_path / verdict)
        anchorscope.load(tmp_path / verdict)
    (said,) = caplog.messages
    assert "not shown to beat a model of the text (signal: no)" in said


def test_the_card_names_model_data_table_and_limits_as_the_hub_reads_them(
    detector: Detector, tmp_path: Path
) -> None:
    origin = replace(detector.origin, model="Qwen/Qwen3-8B", revision="abc1234")
    (row,) = summary_of([("m", "")], [("d", "")]).to_dict("records")
    table = {"readout": "mlp/final", **row, "auc_at_layer": 0.8512}
    replace(detector, origin=origin, data="popqa", table=table).save(tmp_path)
    _, head, body = (tmp_path / CARD).read_text().split("---\n", 2)
    assert yaml.safe_load(head)["base_model"] == "Qwen/Qwen3-8B"
    limits = "What it must not be used for"
    for said in ("at abc1234", "popqa; 60 answers", "0.812\u00a0[0.782,", "| 0.851", limits):
        assert said in body
    detector.save(tmp_path)
    text = (tmp_path / CARD).read_text()
    assert "base_model" not in text and str(detector.origin.model) not in text  # a folder


def test_a_column_under_another_name_is_refused_and_others_are_named_in_one_line(
    detector: Detector, llama: Loaded, caplog: pytest.LogCaptureFixture
) -> None:
    given = [{**row, "answer": row["response"], "model": "m", "date": 1} for row in rows(2)]
    score(detector, llama, given)
    assert caplog.messages == ["the table: columns that are not read: answer, model, date"]
    for wrong, meant in (("answer", "response"), ("reponse", "response")):
        with pytest.raises(AnchorscopeError, match=f"`{wrong}` is not read") as raised:
            score(detector, llama, [{"question": row["question"], wrong: "Rome"} for row in given])
        assert f"did you mean `{meant}`?" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "said"), [('{"bias": 1', "Expecting"), ("[]", "list"), ("{}", "origin Field required")]
)
def test_a_folder_that_holds_no_detector_is_refused(
    detector: Detector, tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(AnchorscopeError, match="not a detector: .*detector.json"):
        anchorscope.load(tmp_path)
    detector.save(tmp_path)
    (tmp_path / FILE).write_text(text)
    with pytest.raises(AnchorscopeError, match=f"not a detector: .*{said}"):
        anchorscope.load(tmp_path)


def test_a_model_of_another_family_or_size_is_refused(detector: Detector, load: Any) -> None:
    with pytest.raises(AnchorscopeError, match="a qwen3 with 4 layers of width 32, not a llama"):
        score(detector, load("qwen3"), rows(2))


OTHER_SCORES = "the answers stored in the detector get different scores"


def test_other_weights_are_refused_and_another_number_format_is_not(
    detector: Detector, checkpoint: Any
) -> None:
    from anchorscope.models import loading

    half = loading.load(checkpoint("llama"), dtype="bfloat16")
    assert score(detector, half, rows(3))["p_wrong"].notna().all()
    other = loading.load(checkpoint("llama"))
    generator = torch.Generator().manual_seed(0)
    for parameter in other.model.parameters():
        parameter.data += parameter.std() * torch.randn(parameter.shape, generator=generator)
    with pytest.raises(AnchorscopeError, match=OTHER_SCORES):
        score(detector, other, rows(3))


def test_worked_examples_are_shown_again_and_others_would_be_noticed(llama: Loaded) -> None:
    shown = {"prompt": "few_shot", "generation": {"max_new_tokens": 4, "few_shot_examples": 2}}
    detector = anchorscope.measure(
        llama.model, llama.tokenizer, rows(70), **SETTINGS | shown
    ).detector()
    ((relation, around),) = detector.origin.around
    assert around.before.count("Q: ") == 3 and around.after == "\nA:"
    assert relation is None and detector.n == 63
    assert score(detector, llama, rows(4, first=100))["p_wrong"].notna().all()
    moved = ((None, replace(around, before="Q: x\nA: y\n\nQ: ")),)
    other = replace(detector, origin=replace(detector.origin, around=moved))
    with pytest.raises(AnchorscopeError, match=OTHER_SCORES):
        score(other, llama, rows(4, first=100))
