"""Token probabilities of answers, against the whole model one row at a time."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from conftest import ALL_FAMILIES, CORPUS
from instrument import TOKENIZER, answers_table

from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.passes import lm_head, outputs
from anchorscope.passes.batches import Sample
from anchorscope.passes.planning import sample_of
from anchorscope.storage.errors import AnchorscopeError


def samples_of(loaded: Loaded) -> list[Sample]:
    """Of the corpus; E_A begins one token into each answer of more than one."""
    rows = answers_table(loaded.tokenizer, CORPUS)
    longer = rows["ea_end"] - rows["ea_start"] > 1
    rows["ea_start"] += longer.astype(int)
    return [sample_of(row) for row in rows.to_dict("records")]


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_they_are_those_of_the_whole_model_one_row_at_a_time(family: str, load: Any) -> None:
    loaded = replace(load(family, TOKENIZER[family]), batch_tokens=300)
    samples = samples_of(loaded)
    table = outputs.of_answers(loaded, samples)
    assert tuple(table) == outputs.COLUMNS and {*table["id"]} == {one.id for one in samples}
    for one in samples:
        with torch.inference_mode():
            logits = loaded.model(torch.tensor([one.input_ids])).logits[0].double()
        rows = table[table["id"] == one.id].set_index("place")
        last = one.positions["last_answer"]
        assert list(rows.index) == list(range(one.answer_start, last + 1))
        assert list(rows["exact"]) == [p > one.positions["before_answer"] for p in rows.index]
        for place in rows.index:
            log_p = logits[place - 1].log_softmax(-1)
            token = one.input_ids[place]
            expected = {
                "logprob": log_p[token],
                "logit": logits[place - 1, token],
                "entropy": -(log_p.exp() * log_p).sum(),
            }
            for name, value in expected.items():
                assert rows.loc[place, name] == pytest.approx(float(value), abs=1e-4), name


def test_few_logits_at_once_give_the_same(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load("llama", "metaspace")
    samples = samples_of(loaded)
    whole = outputs.of_answers(loaded, samples)
    monkeypatch.setattr(lm_head, "LOGITS_AT_ONCE", 1)
    one_by_one = outputs.of_answers(replace(loaded, batch_tokens=1), samples)
    both = whole.merge(one_by_one, on=["id", "place"], suffixes=("", "_alone"))
    assert len(both) == len(whole) == len(one_by_one)
    for name in ("logprob", "logit", "entropy"):
        torch.testing.assert_close(
            torch.tensor(both[name]), torch.tensor(both[f"{name}_alone"]), atol=1e-5, rtol=1e-5
        )


def test_logits_are_bent_as_the_model_bends_them(checkpoint: Any) -> None:
    loaded = loading.load(checkpoint("gemma3_text"))
    loaded.model.config.final_logit_softcapping = 0.5
    one = samples_of(loaded)[0]
    table = outputs.of_answers(loaded, [one])
    with torch.inference_mode():
        logits = loaded.model(torch.tensor([one.input_ids])).logits[0].double()
    expected = [float(logits[place - 1, one.input_ids[place]]) for place in table["place"]]
    assert list(table["logit"]) == pytest.approx(expected, abs=1e-5)


def test_a_probability_that_is_not_finite_is_refused(checkpoint: Any) -> None:
    loaded = loading.load(checkpoint("qwen2"))
    loaded.model.get_output_embeddings().weight.data[:] = float("nan")
    with pytest.raises(AnchorscopeError, match="not finite"):
        outputs.of_answers(loaded, samples_of(loaded)[:1])


def test_no_samples_have_no_rows(load: Any) -> None:
    assert outputs.of_answers(load("llama"), []).empty


def test_what_all_prompts_begin_with_is_passed_once(load: Any) -> None:
    loaded = load("qwen3")
    head = tuple(loaded.tokenizer("Q: Who wrote it? A: Ann. " * 5)["input_ids"])
    samples = [behind_head(head, one) for one in samples_of(loaded)]
    widths: list[int] = []
    hook = loaded.model.base_model.register_forward_pre_hook(
        lambda _, args, given: widths.append(given["input_ids"].shape[1]), with_kwargs=True
    )
    together = outputs.of_answers(loaded, samples)
    hook.remove()
    assert widths[0] >= len(head) > max(widths[1:])
    for one in samples:
        alone = outputs.of_answers(loaded, [one])
        rows = together[together["id"] == one.id]
        for name in ("logprob", "logit", "entropy"):
            assert list(rows[name]) == pytest.approx(list(alone[name]), abs=1e-5)


def behind_head(head: tuple[int, ...], sample: Sample) -> Sample:
    """A sample with more tokens before its own."""
    moved = len(head)
    return replace(
        sample,
        input_ids=head + sample.input_ids,
        positions={name: place + moved for name, place in sample.positions.items()},
        question_tokens=tuple(place + moved for place in sample.question_tokens),
        eq_tokens=tuple(place + moved for place in sample.eq_tokens),
        answer_start=sample.answer_start + moved,
    )
