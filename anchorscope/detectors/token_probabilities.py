"""Token probabilities: how likely the model finds its answer, and whether it calls it true.

Rows are passed again, see `passes.outputs`.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def table(
    loaded: Loaded, answers: pd.DataFrame, *, style: str, batch_tokens: int, p_true: bool = True
) -> pd.DataFrame:
    """The token probabilities of measured answers, behind their own and their partners' questions.

    Args:
        answers: see `activations.measured`.
        style: of the prompts; a chat asks the model through its template.
        batch_tokens: most rows × padded length of a call.
        p_true: whether the model is asked. The two questions take most of the time.

    Returns:
        A row for each answer, `clean`, and for those with a partner `crossed`: `COLUMNS`, the last
        of them only if the model is asked.

    Raises:
        AnchorscopeError: logits that are not finite, or one row alone does not fit in memory.
    """
    records = {str(row["id"]): row for row in answers.to_dict("records")}
    samples = {id_: sample_of(row) for id_, row in records.items()}
    own = {id_: id_ for id_ in records}
    partners = {
        id_: partner
        for id_, row in records.items()
        if isinstance(partner := row["crossed_partner"], str)
    }
    frames = []
    for condition, questions in (("clean", own), ("crossed", partners)):
        if not questions:
            continue
        passed = [
            samples[id_] if asked == id_ else behind(samples[id_], samples[asked])
            for id_, asked in questions.items()
        ]
        frame = probabilities(loaded, passed, batch_tokens=batch_tokens)
        frame.insert(1, "condition", condition)
        if p_true:
            pairs = [
                (str(records[asked]["question"]), str(records[id_]["ea_text"]))
                for id_, asked in questions.items()
            ]
            frame[P_TRUE] = ask(loaded, pairs, style=style, batch_tokens=batch_tokens)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def probabilities(loaded: Loaded, samples: Sequence[Sample], *, batch_tokens: int) -> pd.DataFrame:
    """The features of each sample, in their order: `id` and `output.FEATURES`.

    Errors as of `table`.
    """
    written = outputs.of_answers(loaded, samples, batch_tokens=batch_tokens)
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


def ask(
    loaded: Loaded, pairs: Sequence[tuple[str, str]], *, style: str, batch_tokens: int
) -> np.ndarray:
    """How likely the model calls the answer to each question true, float64 [n].

    Of the two letters alone, and averaged over both orders, since models prefer a letter.
    """
    means = np.zeros(len(pairs))
    for first, second in ORDERS:
        prompts, letters = [], []
        for question, answer in pairs:
            text = ASKS.format(question=question, answer=answer, first=first, second=second)
            ids, pair = choice(loaded, text, style)
            prompts.append(ids)
            letters.append(pair if first == "True" else pair[::-1])
        logits = outputs.of_choices(loaded, prompts, letters, batch_tokens=batch_tokens)
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
