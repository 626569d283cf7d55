"""Single samples for the report: texts with marked spans, and P(wrong) at the headline layer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.anchors import answer_anchors
from anchorscope.config.settings import Config
from anchorscope.curve.per_sample import per_sample
from anchorscope.report.cell_summary import Summary
from anchorscope.statistics.scores import Scores
from anchorscope.storage.files import read_parquet

LONGEST = 1200
"""Maximum number of characters of a text on the page."""
MOST_GOLDS = 12


def of_cell(config: Config, summary: Summary, *, cap: int) -> list[dict[Any, Any]]:
    """Return at most `cap` samples of a cell, evenly over group × label, sorted by ascending ΔP.

    `question` and `answer` are lists of pieces; every second piece is marked as E_Q or E_A. `p` and
    `p_knockout` are the probabilities that the answer is wrong, at the headline layer.

    Raises:
        AnchorscopeError: The tables have different samples.
    """
    model, dataset = summary["model"], summary["dataset"]
    answering = config.answering(model)
    answers = read_parquet(f"{config.root}/answers/{answering}/{dataset}.parquet")
    prompts = read_parquet(f"{config.root}/prompts/{answering}/{dataset}.parquet").set_index("id")
    scores = Scores.read(f"{config.root}/scores/{model}/{dataset}.safetensors")
    table = per_sample(scores, answers, [summary["readout"]])
    table = table[["id", "label", "group", "p", "delta_p"]]
    predicted = np.where(table["p"] > 0.5, 1, -1)  # ΔP is about the class that is predicted clean
    table["p_knockout"] = table["p"] + predicted * table["delta_p"] / 100
    table = table.assign(model=model, dataset=dataset, predicts=summary["layer_predicts"])
    kinds = table["group"] + table["label"].astype(str)
    chosen = table.iloc[evenly(list(kinds), cap, config.seed)]
    chosen = chosen.sort_values("delta_p", kind="stable")
    texts = answers.set_index("id", drop=False)
    return [
        {**row, **_texts(texts.loc[row["id"]], prompts.loc[row["id"]])}
        for row in chosen.to_dict("records")
    ]


def evenly(groups: Sequence[str], most: int, seed: int) -> list[int]:
    """Return up to `most` positions in `groups`, spread over its values as evenly as possible."""
    order = np.random.default_rng(seed).permutation(len(groups))
    places = pd.DataFrame({"group": [groups[i] for i in order], "place": order})
    places["turn"] = places.groupby("group").cumcount()
    chosen = places.sort_values(["turn", "group"], kind="stable")["place"]
    return sorted(int(i) for i in chosen.head(most))


def pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Split a text at the ends of its spans, so that every second piece is inside a span.

    Cut off a text after `LONGEST` characters, and say how many were left out.
    """
    beginning, parts, at = text[:LONGEST], [], 0
    for start, end in sorted(spans):
        start, end = max(start, at), max(end, at)
        parts += [beginning[at:start], beginning[start:end]]
        at = end
    left_out = len(text) - len(beginning)
    ending = f" … ({left_out:,} more characters)" if left_out else ""
    return [*parts, beginning[at:] + ending]


def _texts(row: pd.Series, prompt: pd.Series) -> dict[str, Any]:
    """Return question and answer in pieces, and the gold answers."""
    golds = row.get("golds") or []
    start, end = int(prompt["question_start"]), int(prompt["question_end"])
    spans = [
        (eq_start - start, eq_end - start)
        for eq_start, eq_end in zip(prompt["eq_start"], prompt["eq_end"], strict=True)
    ]
    answer = str(row["answer"])
    anchor, question = str(row["ea_text"] or ""), str(row.get("question") or "")
    return {
        "question": pieces(str(prompt["prompt"])[start:end], spans),
        "answer": pieces(answer, _answer_span(answer, anchor, question)),
        "golds": [str(gold)[:LONGEST] for gold in golds[:MOST_GOLDS]],
    }


def _answer_span(answer: str, anchor: str, question: str) -> list[tuple[int, int]]:
    """Locate E_A in the answer with the finder, or else at the first occurrence of its text."""
    found = answer_anchors.locate(answer, question)
    if found and answer[found.start : found.end] == anchor:
        return [(found.start, found.end)]
    at = answer.find(anchor) if anchor else -1
    return [(at, at + len(anchor))] if at >= 0 else []
