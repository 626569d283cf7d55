"""Null worlds: invented questions with given responses, where no probe can read the pair.

The label of a response depends on chance and on one feature of the question or the response, or on
two features that do not interact. In `null-type`, it depends on whether question and response are
of the same kind. The probe reads an untrained network, which knows no facts. So the probe cannot
tell whether a response answers its question.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from statistics import NormalDist
from typing import Any

import pandas as pd

from validation import world
from validation.world import WorldSettings

LOG_ODDS = math.log(9)
"""Size of a feature's log-odds. If labels follow this feature alone, one in ten goes against it."""
# Style → the features that the label follows, and the log-odds of each.
FOLLOWS: dict[str, dict[str, float]] = {
    "null-additive": {"answer": LOG_ODDS, "property": LOG_ODDS},
    "null-order": {"order": LOG_ODDS},
    "null-type": {"type": LOG_ODDS},
    "null-familiar": {"familiarity": 4.0, "prior": 3.2},
}
FAMILIAR = "null-familiar"
"""World whose label follows a sum of two numbers: the name's and the answer word's."""
_PLACES = (("mill", "pond"), ("barn", "gate"), ("hill", "ford"), ("tower", "bridge"))
# Feature → values. If labels follow the feature, the second half of its values favours `wrong`.
FEATURES: dict[str, Sequence[Any]] = {
    "first_name": range(48),
    "surname": range(12),
    "property": ("trade", "hometown", "school", "club", "hobby", "garden", "teacher", "horse"),
    "template": (
        "What is the {property} of {subject}{filler}?",
        "Which {property} does {subject} call his own{filler}?",
        "Of {subject}, the {property} is known as what{filler}?",
        "Can you name {subject}'s {property} for me{filler}?",
        "Tell me which {property} {subject} had{filler}?",
        "When they speak of {subject}, which {property} do they mean{filler}?",
        "{subject} has one {property}, so what was it{filler}?",
        "Do we remember a {property} that {subject} would choose{filler}?",
    ),
    "order": (*_PLACES, *((second, first) for first, second in _PLACES)),
    "answer": range(24),
    "closer": (".",),  # one value only, dealt out all the same so that later draws do not change
}
KINDS = (
    "When did {subject} first find the {property}?",
    "When was it that {subject} left his {property}?",
    "In what year did {subject} choose a {property}?",
    "In which year was {subject} shown the {property}?",
    "Who gave {subject} the {property} back then?",
    "Who was it that told {subject} of the {property}?",
    "By whom was {subject} shown the {property} first?",
    "With whom did {subject} share the {property} once?",
)
"""The templates of `null-type`: the first half asks for a year, the second for a name."""
ASKING = {"When": 1.0, "when": 1.0, "year": 1.0, "Who": -1.0, "whom": -1.0}
"""Word of a template → kind that it asks for: 1 for a year, -1 for a name."""
USED: dict[str, dict[str, int]] = {
    "null-additive": {"template": 2},
    "null-order": {"answer": 12, "property": 2, "template": 2},
    "null-type": {"property": 2},
    "null-familiar": {"property": 2, "template": 2},
}
"""Style → feature → number of its values in use, for features whose values are not all used."""
SAMPLES = len(FEATURES["first_name"]) * len(FEATURES["surname"])


def samples(style: str, *, seed: int) -> pd.DataFrame:
    """Return the questions and responses of a null world. `style` is a key of `FOLLOWS`.

    Subjects are all pairs of first name and surname; in `FAMILIAR`, they are as many single names.
    Other features are dealt out evenly and independently. All questions share one relation and its
    answer words, except in `null-type`, where answers are years and names, and the relation is
    blank. In `null-order`, right and wrong responses are each spread evenly over the answer words.
    """
    rng = Random(f"{style} {seed}")
    unused = {"order"} - FOLLOWS[style].keys()
    dealt: dict[str, list[Any]] = {
        name: _deal(name, style, rng) for name in FEATURES if name not in unused
    }
    pairs = product(FEATURES["first_name"], FEATURES["surname"])
    dealt["first_name"], dealt["surname"] = map(list, zip(*pairs, strict=True))
    subjects, words = _subjects(style, seed), _words(style, seed)
    if style == FAMILIAR:
        of_word = numbers(style, seed=seed)
        dealt["familiarity"] = [of_word["familiarity"][subject] for subject in subjects]
        dealt["prior"] = [of_word["prior"][words[place]] for place in dealt["answer"]]
    places: list[Any] = pd.DataFrame(dealt).to_dict("records")
    wrong = [rng.random() < _rate(place, style) for place in places]
    if used := USED[style].get("answer"):
        by_label = sorted(range(SAMPLES), key=lambda number: (wrong[number], rng.random()))
        for turn, number in enumerate(by_label):
            places[number]["answer"] = turn % used
    rows = []
    for number, (place, subject) in enumerate(zip(places, subjects, strict=True)):
        row = _row(style, place, subject, words, wrong[number], rng)
        rows.append({"id": f"{style}-{number}", **row})
    return pd.DataFrame(rows)


