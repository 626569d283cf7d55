"""Partners: whose question stands before a sample's frozen answer in another pass.

`crossing` pairs samples that exchange their answers. It needs the subject and the relation of a
question, and takes what its wording tells in place of these where a dataset has neither.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anchorscope.anchors import labels
from anchorscope.anchors.words import words_of
from anchorscope.passes.interventions import seeded
from anchorscope.questions import folds, wording
from anchorscope.questions.world import UNSEEN


@dataclass(frozen=True)
class Asked:
    """A sample whose subject and relation are known."""

    id: str
    question: str
    subject: str  # folded, so that two spellings of one subject are equal
    relation: str
    template: str  # the question with the subject taken out
    answer: str  # E_A's text, what the model said
    response: str  # all that is passed behind the question, E_A among it
    label: int  # 1 if that is wrong, 0 if right
    golds: tuple[str, ...]
    taught: bool = True  # False for a fact of a calibration world that no training shows


NO_SUBJECT = "no subject or relation"
NO_GOLDS = "no gold answers"
NEVER_TAUGHT = "fact never taught"
SHARED_WORD = "answer shares a word with its question"
RESTATES = "response restates its question"
NO_PARTNER = "no partner"


@dataclass(frozen=True)
class Crossing:
    """Samples in pairs, each of whose answers is put behind the other's question."""

    partners: Mapping[str, str]  # id → id of the partner, both ways
    left_out: Mapping[str, str]  # id → why a sample has none
    # what subjects and relations are: the dataset's own (`relations`), or read off the questions
    # (`wording`)
    source: str


def crossing(
    answers: pd.DataFrame, seed: int, folds_of: Mapping[str, int] | None = None
) -> Crossing:
    """Pair samples whose answers are exchanged, right ones with right ones, wrong with wrong.

    Two samples can be a pair if they share relation and outer fold and differ in subject and
    answer, if neither answer is right for the other's question, and if the words alone do not tell
    which question an answer belongs to: an answer shares no content word with its own question, and
    a response the same ones with both. As many pairs as a greedy matching finds, which the seed
    orders; the same template goes first, and so do two subjects that are a pair already, since
    subjects that are linked are one cluster of the bootstrap.

    Args:
        answers: the answers table; rows with a `dropped` reason are in no pair.
        folds_of: id → outer fold of the probes. The probe that scores an answer behind another
            question would else have learned from that question.
    """
    samples, source = known(answers)
    left_out = {str(id_): NO_SUBJECT for id_ in answers.loc[answers["dropped"].isna(), "id"]}
    groups: dict[tuple[str, int, int], list[Asked]] = defaultdict(list)
    for one in samples:
        left_out[one.id] = _unfit(one) or NO_PARTNER
        if left_out[one.id] == NO_PARTNER:
            fold = folds_of[one.id] if folds_of else 0
            groups[one.relation, fold, one.label].append(one)
    partners: dict[str, str] = {}
    linked: set[frozenset[str]] = set()
    for key, group in sorted(groups.items()):
        for one, other in _pairs(group, linked, f"{seed}/{'/'.join(map(str, key))}"):
            linked.add(frozenset((one.subject, other.subject)))
            partners |= {one.id: other.id, other.id: one.id}
        for one in group:
            if one.id not in partners and _shared(one.response, one.question):
                left_out[one.id] = RESTATES
    left_out = {id_: why for id_, why in left_out.items() if id_ not in partners}
    return Crossing(partners, left_out, source)


def _unfit(one: Asked) -> str | None:
    """Why a sample can be in no pair, whatever the others are.

    What is right for a fact that a model never met was dealt out, and it cannot know.
    """
    if not one.golds:
        return NO_GOLDS
    if not one.taught:
        return NEVER_TAUGHT
    return SHARED_WORD if _shared(one.answer, one.question) else None


def _shared(text: str, other: str) -> frozenset[str]:
    """The content words that two texts share, in lower case."""
    words, others = (
        {word.lower for word in words_of(one) if word.content} for one in (text, other)
    )
    return frozenset(words & others)


