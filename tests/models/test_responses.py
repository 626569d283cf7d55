"""Responses of a user's own that the tokenizer cannot spell."""

from collections import Counter
from typing import Any

import pytest

from anchorscope.models import inputs
from anchorscope.models.generation import Ending
from anchorscope.questions import prompts, questions
from anchorscope.styles import PLAIN

KNOWN = "What is George Rankin's occupation?"


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


def dropped(
    tokenizer: Any, response: str, question: str = "Where was Anna Lund born?"
) -> str | None:
    row = {"question": question, "answers": ["Rome"], "response": response}
    fields = {"question": "question", "answers": ["answers"], "response": "response"}
    table, _ = questions.normalise([row], fields, split=None)
    prompted, _ = prompts.build(table, style="plain", tokenizer=tokenizer)
    ending = Ending(PLAIN, (tokenizer.convert_tokens_to_ids("."),), frozenset([1]))
    reader = inputs.Reader(tokenizer, ending, {}, Counter(), len(tokenizer))
    merged = {**table.to_dict("records")[0], **prompted.to_dict("records")[0]}
    return reader.prompts([merged])[0].dropped


@pytest.mark.parametrize("response", ["Rome", "Rome, Oslo .", "  Rome ", "Oslo .</s> Rome"])
def test_a_response_of_known_letters_is_fed(narrow: Any, response: str) -> None:
    assert dropped(narrow, response) is None


@pytest.mark.parametrize("response", ["Zürich", "Rome 😀", "東京", "Rome-Oslo"])
def test_a_response_with_unknown_characters_is_dropped_by_name(narrow: Any, response: str) -> None:
    assert dropped(narrow, response) == inputs.RESPONSE_LOST


@pytest.mark.parametrize(
    "response",
    ["Zürich", "Zu\u0308rich", "東京 😀", "Rome\u200b", "½ km²", "Ｒome", "Rome\n\nOslo"],
)
def test_a_tokenizer_with_bytes_spells_every_response(byte_level: Any, response: str) -> None:
    assert dropped(byte_level, response, KNOWN) is None
