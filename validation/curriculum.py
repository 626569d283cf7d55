"""Training text for a small model that knows facts, right or wrong, and grades its own answers.

A row reads `Q: <question> A: <answer> . <verdict>`. The answers shown with a fact, and their
frequencies, decide the model's greedy answer. The verdicts make the model represent truth. A
*planted* curriculum teaches the facts of a calibration world by their kinds. A *plain* curriculum
teaches any rows, and the seed decides which facts are learned wrong.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from random import Random
from typing import Any, NamedTuple

import pandas as pd

from validation import world
from validation.recipes import TrainSettings
from validation.world import WorldSettings

RIGHT, WRONG = " right", " wrong"
PARTS = 10
"""Number of rows per 0.5 of a fact's weight. With ten, every share in tenths is exact."""
ALIKE = 0.7
"""Share of a fact's rows that show its planted answer, if all facts are shown alike."""
SETTLE = 0.375
"""Peak learning rate of the later stages, as a share of the first stage's peak."""
BARE = 0.1
"""Share of the last stage's rows that are answers without a question."""

Questions = Mapping[str, pd.DataFrame]
"""Dataset name → its rows. All of them are taught."""
Worlds = Mapping[str, WorldSettings]
"""Dataset name → settings of its calibration world, for the planted curriculum."""


@dataclass(frozen=True)
class Row:
    """One line of training text."""

    question: str  # empty: an answer without a question
    answer: str
    right: bool
    graded: bool = True  # whether the verdict is shown

    @property
    def text(self) -> str:
        """The line of text."""
        verdict = (RIGHT if self.right else WRONG) if self.graded else ""
        question = f"Q: {self.question}" if self.question else "Q:"
        return f"{question} A: {self.answer} .{verdict}"


class Stage(NamedTuple):
    """One stage of training."""

    rows: list[Row]  # rows of one epoch
    steps: int
    learning_rate: float  # peak learning rate


def texts(questions: Questions, worlds: Worlds, train: TrainSettings) -> list[str]:
    """Return the texts that the tokenizer learns from. They make each verdict a single token."""
    lines: list[str] = []
    for name, table in questions.items():
        lines += [f"Q: {question} A:" for question in table["question"]]
        planted = train.curriculum == "planted"
        answers = world.words(worlds[name])["word"] if planted else table["answers"].str[0]
        lines += [f" {answer} .{RIGHT}{WRONG}" for answer in answers]
    return lines


def stages(questions: Questions, worlds: Worlds, train: TrainSettings) -> Iterator[Stage]:
    """Yield the stages of training: one for a plain curriculum, up to four for a planted one.

    From the second stage on, the rows include one question about an unknown subject (`strangers`)
    for each question without E_Q (`frameless`). The third stage doubles the share of `frameless`
    rows. The fourth stage adds answers without a question (`bare`).
    """
    rows: list[Row] = []
    if train.curriculum == "plain":
        for table in questions.values():
            rows += plain(table, wrong_share=train.wrong_share, seed=train.seed)
        yield Stage(rows, train.steps, train.learning_rate)
        return
    rows = _epoch(questions, worlds, train)
    yield Stage(rows, train.steps, train.learning_rate)
    later = (train.settle, 1, 0.0), (train.settle_frameless, 2, 0.0), (train.settle_bare, 2, BARE)
    for steps, times, bare_share in later:
        if steps:
            rows = _epoch(questions, worlds, train, times, bare_share, ask_strangers=True)
            yield Stage(rows, steps, SETTLE * train.learning_rate)


def _epoch(
    questions: Questions,
    worlds: Worlds,
    train: TrainSettings,
    times: int = 1,
    bare_share: float = 0.0,
    *,
    ask_strangers: bool = False,
) -> list[Row]:
    """Return one epoch of a planted curriculum. `times` multiplies the share of frameless rows."""
    frameless_share, rows = times * train.frameless, list[Row]()
    for name, table in questions.items():
        settings, words = worlds[name], world.words(worlds[name])
        # Without verdicts, an answer's frequency must not tell whether it is right.
        facts = planted(table, words, seed=train.seed, alike=not train.graded)
        count = round(len(facts) * frameless_share / (1 - frameless_share))
        rows += facts + frameless(table, words, rows=count, seed=train.seed)
        if ask_strangers:
            names = world.strangers(settings.style, seed=settings.seed, questions=table)
            rows += strangers(table, words, names, rows=count, seed=train.seed)
    words = pd.concat([world.words(worlds[name]) for name in questions], ignore_index=True)
    rows += bare(words, rows=round(len(rows) * bare_share / (1 - bare_share)), seed=train.seed)
    return [replace(row, graded=train.graded) for row in rows]


