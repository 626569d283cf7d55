"""Null worlds: invented questions with given responses, of which no probe can read the pair.

Whether a response is right follows one feature of the question or of the response, or two that do
not interact, and chance. A probe reads that off an untrained network, which knows no fact:
whatever it finds says nothing about this answer to this question.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

import pandas as pd

from anchorscope.questions import world

# Style → the features that the label follows.
FOLLOWS: dict[str, tuple[str, ...]] = {
    "null-surname": ("surname",), "null-property": ("property",), "null-template": ("template",),
    "null-length": ("length",), "null-lead-in": ("lead_in",), "null-closer": ("closer",),
    "null-additive": ("answer", "property"),
}  # fmt: skip
# Feature → its values; the second half of them speaks against the response.
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
    "length": range(8),
    "answer": range(8),
    "lead_in": ("", "It is ", "The answer is ", "The correct answer is "),
    "closer": (".", "\nThat is all.", "!", "?"),
}
# So many of a feature's values are used where the label does not follow it.
USED = {"answer": 4, "property": 2, "template": 2, "length": 1, "lead_in": 1, "closer": 1}
SAMPLES = len(FEATURES["first_name"]) * len(FEATURES["surname"])
LOG_ODDS = math.log(9)  # for or against the response, by each feature that the label follows
_FILLERS = ("now", "then", "today", "really", "again", "perhaps", "still", "indeed", "here")


def samples(style: str, *, seed: int) -> pd.DataFrame:
    """The questions of a null world and the responses to them, by a key of `FOLLOWS`.

    Every first name meets every surname once; the other features are dealt out evenly and
    independently. All share one relation and its answer words. Each word stands behind as many
    right responses as the others, and as many wrong ones, unless the label follows it. The gold
    answer is the response's word, or another where the response is wrong.
    """
    rng = Random(f"{style} {seed}")
    dealt = {name: _deal(name, style, rng) for name in FEATURES}
    pairs = product(FEATURES["first_name"], FEATURES["surname"])
    dealt["first_name"], dealt["surname"] = map(list, zip(*pairs, strict=True))
    places: list[Any] = pd.DataFrame(dealt).to_dict("records")
    first_names, surnames = (world.names(kind, seed=seed) for kind in ("trivia", "relation"))
    words = world.words("relation", seed=seed)["word"][: len(FEATURES["answer"])].tolist()
    wrong = [rng.random() < _rate(place, style) for place in places]
    if "answer" not in FOLLOWS[style]:
        by_label = sorted(range(SAMPLES), key=lambda number: (wrong[number], rng.random()))
        for turn, number in enumerate(by_label):
            places[number]["answer"] = turn % USED["answer"]
    rows = []
    for number, place in enumerate(places):
        subject = f"{first_names[place['first_name']]} {surnames[place['surname']]}"
        rows.append({"id": f"{style}-{number}", **_row(place, subject, words, wrong[number], rng)})
    return pd.DataFrame(rows)


def _deal(name: str, style: str, rng: Random) -> list[int]:
    """Which value of a feature each sample has."""
    many = len(FEATURES[name])
    used = many if name in FOLLOWS[style] else USED.get(name, many)
    places = [number % used for number in range(SAMPLES)]
    rng.shuffle(places)
    return places


def _rate(place: Mapping[str, int], style: str) -> float:
    """How often a response with these features is wrong."""
    against = (place[name] >= len(FEATURES[name]) / 2 for name in FOLLOWS[style])
    return 1 / (1 + math.exp(-sum(LOG_ODDS if one else -LOG_ODDS for one in against)))


def _row(
    place: Mapping[str, int], subject: str, words: Sequence[str], wrong: bool, rng: Random
) -> dict[str, Any]:
    asked = {"subject": subject, "property": FEATURES["property"][place["property"]]}
    filler = "".join(f" {word}" for word in rng.sample(_FILLERS, place["length"]))
    question = FEATURES["template"][place["template"]].format(**asked, filler=filler)
    word = words[place["answer"]]
    gold = rng.choice([other for other in words if other != word]) if wrong else word
    lead_in, closer = (FEATURES[name][place[name]] for name in ("lead_in", "closer"))
    row = {"question": question, **asked, "relation": "person", "kind": None}
    return row | {"answers": [gold], "response": f"{lead_in}{word}{closer}"}
