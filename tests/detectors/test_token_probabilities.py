"""Token probabilities equal what `transformers` gives for one row at a time."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ALL_FAMILIES
from small_cell import answers_of

from anchorscope.detectors import token_probabilities
from anchorscope.detectors.output import FEATURES
from anchorscope.detectors.token_probabilities import ASKS, COLUMNS, Asked, Row
from anchorscope.storage.errors import AnchorscopeError


def rows_of(answers: pd.DataFrame) -> list[Row]:
    records = answers.to_dict("records")
    return [token_probabilities.row_of(row, row) for row in records]


def alone(loaded: Any, row: Row) -> dict[str, float]:
    """The same quantities, written out."""
    with torch.inference_mode():
        logits = loaded.model(input_ids=torch.tensor([row.ids])).logits[0].double()
    log_p = logits.log_softmax(-1)
    written = range(row.start, row.exact.stop)
    each = {
        "logprob": [log_p[at - 1, row.ids[at]].item() for at in written],
        "logit": [logits[at - 1, row.ids[at]].item() for at in written],
        "entropy": [-(log_p[at - 1].exp() * log_p[at - 1]).sum().item() for at in written],
    }
    found = {"exact_tokens": len(row.exact), "answer_tokens": len(written)}
    for span, first in (("exact", row.exact.start - row.start), ("answer", 0)):
        for name, values in each.items():
            part = np.array(values[first:])
            found |= {
                f"{span}_{name}_{how}": getattr(part, how)() for how in ("mean", "min", "max")
            }
    return {name: float(found[name]) for name in FEATURES}


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_in_batches_as_one_row_at_a_time(load: Callable[..., Any], family: str) -> None:
    loaded = load(family)
    answers = answers_of(loaded.tokenizer, 12).assign(ea_start=lambda rows: rows["ea_end"] - 1)
    rows = rows_of(answers)
    together = token_probabilities.probabilities(loaded, rows, batch_tokens=400)
    for row, found in zip(rows, together.to_dict("records"), strict=True):
        assert {name: found[name] for name in FEATURES} == pytest.approx(
            alone(loaded, row), abs=2e-4
        )


def test_logits_are_held_for_few_answers_at_a_time(
    load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load("llama")
    rows = rows_of(answers_of(loaded.tokenizer, 12))
    whole = token_probabilities.probabilities(loaded, rows, batch_tokens=10_000)
    sizes: list[int] = []
    plain = token_probabilities._logits

    def counted(loaded: Any, rows: Any) -> Any:
        sizes.append(len(rows) * len(token_probabilities._union(rows)))
        return plain(loaded, rows)

    budget = 4 * 8 * len(loaded.tokenizer)  # of eight positions
    monkeypatch.setattr(token_probabilities, "LOGIT_BYTES", budget)
    monkeypatch.setattr(token_probabilities, "_logits", counted)
    parts = token_probabilities.probabilities(loaded, rows, batch_tokens=10_000)
    assert max(sizes) <= 8
    assert np.allclose(parts[list(FEATURES)], whole[list(FEATURES)], atol=1e-4)


def test_p_true_is_the_mean_of_both_orders(load: Callable[..., Any]) -> None:
    loaded = load("qwen3")
    asked = [Asked("a", "Who wrote it?", "Ann"), Asked("b", "When was it born, then?", "1932")]
    found = token_probabilities.ask(loaded, asked, style="plain", batch_tokens=400)
    for one, p_true in zip(asked, found, strict=True):
        means = []
        for place, (first, second) in enumerate((("True", "False"), ("False", "True"))):
            text = ASKS.format(question=one.question, answer=one.answer, first=first, second=second)
            ids, pair = token_probabilities.choice(loaded, text, "plain")
            with torch.inference_mode():
                logits = loaded.model(input_ids=torch.tensor([ids])).logits[0, -1]
            means.append(logits[list(pair)].softmax(-1)[place].item())
        assert p_true == pytest.approx(np.mean(means), abs=1e-5)


def test_both_letters_follow_the_same_tokens(load: Callable[..., Any]) -> None:
    for name in ("byte_level", "metaspace"):
        loaded = load("llama", name)
        ids, (a, b) = token_probabilities.choice(loaded, "The answer is:", "plain")
        decoded = [loaded.tokenizer.decode([*ids, token]) for token in (a, b)]
        assert a != b
        assert [text.rstrip()[-1] for text in decoded] == ["A", "B"]


def test_crossed_answers_stand_behind_their_partners_questions(load: Callable[..., Any]) -> None:
    loaded = load("llama")
    answers = answers_of(loaded.tokenizer, 8).assign(crossed_partner=None)
    answers.loc[[0, 2], "crossed_partner"] = ["s02", "s00"]
    table = token_probabilities.table(loaded, answers, style="plain", batch_tokens=400)
    assert tuple(table) == COLUMNS
    assert table["condition"].value_counts().to_dict() == {"clean": 8, "crossed": 2}
    moved = token_probabilities.row_of(answers.iloc[2].to_dict(), answers.iloc[0].to_dict())
    text = loaded.tokenizer.decode(moved.ids)
    assert answers["question"][2] in text
    assert text.rstrip(" .").endswith(answers["ea_text"][0])
    row = table[(table["id"] == "s00") & (table["condition"] == "crossed")].iloc[0]
    assert row["exact_logprob_mean"] == pytest.approx(
        alone(loaded, moved)["exact_logprob_mean"], abs=2e-4
    )


def test_logits_that_are_not_finite_are_named(
    load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load("llama")
    rows = rows_of(answers_of(loaded.tokenizer, 4))
    broken = [torch.full((len(row.predicting), 9), float("nan")) for row in rows]
    monkeypatch.setattr(token_probabilities, "_logits", lambda loaded, rows: broken[: len(rows)])
    with pytest.raises(AnchorscopeError, match="logits of the answer are not finite"):
        token_probabilities.probabilities(loaded, rows, batch_tokens=10_000)
