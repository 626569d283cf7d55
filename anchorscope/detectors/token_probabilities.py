"""Token probabilities: how likely the model finds its answer, and whether it calls it true.

Rows are passed again, see `passes.outputs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.anchors import tokens
from anchorscope.detectors.methods.output import FEATURES, P_TRUE, QUANTITIES, SPANS, STATISTICS
from anchorscope.models.families import Loaded
from anchorscope.passes import outputs
from anchorscope.passes.batches import Sample
from anchorscope.passes.planning import behind, sample_of
from anchorscope.probes.samples import sigmoid
from anchorscope.styles import gap, style_of

COLUMNS = ("id", "condition", *FEATURES, P_TRUE)
ORDERS = (("True", "False"), ("False", "True"))
ASKS = (
    "Question: {question}\nProposed answer: {answer}\nIs the proposed answer:\n"
    " (A) {first}\n (B) {second}\nThe proposed answer is:"
)
"""As in Kadavath et al. (2022), without worked examples."""


@dataclass(frozen=True)
class Proposal:
    """A question with a proposed answer."""

    id: str
    question: str
    answer: str


def table(
    loaded: Loaded, answers: pd.DataFrame, *, style: str, p_true: bool = True
) -> pd.DataFrame:
    """The token probabilities of measured answers, behind their own and their partners' questions.

    Args:
        answers: see `activations.measured`.
        style: of the prompts; a chat asks the model through its template.
        p_true: whether the model is asked. The two questions take most of the time.

    Returns:
        A row for each answer, `clean`, and for those with a partner `crossed`: `COLUMNS`, the last
        of them only if the model is asked.

    Raises:
        AnchorscopeError: logits that are not finite, or one row alone does not fit in memory.
    """
    frames = []
    for condition, (samples, proposals) in _conditions(answers).items():
        frame = probabilities(loaded, samples)
        frame.insert(1, "condition", condition)
        if p_true:
            frame[P_TRUE] = ask(loaded, proposals, style=style)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _conditions(answers: pd.DataFrame) -> dict[str, tuple[list[Sample], list[Proposal]]]:
    """Condition → what is passed of it."""
    records = {str(row["id"]): row for row in answers.to_dict("records")}
    samples = {id_: sample_of(row) for id_, row in records.items()}
    clean = [(samples[id_], proposal_of(row, row)) for id_, row in records.items()]
    crossed = [
        (behind(samples[id_], samples[partner]), proposal_of(records[partner], row))
        for id_, row in records.items()
        if isinstance(partner := row["crossed_partner"], str)
    ]
    return {
        name: ([sample for sample, _ in both], [proposal for _, proposal in both])
        for name, both in (("clean", clean), ("crossed", crossed))
        if both
    }


def proposal_of(prompt: Mapping[Any, Any], answer: Mapping[Any, Any]) -> Proposal:
    """The question of one row, and the exact answer of another."""
    return Proposal(str(answer["id"]), str(prompt["question"]), str(answer["ea_text"]))


def probabilities(loaded: Loaded, samples: Sequence[Sample]) -> pd.DataFrame:
    """The features of each sample, in their order: `id` and `output.FEATURES`.

    Errors as of `table`.
    """
    written = outputs.of_answers(loaded, samples)
    exact = written["exact"].astype(bool)
    features = {}
    for span, of_span in zip(SPANS, (written[exact], written), strict=True):
        by_id = of_span.groupby("id")
        for quantity in QUANTITIES:
            for statistic in STATISTICS:
                features[f"{span}_{quantity}_{statistic}"] = by_id[quantity].agg(statistic)
        features[f"{span}_tokens"] = by_id.size().astype(np.float64)
    ids = pd.Index([sample.id for sample in samples], name="id")
    return pd.DataFrame(features).loc[ids, list(FEATURES)].reset_index()


def ask(loaded: Loaded, proposals: Sequence[Proposal], *, style: str) -> np.ndarray:
    """The probability that the model calls each proposed answer true, float64 [n].

    Of the two letters alone, and averaged over both orders, since models prefer a letter.
    """
    means = np.zeros(len(proposals))
    for first, second in ORDERS:
        prompts, letters = [], []
        for one in proposals:
            text = ASKS.format(question=one.question, answer=one.answer, first=first, second=second)
            ids, pair = choice(loaded, text, style)
            prompts.append(ids)
            letters.append(pair if first == "True" else pair[::-1])
        logits = outputs.of_choices(loaded, prompts, letters)
        means += sigmoid(logits[:, 0] - logits[:, 1]) / len(ORDERS)
    return means


def choice(loaded: Loaded, text: str, style: str) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The tokens of a question about (A) and (B), and the tokens that then tell A from B.

    Whatever both answers begin with, such as a blank and a bracket, belongs to the question.
    """
    how = style_of(style)
    asked = how.message(text, loaded.tokenizer)
    texts = [f"{asked}{gap(asked)}({letter})" for letter in "AB"]
    special = not how.templated
    both = [one.ids for one in tokens.encode(loaded.tokenizer, texts, add_special_tokens=special)]
    same = next(at for at, (a, b) in enumerate(zip(*both, strict=False)) if a != b)
    return both[0][:same], (both[0][same], both[1][same])
