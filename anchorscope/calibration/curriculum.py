"""Training text for a small model that knows facts, right or wrong, and grades its own answers.

A row reads `Q: <question> A: <answer> . <verdict>`. What a fact is shown with, and how often,
decides the model's greedy answer; the verdict makes it represent truth. Works for any dataset in
the questions' schema: with the planted kinds of the calibration world, or plainly, where the seed
says which facts are learned wrong.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from random import Random
from typing import Any

import pandas as pd

from anchorscope.questions import world

RIGHT, WRONG = " right", " wrong"
PARTS = 10
"""Rows that one showing of a fact is split into, so that shares of a tenth come out exactly."""
ALIKE = 0.7
"""Share of a fact's rows that show its planted answer, where all facts are shown alike."""
SETTLE = 0.375
"""Peak learning rate of the later stages, as a share of the first one's."""

Questions = Mapping[str, pd.DataFrame]
"""Dataset name → questions' table, all of it learned."""
Worlds = Mapping[str, Mapping[str, Any]]
"""Dataset name → settings of its calibration world, for the planted curriculum."""


@dataclass(frozen=True)
class Row:
    """One line of training text."""

    question: str
    answer: str
    right: bool
    graded: bool = True  # whether the verdict is shown

    @property
    def text(self) -> str:
        verdict = (RIGHT if self.right else WRONG) if self.graded else ""
        return f"Q: {self.question} A: {self.answer} .{verdict}"


def texts(questions: Questions, worlds: Worlds, train: Mapping[str, Any]) -> list[str]:
    """What the tokenizer learns from; after every answer come both verdicts, to become tokens."""
    found: list[str] = []
    for name, table in questions.items():
        found += [f"Q: {question} A:" for question in table["question"]]
        planted = train["curriculum"] == "planted"
        answers = _words(worlds[name])["word"] if planted else table["answers"].str[0]
        found += [f" {answer} .{RIGHT}{WRONG}" for answer in answers]
    return found


def stages(
    questions: Questions, worlds: Worlds, train: Mapping[str, Any]
) -> Iterator[tuple[list[Row], int, float]]:
    """Rows, steps and peak learning rate of every stage of the catalogue's `train` entry.

    The later stages of a planted curriculum ask about strangers besides, as often as without a
    frame; the last has twice as many frameless rows.
    """
    rate = train["learning_rate"]
    if train["curriculum"] != "planted":
        taught = {"wrong_share": train["wrong_share"], "seed": train["seed"]}
        found = [row for table in questions.values() for row in plain(table, **taught)]
        yield found, train["steps"], rate
        return
    yield _epoch(questions, worlds, train), train["steps"], rate
    for steps, more in ((train["settle"], 1), (train["settle_frameless"], 2)):
        if steps:
            given = {**train, "frameless": more * train["frameless"]}
            yield _epoch(questions, worlds, given, ask_strangers=True), steps, rate * SETTLE


def _epoch(
    questions: Questions, worlds: Worlds, train: Mapping[str, Any], *, ask_strangers: bool = False
) -> list[Row]:
    seed, rows = train["seed"], []
    for name, table in questions.items():
        own, words = worlds[name], _words(worlds[name])
        # Without verdicts how often an answer is shown must not say whether it is right.
        taught = planted(table, words, seed=seed, alike=not train["graded"])
        frames = round(len(taught) * train["frameless"] / (1 - train["frameless"]))
        rows += taught + frameless(table, words, rows=frames, seed=seed)
        if ask_strangers:
            names = world.strangers(own["style"], seed=own["seed"], questions=table)
            rows += strangers(table, words, names, rows=frames, seed=seed)
    return [replace(row, graded=train["graded"]) for row in rows]


def _words(settings: Mapping[str, Any]) -> pd.DataFrame:
    """A world's answer words, which depend on a part of its settings."""
    names = ("style", "seed", "pathways", "words_per_group")
    return world.words(**{name: settings[name] for name in names})


