"""Prompt styles. Each is a record: the text around a question, and what ends the answer.

To add a style, add a record here. All other code (prompts, generation, the closing token, the
config's choices) reads these records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, Literal

from jinja2 import TemplateError

from anchorscope.storage.errors import AnchorscopeError

Ends = Literal["sentence", "line", "turn"]

INSTRUCTION = "Answer with only the shortest possible answer."
DAY = date(2024, 7, 26)  # replaces today's date, which would change the prompt every day
FORMATS = "aAbBcdDeFGHIjmMpRSTuUVwWxXyY"  # codes of strftime, after "%" or "%-"

_THOUGHTS = re.compile(r"(?i)<(?:\||\w+:)?(?:start_)?think\w*\|?>\s*$")
# Placeholder for a question. It contains characters that a chat template may rewrite.
_QUESTION = 'Who  wrote\nthe <«Überfall»> & "7"?'
_BLANK = "\u2003"  # stands after the placeholder, to test whether white space is kept
_REPLY = "Nobody 7"


@dataclass(frozen=True)
class Example:
    """A worked example. Question and answer have one line each."""

    question: str
    answer: str


@dataclass(frozen=True)
class Around:
    """The text of a prompt before and after its question."""

    before: str
    after: str
    strips: bool = False  # whether white space at the question's end is removed


@dataclass(frozen=True)
class TextStyle:
    """A prompt of plain text, for a base model."""

    name: str
    about: str
    ends: Ends  # what ends an answer, see `endings.settled`
    question: str  # with `{}` in the question's place
    closing_text: str  # text right after E_A
    # separator between a further instruction and the prompt
    instruction_end: str
    example: str = ""  # with `{question}` and `{answer}`; empty for a style without examples

    templated = False  # whether a prompt's text already contains the special tokens

    @property
    def shows_examples(self) -> bool:
        """Return whether worked examples stand before the question."""
        return bool(self.example)

    def around(self, examples: Sequence[Example], tokenizer: Any = None) -> Around:
        """Return the text around a question, with worked examples before it."""
        shown = "".join(self.example.format(**vars(example)) for example in examples)
        before, _, after = self.question.partition("{}")
        return Around(shown + before, after)

    def without_question(self, before: str, after: str) -> str:
        """Return the prompt without its question, given the texts before and after it."""
        return before.rstrip(" ") + after

    def with_instruction(self, before: str, text: str) -> str:
        """Put the further instruction `text` in front of the text `before` the question."""
        return f"{text}{self.instruction_end}{before}"

    def message(self, text: str, tokenizer: Any = None) -> str:
        """Return the prompt that consists of `text` alone."""
        return text

    def closing(self, tokenizer: Any = None) -> str:
        """Return the text right after E_A."""
        return self.closing_text


@dataclass(frozen=True)
class ChatStyle:
    """The tokenizer's chat template with thinking switched off.

    Worked examples are shown as earlier turns, in which the assistant begins with `opening`. The
    turn that the model completes then begins with `opening`, too.
    """

    name: str
    about: str
    system: str | None = None  # a system message
    opening: str = "Answer:"

    ends: Ends = "turn"
    templated = True
    shows_examples = True

    def around(self, examples: Sequence[Example], tokenizer: Any) -> Around:
        """Return the text around a question, with worked examples as earlier turns.

        Raises:
            AnchorscopeError: There is no chat template, or it refuses or alters the turns.
        """
        turns = [*self._turns(examples), _user(f"{INSTRUCTION}\n{_QUESTION}{_BLANK}")]
        if examples:
            turns.append(_assistant(self.opening))
        try:
            text = _render(tokenizer, turns, begun=bool(examples))
        except (TemplateError, ValueError, TypeError) as error:
            raise _unusable(f"refuses {len(turns)} turns: {error}") from None
        if text.count(f"{INSTRUCTION}\n{_QUESTION}") != 1 or not self._holds(text, examples):
            raise _unusable("leaves out, repeats or rewrites the text of a turn")
        before, _, after = text.partition(_QUESTION)
        if _THOUGHTS.search(after):
            raise _unusable("opens the model's thoughts, which leave no room for an answer")
        return Around(before, after.removeprefix(_BLANK), strips=not after.startswith(_BLANK))

    def _holds(self, text: str, examples: Sequence[Example]) -> bool:
        """Return whether a text contains the questions and answers of all examples, in order."""
        place = 0
        for example in examples:
            for part in (f"{INSTRUCTION}\n{example.question}", f"{self.opening} {example.answer}"):
                if (found := text.find(part, place)) < 0:
                    return False
                place = found + len(part)
        return True

    def without_question(self, before: str, after: str) -> str:
        """Return the prompt with an empty last user message: no question and no instruction."""
        return before[: before.rindex(INSTRUCTION)] + after

    def with_instruction(self, before: str, text: str) -> str:
        """Add the further instruction `text` after the instruction that precedes the question."""
        place = before.rindex(INSTRUCTION) + len(INSTRUCTION)
        return f"{before[:place]} {text}{before[place:]}"

    def message(self, text: str, tokenizer: Any) -> str:
        """Return the prompt with `text` as the only message of the user."""
        return _render(tokenizer, [*self._turns(()), _user(text)])

    def closing(self, tokenizer: Any) -> str:
        """Return the text that the template writes right after an assistant's turn, if any."""
        for more in ([_user(_QUESTION)], []):  # some templates write nothing after the last turn
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
    """Return the style called `name`.

    Raises:
        AnchorscopeError: There is no such style.
    """
    if name not in STYLES:
        what, do = f"unknown prompt style `{name}`", f"use one of {', '.join(STYLES)}"
        raise AnchorscopeError(what, "key prompt", do, see="config")
    return STYLES[name]


