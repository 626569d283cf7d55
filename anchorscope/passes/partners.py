"""Partners: pairs of samples whose answers are put after each other's questions.

Partners share a relation. Subjects and relations come from the dataset or, if it has none, from the
wording of the questions. The pairs do not depend on any probe.
"""

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from anchorscope.anchors import labels
from anchorscope.anchors.asking import answer_kind, kind_of
from anchorscope.anchors.english import TIMES
from anchorscope.anchors.question_anchors import LONGEST, candidates
from anchorscope.anchors.words import SUBJECT, Span, Word, words_of
from anchorscope.questions import folds

LEAST_PAIRS, LEAST_GOLD = 10, 50
"""Least number of pairs for a claim about the model's answers, and for one about gold answers."""
_ENDING = re.compile(r"(?<=\w{3})(?:ing|ed|es|e|s)$")
_HEADS = ("asked words", "verb", "more words")  # rules that mark the property, the best first


@dataclass(frozen=True)
class Known:
    """A sample whose subject and relation are known."""

    id: str
    question: str
    subject: str  # as `folds.key` returns it, so that two spellings of one subject are equal
    relation: str
    template: str  # the question without the subject
    answer: str  # text of E_A
    response: str  # all text that is passed after the prompt, including E_A
    label: int  # 1 if the answer is wrong, 0 if right
    golds: tuple[str, ...]
    swaps: bool = True  # whether the dataset lets the sample take part in swaps
    popularity: float = np.nan  # as given by the dataset; NaN if unknown
    logprob: float = np.nan  # mean log-probability of E_A's tokens; NaN if not generated
    gold_passes: bool = True  # whether the first gold answer has token ids


NO_SUBJECT = "no subject or relation"
KEPT_OUT = "kept out by the dataset"
SHARED_WORD = "answer shares a word with its question"
RESTATES = "response restates its question"
NO_PARTNER = "no partner"

ANSWERED_RIGHT = "answered right"
NO_GOLD = "no gold answer"
RIGHT_FOR_BOTH = "gold answer right for both questions"
GOLD_SHARES = "gold answer shares a word with a question or an answer"


@dataclass(frozen=True)
class Crossing:
    """Pairs of samples whose answers are put after each other's questions."""

    partners: Mapping[str, str]  # id → id of the partner, in both directions
    left_out: Mapping[str, str]  # id → reason why a sample has no partner
    # source of subjects and relations: `relations` (the dataset) or `wording` (the questions)
    source: str
    # id → reason why the gold answers of a pair are not swapped; no entry if they are swapped
    golds_left_out: Mapping[str, str] = field(default_factory=dict)


def crossing(answers: pd.DataFrame, folds_of: Mapping[str, int] | None = None) -> Crossing:
    """Pair samples to swap their answers. Both answers of a pair are right, or both are wrong.

    Two samples can be a pair if all of these hold:

    - They share relation and outer fold, and differ in subject and answer.
    - Neither answer is right for the other's question.
    - The words alone do not tell which question an answer belongs to: E_A shares no content word
      with its own question, and the response shares the same content words with both questions.

    Pairs are chosen greedily so that partners are as similar as possible, see `distances`.

    Answers with a `dropped` reason are in no pair. `folds_of` maps ids to outer folds. Without it,
    partners may be in different folds. Then the probe that scores an answer after the partner's
    question may have been fitted to that question.
    """
    samples, source = known(answers)
    left_out = dict.fromkeys(answers.loc[answers["dropped"].isna(), "id"], NO_SUBJECT)
    groups: dict[tuple[str, int, int], list[Known]] = defaultdict(list)
    for one in samples:
        if not one.swaps:
            left_out[one.id] = KEPT_OUT
        elif _shared(one.answer, one.question):
            left_out[one.id] = SHARED_WORD
        else:
            left_out[one.id] = NO_PARTNER
            fold = folds_of[one.id] if folds_of else 0
            groups[one.relation, fold, one.label].append(one)
    times = Counter(labels.squad_normalise(one.answer) for one in samples)
    partners: dict[str, str] = {}
    golds_left_out: dict[str, str] = {}
    for _, group in sorted(groups.items()):
        subjects = [one.subject for one in group]
        pairs = _matching(exchangeable(group), distances(group, times), subjects)
        for one, other in ((group[place], group[paired]) for place, paired in pairs):
            partners |= {one.id: other.id, other.id: one.id}
            if why := _no_golds(one, other):
                golds_left_out |= {one.id: why, other.id: why}
        for one in group:
            if one.id not in partners and _shared(one.response, one.question):
                left_out[one.id] = RESTATES
    left_out = {id_: why for id_, why in left_out.items() if id_ not in partners}
    return Crossing(partners, left_out, source, golds_left_out)


