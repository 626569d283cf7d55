"""The config: what is shipped is valid, and every mistake ends with a message that names it."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from snakemake.settings.types import ConfigSettings
from snakemake.utils import update_config
from transformers import AutoConfig
from workflow import PROJECT, SHIPPED

from anchorscope.config import shipped
from anchorscope.config.sections import Mark
from anchorscope.config.settings import Conditions, Config
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.identity import identity
from anchorscope.workflow.config import RESERVED, load, read
from tools import write_docs

MISSING = "<missing>"
MISTAKES = Path(__file__).parents[1] / "data" / "config_mistakes.yaml"
CELLS = {"models": ["qwen3-8b"], "datasets": ["nq"]}
KINDS = ("models", "datasets", "figures")
OWN = yaml.safe_load((PROJECT / "config.yaml").read_text("utf-8"))
ROWS = {"local": "rows.jsonl", "fields": {"question": "q", "answers": ["a"]}}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The shipped config with one value (`/` between keys) set or taken out."""
    raw = copy.deepcopy(SHIPPED)
    *above, last = path.strip("/").split("/")
    node = raw
    for key in above:
        node = node.setdefault(key, {})
    if value == MISSING:
        del node[last]
    else:
        node[last] = value
    return raw


def error_of(path: str, value: Any) -> str:
    with pytest.raises(AnchorscopeError) as caught:
        load(changed(path, value))
    return str(caught.value)


def test_the_shipped_values_are_the_defaults():
    """So a config with catalogues only measures the same."""
    bare = load({key: SHIPPED[key] for key in KINDS}).model_dump()
    full = load(SHIPPED).model_dump()
    for named in KINDS:
        bare.pop(named), full.pop(named)
    assert bare == full


@pytest.mark.parametrize(("path", "value", "expected"), yaml.safe_load(MISTAKES.read_text("utf-8")))
def test_a_mistake_names_its_key_its_value_and_the_remedy(path, value, expected):
    message = error_of(path, value)
    for part in ("config.yaml", *expected):
        assert part in message
    assert not re.search(r"Input should|valid (list|dictionary|string)|Field required", message)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *[(name, "reserved") for name in ("all", "retrain-seeds", "answers", "patching")],
        ("My Figure", "`my-figure`"),
        ("Trivia_QA", "`trivia_qa`"),
        ("_rows_", "`rows`"),
        ("a/b", "`a-b`"),
        ("für", "`f-r`"),
        ("demo\n", "file names"),
        (3, 'write `"3":`'),
    ],
)
def test_a_name_that_would_break_a_rule_or_a_file_is_refused(name, expected):
    for catalogue in KINDS:
        message = error_of(f"{catalogue}/", SHIPPED[catalogue] | {name: CELLS})
        assert f"{catalogue}.{name}" in message and expected in message


def test_a_name_may_hold_an_underscore_unless_a_rule_has_it():
    assert load(changed("models/qwen_3", {"local": "x"})).models["qwen_3"].label == "qwen_3"
    files = [*PROJECT.glob("rules/*.smk"), PROJECT / "validation/reproduction.smk"]
    text = "".join(path.read_text("utf-8") for path in files)
    names = set(re.findall(r"^rule (\w+):", text, re.M))
    assert "delta_p" in names and names <= RESERVED


def test_all_mistakes_come_in_one_error():
    raw = changed("sample_size", -1)
    raw["probe"]["grid"] = yaml.safe_load("[1e-4, 1]")  # YAML reads 1e-4 as text, we do not
    raw["chrat"] = {}
    raw["models"]["All"] = {"hub": "a/b"}
    with pytest.raises(AnchorscopeError) as caught:
        load(raw)
    message = str(caught.value)
    for part in ("3 mistakes", "config.yaml", "sample_size", "`chart`", "models.All"):
        assert part in message


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("probe:\n  folds: 3\n grid: [1]\n", "my.yaml, line 3, column 2", "broken YAML"),
        ("limit: 3\nseed: 1\nlimit: 4\n", "my.yaml", "`limit` in lines 1 and 3"),
        ("[a, b]\n", "my.yaml", "keys with values"),
        (None, "my.yaml", "No such file"),
        ("probe:\n  gird: [1]\n", "my.yaml, line 2, key probe.gird", "`grid`"),
        ("models: {qwen3-8b: {local: x}}\n", "my.yaml, line 1, key models.qwen3-8b", "hub and"),
        ("targets:\n- demo\n- dmo\n", "my.yaml, line 3, key targets.1", "`demo`"),
    ],
)
def test_a_mistake_in_a_file_names_the_file_and_the_line(tmp_path, monkeypatch, text, where, said):
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("my.yaml").write_text(text)
    with pytest.raises(AnchorscopeError) as caught:
        read([PROJECT / "config.yaml", "my.yaml"])
    assert caught.value.where is not None and str(caught.value.where) == where
    assert said in caught.value.what + str(caught.value.do)