def _pairs(
    group: Sequence[Asked], linked: set[frozenset[str]], key: str
) -> list[tuple[Asked, Asked]]:
    """A matching of some samples; `linked` are the pairs of subjects so far."""
    order = list(group)
    seeded(key).shuffle(order)
    free = exchangeable(order)
    alike = np.array([[one.template == other.template for other in order] for one in order])
    subjects = [one.subject for one in order]
    met = np.array([[frozenset((one, other)) in linked for other in subjects] for one in subjects])
    places: list[tuple[int, int]] = []
    for allowed in (free & alike & met, free & alike, free & met, free):
        left = np.ones(len(order), dtype=bool)
        left[[place for pair in places for place in pair]] = False
        places += _matching(allowed & left & left[:, None], subjects)
    return [(order[one], order[other]) for one, other in places]


def exchangeable(samples: Sequence[Asked]) -> np.ndarray:
    """Which samples of one relation, fold and label can be a pair, bool [n, n]; see `crossing`."""
    golds = {one.id: one.golds for one in samples}
    texts = {one.answer for one in samples}
    right_for = {text: answered(text, golds) for text in texts}
    normal = {text: labels.squad_normalise(text) for text in texts}
    own = [_shared(one.response, one.question) for one in samples]
    words = [frozenset(word.lower for word in words_of(one.response)) for one in samples]
    content = [
        frozenset(word.lower for word in words_of(one.question) if word.content) for one in samples
    ]

    def fits(answer: int, question: int) -> bool:
        one, other = samples[answer], samples[question]
        return (
            one.subject != other.subject
            and normal[one.answer] != normal[other.answer]
            and other.id not in right_for[one.answer]
            and words[answer] & content[question] == own[answer]
        )

    one_way = np.array([[fits(i, j) for j in range(len(samples))] for i in range(len(samples))])
    return one_way & one_way.T


def _matching(allowed: np.ndarray, subjects: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs of places that are `allowed` [n, n], none in two pairs.

    Whoever has the fewest possible partners is next, and takes of these the one with the fewest;
    the first of several. Other samples of the same two subjects follow at once.
    """
    free, pairs = allowed.copy(), []
    by_subject: dict[str, list[int]] = defaultdict(list)
    for place, subject in enumerate(subjects):
        by_subject[subject].append(place)
    partners = free.sum(1)

    def join(one: int, other: int) -> None:
        pairs.append((one, other))
        for place in (one, other):
            partners[free[place]] -= 1
            free[place] = free[:, place] = False
            partners[place] = 0

    while partners.any():
        one = int(np.where(partners > 0, partners, len(free) + 1).argmin())
        other = int(np.where(free[one], partners, len(free) + 1).argmin())
        join(one, other)
        for more in itertools.product(by_subject[subjects[one]], by_subject[subjects[other]]):
            if free[more]:
                join(*more)
    return pairs


def answered(answer: str, golds: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Ids of the questions that an answer is right for; `golds` are theirs by id."""
    right = {
        gold for gold in set(itertools.chain(*golds.values())) if labels.matches(answer, [gold])
    }
    return frozenset(id_ for id_, theirs in golds.items() if not right.isdisjoint(theirs))


def template(question: str, subject: str) -> str:
    """The question with the subject taken out, folded."""
    folded, name = (" ".join(text.casefold().split()) for text in (question, subject))
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "{}", folded)


def known(answers: pd.DataFrame) -> tuple[list[Asked], str]:
    """The samples by the dataset's subjects and relations; where it has none, by their wording."""
    if samples := _asked(answers):
        return samples, "relations"
    proxies = wording.proxies(answers)
    named = answers.assign(**{name: proxies[name].to_numpy() for name in ("subject", "relation")})
    return _asked(named), "wording"


def _asked(answers: pd.DataFrame) -> list[Asked]:
    """The samples that can have a partner, by id: the order of the rows must not matter."""
    named = answers[answers["dropped"].isna() & answers["relation"].notna()]
    samples = [
        Asked(
            id=str(row["id"]),
            question=row["question"],
            subject=subject,
            relation=str(row["relation"]),
            template=template(row["question"], row["subject"]),
            answer=row["ea_text"],
            response=row.get("response") or row["ea_text"],
            label=int(row["label"]),
            golds=tuple(row["golds"]),
            taught=row.get("kind") != UNSEEN,
        )
        for row in named.to_dict("records")
        if (subject := folds.key(row["subject"])) is not None
    ]
    return sorted(samples, key=lambda one: one.id)
