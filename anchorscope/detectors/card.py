"""The model card of a detector, as the hub reads it: `README.md` with metadata at its head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from anchorscope.detectors.detector import Detector

NAMES = {
    "auc": "AUC, out of fold, at the detector's layer",
    "signal": "claim `signal`: the AUC is above .6 and above that of every text model",
    "signal_readout": "read-out of the probe that this claim is about",
}
"""Number of `Detector.table` → its name on the card. Others stand under their own names."""
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


def _table(detector: Detector) -> str:
    """Return the numbers of the run as a Markdown table."""
    if not detector.table:
        return "Not recorded. The report of the run says it."
    texts = {
        NAMES.get(name, name): f"{value:.3f}" if isinstance(value, float) else f"{value}"
        for name, value in detector.table.items()
    }
    rows = [f"{name} | {value}" for name, value in texts.items()]
    return "\n".join(["number | value", "--- | ---", *rows])
