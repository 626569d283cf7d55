"""The model's own confidence: its token probabilities, and whether it calls its answer true."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from anchorscope.anchors import tokens
from anchorscope.detectors.methods.output import P_TRUE, QUANTITIES, SPANS, STATISTICS
from anchorscope.models.families import Loaded
from anchorscope.passes import choices
from anchorscope.statistics.samples import sigmoid
from anchorscope.styles import gap, style_of

ORDERS = (("True", "False"), ("False", "True"))
ASKS = (
    "Question: {question}\nProposed answer: {answer}\nIs the proposed answer:\n"
    " (A) {first}\n (B) {second}\nThe proposed answer is:"
)
"""Prompt of Kadavath et al. (2022), without worked examples."""


def features(written: pd.DataFrame) -> pd.DataFrame:
    """Return `id`, `condition` and `output.FEATURES` of each answer, see `activations.outputs`."""
    exact = written["exact"].astype(bool)
    columns = {}
    for span, of_span in zip(SPANS, (written[exact], written), strict=True):
        by_answer = of_span.groupby(["condition", "id"], sort=False)
        for quantity in QUANTITIES:
            for statistic in STATISTICS:
                columns[f"{span}_{quantity}_{statistic}"] = by_answer[quantity].agg(statistic)
        columns[f"{span}_tokens"] = by_answer.size()
    return pd.DataFrame(columns).astype(np.float64).reset_index()


def p_true(loaded: Loaded, answers: pd.DataFrame, *, style: str) -> pd.DataFrame:
    """Ask the model whether each answer is true, after its own question and after its partner's.

    A chat `style` uses the model's chat template. Return `id`, `condition` and `P_TRUE`: a `clean`
    row per answer, and a `crossed` row per answer with a partner.

    Raises:
        AnchorscopeError: Logits are not finite, or a single row does not fit in memory.
    """
    questions = answers.set_index("id")["question"]
    frames = []
    for condition, asked in (("clean", "id"), ("crossed", "crossed_partner")):
        rows = answers[answers[asked].notna()]
        pairs = [*zip(questions.loc[rows[asked]], rows["ea_text"], strict=True)]
        said = {"id": rows["id"], "condition": condition, P_TRUE: ask(loaded, pairs, style)}
        frames.append(pd.DataFrame(said))
    return pd.concat(frames, ignore_index=True)


def ask(loaded: Loaded, pairs: Sequence[tuple[str, str]], style: str) -> np.ndarray:
    """Return float64 [n]: the probability that the model calls each answer true.

    The model chooses (A) or (B). The probabilities of A and B are scaled to sum to 1. The result is
    averaged over both orders of the options, because models prefer one letter.
    """
    means = np.zeros(len(pairs))
    for first, second in ORDERS:
        prompts, letters = [], []
        for question, answer in pairs:
            text = ASKS.format(question=question, answer=answer, first=first, second=second)
            ids, pair = choice(loaded, text, style)
            prompts.append(ids)
            letters.append(pair if first == "True" else pair[::-1])
        logits = choices.choices(loaded, prompts, letters)
        means += sigmoid(logits[:, 0] - logits[:, 1]) / len(ORDERS)
    return means


def choice(loaded: Loaded, text: str, style: str) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Return the tokens of the prompt `text`, and a pair: the next token for A, and that for B.

    Tokens that both options begin with, such as a bracket, become the last tokens of the prompt.
    """
    how = style_of(style)
    asked = how.message(text, loaded.tokenizer)
    texts = [f"{asked}{gap(asked)}({letter})" for letter in "AB"]
    special = not how.templated
    both = [one.ids for one in tokens.encode(loaded.tokenizer, texts, add_special_tokens=special)]
    same = next(at for at, (a, b) in enumerate(zip(*both, strict=False)) if a != b)
    return both[0][:same], (both[0][same], both[1][same])
