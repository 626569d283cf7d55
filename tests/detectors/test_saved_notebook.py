"""The example notebook: a detector of one half of a world scores the other half."""

import json
from typing import Any

import pytest
from workflow import PROJECT

NOTEBOOK = PROJECT / "examples" / "detect.ipynb"


def test_the_notebook_runs_and_its_detector_tells_wrong_answers(monkeypatch: Any) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)
    names: dict[str, Any] = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    told, measured = names["detector"].report, names["evaluation"]
    assert "significantly better than every model of the text" in " ".join(told["verdicts"])
    assert told["crossing"]["interaction"] == "yes"
    assert measured.n == len(names["test"]) and measured.measures["auroc"].low > 0.95
    out_of_fold = told["out_of_fold"]["probe"]["auroc"]["estimate"]
    assert measured.measures["auroc"].value == pytest.approx(out_of_fold, abs=0.02)
    risk = names["risk"].set_index("coverage")["risk"]
    assert risk[1.0] == pytest.approx(measured.n_wrong / measured.n)
    kept = risk[risk.index <= 0.8].iloc[-1]
    assert kept == pytest.approx(1 - measured.measures["accuracy_80"].value, abs=1 / measured.n)
    assert names["again"].report == told
