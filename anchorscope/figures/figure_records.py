"""Notes of a figure on its data: responses that were no answers, and its models.

`records` maps the path of each product that the figure was made from to its record.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from anchorscope.figures.figure_request import Pair
from anchorscope.storage.counts import NO_ANSWER

Records = Mapping[str, Mapping[str, Any]]


def no_answer_note(records: Records, models: Sequence[Pair], datasets: Sequence[Pair]) -> str:
    """Write the sentence on responses that were left out as no answer, or "" without any.

    `models` and `datasets` hold key and label of each.
    """
    reasons, answers = Counter[str](), 0
    cells = [
        f"/answers/{model}/{dataset}.parquet"
        for (model, _), (dataset, _) in product(models, datasets)
    ]
    for path, record in records.items():
        if f"/{path}".endswith(tuple(cells)) and "counts" in record:
            answers += record["counts"]["kept"]
            for reason, count in record["counts"]["dropped"].items():
                if reason.startswith(f"{NO_ANSWER}: "):
                    reasons[reason.removeprefix(f"{NO_ANSWER}: ")] += count
    if not reasons:
        return ""
    share = reasons.total() / (answers + reasons.total())
    percent = "less than 1\u00a0%" if share < 0.01 else f"{100 * share:.0f}\u00a0%"
    listed = ", ".join(f"{reason} {count:,}" for reason, count in reasons.most_common())
    return f"Non-answers left out: {percent} of the responses ({listed})."


def model_notes(records: Records, models: Sequence[Pair]) -> list[str]:
    """Write a sentence on each model's thinking mode and on the source of dequantised weights."""
    labels_by_note: dict[str, list[str]] = {}
    for key, label in models:
        for note in sorted(set(_notes_of(records, key))):
            labels_by_note.setdefault(note, []).append(label)
    return [f"{', '.join(labels)}: {note}." for note, labels in labels_by_note.items()]


def _notes_of(records: Records, model: str) -> Iterator[str]:
    """Yield the notes on a model, one for each record that has one."""
    for path, record in records.items():
        if f"/prompts/{model}/" in f"/{path}" and record.get("thinking"):
            yield str(record["thinking"])
        quantisation = record.get("model", {}).get("dequantised_from")
        if f"/models/{model}.json" in f"/{path}" and quantisation:
            yield f"weights dequantised from {quantisation}"
