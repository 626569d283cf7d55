"""Serving: the example of docs/detectors.md scores states that an engine wrote to files."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_rows import SETTINGS, rows
from safetensors.torch import save_file
from workflow import PROJECT

import anchorscope
from anchorscope.detectors.detector import Detector
from anchorscope.detectors.export import SERVED, states_of
from anchorscope.models.families import Loaded
from anchorscope.storage.errors import AnchorscopeError

PAGE = (PROJECT / "docs/detectors.md").read_text("utf-8")
SECTION = PAGE.partition("## With a serving engine")[2].partition("\n## ")[0]
BEFORE, AFTER = re.findall(r"```python\n(.*?)```", SECTION, re.S)


@pytest.fixture(scope="module")
def llama(load: Any) -> Loaded:
    return load("llama")


@pytest.fixture(scope="module")
def detector(llama: Loaded) -> Detector:
    """A detector at the residual stream."""
    chosen = {"readouts": [SERVED], **SETTINGS}
    return anchorscope.measure(llama.model, llama.tokenizer, rows(), **chosen).detector()


def write(folder: Path, model: Any, inputs: list[list[int]], layer: int) -> list[Path]:
    """Write the states after a block with plain transformers, in the form of an engine."""
    found: dict[str, torch.Tensor] = {}

    def keep(block: Any, given: Any, output: Any) -> None:
        found["state"] = output[0] if isinstance(output, tuple) else output

    hook = model.model.layers[layer].register_forward_hook(keep)
    files = [folder / f"{number}.safetensors" for number in range(len(inputs))]
    for file, ids in zip(files, inputs, strict=True):
        with torch.inference_mode():
            model(torch.tensor([ids]))
        states = found["state"][0][:, None].contiguous()
        save_file({"token_ids": torch.tensor(ids), "hidden_states": states}, file)
    hook.remove()
    return files


def test_the_documented_lines_give_the_scores_of_the_detector(
    detector: Detector, llama: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    detector.save("resid")
    names: dict[str, Any] = {"rows": [*rows(7, first=100), {"question": "", "response": "x"}]}
    exec(BEFORE, names)
    inputs = names["table"]["input_ids"].tolist()
    assert len(inputs) == 7 and len(BEFORE.splitlines()) + len(AFTER.splitlines()) <= 20
    names["files"] = write(tmp_path, llama.model, inputs, detector.layer)
    exec(AFTER, names)
    wanted = detector.score(llama.model, llama.tokenizer, names["rows"])["p_wrong"]
    assert np.allclose(names["table"]["p_wrong"], wanted[:7], atol=1e-5)
    assert wanted.nunique() > 1


def test_states_of_a_read_out_that_was_not_measured_come_in_the_order_of_the_answers(
    detector: Detector, llama: Loaded
) -> None:
    given = rows(9, first=100)
    answers = detector._answered(llama, given, "rows")
    states = states_of(llama, answers, SERVED)
    assert states.shape == (4, 9, 32)
    wanted = detector._logits(llama, answers)
    assert np.allclose(detector.logits(states[detector.layer]), wanted, atol=1e-5)
    assert len({*wanted.round(4)}) > 1


def test_rows_without_a_response_are_refused_as_nothing_would_answer_them(
    detector: Detector, llama: Loaded
) -> None:
    given = [{"question": "Who?", "response": "Ann"}, {"question": "Who else?"}]
    with pytest.raises(AnchorscopeError, match="1 of 2 rows have no `response`"):
        detector.inputs(llama.model, llama.tokenizer, given)
