"""Prompt styles: how a question is put to a model, and how its answer ends. One record per style.

To add a style, add a record here. Everything else (prompts, generation, the closing token, the
config's choices) reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import TemplateError

from anchorscope.storage.errors import AnchorscopeError

Ends = Literal["sentence", "line", "turn"]

INSTRUCTION = "Answer with only the shortest possible answer."
DATE = "26 Jul 2024"  # some templates write today's date, which is another prompt every day

_FIXED_DAY = f"{{%- macro strftime_now(form) -%}}{DATE}{{%- endmacro -%}}"
_THOUGHTS = re.compile(r"<think\w*>\s*$")
# Stands for a question while its place in a template is found: what a template may rewrite is here.
_QUESTION = 'Who  wrote\nthe <«Überfall»> & "7"?'
_BLANK = "\u2003"  # behind it, to see whether white space stays
_REPLY = "Nobody 7"


@dataclass(frozen=True)
class Example:
    """A worked example: one line each."""

    question: str
    answer: str


@dataclass(frozen=True)
class Around:
    """The text of a prompt before and after its question."""

    before: str
    after: str
    strips: bool = False  # whether white space at the question's end goes


@dataclass(frozen=True)
class TextStyle:
    """A prompt of plain text, for a base model."""

    name: str
    about: str
    ends: Ends  # what ends an answer; see `generation.settled`
    question: str  # with `{}` in the question's place
    closing_text: str  # what is put right after E_A
    # before the first question, how one more instruction is set apart
    instruction_end: str
    example: str = ""  # with `{question}` and `{answer}`; none are shown without

    templated = False  # whether a prompt's text holds its special tokens already
    apart = False  # whether examples are of other relations than the question's

    @property
    def shows_examples(self) -> bool:
        """Whether worked examples stand before the question."""
        return bool(self.example)

    def around(self, examples: Sequence[Example], tokenizer: Any = None) -> Around:
        """The prompt around its question, behind worked examples."""
        shown = "".join(self.example.format(**vars(example)) for example in examples)
        before, _, after = self.question.partition("{}")
        return Around(shown + before, after)

    def without_question(self, before: str, after: str) -> str:
        """A prompt with its question left out."""
        return before.rstrip(" ") + after

    def with_instruction(self, before: str, text: str) -> str:
        """What stands before the question, with one more instruction in front of everything."""
        return f"{text}{self.instruction_end}{before}"

    def message(self, text: str, tokenizer: Any = None) -> str:
        """A text put to the model by itself."""
        return text

    def closing(self, tokenizer: Any = None) -> str:
        """What is put right after E_A."""
        return self.closing_text


@dataclass(frozen=True)
class ChatStyle:
    """The tokenizer's chat template, thinking switched off; worked examples are turns of the chat.

    Behind worked examples the assistant's turn is begun with `opening`, as in the examples.
    """

    name: str
    about: str
    system: str | None = None  # a system message
    opening: str = "Answer:"

    ends: Ends = "turn"
    templated = True
    apart = True
    shows_examples = True

    def around(self, examples: Sequence[Example], tokenizer: Any) -> Around:
        """The prompt around its question, behind worked examples as earlier turns.

        Raises AnchorscopeError: no template, or one that refuses or alters such turns.
        """
        turns = [*self._turns(examples), _user(f"{INSTRUCTION}\n{_QUESTION}{_BLANK}")]
        if examples:
            turns.append(_assistant(self.opening))
        try:
            text = _render(tokenizer, turns, begun=bool(examples))
        except (TemplateError, ValueError, TypeError) as error:
            what = f"the chat template refuses {len(turns)} turns: {error}"
            do = "set `generation: {few_shot_examples: 0}`, or use the prompt style `few_shot`"
            if not examples:
                do = "use the prompt style `few_shot`"
            raise AnchorscopeError(what, "prompt: chat", do, see="chat-template") from None
        lead = f"{INSTRUCTION}\n{_QUESTION}"
        if text.count(lead) != 1 or not self._holds(text, examples):
            what = "the chat template leaves out, repeats or rewrites what it is given"
            do = "use the prompt style `few_shot`"
            raise AnchorscopeError(what, "prompt: chat", do, see="chat-template")
        before, _, after = text.partition(_QUESTION)
        if _THOUGHTS.search(after):
            what = "the chat template opens the model's thoughts, which leave no room for an answer"
            do = "use the prompt style `few_shot`, or show worked examples"
            raise AnchorscopeError(what, "prompt: chat", do, see="chat-template")
        return Around(before, after.removeprefix(_BLANK), strips=not after.startswith(_BLANK))

    def _holds(self, text: str, examples: Sequence[Example]) -> bool:
        """Whether a text holds the questions and answers of all examples, in their order."""
        place = 0
        for example in examples:
            for part in (f"{INSTRUCTION}\n{example.question}", f"{self.opening} {example.answer}"):
                if (found := text.find(part, place)) < 0:
                    return False
                place = found + len(part)
        return True

    def without_question(self, before: str, after: str) -> str:
        """A prompt whose last user message is empty: the instruction is left out, too."""
        return before[: before.rindex(INSTRUCTION)] + after

    def with_instruction(self, before: str, text: str) -> str:
        """What stands before the question, with one more instruction behind the last one."""
        place = before.rindex(INSTRUCTION) + len(INSTRUCTION)
        return f"{before[:place]} {text}{before[place:]}"

    def message(self, text: str, tokenizer: Any) -> str:
        """A text put to the model by itself, as a user's message."""
        return _render(tokenizer, [*self._turns(()), _user(text)])

    def closing(self, tokenizer: Any) -> str:
        """What the template writes right after an assistant's turn; empty if nothing."""
        for more in ([_user(_QUESTION)], []):  # some write nothing after the last turn
            turns = [*self._turns(()), _user(_QUESTION), _assistant(_REPLY), *more]
            try:
                text = _render(tokenizer, turns, open_turn=False)
            except (TemplateError, ValueError, TypeError):
                continue
            _, said, after = text.partition(_REPLY)
            mark = after.partition(_QUESTION)[0].strip().split("\n")[0]
            if said and mark:
                return after[: after.index(mark)] + mark
        return ""

    def _turns(self, examples: Sequence[Example]) -> list[Mapping[str, str]]:
        turns: list[Mapping[str, str]] = []
        if self.system is not None:
            turns.append({"role": "system", "content": self.system})
        for example in examples:
            turns.append(_user(f"{INSTRUCTION}\n{example.question}"))
            turns.append(_assistant(f"{self.opening} {example.answer}"))
        return turns


