"""From Python: the workflow's stages in one call, and the notebook that shows it."""

import inspect
import json
import logging
import re
from typing import Any

import own_rows
import pandas as pd
import pytest
from chats import simple_chat
from conftest import tokenizer
from transformers import AutoModelForCausalLM
from workflow import PROJECT

import anchorscope
from anchorscope import Measured
from anchorscope.config.sections import Mark
from anchorscope.config.settings import Config
from anchorscope.curve import curve
from anchorscope.curve.controls import CONTRASTS
from anchorscope.models import tiny
from anchorscope.pairs.crossing import CLAIM_COLUMNS, CROSSING
from anchorscope.passes.interventions import REGISTRY
from anchorscope.storage.errors import AnchorscopeError

NOTEBOOK = PROJECT / "examples" / "measure.ipynb"
SETTINGS: dict[str, Any] = own_rows.SETTINGS | {
    "probe": {"folds": 2, "inner_folds": 2, "grid": [0.1]},
    "bootstrap": {"draws": 20, "level": 0.9, "min_n": 2, "min_clusters": 2},
}


def rows(count: int = 24) -> pd.DataFrame:
    """Questions with answers and labels of their own, so that no model has to know anything."""
    return pd.DataFrame(own_rows.rows(count)).drop(columns="id").assign(note="the user's")


def measure(load: Any, table: Any = None, **changed: Any) -> Measured:
    loaded = load("llama")
    given = rows() if table is None else table
    return anchorscope.measure(loaded.model, loaded.tokenizer, given, **SETTINGS | changed)


@pytest.fixture(scope="module")
def measured(load: Any) -> Measured:
    return measure(load, readouts=["mlp/final", "resid/final"], names=("tiny", "mine"))