def default_style(tokenizer: Any) -> str:
    """Return the name of the style for a tokenizer without a chat template.

    Raises:
        AnchorscopeError: The tokenizer has a chat template, as most instruct models have.
    """
    if getattr(tokenizer, "chat_template", None):
        what = "the tokenizer has a chat template, and no `prompt` is given"
        do = 'pass prompt="chat" for an instruct model, or prompt="few_shot" for a base model'
        raise AnchorscopeError(what, "prompt", do, see="chat-template")
    return FEW_SHOT.name


def template_of(tokenizer: Any) -> str:
    """Return the chat template that prompts are rendered with, or "" if there is none.

    Of several named templates, transformers uses `default` unless tools are passed.
    """
    template = getattr(tokenizer, "chat_template", None) or ""
    return str(template.get("default", "") if isinstance(template, Mapping) else template)


def gap(prompt: str) -> str:
    """Return the text between a prompt and its answer: a space after a colon, else nothing."""
    return " " if prompt.endswith(":") else ""


def _unusable(why: str) -> AnchorscopeError:
    do = "use the prompt style `few_shot`, or change the number of `few_shot_examples`"
    return AnchorscopeError(f"the chat template {why}", "prompt: chat", do, see="chat-template")


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
    """Render turns with the chat template, up to the place where the model continues.

    `open_turn` starts a new assistant turn there. With `begun`, the last turn goes on instead.
    """
    template = template_of(tokenizer)
    if not template:
        what, do = "the tokenizer has no chat template", "use the prompt style `few_shot`"
        raise AnchorscopeError(what, "prompt: chat", do, see="chat-template")
    # Two ways in which templates get the day: as a text, and from a function that takes a format.
    text = tokenizer.apply_chat_template(
        [*turns],
        chat_template=f"{_strftime()}{template}" if "strftime_now" in template else template,
        tokenize=False,
        add_generation_prompt=open_turn and not begun,
        continue_final_message=begun,
        enable_thinking=False,
        date_string=DAY.strftime("%d %b %Y"),
    )
    return str(text)


@cache
def _strftime() -> str:
    """Return a Jinja macro that writes `DAY` in the format that a template asks for.

    It replaces the function of the same name, since transformers passes no functions to templates.
    The line break at its end goes, so that the template begins a line.
    """
    texts = {code: DAY.strftime(f"%{code}") for code in FORMATS}
    day = {f"%{code}": text for code, text in texts.items()}
    day |= {f"%-{code}": text.lstrip("0 ") or "0" for code, text in texts.items()} | {"%%": "%"}
    replaced = "".join(f" | replace({code!r}, {text!r})" for code, text in day.items())
    return f"{{% macro strftime_now(form) %}}{{{{ form{replaced} }}}}{{% endmacro %}}\n"
