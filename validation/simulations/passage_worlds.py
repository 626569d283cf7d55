"""Simulated scores of swapped pairs, clean and with the exact question tokens (E_Q) blocked.

A world is as in `pair_worlds`, and also returns the scores `<side>_knockout` with E_Q blocked,
`<side>_rest` with all other question tokens blocked, and the ids `frames_<side>` [2, n]. A frame is
the wording of a question without E_Q.

A share of the pair term passes through E_Q. Blocking E_Q scales the rest of this term, and the
answer terms, by `kept`; blocking the other tokens does a share `rest` of this damage. By design,
some pair terms with E_Q blocked are 0, and those of two mirrored pairs cancel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from anchorscope.claims.damage import LEAST_PART
from validation.simulations import pair_worlds
from validation.simulations.pair_worlds import (
    ANSWER,
    FOLDS,
    HOME,
    LARGE,
    MEANS,
    SIDES,
    Rng,
    Scale,
    Values,
    alike,
    four,
)

FRAMES = 40  # templates of the questions


@dataclass(frozen=True)
class Passage:
    """Parameters of a world: how scores arise, and what blocking E_Q does to them."""

    passes: float = 0.0  # share of the pair term that passes through E_Q
    varies: bool = False  # whether `passes` varies between answers, from 0 to its double
    pair: tuple[float, float] = (1.0, 1.0)  # mean pair term of right and of wrong answers
    kept: tuple[float, ...] = (0.7,)  # what blocking leaves of a score, for each fold or for all
    of_pair: float = 1.0  # factor on `kept` for the pair term
    of_answer: float = 0.0  # share of the answer effects that blocking does not damage
    answers_louder: float = 1.0  # factor on the answer effects, if E_Q is blocked
    rest: float = 0.0  # share of this damage that blocking the other tokens does
    answer: float = 1.0  # factor on the standard deviation of the answer effects
    scale: Scale = LARGE
    noise: float = 1.0  # factor on the standard deviation of each score's own noise
    lasting: float = 0.5  # share of the noise variance that is the same with E_Q blocked
    ceiling: float = np.inf  # bound of the absolute scores, which tanh squeezes
    after: bool = False  # whether damage comes after the squeeze
    unequal: float = 0.0  # largest deviation of a pair from `kept`
    # How steeply answer effects rise, and pair terms fall, with the share that a pair keeps.
    tied: tuple[float, float] = (0.0, 0.0)
    same_frame: float = 0.0  # share of pairs whose questions differ in E_Q alone
    mirrored: float = 0.0  # share of pairs that come in two wordings
    texts: int = pair_worlds.TEXTS  # number of distinct answers

    def __call__(self, random: Rng, *n: int) -> Values:
        """Simulate right and wrong pairs."""
        found: Values = {}
        for side, pair, size in zip(SIDES, self.pair, n, strict=True):
            found |= self.side(random, side, pair, size)
        return found

    def side(self, random: Rng, side: str, pair: float, n: int) -> Values:
        """Simulate the pairs of one side."""
        # Indices of the pairs whose questions share a frame, and of every second mirrored pair.
        same = np.arange(round(self.same_frame * n))
        second = len(same) + 1 + 2 * np.arange(round(self.mirrored * n / 2))
        fold = random.choice(FOLDS, size=n)
        fold[second] = fold[second - 1]
        more = random.uniform(-1, 1, size=n)  # deviation from `kept`, in units of `unequal`
        texts, effect = pair_worlds.answers(random, n, self.texts)
        texts[:, second], effect[:, second] = texts[:, second - 1], effect[:, second - 1]
        scale = self.scale
        answer = MEANS[side] + scale.answer * self.answer * effect * (1 + self.tied[0] * more)
        size = scale.pair * pair * random.gamma(2, 0.5, size=n) * (1 - self.tied[1] * more)
        inside = four(scale.question * alike(random, n), answer) + 2 * size * HOME
        noise = scale.noise * self.noise * random.normal(size=(3, 4, n))
        noise[1:] = np.sqrt(self.lasting) * noise[0] + np.sqrt(1 - self.lasting) * noise[1:]
        kept = np.resize(self.kept, FOLDS)[fold] + self.unequal * more
        passes = np.full(n, self.passes)
        if self.varies:
            passes = random.uniform(0, 2 * self.passes, size=self.texts)[texts].mean(0)
        left = self.damaged(random, answer, (1 - passes) * size, kept) + kept * noise[1]
        less = replace(
            self,
            of_pair=1 - self.rest * (1 - self.of_pair),
            answers_louder=1 - self.rest * (1 - self.answers_louder),
        )
        kept = 1 - self.rest * (1 - kept)
        others = less.damaged(random, answer, size, kept) + kept * noise[2]
        # By design, blocked scores of these pairs depend on frame and answer alone.
        left[1::2, same] = left[::2, same]
        left[:, second] = left[[1, 0, 3, 2]][:, second - 1]
        subjects, frames = self.asked(random, same, second, n)
        return {
            side: self.squeezed(inside) + noise[0],
            f"{side}_knockout": left,
            f"{side}_rest": others,
            f"subjects_{side}": subjects,
            f"frames_{side}": frames,
            f"answers_{side}": texts,
            f"fold_{side}": fold,
        }

    def damaged(
        self, random: Rng, answer: np.ndarray, size: np.ndarray, kept: np.ndarray
    ) -> np.ndarray:
        """Build blocked scores from `answer` [2, n], pair terms `size` and new question effects."""
        question = self.scale.question * alike(random, len(size))
        inside = four(question, self.answers_louder * answer) + 2 * self.of_pair * size * HOME
        if self.after:
            return kept * self.squeezed(inside)
        return self.squeezed(kept * inside + (1 - kept) * self.of_answer * answer[ANSWER])

    def squeezed(self, scores: np.ndarray) -> np.ndarray:
        """Squeeze scores below the ceiling."""
        return scores if np.isinf(self.ceiling) else self.ceiling * np.tanh(scores / self.ceiling)

    def asked(
        self, random: Rng, same: np.ndarray, second: np.ndarray, n: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draw the subjects and the frames of both questions of each pair, [2, n] each."""
        subjects = random.permutation(2 * n).reshape(2, n)
        again = random.random(n) < 0.1  # some subjects are in two pairs
        subjects[0, again] = random.integers(0, 2 * n, size=again.sum())
        first, further = random.integers(0, FRAMES, n), random.integers(1, FRAMES, n)
        frames = np.stack([first, (first + further) % FRAMES])
        frames[1, same] = frames[0, same]
        subjects[:, second], frames[:, second] = subjects[:, second - 1], frames[::-1, second - 1]
        return subjects, frames