def test_the_docs_list_every_argument():
    page = (PROJECT / "docs/index.md").read_text(encoding="utf-8")
    table = page.partition("argument | meaning")[2].partition("\n\n")[0]
    cells = [line.partition(" | ")[0] for line in table.splitlines() if line.startswith("`")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    own = {*inspect.signature(anchorscope.measure).parameters} - {"settings"}
    assert named == own | Config.marked(Mark.MEASURE)


def test_the_table_is_a_figures_table(measured: Measured) -> None:
    assert tuple(measured.table) == ("model", "dataset", *curve.CURVE)
    assert set(measured.table["model"]) == {"tiny"} and set(measured.table["dataset"]) == {"mine"}
    assert set(measured.table["site"]) == {"mlp", "resid"}
    conditions = {name for name, one in REGISTRY.items() if one.role not in ("clean", "gold")}
    assert set(measured.table["condition"]) == conditions
    assert tuple(measured.crossing) == ("model", "dataset", *CROSSING)
    assert len(measured.controls) and measured.controls["headline"].sum() == 4
    assert tuple(measured.contrasts) == ("model", "dataset", *CONTRASTS)
    assert tuple(measured.claims) == ("model", "dataset", *CLAIM_COLUMNS)


def test_the_block_is_read_in_place_of_an_mlp_that_the_model_lacks() -> None:
    fast = tokenizer("byte_level")
    made = AutoModelForCausalLM.from_config(tiny.config("nemotron_h", vocab_size=len(fast)))
    settings = {key: value for key, value in SETTINGS.items() if key != "readouts"}
    found = anchorscope.measure(made, fast, rows(), **settings)
    assert set(found.scores["readout"]) == {"resid/final", "resid/prompt_end"}
    assert "from the block output" in found.methods()


def test_every_row_given_is_counted_and_labelled_by_its_gold_answers(measured: Measured) -> None:
    assert (measured.counts.total, measured.counts.kept) == (24, 24)
    right = [("Rome" if i % 3 else "Oslo") == ("Rome" if i % 2 else "Oslo") for i in range(24)]
    label = measured.answers.set_index("question")["label"]
    assert label[rows()["question"]].tolist() == [int(not one) for one in right]


def test_it_gives_a_detector_of_each_read_out(measured: Measured, load: Any) -> None:
    assert measured.detector().readout == "mlp/final"
    detector = measured.detector("resid/final")
    loaded = load("llama")
    samples = measured.samples.query("site == 'resid' and position == 'final'")
    assert (samples["layer"] == detector.layer).all()
    found = detector.score(loaded.model, loaded.tokenizer, rows()).set_index("question")
    own = samples.assign(question=samples["id"].map(measured.answers.set_index("id")["question"]))
    assert found.loc[own["question"], "p_balanced"].corr(own.set_index("question")["p"]) > 0.5
    for of_readout in (measured.detector, measured.methods, measured.chart):
        with pytest.raises(AnchorscopeError, match="attn/final"):
            of_readout("attn/final")
    published = SETTINGS["probe"] | {"scoring": "published"}
    with pytest.raises(AnchorscopeError, match="no detector(.|\n)*calibrated"):
        measure(load, probe=published).detector()


def test_its_methods_are_those_of_the_read_out_and_say_whose_answers_they_are(
    measured: Measured,
) -> None:
    written = measured.methods("resid/final")
    assert "answers of mine were given, not the model's own" in written
    assert measured.methods() == measured.methods("mlp/final") != written


def test_without_a_prompt_a_chat_template_is_asked_about(load: Any) -> None:
    loaded, settings = load("llama"), SETTINGS | {"prompt": None}
    with pytest.raises(AnchorscopeError, match='prompt="few_shot"'):
        anchorscope.measure(loaded.model, simple_chat(loaded.tokenizer), rows(), **settings)


def test_progress_and_right_answers_are_told_as_in_the_workflow(
    load: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="anchorscope"):
        measure(load, names=("tiny", "mine"))
    said = "\n".join(caplog.messages)
    assert "tiny on mine: 12 of 24 measured answers are right. " in said
    for unit in ("rows", "steps"):
        assert re.search(rf"^tiny on mine: (\d+) of \1 {unit}, ", said, re.MULTILINE)


def test_the_old_name_of_the_prompt_is_refused_by_name(load: Any) -> None:
    with pytest.raises(TypeError, match="takes no `style`; it takes prompt, "):
        measure(load, style="plain")


def test_rows_left_out_are_counted_by_reason(load: Any) -> None:
    table = pd.concat([rows(), rows(1)], ignore_index=True)
    table.loc[3, "answers"] = None
    table.loc[5, "question"] = "?"
    table.loc[5, "subject"] = table.loc[5, "property"] = None
    counts = measure(load, table).counts
    assert (counts.total, counts.kept) == (25, 22)
    assert counts.dropped["equal question folded"] == counts.dropped["no answers"] == 1
    assert sum(counts.dropped.values()) == 3


def test_worked_examples_are_held_back_and_not_measured(load: Any) -> None:
    shown = {"prompt": "few_shot", "generation": {"max_new_tokens": 4, "few_shot_examples": 1}}
    found = measure(load, rows(30), **shown)
    assert found.counts.dropped == {"held back for few-shot examples": 3}
    assert found.counts.kept == len(found.answers) == 27


def test_a_chart_draws_the_read_out_that_is_asked_for(measured: Measured) -> None:
    first, second = (measured.chart(readout).to_dict() for readout in (None, "resid/final"))
    assert "mlp/final" in json.dumps(first) and "resid/final" not in json.dumps(first)
    assert "resid/final" in json.dumps(second)
    assert "90" in json.dumps(first["title"])
    page = measured._repr_html_()
    assert page.startswith("<svg") and "resid/final</th>" in page and "<script" not in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"table": rows().assign(response=[["It is", "Rome."]] * 24)}, "`response` must be text"),
        ({"bootstrap": {"level": 2.0}}, "bootstrap.level"),
        ({"prompt": "few-shot"}, "few-shot"),
        ({"prompt": "few_shot", "table": rows(8)}, "example"),
        ({"table": ["Who wrote Emma?"]}, "one dict per question"),
        ({"table": rows().assign(answers=None)}, "no answers"),
        ({"table": rows().assign(response="Rome .", answers="Rome")}, "(?i)right|class|label"),
    ],
    ids=str,
)
def test_what_cannot_be_measured_is_refused_in_words(
    load: Any, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(AnchorscopeError, match=said):
        measure(load, **change)


def test_attention_that_ignores_masks_is_refused(
    load: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load("llama").model.config
    monkeypatch.setattr(config, "_attn_implementation_internal", "flash_attention_2")
    with pytest.raises(AnchorscopeError, match="flash_attention_2"):
        measure(load)


def test_the_notebook_runs_and_has_ten_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = [line for cell in code for line in cell.splitlines() if line.strip()]
    assert len(lines) == 10
    names: dict[str, Any] = {}
    for cell in code:
        exec(cell, names)
    found: Measured = names["measured"]
    assert found.counts.kept > 250
    final = found.table.query("position == 'final' and condition == 'knockout' and anchor == 'all'")
    assert final["cell_signal"].all() and final["predicts"].iloc[-1]
