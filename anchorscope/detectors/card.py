"""The model card of a detector, as the hub reads it: `README.md` with metadata at its head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import yaml

from anchorscope import statements
from anchorscope.cell import summary as of_run
from anchorscope.config.readouts import Location

if TYPE_CHECKING:
    from anchorscope.detectors.detector import Detector

AT_LAYER, READOUT = "auc_at_layer", "readout"
"""Keys of `Detector.table` beside the columns of the run's table `summary`: the AUC of the fold
probes at the detector's layer, and the read-out of this row."""
USE = """\
```python
import anchorscope

detector = anchorscope.load("path/of/this/folder")
detector.score(model, tokenizer, rows)  # rows with `question` and `response`
```"""
LIMITS = """\
- It scores answers of this model alone, after this prompt. It refuses other models.
- It was tested only on answers like those of its data. Test it on labelled answers before you use
  it on other questions.
- It estimates how probable a wrong answer is. It does not say what is true, and it must not decide
  alone about people, their health, their rights or their money."""


def text(detector: Detector) -> str:
    """Return the card's Markdown."""
    origin = detector.origin
    name = _hub_id(detector) or Path(origin.model or f"a {origin.shape[0]}").name
    model = f"{name} at {origin.revision}" if origin.revision else name
    answers = f"{detector.n:,} answers, {detector.n_wrong:,} of them wrong"
    head = yaml.safe_dump(_metadata(detector), sort_keys=False, allow_unicode=True)
    return "\n".join(
        [
            f"---\n{head}---\n",
            f"# Detector of wrong answers of {name}\n",
            "A linear probe of a hidden state. Its logit is high if an answer is probably wrong.\n",
            f"- **Model**: {model}, {origin.dtype}, prompt style `{origin.style}`",
            f"- **State**: `{detector.readout}`, layer {detector.layer} (the first is 0)",
            f"- **Data**: {detector.data}; {answers}",
            f"\n## How well it detects\n\n{_table(detector)}",
            f"\n## Use\n\n{USE}",
            f"\n## What it must not be used for\n\n{LIMITS}\n",
        ]
    )


def _metadata(detector: Detector) -> dict[str, Any]:
    """Return the metadata that the hub shows and searches."""
    model = _hub_id(detector)
    return {
        "library_name": "anchorscope",
        **({"base_model": model, "base_model_relation": "adapter"} if model else {}),
        "pipeline_tag": "text-classification",
        "tags": ["hallucination-detection", "probe", "interpretability"],
        "metrics": ["roc_auc"],
    }


def _hub_id(detector: Detector) -> str | None:
    """Return the model's id on the hub; None for a folder, whose path the card must not tell."""
    model = detector.origin.model
    return model if model and model.count("/") == 1 and not Path(model).exists() else None


def numbers(summary: pd.DataFrame, readout: str) -> dict[str, float | str | None]:
    """Return a row of the table `summary` of one cell as the `Detector.table` of a read-out."""
    rows = summary[(summary[["site", "position"]] == [*Location.of(readout)]).all(axis=1)]
    return {READOUT: readout, **of_run.numbers(rows)}


def _table(detector: Detector) -> str:
    """Return the numbers of the run as a Markdown table."""
    told = detector.table
    if READOUT not in told:  # exported without a run
        return "Not recorded. The report of the run says it."
    texts = statements.detection(told)
    if AT_LAYER in told:
        texts["AUC of this detector's fold probes, at its layer"] = f"{told[AT_LAYER]:.3f}"
    rows = [f"{name} | {value}" for name, value in texts.items()]
    of = f"These numbers are of the run's probe at `{told[READOUT]}`"
    if told[READOUT] != detector.readout:
        of += ", **not of this detector**, whose AUC stands last"
    of += ". It scores each answer at the layer that the answer's fold chose."
    return "\n".join([f"{of}\n", "number | value", "--- | ---", *rows])