@pytest.mark.parametrize("name", Conditions.model_fields)
def test_an_overlay_switches_every_condition_on(name, tmp_path):
    """Snakemake's merge keeps a null that meets `{}`."""
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(f"conditions: {{{name}: {{}}}}")
    raw = copy.deepcopy(SHIPPED)
    update_config(raw, ConfigSettings(configfiles=[overlay]).overwrite_config)
    assert getattr(load(raw).conditions, name) is not None


@pytest.mark.parametrize(
    ("style", "answers_of", "measured", "held"),
    [
        ("chat", None, True, True),
        ("few_shot", None, False, False),
        ("plain", None, True, False),
        ("plain", "few_shot", True, True),
    ],
)
def test_examples_are_held_back_where_a_measured_model_is_shown_some(
    style, answers_of, measured, held
):
    other = {"asked": {"local": "folder", "prompt": answers_of}} if answers_of else {}
    mine = {"local": "folder", "prompt": style, "answers_of": "asked" if other else None}
    raw = changed("models", SHIPPED["models"] | {"mine": mine} | other)
    models = ["calibration-qwen3", "mine"] if measured else ["calibration-qwen3"]
    raw["figures"]["own"] = {"models": models, "datasets": ["world-relation"]}
    assert load(raw).shows_examples("world-relation") is held


def test_the_identity_of_a_run_is_pinned():
    """It may change only on purpose: products of before and after no longer compare."""
    part = {"seed": 0, "models": {"chart": {"hub": "a/b"}}, "probe": {"grid": [1.0]}}
    assert identity(part) == "ca6ce7b7eaff"


@pytest.mark.parametrize(
    ("path", "value", "changes"),
    [
        ("models/qwen3-8b/label", "other", False),
        ("models/qwen3-8b/resources/gpus", 4, False),
        ("chart/width", 500, False),
        ("results", "elsewhere", False),
        ("targets", ["qwen3"], False),
        ("models/qwen3-8b/revision", "abc", True),
        ("models/chart", {"hub": "a/b"}, True),
        ("datasets/nq/fields/label", "column", True),
        ("probe/prior", "natural", True),
        ("limit", 50, True),
    ],
)
def test_the_identity_follows_what_changes_numbers_and_no_looks_and_places(path, value, changes):
    one, other = (load(raw).numbers() for raw in (SHIPPED, changed(path, value)))
    assert (identity(one) != identity(other)) is changes


def test_a_model_reads_the_answers_of_one_that_generates_its_own():
    reads = {"first": {"local": "x", "answers_of": "calibration-llama"}}
    both = reads | {"second": {"local": "y", "answers_of": "first"}}
    assert load(changed("models", SHIPPED["models"] | reads)).answering("first") != "first"
    with pytest.raises(AnchorscopeError, match="does not generate answers") as caught:
        load(changed("models", SHIPPED["models"] | both))
    assert "name `calibration-llama`" in str(caught.value.do)


def test_a_marked_key_is_left_out_wherever_it_stands() -> None:
    config = load(SHIPPED)
    assert {"chart", "results"} <= Config.marked(Mark.NO_NUMBER)
    numbers, of_figures = config.numbers(), config.without(Mark.NOT_IN_FIGURES)
    assert not {"chart", "results"} & numbers.keys() and "results" in of_figures
    assert not {"chart", "batch_tokens", "validation"} & of_figures.keys()
    for plain, label in ((numbers, False), (of_figures, True)):
        entry = plain["models"]["qwen3-8b"]
        assert "resources" not in entry and ("label" in entry) is label


