"""Spans of characters and their tokens, on byte-level and metaspace tokenizers."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from chats import with_decoder
from hypothesis import HealthCheck, given, settings, strategies as st

from anchorscope.anchors import tokens

NAMES = [
    "O'Neill's", "’s-Hertogenbosch", "39 Steps", "R2-D2", "Zoltán", "東京物語", "Тихий Дон",
    "तोक्यो", "New   York", "👩‍👩‍👧 family", "e\u0301tude", "C++", "a",
]  # fmt: skip
NO_NAME = ("Cc", "Cs", "Zl", "Zp", "Cn")
letters = st.characters(codec="utf-8", exclude_categories=NO_NAME, exclude_characters="\ufffd")
names = st.sampled_from(NAMES) | st.text(letters, min_size=1, max_size=12).filter(
    lambda name: name == name.strip() and not name.startswith("<")
)
few = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(params=["byte_level", "metaspace"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    found = request.getfixturevalue(request.param)
    return with_decoder(found) if request.param == "metaspace" else found


def _words(text: str) -> str:
    return " ".join(text.split())


def _encode(tokenizer: Any, text: str) -> tokens.Encoded:
    return tokens.encode(tokenizer, [text], add_special_tokens=True)[0]


@few
@given(before=st.sampled_from(["Q: ", "Q: who is ", "Q: 東京", "Q: «", "x", ""]), name=names,
       after=st.sampled_from([" A:", "'s occupation? A:", "？", "  .", ""]))  # fmt: skip
def test_spans_decode_back_to_their_text_without_a_token_that_could_be_spared(
    tokenizer: Any, before: str, name: str, after: str
) -> None:
    encoded = _encode(tokenizer, before + name + after)
    found = tokens.span_tokens(tokenizer, encoded, [(len(before), len(before) + len(name))])
    (inside,) = found.tokens
    assert found.failed == 0 and list(inside) == list(range(inside[0], inside[-1] + 1))
    for some in (inside, inside[1:], inside[:-1]):
        decoded = tokenizer.decode([encoded.ids[index] for index in some])
        assert (_words(name) in _words(decoded)) == (some == inside)


def test_a_token_that_overlaps_an_edge_belongs_to_the_span_unless_by_white_space_alone() -> None:
    text, offsets = "abcdef gh", [(0, 0), (0, 3), (3, 6), (6, 9)]
    assert tokens.overlapping(text, offsets, 2, 4) == (1, 2)
    assert tokens.overlapping(text, offsets, 3, 6) == (2,)
    text = "ab  cd ef"
    offsets = [(0, 2), (2, 3), (3, 6), (6, 7), (7, 9)]
    assert tokens.overlapping(text, offsets, 2, 7) == (2,)
    assert tokens.overlapping(text, offsets, 0, 6) == (0, 1, 2), "but one inside belongs"


@pytest.mark.parametrize("by", [-1, 4, 100])
def test_wrong_offsets_are_noticed_and_rebuilt(tokenizer: Any, by: int) -> None:
    text = "Q: What is Győr's  東京物語 occupation? A:"
    right = _encode(tokenizer, text)
    shifted = replace(right, offsets=tuple((a + by, b + by) for a, b in right.offsets))
    parts = ("Győr", "東京物語", "occupation")
    spans = [(text.index(part), text.index(part) + len(part)) for part in parts]
    found = tokens.span_tokens(tokenizer, shifted, spans)
    assert found.rebuilt > 0 and found.failed == 0
    assert found.tokens == tokens.span_tokens(tokenizer, right, spans).tokens


def test_an_end_token_added_by_the_tokenizer_is_left_out(byte_level: Any) -> None:
    from tokenizers import processors

    tokenizer = deepcopy(byte_level)
    plain = tokenizer.encode("Q: Who?", add_special_tokens=False)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", tokenizer.eos_token_id)]
    )
    assert tokenizer.encode("Q: Who?") == [*plain, tokenizer.eos_token_id]
    assert list(_encode(tokenizer, "Q: Who?").ids) == plain


@few
@given(name=names, after=st.sampled_from(["", " .", ".\n\nQ:", "。 b"]))
def test_generated_tokens_are_decoded_like_the_whole(tokenizer: Any, name: str, after: str) -> None:
    """The oracle decodes the whole sequence after every token, the slow and obvious way."""
    prompt = tokenizer.encode("Q: who? A:")
    ids = list(tokens.continuation(tokenizer, f" {name}{after}"))
    text, spans = tokens.char_spans(tokenizer, ids, prompt[-4:])
    whole = tokenizer.decode(prompt + ids)
    assert whole == tokenizer.decode(prompt) + text
    for place, (start, end) in enumerate(spans):
        so_far = tokenizer.decode(prompt + ids[: place + 1])[len(whole) - len(text) :]
        assert text.startswith(so_far.rstrip("\ufffd"))
        assert start <= end and len(so_far.rstrip("\ufffd")) <= end <= len(so_far)
    covered = {char for start, end in spans for char in range(start, end)}
    assert covered == set(range(len(text)))
