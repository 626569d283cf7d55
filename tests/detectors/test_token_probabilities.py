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
from anchorscope.detectors.methods.output import FEATURES
from anchorscope.detectors.token_probabilities import ASKS, COLUMNS
from anchorscope.models import loading
from anchorscope.passes import outputs
from anchorscope.passes.batches import Sample
from anchorscope.passes.planning import behind, sample_of
from anchorscope.storage.errors import AnchorscopeError


def samples_of(answers: pd.DataFrame) -> list[Sample]:
    return [sample_of(row) for row in answers.to_dict("records")]


def alone(loaded: Any, sample: Sample) -> dict[str, float]:
    """The same quantities, written out."""
    with torch.inference_mode():
        logits = loaded.model(input_ids=torch.tensor([sample.input_ids])).logits[0].double()
    log_p = logits.log_softmax(-1)
    start, ids = sample.answer_start, sample.input_ids
    first, last = sample.positions["before_answer"] + 1, sample.positions["last_answer"]
    written = range(start, last + 1)
    each = {
        "logprob": [log_p[at - 1, ids[at]].item() for at in written],
        "logit": [logits[at - 1, ids[at]].item() for at in written],
        "entropy": [-(log_p[at - 1].exp() * log_p[at - 1]).sum().item() for at in written],
    }
    found = {"exact_tokens": last + 1 - first, "answer_tokens": len(written)}
    for span, skipped in (("exact", first - start), ("answer", 0)):
        for name, values in each.items():
            part = np.array(values[skipped:])
            found |= {
                f"{span}_{name}_{how}": getattr(part, how)() for how in ("mean", "min", "max")
            }
    return {name: float(found[name]) for name in FEATURES}


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_in_batches_as_one_row_at_a_time(load: Callable[..., Any], family: str) -> None:
    loaded = load(family)
    answers = answers_of(loaded.tokenizer, 12).assign(ea_start=lambda rows: rows["ea_end"] - 1)
    samples = samples_of(answers)
    together = token_probabilities.probabilities(loaded, samples, batch_tokens=400)
    assert together["id"].tolist() == [sample.id for sample in samples]
    for sample, found in zip(samples, together.to_dict("records"), strict=True):
        assert {name: found[name] for name in FEATURES} == pytest.approx(
            alone(loaded, sample), abs=2e-4
        )


def test_logits_are_held_for_few_answers_at_a_time(
    load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load("llama")
    samples = samples_of(answers_of(loaded.tokenizer, 12))
    whole = token_probabilities.probabilities(loaded, samples, batch_tokens=10_000)
    sizes: list[int] = []
    head = loaded.model.get_output_embeddings()
    hook = head.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    monkeypatch.setattr(outputs, "LOGITS_AT_ONCE", 8 * head.weight.shape[0])
    parts = token_probabilities.probabilities(loaded, samples, batch_tokens=10_000)
    hook.remove()
    assert len(sizes) > 1 and max(sizes) <= 8
    assert np.allclose(parts[list(FEATURES)], whole[list(FEATURES)], atol=1e-4)


def test_p_true_is_the_mean_of_both_orders(load: Callable[..., Any]) -> None:
    loaded = load("qwen3")
    asked = [("Who wrote it?", "Ann"), ("When was it born, then?", "1932")]
    found = token_probabilities.ask(loaded, asked, style="plain", batch_tokens=400)
    for (question, answer), p_true in zip(asked, found, strict=True):
        means = []
        for place, (first, second) in enumerate((("True", "False"), ("False", "True"))):
            text = ASKS.format(question=question, answer=answer, first=first, second=second)
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
    own, partner = samples_of(answers.iloc[[0, 2]])
    moved = behind(own, partner)
    text = loaded.tokenizer.decode(moved.input_ids)
    assert answers["question"][2] in text
    assert text.rstrip(" .").endswith(answers["ea_text"][0])
    row = table[(table["id"] == "s00") & (table["condition"] == "crossed")].iloc[0]
    assert row["exact_logprob_mean"] == pytest.approx(
        alone(loaded, moved)["exact_logprob_mean"], abs=2e-4
    )


def test_a_model_that_is_not_asked_says_nothing_of_truth(load: Callable[..., Any]) -> None:
    loaded = load("llama")
    answers = answers_of(loaded.tokenizer, 4).assign(crossed_partner=None)
    how = {"style": "plain", "batch_tokens": 400}
    whole = token_probabilities.table(loaded, answers, **how)
    without = token_probabilities.table(loaded, answers, p_true=False, **how)
    assert tuple(without) == COLUMNS[:-1]
    pd.testing.assert_frame_equal(without, whole[list(without)])


def test_logits_that_are_not_finite_are_named(checkpoint: Callable[..., Any]) -> None:
    loaded = loading.load(checkpoint("qwen2"))
    loaded.model.get_output_embeddings().weight.data[:] = float("nan")
    with pytest.raises(AnchorscopeError, match="log-probability is not finite"):
        answers = answers_of(loaded.tokenizer, 4)
        token_probabilities.probabilities(loaded, samples_of(answers), batch_tokens=10_000)
    with pytest.raises(AnchorscopeError, match="logits of a choice are not finite"):
        asked = [("Who wrote it?", "Ann")]
        token_probabilities.ask(loaded, asked, style="plain", batch_tokens=400)


def test_nobody_asked_says_nothing(load: Callable[..., Any]) -> None:
    assert len(token_probabilities.ask(load("llama"), [], style="plain", batch_tokens=400)) == 0