@pytest.mark.parametrize("path", write_docs.contents(), ids=lambda path: path.name)
def test_generated_pages_are_up_to_date(path):
    expected = write_docs.contents()[path]
    assert path.read_text(encoding="utf-8") == expected, "run: make docs"


@pytest.mark.parametrize(
    ("more", "targets"),
    [
        ("figures: {mine: {models: [qwen3-8b], datasets: [popqa]}}", ["mine"]),
        ("targets: [demo]\nfigures: {mine: {models: [qwen3-8b], datasets: [popqa]}}", ["demo"]),
        ("limit: 5", ["demo"]),
    ],
)
def test_a_given_file_that_defines_figures_and_no_targets_builds_its_own(tmp_path, more, targets):
    given = tmp_path / "mine.yaml"
    given.write_text(more, encoding="utf-8")
    assert read([PROJECT / "config.yaml", given]).targets == targets


def test_a_config_of_settings_alone_has_the_models():
    found = load({"targets": ["mine"], "figures": {"mine": figure("hard-qwen3", "world-search")}})
    assert found.models["qwen3-4b"].hub == "Qwen/Qwen3-4B"


def test_a_key_of_the_users_wins_and_the_rest_of_the_entry_stays():
    given = {"mistral-7b-v0.1": {"local": "folder", "hub": None}}
    model = load(OWN | {"models": OWN["models"] | given}).models["mistral-7b-v0.1"]
    assert (model.local, model.hub, model.label) == ("folder", None, "Mistral-7B-v0.1")


def test_a_shipped_figure_that_cannot_be_drawn_is_left_out_and_one_of_the_users_is_refused():
    bare = {"targets": ["mine"], "datasets": {"rows": ROWS}}
    own = bare | {"figures": {"mine": figure("llama-3-8b", "rows")}}
    assert list(load(own).figures) == ["mine"]
    elsewhere = OWN | {"readouts": ["attn/final"], "targets": ["mine"]}
    elsewhere["figures"] = {"mine": figure("llama-3-8b", "nq") | {"readout": "attn/final"}}
    assert list(load(elsewhere).figures) == ["mine"]
    with pytest.raises(AnchorscopeError, match="figures.mistral.datasets.0.*`popqa`"):
        load(own | {"figures": {"mistral": {}} | own["figures"]})


def figure(model: str, dataset: str) -> dict[str, object]:
    return {"models": [model], "datasets": [dataset]}


def test_every_model_of_the_hub_has_a_published_shape_that_transformers_knows():
    from_hub = {name for name, model in load(SHIPPED).models.items() if model.hub}
    assert from_hub == {*shipped.shapes()}
    for name in shipped.shapes():
        given = shipped.shape_of(name)
        config = AutoConfig.for_model(**given).to_dict()
        assert {key: config[key] for key in given} == given, name


@pytest.mark.parametrize(
    ("change", "pool", "asked", "choice"),
    [
        ({}, 10_000, None, {"size": 2000, "balance": True}),
        ({"sample_size": 1300, "pool_size": 6000}, 6000, None, {"size": 1300, "balance": True}),
        ({"limit": 300}, 10_000, 1500, {"size": 300, "balance": True}),
        ({"limit": 9000}, 10_000, 10_000, {"size": 2000, "balance": True}),
        ({"balance": False}, 10_000, None, {"size": 2000, "balance": False}),
        ({"balance": False, "pool_size": 2000}, 2000, None, None),
        ({"balance": False, "pool_size": 2000, "limit": 50}, 2000, 50, None),
    ],
)
def test_the_pool_is_five_times_the_sample_unless_set_and_a_limit_scales_it(
    change, pool, asked, choice
):
    config = load(SHIPPED | change)
    assert config.pool_size_of("nq") == pool and config.asked_of("nq") == asked
    assert config.choice_of("nq") == choice and config.chooses == (choice is not None)


def test_rows_that_bring_their_answers_are_all_in_the_pool():
    rows = {**ROWS, "fields": {**ROWS["fields"], "response": "said"}}
    config = load(SHIPPED | {"datasets": {**SHIPPED["datasets"], "mine": rows}})
    assert config.pool_size_of("mine") is None and config.asked_of("mine") is None
    assert load(changed("balance", False)).pool_size_of("nq") == 10_000