def numbers(style: str, *, seed: int) -> dict[str, dict[str, float]]:
    """Return the numbers that an untrained network may know: kind of number → word → number.

    `FAMILIAR` has the `familiarity` of each name and the `prior` of each answer word. These are
    quantiles of a normal distribution, dealt out by the seed, so that a word's letters do not tell
    its number. `null-type` has the kind that a question's word asks for (`asked`) and the kind of
    each answer word (`kind`), 1 or -1. Other styles have none.
    """
    words, features = _words(style, seed), {}
    if style == "null-type":
        return {"asked": ASKING, "kind": {word: 1.0 if word.isdigit() else -1.0 for word in words}}
    if style == FAMILIAR:
        rng = Random(f"numbers {seed}")
        for name, texts in (("familiarity", _subjects(style, seed)), ("prior", words)):
            shares = [(place + 0.5) / len(texts) for place in range(len(texts))]
            rng.shuffle(shares)
            features[name] = dict(zip(texts, map(NormalDist().inv_cdf, shares), strict=True))
    return features


def _subjects(style: str, seed: int) -> list[str]:
    """Return the subject of each sample."""
    trivia, relation = (world.names(kind, seed=seed) for kind in ("trivia", "relation"))
    if style == FAMILIAR:
        return [*trivia, *relation][:SAMPLES]
    pairs = product(FEATURES["first_name"], FEATURES["surname"])
    return [f"{trivia[first]} {relation[last]}" for first, last in pairs]


def _words(style: str, seed: int) -> list[str]:
    """Return the answer words."""
    count, settings = len(FEATURES["answer"]), WorldSettings(style="relation", seed=seed)
    words: list[str] = world.words(settings)["word"][:count].tolist()
    if style != "null-type":
        return words
    years = Random(f"years {seed}").sample(range(1700, 1990), count // 2)
    return [*map(str, years), *words[count // 2 :]]


def _deal(name: str, style: str, rng: Random) -> list[int]:
    """Draw, for each sample, the index of its value among the values of the feature `name`."""
    used = USED[style].get(name, len(FEATURES[name]))
    places = [number % used for number in range(SAMPLES)]
    rng.shuffle(places)
    return places


def _rate(place: Mapping[str, Any], style: str) -> float:
    """Return the probability that a response with these features is wrong."""
    log_odds = 0.0
    for name, size in FOLLOWS[style].items():
        if name in ("familiarity", "prior"):
            log_odds += size * place[name]
        elif name == "type":
            log_odds += size if _second("template", place) != _second("answer", place) else -size
        else:
            log_odds += size if _second(name, place) else -size
    return 1 / (1 + math.exp(-log_odds))


def _second(name: str, place: Mapping[str, Any]) -> bool:
    """Return whether a feature's value is in the second half of its values."""
    return bool(place[name] >= len(FEATURES[name]) / 2)


def _row(
    style: str,
    place: Mapping[str, Any],
    subject: str,
    words: Sequence[str],
    wrong: bool,
    rng: Random,
) -> dict[str, Any]:
    subject_and_property = {"subject": subject, "property": FEATURES["property"][place["property"]]}
    filler = ""
    if "order" in place:  # the two words are further apart than the n-grams of a text model reach
        first, second = FEATURES["order"][place["order"]]
        filler = f" by the {first} and by the {second} and by the lake"
    templates, possible, word = FEATURES["template"], words, words[place["answer"]]
    if style == "null-type":
        half = len(words) // 2
        templates, possible = KINDS, words[half:] if _second("template", place) else words[:half]
    gold = rng.choice([other for other in possible if other != word]) if wrong else word
    closer = FEATURES["closer"][place["closer"]]
    return {
        "question": templates[place["template"]].format(**subject_and_property, filler=filler),
        **subject_and_property,
        "relation": None if style == "null-type" else "person",
        "answers": [gold],
        "response": f"{word}{closer}",
    }
