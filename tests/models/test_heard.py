"""Warnings of transformers while it loads are logged and kept in records."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as theirs

from anchorscope.models.heard import heard
from anchorscope.storage.files import write_json
from anchorscope.workflow import jobs


def test_every_warning_is_kept_once_in_one_line_and_logged_as_ours(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    log = theirs.get_logger("transformers.models.one")
    with heard() as warnings:
        for text in ("a\n  b", "a b", "c"):
            log.warning(text)
        log.info("nothing")
        log.error("d")
    assert warnings == ["a b", "c", "d"]
    ours = [record.getMessage() for record in caplog.records if "anchorscope" in record.name]
    assert ours == [f"transformers warns: {text}" for text in warnings]
    assert capsys.readouterr().err == "", "transformers prints none of them"
    handlers = logging.getLogger("transformers").handlers
    with heard() as warnings:
        pass
    assert warnings == [] and logging.getLogger("transformers").handlers == handlers


def test_a_job_keeps_what_is_said_of_tokenizer_and_model_in_its_record(
    checkpoint: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"path": str(checkpoint("llama")), "source": "hub", "revision": "main"}
    write_json(record, tmp_path / "model.json")
    job: Any = SimpleNamespace(
        input=SimpleNamespace(model=str(tmp_path / "model.json")),
        params={"dtype": "float32", "batch_tokens": None},
        resources=SimpleNamespace(device="cpu", gpu=0),
        threads=1,
    )
    assert "warnings" not in jobs.model_of(job)[0]
    for kind in (AutoTokenizer, AutoModelForCausalLM):
        monkeypatch.setattr(kind, "from_pretrained", warning(kind.from_pretrained, kind.__name__))
    located, _ = jobs.model_of(job)
    assert located["warnings"] == ["wrong AutoTokenizer", "wrong AutoModelForCausalLM"]


def warning(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A function that warns as transformers does, then loads."""

    def warned(*arguments: Any, **options: Any) -> Any:
        theirs.get_logger("transformers.loading").warning("wrong %s", name)
        return call(*arguments, **options)

    return warned