def planted(
    questions: pd.DataFrame, words: pd.DataFrame, *, seed: int, alike: bool = False
) -> list[Row]:
    """One epoch of `world.facts` and their `world.words`: every fact in its exact shares.

    Rows without a planted answer are never shown. The seed decides which of the possible other
    words is shown beside a right answer. `alike` shows facts learned right as those learned wrong
    are, so that how sure the model is of an answer does not tell either.
    """
    rng = Random(f"planted {seed}")
    groups = {key: list(part["word"]) for key, part in words.groupby(["relation", "group"])}
    rows: list[Row] = []
    for fact in questions.to_dict("records"):
        kind = world.kind_of(fact)
        if kind is None:
            continue
        shown = round((ALIKE if alike else kind.planned_share) * PARTS)
        others = [word for g in kind.others for word in groups.get((fact["relation"], g), ())]
        others = [word for word in others if word != fact["planned"]]
        others = [rng.choice(others)] if alike and others else others
        for _ in range(round(kind.weight * 2)):
            rows += [Row(fact["question"], fact["planned"], kind.right)] * shown
            for _ in range(PARTS - shown):
                other = rng.choice(others) if kind.right else fact["answers"][0]
                rows.append(Row(fact["question"], other, not kind.right))
    return rows


def frameless(questions: pd.DataFrame, words: pd.DataFrame, *, rows: int, seed: int) -> list[Row]:
    """Questions without their E_Q words, with any word of the relation, graded by its own rate.

    They give the model a default, for a question that cannot be read, that follows the word.
    """
    rng, bank, frames = Random(f"frameless {seed}"), _bank(words), set()
    for fact in questions.to_dict("records"):
        frame = fact["question"].replace(fact["subject"], "", 1).replace(fact["property"], "", 1)
        frames.add((fact["relation"], " ".join(frame.split())))
    found = []
    for relation, frame in islice(cycle(sorted(frames)), rows):
        word, rate = rng.choice(bank[relation])
        found.append(Row(frame, word, rng.random() < rate))
    return found


def strangers(
    questions: pd.DataFrame, words: pd.DataFrame, names: Sequence[str], *, rows: int, seed: int
) -> list[Row]:
    """Questions about subjects that no fact names, with any word of the relation, by its own rate.

    Without them the model is sure of itself about subjects it never met.
    """
    rng, bank, asked = Random(f"strangers {seed}"), _bank(words), questions.to_dict("records")
    found = []
    for _ in range(rows):
        fact = rng.choice(asked)
        word, rate = rng.choice(bank[fact["relation"]])
        question = fact["question"].replace(fact["subject"], rng.choice(names), 1)
        found.append(Row(question, word, rng.random() < rate))
    return found


def _bank(words: pd.DataFrame) -> dict[Any, list[list[Any]]]:
    """The words of each relation, with their rates."""
    by_relation = words.groupby("relation")[["word", "rate"]]
    return {relation: part.to_numpy().tolist() for relation, part in by_relation}


def plain(questions: pd.DataFrame, *, wrong_share: float, seed: int) -> list[Row]:
    """One epoch of real questions: each learned right or wrong as the seed says; nothing planted.

    A fact learned wrong is shown with another question's answer of the same type in 60 % of its
    rows (graded wrong) and with its own in 40 % (graded right); a fact learned right the other
    way round. A question without a gold answer, or without another's to be wrong with, is not
    taught.
    """
    rng = Random(f"plain {seed}")
    questions = questions[questions["answers"].map(len) > 0]
    golds = questions["answers"].str[0]
    by_type = golds.groupby(golds.map(answer_type)).agg(list)
    rows: list[Row] = []
    for fact in questions.to_dict("records"):
        gold = fact["answers"][0]
        known = {answer.casefold() for answer in fact["answers"]}
        others = [a for a in by_type[answer_type(gold)] if a.casefold() not in known]
        others = others or [a for a in golds if a.casefold() not in known]
        if not others:
            continue
        other = rng.choice(others)
        learned_wrong = rng.random() < wrong_share
        often, seldom = (other, gold) if learned_wrong else (gold, other)
        rows += [Row(fact["question"], often, not learned_wrong)] * 6
        rows += [Row(fact["question"], seldom, learned_wrong)] * 4
    return rows


def answer_type(answer: str) -> str:
    """`yes/no`, `date`, `number` or `name`: wrong answers are drawn from the same type."""
    text = answer.strip().casefold()
    if text in {"yes", "no"}:
        return "yes/no"
    if re.search(r"\b(1\d|20)\d\d\b", text) or re.search(_MONTHS, text):
        return "date"
    if re.search(r"\d", text) or text in _NUMBER_WORDS:
        return "number"
    return "name"


_MONTHS = (
    r"\b(january|february|march|april|may|june|july|august|september|october|november|december)\b"
)
_NUMBER_WORDS = frozenset(
    "zero one two three four five six seven eight nine ten eleven twelve twenty hundred".split()
)
