"""Markup in questions, whatever the tokenizer counts as special; responses it cannot spell."""

from collections import Counter
from copy import deepcopy
from typing import Any

import pytest

from anchorscope.answers import inputs
from anchorscope.answers.endings import Ending
from anchorscope.questions import prompts, questions
from anchorscope.styles import style_of

WRITTEN = ("<｜User｜>", "</think>", "### Question:")
"""Markup that the template writes, or at which it cuts replies."""
TEXT = ("<table>", "\n\n", "user")
"""Added tokens that are text; the last two stand in the template as well."""
TEMPLATE = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ '<｜User｜>' + m['content'] }}\n\n"
    "{% else %}{{ '### Question:' + m['content'].split('</think>')[-1] + eos_token }}"
    "{% endif %}{% endfor %}"
)
WHERE = "Where was Anna Lund born?"
FIELDS = {"question": "question", "answers": ["answers"], "response": "response"}


@pytest.fixture(scope="module")
def marked(byte_level: Any) -> Any:
    """A tokenizer with a chat template whose markup it does not count as special."""
    made = deepcopy(byte_level)
    made.add_tokens([*WRITTEN, *TEXT])
    made.add_tokens(["<|im_end|>"], special_tokens=True)
    made.chat_template = TEMPLATE
    return made


@pytest.fixture(scope="module")
def narrow() -> Any:
    """A tokenizer that knows a few letters and has no bytes to fall back to."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.decoder = decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=80, special_tokens=["<unk>", "</s>"])
    trained.train_from_iterator(["Q: Where was Anna Lund born? A: Rome, Oslo ."] * 4, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=trained, unk_token="<unk>", eos_token="</s>", pad_token="</s>"
    )


def dropped(tokenizer: Any, style: str, question: str, response: str = "Rome") -> str | None:
    row = {"question": question, "answers": ["Rome"], "response": response}
    table, _ = questions.normalise([row], FIELDS, split=None)
    prompted, _ = prompts.build(table, style=style, tokenizer=tokenizer, examples=0)
    ending = Ending(style_of(style), (tokenizer.eos_token_id,), frozenset([tokenizer.eos_token_id]))
    reader = inputs.Reader(tokenizer, ending, {}, Counter(), len(tokenizer))
    merged = {**table.to_dict("records")[0], **prompted.to_dict("records")[0]}
    return reader.prompts([merged])[0].dropped


@pytest.mark.parametrize("style", ["plain", "chat"])
def test_what_the_chat_template_writes_drops_a_question_but_added_text_does_not(
    marked: Any, style: str
) -> None:
    for mark in (*WRITTEN, "<|im_end|>"):
        assert dropped(marked, style, f"Where was {mark} Anna Lund born?") == inputs.CONTROL
    for text in TEXT:
        assert dropped(marked, style, f"Where was {text} Anna Lund born?") is None


@pytest.mark.parametrize(
    ("style", "response", "why"),
    [
        ("chat", "</think>Rome", None),
        ("chat", "Rome <|im_end|>, Oslo", inputs.CONTROL_SAID),
        ("plain", "<|im_end|>Rome", inputs.CONTROL_SAID),
        ("plain", "Rome<|endoftext|>", None),
    ],
)
def test_a_response_may_hold_the_end_of_the_thoughts_and_no_markup_before_its_end(
    marked: Any, style: str, response: str, why: str | None
) -> None:
    assert dropped(marked, style, WHERE, response) == why


def test_a_response_is_dropped_by_name_if_the_tokenizer_cannot_spell_it(
    narrow: Any, byte_level: Any
) -> None:
    for known in ("Rome", "Rome, Oslo .", "  Rome ", "Oslo .</s> Rome"):
        assert dropped(narrow, "plain", WHERE, known) is None
    for unknown in ("Zürich", "Rome 😀", "東京", "Rome-Oslo"):
        assert dropped(narrow, "plain", WHERE, unknown) == inputs.RESPONSE_LOST
    for spelled in ("Zu\u0308rich", "東京 😀", "Rome\u200b", "½ km²", "Ｒome", "Rome\n\nOslo"):
        assert dropped(byte_level, "plain", WHERE, spelled) is None
