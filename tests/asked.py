"""Questions as the workflow gives them to a model, and the answers that a model gives."""

from dataclasses import replace
from typing import Any

import pandas as pd
from chats import simple_chat

from anchorscope.answers.answers import Settings, answer

ASKED = [
    ("What is George Rankin's occupation?", "George Rankin"),
    ("Who wrote The  Red House in 1894?", "The  Red House"),
    ("who is the author of 東京物語", "東京物語"),
    ("Кто написал роман Тихий Дон?", "Тихий Дон"),
    ("In what city was Zoltán Szabó born?", "Zoltán Szabó"),
    ("Which film has the director of Second Street, or The 39 Steps?", "The 39 Steps"),
    ("what year did the 2nd bridge over the river open", "2nd bridge"),
    ("Who?", "Who"),
]
HEAD = {"plain": "Q: ", "few_shot": "Q: Who painted it?\nA: Anna Lund\n\nQ: ", "chat": "Q: "}
TAIL = {"plain": " A:", "few_shot": "\nA:", "chat": "\nA:"}


def tables(style: str = "plain", rows: Any = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Make the prompts and questions of ASKED. `rows` replace columns of the questions."""
    prompts, questions = [], []
    for number, (question, subject) in enumerate(ASKED):
        start = len(HEAD[style])
        place = start + question.index(subject)
        own = {"id": f"q{number}", "question": question}
        spans = {"question_start": start, "question_end": start + len(question)}
        spans |= {"eq_start": [place], "eq_end": [place + len(subject)]}
        text = f"{HEAD[style]}{question}{TAIL[style]}"
        prompts.append(own | spans | {"prompt": text, "shown": [], "dropped": None})
        known = {"subject": subject, "relation": "r", "answers": ["Paris"], "kind": None}
        known |= {"response": None, "label": None} | (rows[number] if rows else {})
        questions.append(own | known)
    return pd.DataFrame(prompts), pd.DataFrame(questions)


def run(
    loaded: Any, style: str = "plain", rows: Any = None, made: Any = None, **options: Any
) -> Any:
    """Answer the questions of some tables, by default those of ASKED."""
    if style == "chat":
        loaded = replace(loaded, tokenizer=simple_chat(loaded.tokenizer))
    given = (*(made or tables(style, rows)), loaded)
    # The small random models write on until they are cut, which is no answer.
    return answer(*given, Settings(style, **{"no_answer": "wrong"} | options))