def _no_golds(one: Known, other: Known) -> str | None:
    """Return why the first gold answers of a pair cannot be swapped; None if they can.

    A gold answer must be right for only one of the questions. It must share no content word with
    the two questions, nor with the model's two answers.
    """
    if one.label == 0:
        return ANSWERED_RIGHT
    if not all(known.golds and known.gold_passes for known in (one, other)):
        return NO_GOLD
    gold, others = one.golds[0], other.golds[0]
    if (
        labels.squad_normalise(gold) == labels.squad_normalise(others)
        or labels.matches(gold, other.golds)
        or labels.matches(others, one.golds)
    ):
        return RIGHT_FOR_BOTH
    texts = (one.question, other.question, one.answer, other.answer)
    return GOLD_SHARES if any(_shared(f"{gold} {others}", text) for text in texts) else None


def _shared(text: str, other: str) -> frozenset[str]:
    return _content(text) & _content(other)


def _content(text: str) -> frozenset[str]:
    return frozenset(word.lower for word in words_of(text) if word.content)


def distances(samples: Sequence[Known], times: Mapping[str, int]) -> np.ndarray:
    """Return int64 ranks [n, n] of all pairs of samples. Rank 0 is the most similar pair.

    Pairs are ranked by their difference in log popularity. If no popularity is known, the answers'
    mean log-probability per token takes its place. Among equal pairs, those whose answers are of
    the same kind come first. Further ties go to answers with the smaller difference in log
    frequency. `times` maps the normalised text of an answer to its frequency.
    """
    popularity = np.log1p([one.popularity for one in samples])
    logprob = np.array([one.logprob for one in samples])
    values = popularity if np.isfinite(popularity).any() else logprob
    nearness = [np.nan_to_num(np.abs(values[:, None] - values), nan=np.inf)]
    kinds = np.array([kind_of(one.answer) for one in samples])
    often = np.log([times[labels.squad_normalise(one.answer)] for one in samples])
    nearness += [1.0 * (kinds[:, None] != kinds), np.abs(often[:, None] - often)]
    stacked = np.stack([of.ravel() for of in nearness], axis=1)
    _, ranks = np.unique(stacked, axis=0, return_inverse=True)
    return ranks.reshape(len(samples), len(samples))


def exchangeable(samples: Sequence[Known]) -> np.ndarray:
    """Return a bool mask [n, n] of possible pairs. `samples` share relation, fold and label."""
    golds = {one.id: one.golds for one in samples}
    texts = {one.answer for one in samples}
    right_for = {text: answered(text, golds) for text in texts}
    normal = {text: labels.squad_normalise(text) for text in texts}
    own = [_shared(one.response, one.question) for one in samples]
    words = [frozenset(word.lower for word in words_of(one.response)) for one in samples]
    content = [_content(one.question) for one in samples]

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