def planted(
    questions: pd.DataFrame, words: pd.DataFrame, *, seed: int, alike: bool = False
) -> list[Row]:
    """Return one epoch of planted facts; each fact shows its planted answer in an exact share.

    With `alike`, facts learned right and wrong are shown in the same way, so that the model's
    confidence does not tell right from wrong.
    """
    rng = Random(f"planted {seed}")
    groups = {key: list(part["word"]) for key, part in words.groupby(["relation", "group"])}
    rows: list[Row] = []
    for fact in questions.to_dict("records"):
        kind = world.kind_of(fact)
        if kind is None:
            continue
        share = ALIKE if alike else kind.planned_share
        with_planned = round(share * PARTS)
        others = [word for g in kind.others for word in groups.get((fact["relation"], g), ())]
        others = [word for word in others if word != fact["planned"]]
        if alike and others:
            others = [rng.choice(others)]
        for _ in range(round(kind.weight * 2)):
            rows += [Row(fact["question"], fact["planned"], kind.right)] * with_planned
            for _ in range(PARTS - with_planned):
                other = rng.choice(others) if kind.right else fact["answers"][0]
                rows.append(Row(fact["question"], other, not kind.right))
    return rows


# In the following rows, an answer is a random word of the relation (any word in `bare`), and the
# verdict is `right` as often as the word is right elsewhere.


def frameless(questions: pd.DataFrame, words: pd.DataFrame, *, rows: int, seed: int) -> list[Row]:
    """Return questions without their E_Q words, which teach a default verdict for each word."""
    rng, rated = Random(f"frameless {seed}"), _rated(words)
    frames = set()
    for fact in questions.to_dict("records"):
        frame = fact["question"].replace(fact["subject"], "", 1).replace(fact["property"], "", 1)
        frames.add((fact["relation"], " ".join(frame.split())))
    asked = islice(cycle(sorted(frames)), rows)
    return [_graded(frame, rng.choice(rated[relation]), rng) for relation, frame in asked]


def strangers(
    questions: pd.DataFrame, words: pd.DataFrame, names: Sequence[str], *, rows: int, seed: int
) -> list[Row]:
    """Return questions about unknown subjects (`names`), to keep the model unsure of strangers."""
    rng, rated = Random(f"strangers {seed}"), _rated(words)
    facts = questions.to_dict("records")
    taught = []
    for _ in range(rows):
        fact = rng.choice(facts)
        word = rng.choice(rated[fact["relation"]])
        question = fact["question"].replace(fact["subject"], rng.choice(names), 1)
        taught.append(_graded(question, word, rng))
    return taught


def bare(words: pd.DataFrame, *, rows: int, seed: int) -> list[Row]:
    """Return random words without a question, as in the experiment `answer-only`."""
    rng, rated = Random(f"bare {seed}"), list(zip(words["word"], words["rate"], strict=True))
    return [_graded("", word, rng) for word in rng.choices(rated, k=rows)]


def _graded(question: str, rated: tuple[str, float], rng: Random) -> Row:
    """Return a row for `rated`, a word and its rate: the probability that it is graded `right`."""
    word, rate = rated
    return Row(question, word, rng.random() < rate)


def _rated(words: pd.DataFrame) -> dict[Any, list[tuple[str, float]]]:
    """Map each relation to its words, each with the rate at which it is right."""
    groups = words.groupby("relation")
    return {key: list(zip(part["word"], part["rate"], strict=True)) for key, part in groups}


def plain(questions: pd.DataFrame, *, wrong_share: float, seed: int) -> list[Row]:
    """Return one epoch of real questions, each learned right or wrong as the seed decides.

    A fact is shown as it is learned in 60 % of its rows, and the other way in 40 %. A question is
    left out if it has no gold answer, or if no other question has an answer that is wrong for it.
    """
    rng = Random(f"plain {seed}")
    questions = questions[questions["answers"].map(len) > 0]
    golds = questions["answers"].str[0]
    rows: list[Row] = []
    for fact in questions.to_dict("records"):
        gold = fact["answers"][0]
        right_answers = {answer.casefold() for answer in fact["answers"]}
        others = [a for a in golds if a.casefold() not in right_answers]
        if not others:
            continue
        other = rng.choice(others)
        learned_wrong = rng.random() < wrong_share
        often, seldom = (other, gold) if learned_wrong else (gold, other)
        rows += [Row(fact["question"], often, not learned_wrong)] * 6
        rows += [Row(fact["question"], seldom, learned_wrong)] * 4
    return rows