Style = TextStyle | ChatStyle

PLAIN = TextStyle(
    name="plain",
    about="the bare question",
    ends="sentence",
    question="Q: {} A:",
    closing_text=" .",
    instruction_end=" ",
)
FEW_SHOT = TextStyle(
    name="few_shot",
    about="worked examples first, for base models",
    ends="line",
    question="Q: {}\nA:",
    closing_text="\n\n",
    instruction_end="\n\n",
    example="Q: {question}\nA: {answer}\n\n",
)
CHAT = ChatStyle(
    name="chat", about="the tokenizer's chat template, worked examples as earlier turns"
)
STYLES: dict[str, Style] = {style.name: style for style in (PLAIN, FEW_SHOT, CHAT)}


def style_of(name: str) -> Style:
    """The style of a name; raises AnchorscopeError: there is none."""
    if name not in STYLES:
        what, do = f"unknown prompt style `{name}`", f"use one of {', '.join(STYLES)}"
        raise AnchorscopeError(what, "key prompt", do, see="config")
    return STYLES[name]


def natural(tokenizer: Any) -> Style:
    """The style that suits a tokenizer: its chat template where it has one."""
    return CHAT if getattr(tokenizer, "chat_template", None) else FEW_SHOT


def default_style(tokenizer: Any) -> str:
    """Return the name of the style for a tokenizer without a chat template.

    Raises:
        AnchorscopeError: The tokenizer has one, which instruct models and some base models have.
    """
    if getattr(tokenizer, "chat_template", None):
        what = "the tokenizer has a chat template, and no `prompt` is given"
        do = 'pass prompt="chat" for an instruct model, or prompt="few_shot" for a base model'
        raise AnchorscopeError(what, "prompt", do, see="chat-template")
    return FEW_SHOT.name


def gap(prompt: str) -> str:
    """What stands between a prompt and its answer: a space behind a colon."""
    return " " if prompt.endswith(":") else ""


def check_template(tokenizer: Any) -> None:
    """Refuse a tokenizer without a chat template."""
    if tokenizer is None or not getattr(tokenizer, "chat_template", None):
        what = "the model's tokenizer has no chat template"
        do = "use the prompt style `few_shot`, or an instruct model"
        raise AnchorscopeError(what, "prompt: chat", do, see="chat-template")


def _user(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _assistant(content: str) -> dict[str, str]:
    return {"role": "assistant", "content": content}


def _render(
    tokenizer: Any,
    turns: Sequence[Mapping[str, str]],
    *,
    open_turn: bool = True,
    begun: bool = False,
) -> str:
    """The template's text of some turns, up to where the model goes on.

    That is at the head of an assistant's turn (`open_turn`), or, where the last turn is the
    assistant's own, `begun`, right behind its text.
    """
    check_template(tokenizer)
    template = tokenizer.chat_template
    dated = isinstance(template, str) and "strftime_now" in template
    text = tokenizer.apply_chat_template(
        [*turns],
        chat_template=f"{_FIXED_DAY}{template}" if dated else None,
        tokenize=False,
        add_generation_prompt=open_turn and not begun,
        continue_final_message=begun,
        enable_thinking=False,
        date_string=DATE,
    )
    return str(text)
