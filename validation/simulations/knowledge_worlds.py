"""Simulated cells for the claims `signal` and `answer_adds`: what states and texts tell.

A label depends on traits of question and answer. Hidden states at the prompt's end, and after the
answer, hold some of them; so do the texts. Probes and text models are trained as in a cell.
"""

from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from anchorscope.claims.claim import Evidence
from anchorscope.questions.pool import Choice, choose
from anchorscope.statistics import samples, strength
from validation.simulations.power import LEVEL, evidence

LAYERS, WIDTH, FEATURES, DRAWS = 4, 24, 40, 200
ALIKE = 0.7  # share of the variance of noise that is the same at all layers


@dataclass(frozen=True)
class Knowledge:
    """A cell whose label follows traits with these log-odds; names of traits are free."""

    follows: dict[str, float]
    # trait → how clearly the state holds it at the prompt's end, after the answer, and the text
    prompt: dict[str, float] = field(default_factory=dict)
    answer: dict[str, float] = field(default_factory=dict)
    text: dict[str, float] = field(default_factory=dict)
    n: int = 400
    pool: int = 0  # answers of which n are chosen, as many right as wrong; 0: all are measured
    rare: float = 0.0  # log-odds by which right answers are rarer than wrong ones

    def __call__(self, random: np.random.Generator, *pairs: int) -> Evidence:
        """Draw a cell with two samples per subject, and return what the claims are judged by."""
        answers, traits = self._answers(random)
        seed = int(random.integers(2**31))
        texts = self._texts(random, traits)
        prompt, final = (
            evidence(self._states(random, traits, known), texts, answers, seed, DRAWS)
            for known in (self.prompt, self.answer)
        )
        over_text = strength.over_text(final, LEVEL)
        over = replace(final, texts={"prompt": prompt.s[:, 0]})
        over_prompt = strength.margin(over.gains()[..., 0], ["the prompt's end"], over, LEVEL)
        found = [
            replace(one, clusters=answers["subject"].nunique()) for one in (over_text, over_prompt)
        ]
        return Evidence(over_text=found[0], over_prompt=found[1])

    def _answers(self, random: np.random.Generator) -> tuple[pd.DataFrame, dict[str, np.ndarray]]:
        """Draw the measured answers and their traits."""
        n = self.pool or self.n
        traits = {name: random.normal(size=n) for name in self.follows}
        logit = sum(size * traits[name] for name, size in self.follows.items())
        z = (random.random(n) < samples.sigmoid(logit + self.rare)).astype(int)
        ids = [f"{i:05}" for i in range(n)]
        subjects = [f"{i // 2:05}" for i in range(n)]
        answers = pd.DataFrame({"id": ids, "question": ids, "subject": subjects, "label": z})
        kept = choose(answers, Choice(self.n, balance=self.pool > 0))
        rows = np.flatnonzero(kept)
        return answers.iloc[rows].reset_index(drop=True), {
            name: values[rows] for name, values in traits.items()
        }

    def _states(
        self, random: np.random.Generator, traits: dict[str, np.ndarray], known: dict[str, float]
    ) -> np.ndarray:
        """Return noisy images of the known traits, [LAYERS, n, WIDTH], clearer with depth."""
        image = sum(
            np.outer(size * traits[name], random.normal(size=WIDTH) / np.sqrt(WIDTH))
            for name, size in known.items()
        )
        shape = (len(next(iter(traits.values()))), WIDTH)
        shared, own = random.normal(size=shape), random.normal(size=(LAYERS, *shape))
        noise = np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * own
        depth = np.linspace(0.5, 1, LAYERS)[:, None, None]
        return depth * image + 0.3 * noise

    def _texts(self, random: np.random.Generator, traits: dict[str, np.ndarray]) -> np.ndarray:
        """Return features of texts [n, FEATURES], of which the first ones tell traits."""
        n = len(next(iter(traits.values())))
        found = (random.random((n, FEATURES)) < 0.3).astype(float)
        for place, (name, size) in enumerate(self.text.items()):
            found[:, place] = size * traits[name]
        return found


POPULAR = {"popularity": 1.0}
QUESTION_ONLY = {
    "popularity of the subject": Knowledge({"popularity": 1.5}, POPULAR, POPULAR),
    "kind of entity, and the text tells part": Knowledge(
        {"kind": 1.5, "words": 0.5}, {"kind": 1.0}, {"kind": 1.0}, {"words": 1.0}
    ),
    "popularity, which the text tells, too": Knowledge(
        {"popularity": 1.5}, POPULAR, POPULAR, POPULAR
    ),
}
"""Worlds in which the answer adds nothing."""
TEXT_ONLY = {
    "nothing is known": Knowledge({"hidden": 1.5}),
    "the text tells as much": Knowledge(
        {"words": 1.5}, {"words": 1.0}, {"words": 1.0}, {"words": 1.0}
    ),
    "the text tells more": Knowledge(
        {"words": 1.5, "more": 1.0}, {"words": 1.0}, {"words": 1.0}, {"words": 1.0, "more": 1.0}
    ),
}
"""Worlds in which the probe knows no more than the text, and the answer adds nothing."""
FAME = {"fame of the answer, whatever the question": Knowledge({"fame": 1.5}, {}, {"fame": 1.0})}
"""A world in which `answer_adds` holds by its sentence."""
KNOWS = {
    f"knows the answer, n = {n}": Knowledge(
        {"popularity": 0.7, "true": 0.8},
        POPULAR | {"true": 0.2},
        POPULAR | {"true": 0.5},
        {"popularity": 0.3},
        n,
    )
    for n in (100, 200, 400, 800)
}
"""Worlds in which the state knows more once it has read the answer."""


def chosen(worlds: dict[str, Knowledge]) -> dict[str, Knowledge]:
    """Return the worlds with as many right as wrong answers measured, of a pool."""
    return {
        f"{name}, {share} right": replace(world, pool=4 * world.n, rare=rare)
        for name, world in worlds.items()
        for share, rare in (("5 %", 3.7), ("15 %", 2.2), ("50 %", 0.0))
    }
