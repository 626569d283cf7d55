"""Whatever a model says: no traceback, E_A inside its answer, one label, one row a sample."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from chats import simple_chat
from hostile import cases, huge, pieces, short, text
from hypothesis import given, strategies as st

from anchorscope.anchors import labels
from anchorscope.answers import answers, endings, inputs, trimming
from anchorscope.answers.endings import Ending
from anchorscope.answers.generation import Written
from anchorscope.questions import prompts, questions
from anchorscope.styles import STYLES

NAMES = st.sampled_from(list(STYLES))


def ending_of(tokenizer: Any, style: str) -> Ending:
    tokenizer = simple_chat(tokenizer) if STYLES[style].templated else tokenizer
    return endings.ending_of(Scripted(), tokenizer, STYLES[style])


@cases
@given(text, st.lists(text, max_size=3))
def test_a_label_is_right_or_wrong_and_a_gold_matches_itself(said: str, golds: list[str]) -> None:
    assert labels.matches(said, golds) in (True, False)
    for gold in golds:
        assert labels.matches(gold, [gold]) == labels.says_something(gold)
        assert labels.is_right("", gold, [gold]) == labels.says_something(gold)
    plain = labels.squad_normalise(said)
    assert labels.squad_normalise(plain) == plain


def check_trimmed(tokenizer: Any, said: tuple[int, ...], ending: Ending, prompt: list[int]) -> None:
    found = trimming.trim(prompt, said, tokenizer, ending)
    if found.anchor is None:
        assert found.anchor_text is None and found.response == "" and found.ids == ()
        return
    start, end = found.anchor
    assert 0 <= start < end and found.ids[end:] == ending.closing
    assert found.split or found.ids[:end] == said[:end]
    assert found.anchor_text and found.anchor_text == found.anchor_text.strip()
    decoded = tokenizer.decode([*prompt, *found.ids[:end]])[len(tokenizer.decode([*prompt])) :]
    if "\ufffd" not in decoded:
        assert found.anchor_text in tokenizer.decode([*prompt[-1:], *found.ids[start:end]])
    assert found.anchor_text in found.response
    again = trimming.trim(prompt, found.ids[:end], tokenizer, ending)
    assert again.ids == found.ids


@cases
@given(st.lists(st.integers(0, 339), max_size=24) | short, NAMES, st.booleans())
def test_whatever_a_model_may_write_is_trimmed(
    byte_level: Any, metaspace: Any, written: list[int] | str, style: str, meta: bool
) -> None:
    tokenizer = metaspace if meta else byte_level
    if isinstance(written, str):
        written = tokenizer.encode(written, add_special_tokens=False)[:200]
    said = tuple(token % len(tokenizer) for token in written)
    check_trimmed(tokenizer, said, ending_of(tokenizer, style), tokenizer.encode("Q: Who? A:"))


class Scripted:
    """Stands for a model: only what `answer` asks of one; what it says is given."""

    generation_config = SimpleNamespace(eos_token_id=None)
    config = SimpleNamespace(model_type="llama", max_position_embeddings=4096)

    def get_input_embeddings(self) -> torch.nn.Embedding:
        return torch.nn.Embedding(400, 1)


def scripted(tokenizer: Any) -> Any:
    return SimpleNamespace(model=Scripted(), tokenizer=tokenizer)


ROW = st.fixed_dictionaries(
    {
        "q": st.one_of(*[pieces] * 9, huge),
        "a": st.lists(short, max_size=2),
        "say": st.none() | short,
        "z": st.sampled_from([None, 0, 1]),
        "s": st.none() | short,
    }
)
ASKED = {"question": "q", "answers": ["a"], "response": "say", "label": "z", "subject": "s"}


@cases
@given(
    st.lists(ROW, min_size=1, max_size=4),
    st.lists(st.lists(st.integers(0, 339), max_size=8), min_size=4, max_size=4),
)
def test_every_question_ends_as_one_row_kept_or_counted(
    byte_level: Any, rows: list[dict[str, Any]], written: list[list[int]]
) -> None:
    """Some rows bring a response, some of these a label; the others are left to the model."""
    rows = [row if (row["say"] or "").strip() else row | {"z": None} for row in rows]
    frame, _ = questions.normalise(rows, ASKED, split=None)
    built, _ = prompts.build(frame, style="plain")
    with pytest.MonkeyPatch.context() as patched:
        said = (tuple(token % len(byte_level) for token in ids) for ids in written)
        likely = (Written(ids, (-1.0,) * len(ids)) for ids in said)
        patched.setattr(answers, "generate", lambda open_, *_, **__: [next(likely) for _ in open_])
        found, counts = answers.answer(
            built, frame, scripted(byte_level), answers.Settings("plain", max_prompt_tokens=400)
        )
    assert list(found["id"]) == list(built["id"])
    kept = found[found["dropped"].isna()]
    assert counts.total == len(found) == len(kept) + sum(counts.dropped.values())
    assert counts.notes["n_right"] + counts.notes["n_wrong"] == len(kept)
    control = inputs.control_tokens(byte_level)
    for row in kept.to_dict("records"):
        assert row["label"] in (0, 1)
        ids, shift = row["input_ids"], row["prompt_length"]
        assert shift <= row["ea_start"] < row["ea_end"] <= row["final"] + 1 == len(ids)
        assert row["eq_tokens"] and set(row["eq_tokens"]) <= set(row["question_tokens"])
        assert row["ea_text"] and "\n" not in row["ea_text"]
        assert not control & {ids[place] for place in row["question_tokens"]}
