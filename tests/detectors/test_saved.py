"""A saved detector: what it scores, what it refuses, and that its folder is whole or not there."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from own_rows import rows

import anchorscope
from anchorscope import Detector
from anchorscope.detectors.saved import binding, card, detector as saved
from anchorscope.probes.samples import sigmoid
from anchorscope.storage.errors import AnchorscopeError


def score(detector: Detector, load: Any, given: Any, **how: Any) -> pd.DataFrame:
    loaded = load("llama")
    return detector.score(loaded.model, loaded.tokenizer, given, **how)


@pytest.fixture(scope="module")
def folder(detector: Detector, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "detector"
    detector.save(path)
    return path


def test_a_batch_gets_the_scores_of_one_at_a_time(detector, load):
    given = rows(12, first=100)
    whole = score(detector, load, given)
    alone = pd.concat([score(detector, load, [row]) for row in given], ignore_index=True)
    for name in ("p_wrong", "p_balanced"):
        assert np.abs(whole[name] - alone[name]).max() <= 1e-5
    assert whole["p_wrong"].nunique() > 1
    small = score(detector, load, given, batch_tokens=1)
    assert np.abs(whole["p_wrong"] - small["p_wrong"]).max() <= 1e-5


def test_states_read_by_plain_transformers_get_the_same_scores(detector, load):
    loaded, given = load("llama"), rows(5, first=100)
    layer = detector.scorer_of("resid/final").layers[0]
    states = []
    for row in given:
        text = f"Q: {row['question']} A: {row['response']} ."
        ids = loaded.tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            out = loaded.model(ids, output_hidden_states=True)
        states.append(out.hidden_states[layer + 1][0, -1])
    served = detector.score_states(torch.stack(states))
    here = score(detector, load, given, readout="resid/final")
    assert np.allclose(served["p_wrong"], here["p_wrong"].astype(float), atol=1e-5)
    assert np.allclose(served["p_balanced"], here["p_balanced"].astype(float), atol=1e-5)


def test_the_variant_never_reads_the_last_block_whose_states_engines_norm(detector):
    assert max(detector.scorer_of("resid/final").layers) < detector.binding.layers - 1


def test_p_wrong_has_the_training_samples_share_and_p_balanced_has_not(detector):
    three_in_four = replace(detector, report={"n": 80, "n_wrong": 60})
    p = three_in_four.probabilities(np.array([np.log(3.0)]))
    assert p["p_wrong"][0] == pytest.approx(0.75) and p["p_balanced"][0] == pytest.approx(0.5)


def test_a_folder_gives_back_the_detector(detector, load, folder):
    again, given = anchorscope.load(folder), rows(6, first=100)
    pd.testing.assert_frame_equal(score(again, load, given), score(detector, load, given))
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors", "config.json", "README.md",
    }  # fmt: skip
    config = json.loads((folder / "config.json").read_text())
    assert config["binding"]["style"] == "plain" and config["report"]["n"] == 60
    assert [one["readout"] for one in config["scorers"]] == ["mlp/final", "resid/final"]
    worth = config["report"]["out_of_fold"]
    assert {"probe", "resid", "before", "answer", "question", "response", "text"} == {*worth}
    assert "mlp/final, layer" in repr(again) and "NaN" not in (folder / "config.json").read_text()


def test_the_card_tells_what_config_json_holds(folder):
    config = json.loads((folder / "config.json").read_text())
    text = (folder / "README.md").read_text()
    for name in ("probe", "resid", "before", "text"):
        assert card.shown(config["report"]["out_of_fold"][name]["auroc"]) in text
    for sentence in config["report"]["verdicts"]:
        assert sentence in text
    assert f"layer {config['scorers'][0]['layers'][0]}" in text and "−0.000" not in text


def test_a_row_comes_back_for_each_row_given_in_its_order(detector, load):
    given = rows(4, first=100)
    given = [given[2], given[0], {**given[2], "id": "again"}, {"question": " "}, given[1]]
    table = score(detector, load, given)
    assert tuple(table) == saved.COLUMNS
    assert table["id"].tolist() == ["r102", "r100", "again", "4", "r101"]
    assert table["p_wrong"][0] == table["p_wrong"][2] != table["p_wrong"][1]
    assert table["dropped"].tolist() == [None, None, None, "no question", None]
    assert table["p_wrong"].isna().tolist() == [False, False, False, True, False]
    assert table["answer_anchor"].tolist()[:2] == ["Oslo", "Rome"]
    assert "Emil Roth 100" in table["question_anchor"][1]


def test_labels_and_gold_answers_change_no_score(detector, load):
    given = rows(6, first=100)
    bare = [{key: row[key] for key in row if key not in ("id", "answers")} for row in given]
    ours, theirs = (score(detector, load, one)["p_wrong"] for one in (given, bare))
    assert ours.tolist() == theirs.tolist()


def test_the_model_answers_rows_without_a_response(detector, load):
    table = score(detector, load, [{"question": "What is George Rankin's occupation?"}])
    assert table["response"][0] and (table["p_wrong"].notna() | table["dropped"].notna()).all()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"family": "qwen3"}, "model family llama, not qwen3"),
        ({"width": 64}, "width of the residual stream"),
        ({"weights": "0"}, "weights of the model"),
        ({"tokenizer": "0"}, "tokenizer"),
        ({"template": "0"}, "chat template"),
        ({"weights": "0", "dtype": "bfloat16"}, "dtype bfloat16"),
    ],
)
def test_another_model_than_its_own_is_refused_by_name(detector, load, changed, said):
    other = replace(detector, binding=replace(detector.binding, **changed))
    with pytest.raises(AnchorscopeError, match=said):
        score(other, load, rows(2, first=100))


def test_what_it_belongs_to_does_not_depend_on_the_number_format_or_earlier_calls(load):
    from transformers import AutoModelForCausalLM

    loaded = load("llama")
    model = AutoModelForCausalLM.from_config(loaded.model.config).to(torch.bfloat16)
    assert binding.weights_hash(model) == binding.weights_hash(model.float())
    before = binding.tokenizer_hash(loaded.tokenizer)
    loaded.tokenizer(["a", "b c d"], padding=True, truncation=True, max_length=2)
    assert binding.tokenizer_hash(loaded.tokenizer) == before
    with torch.no_grad():
        next(iter(model.parameters())).flatten()[0] += 1
    assert binding.weights_hash(model) != binding.weights_hash(loaded.model)


def test_another_tokenizer_and_another_style_have_another_binding(load, metaspace, byte_level):
    assert binding.tokenizer_hash(metaspace) != binding.tokenizer_hash(byte_level)
    loaded = load("llama")
    plain = binding.Binding.of(loaded, "plain")
    with pytest.raises(AnchorscopeError, match="prompt style few_shot, not plain"):
        plain.check(binding.Binding.of(loaded, "few_shot"))


def test_another_read_out_is_refused(detector, load):
    with pytest.raises(AnchorscopeError, match="reads mlp/final, resid/final, not attn/final"):
        score(detector, load, rows(1), readout="attn/final")
    with pytest.raises(AnchorscopeError, match="not attn/final"):
        detector.score_states(np.zeros((1, 32)), "attn/final")


@pytest.mark.parametrize("shape", [(32,), (2, 31), (1, 2, 32)])
def test_states_of_another_shape_are_refused(detector, shape):
    with pytest.raises(AnchorscopeError, match=r"not \[n, 32\]"):
        detector.score_states(np.zeros(shape))


def test_states_of_several_layers_are_added_up(detector):
    own = detector.scorers[-1]
    both = np.concatenate([own.weights, -2 * own.weights])
    several = replace(detector, scorers=(replace(own, layers=(0, 1), weights=both),))
    x = np.random.default_rng(0).normal(size=(3, 2, 32))
    logits = (x[:, 0] - 2 * x[:, 1]) @ own.weights[0] + own.bias
    assert np.allclose(several.score_states(x)["p_wrong"], sigmoid(logits))
    with pytest.raises(AnchorscopeError, match=r"(?s)not \[n, 2, 32\].*layers 0, 1"):
        several.score_states(x[:, 0])


def test_states_that_are_not_finite_are_refused(detector):
    with pytest.raises(AnchorscopeError, match="not finite"):
        detector.score_states(np.full((1, 32), np.nan))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def rewrite(**changed: Any) -> Any:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))

    return change


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        ("model.safetensors", cut, "cannot be read"),
        ("model.safetensors", Path.unlink, "cannot be read: .*model.safetensors"),
        ("config.json", cut, "cannot be read"),
        ("config.json", Path.unlink, "cannot be read: .*config.json"),
        ("config.json", rewrite(format=99), "of format 99, and this version reads 4"),
        ("config.json", rewrite(binding={}), "cannot be read: .*missing"),
        ("config.json", lambda path: path.write_text("[]"), "not that of a detector"),
    ],
)
def test_a_folder_cut_short_or_of_another_version_is_refused(folder, tmp_path, file, change, said):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    change(tmp_path / file)
    with pytest.raises(AnchorscopeError, match=said):
        Detector.load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"weights": np.zeros((1, 5))}, r"weights \[1, 5\] of layer \d, .* of width 32"),
        ({"layers": (4,)}, "layer 4, for a model of 4 layers"),
    ],
)
def test_weights_of_another_width_or_layer_are_refused(detector, tmp_path, changed, said):
    other = replace(detector.scorers[0], **changed)
    replace(detector, scorers=(other,)).save(tmp_path / "d")
    with pytest.raises(AnchorscopeError, match=said):
        anchorscope.load(tmp_path / "d")


def test_a_folder_is_replaced_whole_or_left_as_it_was(detector, folder, tmp_path, monkeypatch):
    place = tmp_path / "d"
    detector.save(place)
    before = {path.name: path.read_bytes() for path in place.iterdir()}

    def fails(config: Any) -> str:
        raise OSError("no more space")

    monkeypatch.setattr(card, "text", fails)
    for target in (place, tmp_path / "new"):
        with pytest.raises(OSError, match="no more space"):
            detector.save(target)
    assert {path.name: path.read_bytes() for path in place.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_folder_with_other_files_is_never_deleted(detector, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(AnchorscopeError, match="other files"):
        detector.save(tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
