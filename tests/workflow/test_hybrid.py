"""The whole figure of a model whose blocks have no MLP, with default settings."""

import json
from pathlib import Path

import own_rows
import pytest
from conftest import config, tokenizer
from transformers import AutoModelForCausalLM
from workflow import workspace

from anchorscope.storage.files import read_csv

ROWS = {"local": "rows.jsonl", "fields": {
    "id": "id", "question": "question", "answers": ["answers"], "subject": "subject",
    "property": "property", "response": "response",
}}  # fmt: skip


@pytest.mark.long
def test_a_figure_shows_the_blocks_of_a_model_without_an_mlp_by_itself(tmp_path: Path) -> None:
    fast, models = tokenizer("byte_level"), {}
    for family in ("nemotron_h", "llama"):
        made = AutoModelForCausalLM.from_config(config(family, len(fast)))
        made.save_pretrained(tmp_path / family)
        fast.save_pretrained(tmp_path / family)
        entry = {"local": str(tmp_path / family), "prompt": "plain", "dtype": "float32"}
        models[family] = entry | {"resources": {"gpus": 0}}
    figures = {
        "alone": {"models": ["nemotron_h"], "datasets": ["mine"]},
        "mixed": {"models": [*models], "datasets": ["mine"]},
    }
    run = workspace(
        tmp_path / "run", {"models": models, "datasets": {"mine": ROWS}, "figures": figures}
    )
    text = "\n".join(json.dumps(row) for row in own_rows.rows())
    (run.root / "rows.jsonl").write_text(text, encoding="utf-8")
    run.build("alone", "mixed", "results/tables/alone.samples.csv")
    read = read_csv(run.results / "tables/mixed.csv").groupby("model")["site"].unique()
    assert {model: list(sites) for model, sites in read.items()} == {
        "llama": ["mlp"], "nemotron_h": ["resid"],
    }  # fmt: skip
    for figure, caption in {
        "alone": "Read-out resid/final;",
        "mixed": "Read-out mlp/final (resid/final in nemotron_h);",
    }.items():
        assert caption in (run.results / f"figures/{figure}.vl.json").read_text(encoding="utf-8")
    assert set(read_csv(run.results / "tables/alone.samples.csv")["site"]) == {"resid"}
