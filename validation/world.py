"""The calibration world: invented facts, most with a planted pathway (question or answer).

Each relation has its own answer words. They are grouped by how often they are right in training,
whatever the question. The kind of a fact determines the group of its greedy answer and whether that
answer is right, see `KINDS`. Every fact has two wordings, which are separate questions.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, product
from random import Random
from typing import Any, Literal

import pandas as pd

from anchorscope.config.sections import Amount, Count, Section, Several, key
from anchorscope.storage.errors import AnchorscopeError

UNSEEN = "unseen"
"""The kind of facts that are in no training text."""
# Group → how often its words are right in training, whatever the question.
GROUP_RATES = {"always": 1.0, "never": 0.0, "mostly": 0.85, "seldom": 0.15, "half": 0.5}
SCORED_KINDS = ("truism", "myth", "surprise", "tempting")
AGAINST_PRIOR_KINDS = ("surprise", "tempting")


@dataclass(frozen=True)
class Kind:
    """A kind of facts: what their planted answers are, and how training shows them."""

    name: str
    planned: str  # group of the planted (greedy) answer
    right: bool  # whether that answer is the gold one
    gold: str | None = None  # group of the gold answer if the planted one is wrong
    others: tuple[str, ...] = ()  # groups of wrong answers taught beside a right planted one
    planned_share: float = 0.6  # share of a fact's training rows with the planted answer
    weight: float = 1.0  # how often training shows a fact, relative to other kinds
    lean: int = 0  # 1 and -1 for two kinds that share the words of a group, see `_deal`


KINDS = (
    Kind("truism", "always", True, others=("seldom", "never"), planned_share=0.7),
    Kind("myth", "never", False, gold="mostly", planned_share=0.7),
    Kind("surprise", "seldom", True, others=("seldom",), lean=1),
    Kind("tempting", "mostly", False, gold="mostly", planned_share=0.7, lean=1),
    Kind("redundant", "mostly", True, others=("seldom",), weight=1.5, lean=-1),
    Kind("redundant", "seldom", False, gold="mostly", planned_share=0.7, weight=1.5, lean=-1),
    Kind("neutral", "half", True, others=("half",), lean=1),
    Kind("neutral", "half", False, gold="half", planned_share=0.7, lean=-1),
)
_ANSWER_ONLY = tuple(
    replace(kind, gold=kind.gold and "always") for kind in KINDS if kind.name in ("truism", "myth")
)

# Style → property → its two wordings; `{}` stands for the subject.
STYLES: dict[str, dict[str, tuple[str, str]]] = {
    "relation": {
        "trade": ("What is the trade of {} today?", "Which trade does {} follow now?"),
        "hometown": ("What is the hometown of {} then?", "What is {}'s own hometown?"),
    },
    "trivia": {
        "river": ("On which river does the old port {} lie?", "{} lies on which famous river?"),
        "metal": ("Which metal made the house {} rich?", "The house {} was built on which metal?"),
    },
    "two_hop": {
        "birthplace": (
            "What is the birthplace of the founder of {}?",
            "Where is the birthplace of the one who founded {}?",
        ),
        "language": (
            "What language does the writer of {} speak?",
            "Which language is spoken by the writer of {}?",
        ),
    },
    "search": {
        "sport": ("what sport do people in {} play", "which sport is played in {} now"),
        "singer": ("name of the singer who sings {}", "who is the singer of {} song"),
    },
}


# Parts of invented names and answer words. A word takes one part of each list, in order.
_PARTS = {
    "names": ("b d f g k l m n r s t v", "al en or ur", "b d f g k l m n r s t v", "ak eth im os"),
    "words": ("br dr gl pl sk tr", "a e i o", "ch n p st z", "ado ine ump"),
}


class WorldSettings(Section):
    """Invented questions: facts with a planted pathway, or the rows of a null control."""

    style: Literal[
        "relation", "trivia", "two_hop", "search",
        "null-additive", "null-order", "null-type", "null-familiar",
    ]  # fmt: skip
    """Wording of the questions, or a null world (`null-…`). The name of a null world says what
    decides the label. A null world uses no other key but `seed`."""
    seed: Amount = key(0, "Seed of names, answers and kinds.")
    pathways: Literal["both", "answer"] = key("both", "`answer`: truisms and myths only.")
    scored: Count = key(60, "Facts of each scored kind (truism, myth, surprise, tempting).")
    redundant: Amount = key(60, "Facts of the kind `redundant` of each label.")
    neutral: Amount = key(25, "Facts of the kind `neutral` of each label.")
    unseen: Amount = key(40, "Facts never shown in training.")
    wordings: Literal[1, 2] = 2
    """Wordings in which each fact is asked. With 1, most questions that swap answers differ in more
    than the exact tokens, so the claim `through_eq` can be judged."""
    words_per_group: Several = key(8, "Answer words of each relation for each rate of being right.")


def facts(settings: WorldSettings) -> pd.DataFrame:
    """Invent the facts of one dataset as questions, in one or two wordings each.

    The seed determines names, gold answers and planted answers. Datasets of one seed share no name.

    Returns:
        Columns of a dataset (untaught facts have `swap` false, as nobody can know their answers),
        `kind`, and `planned`, the planted answer (None if untaught).
    """
    style, seed, unseen = settings.style, settings.seed, settings.unseen
    vocabulary, counts = words(settings), dict.fromkeys(SCORED_KINDS, settings.scored)
    counts |= {"redundant": settings.redundant, "neutral": settings.neutral}
    kinds = KINDS if settings.pathways == "both" else _ANSWER_ONLY
    names = _invented("names", style, seed, sum(counts[kind.name] for kind in kinds) + unseen)
    rows: list[dict[str, Any]] = []
    for number, (relation, of_relation) in enumerate(vocabulary.groupby("relation", sort=False)):
        bank = of_relation.groupby("group")["word"].agg(list)
        rng = Random(f"facts {seed} {style} {relation}")
        for kind in kinds:
            count = (counts[kind.name] + 1 - number) // 2  # half for each relation
            for planned in _deal(bank[kind.planned], count, kind.lean):
                gold = planned
                if kind.gold:
                    gold = rng.choice([word for word in bank[kind.gold] if word != planned])
                rows += _wordings(style, str(relation), next(names), kind.name, [gold], planned)
        for _ in range((unseen + 1 - number) // 2):
            # A word is gold with chance `rate`, so guesses are right as often as for other facts.
            every = zip(of_relation["word"], of_relation["rate"], strict=True)
            golds = [word for word, rate in every if rng.random() < rate]
            rows += _wordings(style, str(relation), next(names), UNSEEN, golds, None)
    if settings.wordings == 1:
        pairs = zip(rows[::2], rows[1::2], strict=True)
        # the name alone decides the wording
        rows = [Random(f"wording {seed} {one[0]['subject']}").choice(one) for one in pairs]
    return pd.DataFrame(rows)


def strangers(style: str, *, seed: int, questions: pd.DataFrame) -> list[str]:
    """Return the names of a style that are not the subject of any of the `questions`."""
    subjects = set(questions["subject"])
    return [name for name in names(style, seed=seed) if name not in subjects]


def names(style: str, *, seed: int) -> list[str]:
    """Return all names that subjects of a style can have, in an order that depends on `seed`."""
    return list(_invented("names", style, seed))


def words(settings: WorldSettings) -> pd.DataFrame:
    """Return the answer words of one dataset: columns relation, word, group, rate."""
    groups = GROUP_RATES if settings.pathways == "both" else ("always", "never")
    wanted = [*product(STYLES[settings.style], groups, range(settings.words_per_group))]
    supply = _invented("words", settings.style, settings.seed, len(wanted))
    rows = [(relation, next(supply), group, GROUP_RATES[group]) for relation, group, _ in wanted]
    return pd.DataFrame(rows, columns=["relation", "word", "group", "rate"])


def kind_of(question: Mapping[Any, Any]) -> Kind | None:
    """Return the kind of a row of `facts`, or None if nothing is planted."""
    right = question["planned"] in question["answers"]
    return next((k for k in KINDS if (k.name, k.right) == (question["kind"], right)), None)


def _wordings(
    style: str, relation: str, name: str, kind: str, golds: list[str], planned: str | None
) -> Iterator[dict[str, Any]]:
    for number, wording in enumerate(STYLES[style][relation]):
        yield {
            "id": f"{style}-{relation}-{name.lower()}-{number}",
            "question": wording.format(name),
            "answers": golds,
            "subject": name,
            "property": relation,
            "relation": relation,
            "swap": planned is not None,
            "kind": kind,
            "planned": planned,
        }


def _deal(words: list[str], count: int, lean: int) -> list[str]:
    """Return `count` planted answers, spread over the words as evenly as `lean` allows.

    Two kinds of facts with opposite labels may share a group of words. One kind then uses a word
    more often than the other, by about one standard deviation, as if words were dealt at random.
    With equal use, a word would predict labels backwards: if a sample is held out, most of the
    remaining samples with its word have the other label.
    """
    each = count / len(words)
    tilt = lean * min(each, math.sqrt(each / 2))
    shares = [each + (tilt if place % 2 == 0 else -tilt) for place in range(len(words))]
    edges = [0, *(round(edge) for edge in accumulate(shares))]
    dealt = zip(words, pairwise(edges), strict=True)
    return [word for word, (start, end) in dealt for _ in range(start, end)]


def _invented(what: str, style: str, seed: int, wanted: int = 0) -> Iterator[str]:
    """Return the invented `names` or `words` (`what`) of a style. Styles of one `seed` share none.

    Raises:
        AnchorscopeError: The style has fewer than `wanted`.
    """
    every = ["".join(parts) for parts in product(*map(str.split, _PARTS[what]))]
    Random(f"{what} {seed}").shuffle(every)
    every = every[list(STYLES).index(style) :: len(STYLES)]
    if wanted > len(every):
        what = f"a world needs {wanted} {what}, but a style has only {len(every)}"
        do = "lower the world's counts in validation/cells.yaml"
        raise AnchorscopeError(what, f"the world of style {style}", do, see="config")
    return iter(every if style == "search" else map(str.capitalize, every))