SMALL = (0.45, 0.1)  # small pair terms of right and wrong answers
EVEN = Passage(kept=(0.5,))
NOTHING: dict[str, Passage] = {
    "nothing is damaged": Passage(kept=(1.0,)),
    **{f"shrinks by {lost}": Passage(kept=(1 - lost,)) for lost in (0.1, 0.3, 0.5, 0.85)},
    "shrinks by 0.3, small pair terms": Passage(pair=SMALL),
    "shrinks by 0.5, small pair terms": replace(EVEN, pair=SMALL),
    "ceiling of 1.0, damage before it": replace(EVEN, ceiling=1.0),
    "ceiling of 2.0, damage before it": replace(EVEN, ceiling=2.0),
    "ceiling of 4.0, damage before it": replace(EVEN, ceiling=4.0),
    "ceiling of 1.0, damage behind it": replace(EVEN, ceiling=1.0, after=True),
    "ceiling of 2.0, damage behind it": replace(EVEN, ceiling=2.0, after=True),
    "noisy scores": replace(EVEN, noise=2.5),
    "small answer terms": replace(EVEN, answer=0.3),
    "no answer terms": replace(EVEN, answer=0.0, lasting=0.0),
    "fourteen answers": replace(EVEN, texts=14),
    "folds damaged unlike": Passage(kept=(0.9, 0.4, 0.8, 0.5, 0.6)),
    "pairs damaged unlike": Passage(kept=(0.6,), unequal=0.3),
    "pairs damaged unlike, larger pair terms more": Passage(
        kept=(0.6,), unequal=0.3, tied=(0.0, 0.9)
    ),
    "pairs damaged unlike, larger answer terms less": Passage(
        kept=(0.6,), unequal=0.3, tied=(0.9, 0.0)
    ),
    **{f"{share} of one frame": Passage(same_frame=share) for share in (0.1, 0.2, 0.5)},
    **{f"{share} mirrored": Passage(mirrored=share) for share in (0.1, 0.2, 0.5)},
}
"""Worlds in which nothing passes through E_Q."""
FIFTH = Passage(passes=LEAST_PART, lasting=1.0)
EDGE: dict[str, Passage] = {
    "a fifth passes": FIFTH,
    "a fifth passes, half of the noise lasts": replace(FIFTH, lasting=0.5),
    "a fifth passes, small pair terms": replace(FIFTH, pair=SMALL),
    "a fifth passes, 0.3 is kept": replace(FIFTH, kept=(0.3,)),
    "a fifth passes, noisy scores": replace(FIFTH, noise=2.5),
    "a fifth passes, small answer terms": replace(FIFTH, answer=0.3),
    "a fifth passes, ceiling of 4.0, damage behind it": replace(FIFTH, ceiling=4.0, after=True),
    "a fifth passes, pairs damaged unlike": replace(FIFTH, kept=(0.6,), unequal=0.3),
    "a fifth passes, folds damaged unlike": replace(FIFTH, kept=(0.9, 0.4, 0.8, 0.5, 0.6)),
    "a fifth passes, of each answer another share": replace(FIFTH, varies=True),
    "a fifth passes, of each of fourteen another share": replace(FIFTH, varies=True, texts=14),
    "a fifth passes, 0.2 of one frame, 0.2 mirrored": replace(FIFTH, same_frame=0.2, mirrored=0.2),
}
"""Worlds in which exactly a fifth of the pair term passes through E_Q. The claim requires more."""
UNEVEN: dict[str, Passage] = {
    "answer term louder by .3, pair term kept at .75": Passage(
        kept=(1.0,), of_pair=0.75, answers_louder=1.3
    ),
    "0.6 of the answer effects are not damaged": replace(EVEN, of_answer=0.6),
    "answer term kept at .9, pair term at .6": Passage(kept=(0.9,), of_pair=2 / 3),
    "answer term kept at .9, pair term at .3": Passage(kept=(0.9,), of_pair=1 / 3),
    "pairs damaged unlike, larger pair and smaller answer terms more": Passage(
        kept=(0.6,), unequal=0.3, tied=(0.9, 0.9)
    ),
}
"""Worlds in which blocking E_Q damages the pair term more than the answer term."""
AS_HARD = {name: replace(world, rest=1.0) for name, world in UNEVEN.items()}
"""Such worlds, in which blocking all other tokens does as much damage."""
UNTELLABLE = {f"{name}, the rest half": replace(world, rest=0.5) for name, world in UNEVEN.items()}
PASSES: dict[str, Passage] = {
    f"{part} passes, {kept} is kept": Passage(passes=passes, kept=(kept,), rest=0.5)
    for part, passes in (("all", 1.0), ("three quarters", 0.75), ("half", 0.5))
    for kept in (0.95, 0.7)
}
"""Worlds in which the pair term, or a part of it, passes through E_Q."""


def at_scale(worlds: Mapping[str, Passage], scale: Scale) -> dict[str, Passage]:
    """Return the worlds with other standard deviations."""
    return {name: replace(world, scale=scale) for name, world in worlds.items()}
