"""Prompt styles: templates of all families, what closes and ends an answer, refused templates."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chats import CHATS, Chat, with_chat
from transformers import PreTrainedTokenizerFast

from anchorscope import styles
from anchorscope.anchors import tokens
from anchorscope.answers.endings import ending_of, first_turn, settled
from anchorscope.models.vocabulary import thinking
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import read_json
from anchorscope.styles import CHAT, FEW_SHOT, INSTRUCTION, PLAIN, STYLES, Example

EXAMPLES = [Example("Who wrote Emma?", "Jane Austen"), Example("Where is Ely?", "England")]
MODEL = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=0))


@pytest.fixture(params=list(CHATS))
def chat(request: pytest.FixtureRequest) -> Chat:
    return CHATS[request.param]


def test_text_styles_are_exact() -> None:
    plain, shown = PLAIN.around(EXAMPLES[:0]), FEW_SHOT.around(EXAMPLES[:1])
    assert (plain.before, plain.after) == ("Q: ", " A:")
    assert (shown.before, shown.after) == ("Q: Who wrote Emma?\nA: Jane Austen\n\nQ: ", "\nA:")


@pytest.mark.parametrize("examples", [[], EXAMPLES])
def test_a_prompt_is_the_templates_own_text(byte_level: Any, chat: Chat, examples: list) -> None:
    tokenizer = with_chat(byte_level, chat)
    around = CHAT.around(examples, tokenizer)
    question = "What does «Überfall» mean in  1813? "
    turns = [
        {"role": role, "content": content}
        for one in examples
        for role, content in (
            ("user", f"{INSTRUCTION}\n{one.question}"),
            ("assistant", f"Answer: {one.answer}"),
        )
    ]
    turns.append({"role": "user", "content": f"{INSTRUCTION}\n{question}"})
    more = {"tokenize": False, "enable_thinking": False}
    if examples:
        turns.append({"role": "assistant", "content": "Answer:"})
        expected = tokenizer.apply_chat_template(turns, continue_final_message=True, **more)
    else:
        expected = tokenizer.apply_chat_template(turns, add_generation_prompt=True, **more)
    text = question.rstrip() if around.strips else question
    assert around.before + text + around.after == expected
    assert around.strips is chat.strips
    assert not examples or around.after.endswith("Answer:")


def test_what_the_template_writes_after_a_turn_closes_and_ends_an_answer(
    byte_level: Any, chat: Chat
) -> None:
    tokenizer = with_chat(byte_level, chat)
    ending = ending_of(MODEL, tokenizer, CHAT)
    assert 0 in ending.eos and tokenizer.eos_token_id in ending.eos
    if chat.end in tokenizer.get_vocab():
        assert ending.closing == (tokenizer.convert_tokens_to_ids(chat.end),)
        assert set(ending.closing) <= ending.eos and ending.mark == ""
    else:  # text: what begins it is put, and all of it ends a turn
        assert ending.closing == tokens.continuation(tokenizer, chat.end)[:1]
        assert settled(f"Ann Bo{chat.end} Who", ending) and not settled("Ann\nBo", ending)
        assert first_turn(f"Ann Bo{chat.end} Who", ending).strip() == "Ann Bo"


def test_generation_ends_at_any_token_that_config_tokenizer_or_template_names(
    byte_level: Any,
) -> None:
    tokenizer = with_chat(byte_level, CHATS["gemma3"])
    model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=[3, 5]))
    named = {tokenizer.convert_tokens_to_ids(text) for text in ("<eos>", "<end_of_turn>")}
    assert ending_of(model, tokenizer, CHAT).eos == {3, 5, *named}


def test_a_chat_without_any_end_is_refused_in_one_message(byte_level: Any) -> None:
    tokenizer = with_chat(byte_level, CHATS["falcon"])
    tokenizer.eos_token = None
    none = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=None))
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    with pytest.raises(AnchorscopeError, match="ends an answer"):
        ending_of(none, tokenizer, CHAT)


ALL = "{% for m in messages %}"
BAD = {
    "no assistant": ALL
    + "{% if m['role'] != 'user' %}{{ raise_exception('only users') }}{% endif %}"
    "{{ m['content'] }}{% endfor %}",
    "upper case": ALL + "{{ m['content'] | upper }}{% endfor %}",
    "one line": ALL + "{{ m['content'].replace('\n', ' ') }}{% endfor %}",
    "last turn only": "{{ messages[-1]['content'] }}",
}


@pytest.mark.parametrize("name", list(BAD))
def test_a_template_that_refuses_or_alters_turns_is_refused_in_one_message(
    byte_level: Any, name: str
) -> None:
    tokenizer = with_chat(byte_level, Chat(BAD[name], ""))
    with pytest.raises(AnchorscopeError) as caught:
        CHAT.around(EXAMPLES, tokenizer)
    assert "chat template" in str(caught.value) and "few_shot" in str(caught.value)
    if name in ("no assistant", "last turn only"):  # one turn is no trouble
        assert CHAT.around([], tokenizer).before.endswith(f"{INSTRUCTION}\n")


def saved(tokenizer: Any, folder: Path, form: str) -> Any:
    """A tokenizer whose folder holds its template and another one in one of transformers' forms."""
    template = tokenizer.chat_template
    tokenizer.chat_template = {"default": template, "rag": "{{ '<|rag|>' }}"}
    tokenizer.save_pretrained(folder, save_jinja_files=form == "files")
    if form == "list":
        assert isinstance(read_json(folder / "tokenizer_config.json")["chat_template"], list)
    else:
        assert (folder / "additional_chat_templates" / "rag.jinja").is_file()
    loaded = PreTrainedTokenizerFast.from_pretrained(folder)
    assert isinstance(loaded.chat_template, dict)
    return loaded