def _matching(
    allowed: np.ndarray, apart: np.ndarray, subjects: Sequence[str]
) -> list[tuple[int, int]]:
    """Match samples greedily; return pairs of their indices.

    Each step pairs the sample that has the fewest possible partners with the nearest of these.
    Ties go to the lowest index. The step then pairs further samples of the same two subjects. Such
    pairs link no third subject to these two. `allowed` [n, n] says which samples can be
    partners, `apart` [n, n] holds distances.
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
        other = int(np.where(free[one], apart[one], apart.max() + 1).argmin())
        join(one, other)
        for more in itertools.product(by_subject[subjects[one]], by_subject[subjects[other]]):
            if free[more]:
                join(*more)
    return pairs


def answered(answer: str, golds: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Return the ids of the questions that `answer` is right for. `golds`: id → gold answers."""
    right = {
        gold for gold in set(itertools.chain(*golds.values())) if labels.matches(answer, [gold])
    }
    return frozenset(id_ for id_, theirs in golds.items() if not right.isdisjoint(theirs))


def template(question: str, subject: str) -> str:
    """Return the case-folded question with `{}` in place of the subject."""
    folded, name = (" ".join(text.casefold().split()) for text in (question, subject))
    return re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "{}", folded)


def known(answers: pd.DataFrame) -> tuple[list[Known], str]:
    """Return the samples that can have a partner, and the source of subjects and relations.

    The source is `relations` if the dataset has relations, else `wording` (of the questions).
    """
    if samples := _samples_of(answers):
        return samples, "relations"
    return _samples_of(answers.assign(**proxies_of(answers["question"]))), "wording"


def _samples_of(answers: pd.DataFrame) -> list[Known]:
    """Return the samples that can have a partner, sorted by id to be independent of row order."""
    named = answers[answers["dropped"].isna() & answers["relation"].notna()]
    samples = [
        Known(
            id=str(row["id"]),
            question=row["question"],
            subject=subject,
            relation=str(row["relation"]),
            template=template(row["question"], row["subject"]),
            answer=row["ea_text"],
            response=row.get("response") or row["ea_text"],
            label=int(row["label"]),
            golds=tuple(row["golds"]),
            swaps=row.get("swap") is not False,
            popularity=_number(row.get("popularity")),
            logprob=_number(row.get("ea_logprob")),
            gold_passes=len(row.get("gold_ids", ())) > 0,
        )
        for row in named.to_dict("records")
        if (subject := folds.key(row["subject"])) is not None
    ]
    return sorted(samples, key=lambda one: one.id)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else np.nan


def proxies_of(questions: Iterable[str]) -> dict[str, np.ndarray]:
    """Derive a `subject` and a `relation` for each question, in lower case; NaN if missing.

    A relation is the kind of the answer and the stem of the word that asks for the property: "who:
    wrot", "when: releas", "what: city", "how many: episod", "yes/no: nationality". The subject is
    the text of all names in the question, or of its phrases if it has no names.
    """
    pairs = np.array([_proxy(question) for question in questions], dtype=object).reshape(-1, 2)
    return {"subject": pairs[:, 0], "relation": pairs[:, 1]}


def _proxy(question: str) -> tuple[str | float, str | float]:
    """Return the subject and relation of one question, or NaN."""
    words = words_of(question)
    if not 0 < len(words) <= LONGEST:
        return float("nan"), float("nan")
    spans = sorted(candidates(question, words))
    subject = " ".join(question[s.start : s.end].lower() for s in spans if s.role == SUBJECT)
    kind = answer_kind(words)
    head = _head(words, [s for s in spans if s.role != SUBJECT], kind)
    return subject or float("nan"), f"{kind}: {head}" if kind and head else float("nan")


def _head(words: Sequence[Word], spans: Sequence[Span], kind: str | None) -> str:
    """Return the stem of the property's last word, plus "of" or "for" if the question ends with it.

    "What is Rome the capital of?" → "capital of"; "What is the capital of Italy?" → "capital".
    """
    for rule in _HEADS:
        for span in (s for s in spans if s.found_by == rule):
            last = next(w.lower for w in reversed(words) if span.start <= w.start < span.end)
            if not (kind == "when" and last in TIMES):
                preposition = words[-1].lower if words[-1].lower in ("of", "for") else ""
                return f"{_ENDING.sub('', last)} {preposition}".strip()
    return ""
