"""Answers: frozen ids ending at the closing token, whatever the batch; labels; what is dropped."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from asked import ASKED, run, tables
from chats import simple_chat, with_decoder
from hypothesis import example, given, settings, strategies as st
from instrument import greedy
from transformers import GenerationConfig

from anchorscope.anchors import answer_anchors, sentences, tokens
from anchorscope.answers import answers, generation, inputs
from anchorscope.answers.answers import Settings, answer
from anchorscope.answers.endings import Ending, ending_of, first_turn, settled
from anchorscope.answers.generation import Written
from anchorscope.answers.trimming import trim
from anchorscope.models import families
from anchorscope.questions import prompts, questions
from anchorscope.questions.pool import Choice
from anchorscope.storage.counts import NOT_ASKED
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.styles import STYLES


@pytest.fixture(
    params=[("llama", "byte_level"), ("qwen3", "metaspace"), ("gemma3_text", "byte_level")]
)
def loaded(request: pytest.FixtureRequest, load: Any) -> Any:
    loaded = load(*request.param)
    decoded = request.param[1] == "metaspace"
    return replace(loaded, tokenizer=with_decoder(loaded.tokenizer)) if decoded else loaded


@pytest.fixture
def llama(load: Any) -> Any:
    return load("llama")


@pytest.fixture(scope="session")
def merging() -> Any:
    """A tokenizer whose tokens cross the end of the answer: "Paris." and ".\n\n" are one token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("P", "a"), ("Pa", "r"), ("Par", "i"), ("Pari", "s"), ("Paris", "."), ("Ċ", "Ċ"),
              ("X", "."), ("X.", "Ċ"), ("Ġ", "Paris.")]  # fmt: skip
    words = [*alphabet, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE(vocab={w: n for n, w in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("</s>", special=True)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def _end_of(tokenizer: Any, style: str) -> Ending:
    tokenizer = simple_chat(tokenizer) if style == "chat" else tokenizer
    return ending_of(SimpleNamespace(generation_config=None), tokenizer, STYLES[style])


def _trim(tokenizer: Any, said: str, style: str, *, end: bool = False) -> Any:
    """What `trim` makes of a text."""
    ids = [*tokens.continuation(tokenizer, said), *([tokenizer.eos_token_id] if end else [])]
    return trim(tokenizer.encode("Q: Who? A:"), ids, tokenizer, _end_of(tokenizer, style))


@pytest.mark.parametrize(
    ("said", "style", "end", "anchor", "fed"),
    [
        (" Anna Lund. She", "plain", False, "Anna Lund", " Anna Lund"),
        (" Anna Lund, perhaps", "plain", False, "Anna Lund", " Anna Lund"),
        (' "Anna Lund," .', "plain", False, "Anna Lund", ' "Anna Lund'),
        (" Anna Lund (born 1867) and\nQ", "few_shot", False, "Anna Lund", " Anna Lund"),
        (" The answer is J. R. Lund\nQ", "few_shot", False, "J. R. Lund",
         " The answer is J. R. Lund"),
        ("\n\nAnna Lund.", "chat", True, "Anna Lund", "\n\nAnna Lund"),
        (" Anna Lund", "few_shot", True, "Anna Lund", " Anna Lund"),
        (" 小津。東京", "few_shot", False, "小津", " 小津"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["byte_level", "metaspace"])
def test_the_styles_closing_token_follows_the_answer_proper_whatever_was_written_there(
    request: Any, name: str, said: str, style: str, end: bool, anchor: str, fed: str
) -> None:
    tokenizer = request.getfixturevalue(name)
    tokenizer = with_decoder(tokenizer) if name == "metaspace" else tokenizer
    trimmed = _trim(tokenizer, said, style, end=end)
    closing = _end_of(tokenizer, style).closing
    start, stop = trimmed.anchor
    assert trimmed.anchor_text == anchor
    assert trimmed.ids[stop:] == closing
    assert anchor in tokenizer.decode(trimmed.ids[start:stop])
    assert trimmed.response.startswith(fed)
    mark = {"plain": ".", "few_shot": "\n", "chat": tokenizer.eos_token}[style]
    assert trimmed.response.removeprefix(fed).strip(" ") in {mark, mark * 2}
    assert trimmed.ids == _trim(tokenizer, fed, style).ids


@pytest.mark.parametrize(
    ("said", "anchor"), [(" Paris. It", "Paris"), (" Malcolm X.\nQ", "Malcolm X"), (" X", "X")]
)
@pytest.mark.parametrize("style", ["plain", "few_shot", "chat"])
def test_a_last_token_that_holds_more_than_the_answer_is_tokenised_anew(
    merging: Any, said: str, anchor: str, style: str
) -> None:
    trimmed = _trim(merging, said, style)
    closing = _end_of(merging, style).closing
    assert trimmed.anchor_text == anchor
    assert merging.decode(trimmed.ids[slice(*trimmed.anchor)]) == anchor
    assert trimmed.ids[trimmed.anchor[1] :] == closing
    assert trimmed.ids == _trim(merging, f" {anchor}", style).ids


PIECES = [
    "Paris", " the", " U.S.", " J.", " 3.", "5", " St.", " .", ".", "\n", " It", "!", " (", ")",
    " No.", "ab", " ", "A:", " The", " Man", " but",
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=8), st.lists(st.sampled_from(PIECES), max_size=4),
       st.sampled_from(["plain", "few_shot"]))  # fmt: skip
@example(["Paris", " (", " .", " the", ")"], ["Paris"], "plain")
def test_a_settled_answer_is_not_changed_by_what_follows(
    said: list[str], more: list[str], style: str
) -> None:
    text, longer = "".join(said), "".join(said + more)
    ending = Ending(STYLES[style], (), frozenset())
    if settled(text, ending):

        def cut(whole: str) -> Any:
            found = answer_anchors.locate(first_turn(whole, ending))
            return found, sentences.closer(whole, found.end if found else 0)

        assert cut(text) == cut(longer)


@pytest.mark.parametrize("style", ["plain", "few_shot", "chat"])
def test_frozen_ids_are_those_of_a_plain_greedy_loop_whatever_the_checkpoints_defaults(
    loaded: Any, style: str
) -> None:
    model = deepcopy(loaded.model)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.1, top_k=3, repetition_penalty=5.0, eos_token_id=None
    )
    frame, _ = run(replace(loaded, model=model), style, max_new_tokens=12)
    ending = _end_of(loaded.tokenizer, style)
    compared = 0
    for row, prompt in zip(frame.itertuples(), tables(style)[0]["prompt"], strict=True):
        ids = loaded.tokenizer.encode(prompt, add_special_tokens=style != "chat")
        written = greedy(loaded, ids, {loaded.tokenizer.eos_token_id}, 12)
        expected = trim(ids, written, loaded.tokenizer, ending, question=row.question)
        assert row.answer == expected.text
        if row.dropped is None:
            compared += 1
            assert row.input_ids == [*ids, *expected.ids]
            assert row.response == expected.response
    assert compared >= 5


def test_prompts_without_room_are_dropped_and_counted(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = [len(llama.tokenizer.encode(prompt)) for prompt in tables()[0]["prompt"]]
    limit = sorted(lengths)[-3]
    longer = [length > limit for length in lengths]
    frame, counts = run(llama, max_new_tokens=4, max_prompt_tokens=limit)
    assert (frame["dropped"] == inputs.TOO_LONG).tolist() == longer
    close = _end_of(llama.tokenizer, "plain").closing
    for window in (limit + 4 + len(close), limit + 3 + len(close)):
        monkeypatch.setattr(families, "window", lambda _, window=window: window)
        _, counts = run(llama, max_new_tokens=4)
        over = sum(length + 4 + len(close) > window for length in lengths)
        assert counts.dropped[inputs.BEYOND_WINDOW] == over


def test_rows_dropped_before_and_spans_that_do_not_decode_back_are_counted(llama: Any) -> None:
    prompts, questions = tables()
    records = prompts.to_dict("records")
    records[1] |= {"eq_start": [2], "eq_end": [3]}  # white space only
    records[2] |= {"dropped": "no question anchor"}
    frame, counts = run(llama, made=(pd.DataFrame(records), questions), max_new_tokens=4)
    assert counts.dropped == {inputs.SPANS_LOST: 1, "no question anchor": 1}
    assert counts.notes["spans failed"] == 1 and counts.total == len(ASKED)
    assert list(frame["dropped"][1:3]) == [inputs.SPANS_LOST, "no question anchor"]
    assert frame["input_ids"][2] == []


def test_only_rows_that_use_a_token_without_an_embedding_are_dropped_by_name(llama: Any) -> None:
    tokenizer = deepcopy(llama.tokenizer)
    tokenizer.add_tokens(["<image>"])
    answered = [{"response": "Rome", "answers": ["Paris"]} for _ in ASKED]
    answered[1] |= {"response": "Rome <image>"}
    answered[3] |= {"answers": ["the <image>"]}
    prompts, questions = tables(rows=answered)
    prompts.loc[0, "prompt"] += " <image>"
    extended = replace(llama, tokenizer=tokenizer)
    frame, counts = run(extended, made=(prompts, questions))
    assert counts.dropped == {inputs.NO_EMBEDDING: 2}
    assert frame["dropped"].notna().tolist() == [True, True] + [False] * 6
    assert frame["gold_ids"].map(len).eq(0).tolist() == [True, True, False, True] + [False] * 4


@pytest.mark.parametrize("style", ["plain", "few_shot", "chat"])
def test_responses_of_the_user_are_fed_up_to_their_answer_and_closed_alike(
    loaded: Any, style: str
) -> None:
    rows: list[dict[str, Any]] = [
        {"response": "Paris"},
        {"response": "The answer is London. It is large."},
        {"response": " Paris\nmore", "label": 1},
        {"response": "Rome", "label": 0},
        {"response": ""},
        {"response": "..."},
        {"response": "Zoltán  O'Neill", "answers": []},
        {},
    ]
    frame, _ = run(loaded, style, rows, max_new_tokens=6)
    assert list(frame["from_user"]) == [True] * 7 + [False]
    assert list(frame["ea_text"][:4]) == ["Paris", "London", "Paris", "Rome"]
    assert list(frame["label"][:4]) == [0, 1, 1, 0]
    assert list(frame["dropped"][4:7]) == [answers.NO_ANCHOR, answers.NO_ANCHOR, answers.NO_GOLD]
    close = _end_of(loaded.tokenizer, style).closing
    prompts = tables(style)[0]["prompt"]
    for row, prompt in list(zip(frame.itertuples(), prompts, strict=True))[:4]:
        ids = loaded.tokenizer.encode(prompt, add_special_tokens=style != "chat")
        assert row.input_ids[: row.prompt_length] == ids
        assert row.final == len(row.input_ids) - 1
        said = tokens.char_spans(loaded.tokenizer, row.input_ids[len(ids) :], ids)[0]
        assert said == row.response and said.startswith("" if style == "chat" else " ")
        assert tuple(row.input_ids[row.ea_end :]) == close


def test_gold_answers_do_not_move_anything_but_the_label(llama: Any) -> None:
    first, _ = run(llama, max_new_tokens=12)
    golds = [{"answers": [text or "x"]} for text in first["ea_text"]]
    second, _ = run(llama, rows=golds, max_new_tokens=12)
    assert not first["label"].equals(second["label"])
    of_golds = ["label", "outcome", "golds", "gold_ids", "gold_start", "gold_end"]
    pd.testing.assert_frame_equal(first.drop(columns=of_golds), second.drop(columns=of_golds))


def test_a_prompt_without_its_question_is_an_error(llama: Any) -> None:
    prompts, questions = tables()
    with pytest.raises(AnchorscopeError, match="q7"):
        run(llama, made=(prompts, questions[:7]))


def test_a_gold_answer_is_fed_and_trimmed_like_an_own_one_where_the_own_one_is_wrong(
    llama: Any,
) -> None:
    own = [{"response": "Paris"}, {"response": "in the 1830s", "answers": ["in the 1830s"]}]
    golds = ("Paris", "in the 1830s", "in the 1830s (UK)")
    wrong = [{"response": "Rome", "answers": [gold]} for gold in golds]
    unknown = {"response": "Rome", "answers": None, "label": 1}
    frame, _ = run(llama, rows=[*own, *wrong, unknown, *own])
    for right, gold in ((0, 2), (1, 3), (1, 4)):
        expected, found = frame.iloc[right], frame.iloc[gold]
        start = expected["prompt_length"]
        assert list(found["gold_ids"]) == list(expected["input_ids"][start:])
        assert found["gold_start"] == expected["ea_start"] - start
        assert found["gold_end"] == expected["ea_end"] - start
    none = frame.iloc[[0, 1, 5]]
    assert none["gold_ids"].map(len).eq(0).all()
    assert none["gold_start"].isna().all()


def test_a_reply_that_equals_a_gold_is_right_whatever_its_exact_tokens_are(llama: Any) -> None:
    row = {"response": "The answer is Rome (Lazio).", "answers": ["Ely", "Rome (Lazio)"]}
    frame, counts = run(llama, rows=[row for _ in ASKED])
    assert counts.notes["n_right"] == counts.kept == len(ASKED)
    assert set(frame["ea_text"]) == {"Rome"}


def test_the_log_probability_of_an_answer_is_the_mean_over_its_exact_tokens(llama: Any) -> None:
    def play(asked: Any, *_: Any, **__: Any) -> list[Written]:
        ids = tuple(tokens.continuation(llama.tokenizer, " The Red House is Paris\n"))
        return [Written(ids, tuple(-float(n) for n in range(len(ids))))] * len(asked)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(answers, "generate", play)
        frame, _ = run(llama, rows=[{"response": "Paris"}] + [{}] * 7)
    assert np.isnan(frame["ea_logprob"][0]), "the model did not write it"
    for row in frame.iloc[1:3].to_dict("records"):
        first, end = (row[name] - row["prompt_length"] for name in ("ea_start", "ea_end"))
        assert 0 < first < end and row["ea_logprob"] == -np.mean(range(first, end))


SAID = ("I don't know.", "Who wrote The Red House?", "Anna Bell", "Bo Lund")
OUTCOMES = ("no answer", "no answer", "right", "wrong")
NO_ANSWERS = ("no answer: refusal", "no answer: echo of the question", None, None)


@pytest.mark.parametrize(
    ("label", "how", "outcomes", "dropped"),
    [
        (None, "drop", OUTCOMES, NO_ANSWERS),
        (None, "wrong", OUTCOMES, (None,) * 4),
        (0, "drop", ("right",) * 4, (None,) * 4),
    ],
)
def test_no_answers_are_left_out_by_reason_or_wrong_unless_the_user_labels_them(
    llama: Any, label: int | None, how: str, outcomes: Any, dropped: Any
) -> None:
    rows = [{"id": said, "q": SAID[1], "a": "Anna Bell", "say": said, "z": label} for said in SAID]
    fields = {"id": "id", "question": "q", "answers": ["a"], "response": "say", "label": "z"}
    asked, _ = questions.normalise(rows, fields, split=None)
    built, _ = prompts.build(asked, style="plain")
    frame, counts = run(llama, made=(built, asked), no_answer=how)
    found = frame.set_index("answer").loc[[*SAID]]
    assert found["outcome"].tolist() == [*outcomes]
    assert found["dropped"].tolist() == [*dropped]
    assert counts.dropped == Counter(filter(None, dropped))
    kept = found[found["dropped"].isna()]
    assert kept["label"].tolist() == [int(outcome != "right") for outcome in kept["outcome"]]


@pytest.mark.parametrize(
    ("label", "how", "kept"),
    [(None, "drop", None), (None, "wrong", (1, "no answer")), (0, "drop", (0, "right"))],
)
def test_an_answer_that_matches_only_a_gold_in_its_question_has_no_sure_label(
    llama: Any, label: int | None, how: str, kept: tuple[int, str] | None
) -> None:
    rows = [
        {"answers": ["Clara Dane", subject], "response": subject, "label": label}
        for _, subject in ASKED[:2]
    ]
    other = {"answers": ["Clara Dane", "Anna Bell"], "response": "Anna Bell"}
    frame, counts = run(llama, rows=[*rows, *[other] * 6], no_answer=how)
    assert frame["label"][2:].eq(0).all(), "the gold does not stand in the question"
    found = frame[:2]
    if kept is None:
        assert set(found["dropped"]) == {"no answer: gold answer in the question"}
        assert counts.dropped == {"no answer: gold answer in the question": 2}
    else:
        assert found["dropped"].isna().all()
        assert [*zip(found["label"], found["outcome"], strict=True)] == [kept] * 2


def test_an_answer_cut_at_its_longest_length_is_unfinished(llama: Any) -> None:
    found, counts = run(llama, "chat", max_new_tokens=2, no_answer="drop")
    unfinished = found["dropped"].eq("no answer: unfinished")
    assert unfinished.any() and counts.dropped["no answer: unfinished"] == unfinished.sum()
    assert set(found["outcome"][unfinished]) == {"no answer"}


def test_a_text_that_replies_to_different_questions_share_is_named(llama: Any, caplog: Any) -> None:
    def warned(*replies: str) -> str:
        golds = [{"answers": [f"Ann{n}"], "response": reply} for n, reply in enumerate(replies)]
        caplog.clear()
        run(llama, rows=golds)
        return str(caplog.text)

    shared = warned(*[f"Well done. It was Ann{n}." for n in range(len(ASKED))])
    assert f"`well done` in {len(ASKED)} of {len(ASKED)} answers, but" in shared
    assert not warned(*[f"Ann{n}" for n in range(len(ASKED))])


def test_a_run_that_is_repeated_or_made_larger_generates_no_answer_twice(
    llama: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tables()
    generated: list[str] = []
    greedy_of = generation._greedy

    def see(prompts: Any, names: Any, *rest: Any) -> Any:
        generated.extend(names)
        return greedy_of(prompts, names, *rest)

    def ask(size: int, keep: Path = tmp_path) -> Any:
        given = (*made, llama, Settings("plain", no_answer="wrong"))
        return answer(*given, keep=keep, choice=Choice(size, balance=False))

    monkeypatch.setattr(generation, "_greedy", see)
    monkeypatch.setattr(answers, "CHUNK", 3)
    table, counts = ask(3)
    assert sorted(generated) == ["q0", "q1", "q2"]
    assert table["id"].tolist() == [f"q{n}" for n in range(len(ASKED))]
    assert table["dropped"].tolist() == [None] * 3 + [NOT_ASKED] * 5
    assert counts.dropped == {NOT_ASKED: 5} and counts.total == 8
    monkeypatch.setattr(generation, "_greedy", lambda *_: pytest.fail("generated twice"))
    assert ask(3)[0].equals(table), "the same question in the same run"
    monkeypatch.setattr(generation, "_greedy", see)
    generated.clear()
    larger, _ = ask(8)
    assert sorted(generated) == [f"q{n}" for n in range(3, 8)], "a larger sample asks on"
    assert larger.head(3).equals(table.head(3))
    assert ask(8, keep=tmp_path / "again")[0]["answer"].tolist() == larger["answer"].tolist()


def test_a_pool_without_enough_right_answers_is_used_up_and_the_log_says_so(
    llama: Any, caplog: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "CHUNK", 3)
    with caplog.at_level("INFO"):
        given = (*tables(), llama, Settings("plain", no_answer="wrong"))
        _, counts = answer(*given, choice=Choice(4, balance=True))
    assert NOT_ASKED not in counts.dropped and counts.total == len(ASKED)
    used_up = [line for line in caplog.messages if "the pool is used up" in line]
    assert used_up == ["8 of 8 questions asked: 0 right and 8 wrong answers; the pool is used up"]


def test_responses_that_came_with_the_rows_are_all_read(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "CHUNK", 3)
    rows = [{"response": "Paris" if number % 2 else "Rome"} for number in range(len(ASKED))]
    given = (*tables(rows=rows), llama, Settings("plain"))
    _, counts = answer(*given, choice=Choice(2, balance=True))
    assert NOT_ASKED not in counts.dropped