@pytest.mark.parametrize("form", ["text", "list", "files"])
def test_a_template_writes_the_same_day_every_day_in_its_own_format(
    byte_level: Any, tmp_path: Path, form: str
) -> None:
    dated = "{{ 'Today: ' + strftime_now('%A, %d %B %Y') }}" + CHATS["smollm2"].template
    tokenizer = with_chat(byte_level, Chat(dated, "<|im_end|>", CHATS["smollm2"].special))
    tokenizer = tokenizer if form == "text" else saved(tokenizer, tmp_path, form)
    around = CHAT.around(EXAMPLES, tokenizer)
    assert around.before.startswith("Today: Friday, 26 July 2024<|im_start|>")
    assert CHAT.message("Who?", tokenizer).startswith("Today: Friday, 26 July 2024")
    assert styles.template_of(tokenizer) == dated


def test_the_fixed_day_knows_the_formats_of_strftime_and_alters_no_template(
    byte_level: Any,
) -> None:
    form = "%a %A %b %B %-d %d %m %-m %j %y %Y %F %e, %H:%M:%S %p %%"
    template = " \n {% if true %}{{ strftime_now(form) }}\n{% endif %}{{ messages[0].content }}"
    tokenizer = with_chat(byte_level, Chat(f"{{% set form = '{form}' %}}{template}", ""))
    said = CHAT.message("Who?", tokenizer)
    assert said == f" \n{styles.DAY.strftime(form)}\nWho?"
    tokenizer.chat_template = template.replace("(form)", "('26')")
    assert CHAT.message("Who?", tokenizer) == " \n26\nWho?"


def test_of_named_templates_without_a_default_none_is_used(byte_level: Any) -> None:
    tokenizer = with_chat(byte_level, Chat("", ""))
    tokenizer.chat_template = {"rag": "{{ messages }}"}
    with pytest.raises(AnchorscopeError, match="has no chat template"):
        CHAT.around(EXAMPLES, tokenizer)


@pytest.mark.parametrize("name", ["qwen3", "qwen3.5", "smollm3"])
@pytest.mark.parametrize("examples", [[], EXAMPLES])
def test_thinking_is_switched_off_in_each_template_s_own_way(
    byte_level: Any, name: str, examples: list
) -> None:
    tokenizer = with_chat(byte_level, CHATS[name])
    around = CHAT.around(examples, tokenizer)
    assert around.after.removesuffix("Answer:").endswith(("</think>\n", "</think>\n\n"))
    assert "/think" not in around.before.replace("</think>", "")
    assert ("/no_think" in around.before) is (name == "smollm3")
    assert thinking(tokenizer) == "thinking is switched off"


@pytest.mark.parametrize("mark", ["<think>", "<|START_THINKING|>", "<seed:think>"])
def test_a_template_that_opens_thoughts_is_refused_where_nothing_ends_them(
    byte_level: Any, mark: str
) -> None:
    chat = CHATS["smollm2"]
    opens = chat.template.replace(
        "assistant\n' }}{% endif %}", f"assistant\n{mark}\n' }}}}{{% endif %}}"
    )
    tokenizer = with_chat(byte_level, Chat(opens, chat.end, chat.special))
    assert opens != chat.template and CHAT.around(EXAMPLES, tokenizer).after.endswith("Answer:")
    with pytest.raises(AnchorscopeError, match="thoughts"):
        CHAT.around([], tokenizer)


def test_a_prompt_may_lose_its_question_or_get_one_more_instruction(
    byte_level: Any, chat: Chat
) -> None:
    around = CHAT.around(EXAMPLES, with_chat(byte_level, chat))
    bare = CHAT.without_question(around.before, around.after)
    assert bare.count(INSTRUCTION) == len(EXAMPLES) and bare.endswith(around.after)
    more = CHAT.with_instruction(around.before, "Say so.")
    assert more.endswith(f"{INSTRUCTION} Say so.\n") and more.count("Say so.") == 1


def test_a_style_is_one_record(byte_level: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat with a system message, as a contributor would add it."""
    system = replace(CHAT, name="chat-system", system="You answer briefly.")
    monkeypatch.setitem(STYLES, system.name, system)
    tokenizer = with_chat(byte_level, CHATS["smollm2"])
    around = styles.style_of("chat-system").around(EXAMPLES, tokenizer)
    assert around.before.startswith("<|im_start|>system\nYou answer briefly.<|im_end|>\n")
