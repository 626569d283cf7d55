"""Simulated scores that read the form or origin of answers, or come from a chosen layer.

Worlds are as in `claim_worlds`. None of them has truth.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from anchorscope.probes import intervals, samples
from validation.simulations.claim_worlds import (
    ALIKE,
    HOME,
    NOISE,
    ROLES,
    Rng,
    Scene,
    Values,
    World,
    additive,
    alike,
    four,
)

LAYERS, FOLDS = 28, 5
EXAMPLES = 5
"""Worked examples in a prompt."""


def popularity(random: Rng, *n: int, correlation: float) -> Values:
    """Return scores that read whether the form of an answer goes with its subject's popularity.

    The form of right answers and golds follows it, the form of own wrong answers hardly does.
    `correlation` tells how alike partners are in popularity.
    """
    scene = Scene(random, *n)
    follows = {"right": 0.8, "wrong": 0.2, "gold": 0.8}
    of_wrong = alike(random, n[1], correlation)

    def scores(role: str) -> np.ndarray:
        popular = scene.question[role] if role == "right" else of_wrong
        other = np.sqrt(1 - follows[role] ** 2) * random.normal(size=popular.shape)
        form = follows[role] * popular + other
        goes = np.stack([popular[i] * form[j] for j in (0, 1) for i in (0, 1)])
        return scene.sums(role) + 0.6 * goes

    return scene.world(scores)


def first_token(random: Rng, *n: int, lift: dict[str, float]) -> Values:
    """Return scores that read the log-probability of the first token.

    Golds have more tokens, which are part of the log-probability that is known.
    """
    scene = Scene(random, *n)
    first = scene.likelihood(lift)
    scene.log_p = {role: values.copy() for role, values in first.items()}
    ends = four(0 * scene.answer["gold"], random.normal(size=(2, n[1])))
    own = 0.5 + random.normal(size=(4, n[1]))
    scene.log_p["gold"] += -3 + ends + HOME * own + 0.5 * random.normal(size=(4, n[1]))
    return scene.world(lambda role: scene.sums(role) + 0.2 * first[role])


def copied(random: Rng, *n: int, anew: bool, slope: float) -> Values:
    """Return scores that are lower if the answer is in the prompt's worked examples.

    A third of the wrong answers is copied from them. If `anew`, each question has its own examples.
    Otherwise all questions share them, so that it does not matter behind which one an answer is.
    The score also rises with the log-probability.
    """
    scene = Scene(random, *n)
    behind = HOME if anew else np.ones((4, 1))
    was_there: Values = {}
    for role, share in {"right": 0.05, "wrong": 0.35, "gold": 0.05}.items():
        is_copy = random.random((2, scene.n[role])) < share
        example = random.integers(0, EXAMPLES, scene.n[role])
        if not anew:
            ids = 1_000 + np.stack([example, (example + 1) % EXAMPLES])
            scene.texts[role] = np.where(is_copy, ids, scene.texts[role])
        was_there[role] = four(np.zeros(is_copy.shape), 1.0 * is_copy) * behind
        scene.log_p[role] = scene.log_p[role] + 2 * was_there[role]
    return scene.world(lambda role: scene.sums(role) + slope * scene.log_p[role] - was_there[role])


def fades(random: Rng, *n: int, lost: float, gold: float) -> Values:
    """Return scores that lose a share behind a strange question.

    The share differs between pairs, with mean `lost`. Golds score by `gold` higher than in other
    worlds.
    """
    scene = Scene(random, *n)
    scene.answer["gold"] = scene.answer["gold"] + gold
    share = {
        role: random.uniform(0, 2 * lost, size) for role, size in zip(ROLES[:2], n, strict=True)
    }
    share["gold"] = share["wrong"]
    return scene.world(lambda role: scene.sums(role) * (1 - (1 - HOME) * share[role]))


def layers(random: Rng, *n: int, correlation: float, choose: Callable[..., np.ndarray]) -> Values:
    """Return sums at one of many layers, which the AUC behind the own questions chooses.

    `correlation` tells how alike the scores of two layers are. `choose` maps the layers that the
    folds chose to the layers that are used.
    """
    scene, folds, scores = Scene(random, *n), {}, {}

    def drawn(shape: tuple[int, ...]) -> np.ndarray:
        """Draw standard normal values of each layer, [..., layers, n], alike in all."""
        shared, own = random.normal(size=shape)[..., None, :], random.normal(size=(*shape, LAYERS))
        return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * np.moveaxis(own, -1, -2)

    for role in ROLES:
        folds[role] = random.integers(0, FOLDS, scene.n[role]) if role != "gold" else folds["wrong"]
        own = NOISE * drawn((4, scene.n[role])) + four(*0.5 * drawn((2, 2, scene.n[role])))
        scores[role] = scene.sums(role)[:, None] + own
    layer = chosen(scores, folds, choose)
    found = scene.world(scene.sums)
    for role in ROLES:
        found[role] = scores[role][:, layer[folds[role]], np.arange(scene.n[role])]
    return found | {f"fold_{role}": folds[role] for role in ROLES}


def chosen(scores: Values, folds: Values, choose: Callable[..., np.ndarray]) -> np.ndarray:
    """Return the layer at which each fold's pairs are scored, int64 [folds].

    The AUC of a layer is that of the samples outside the fold, which stands for the inner one.
    """
    own = np.concatenate([scores[role][i] for role in ROLES[:2] for i in (0, 3)], axis=-1)
    fold = np.concatenate([folds[role] for role in ROLES[:2] for _ in (0, 1)])
    z = np.repeat([0, 1], [2 * scores[role].shape[-1] for role in ROLES[:2]])
    outside = [fold != k for k in range(FOLDS)]
    auc = [[intervals.auc(-s[some], z[some]) for some in outside] for s in own]
    return choose(samples.layer_of_fold(np.array(auc)))


def at_median(layer: np.ndarray) -> np.ndarray:
    """Return the median of the folds' layers for all."""
    return np.full(len(layer), samples.median_layer(layer))


FIRST_RARER = {"right": 4.0, "wrong": 3.0, "gold": 2.0}
FIRST_ALIKE = {"right": 4.0, "wrong": 3.0, "gold": 3.0}
FORMS: dict[str, World] = {
    "form follows popularity": partial(popularity, correlation=ALIKE),
    "form follows popularity, near partners": partial(popularity, correlation=0.98),
    "first token of long golds, which is rarer": partial(first_token, lift=FIRST_RARER),
    "first token of long golds, as likely": partial(first_token, lift=FIRST_ALIKE),
    "copied from examples": partial(copied, anew=False, slope=0.0),
    "copied from examples, likelihood read": partial(copied, anew=False, slope=0.2),
    "copied from the question's examples": partial(copied, anew=True, slope=0.0),
    "copied from the question's examples, likelihood read": partial(copied, anew=True, slope=0.2),
    **{
        f"fades by {lost} on average{', golds score high' * bool(gold)}": partial(
            fades, lost=lost, gold=gold
        )
        for lost in (0.2, 0.4)
        for gold in (0.0, 1.0)
    },
    "shrinks to the wrong answers' mean by 0.3": partial(additive, lost=0.3, to=-0.5),
}
"""Worlds in which answers differ in form or origin."""
CHOSEN: dict[str, World] = {
    f"28 layers, {name}, correlation {correlation}": partial(
        layers, correlation=correlation, choose=choose
    )
    for correlation in (0.9, 0.5)
    for name, choose in (("at each fold's layer", np.asarray), ("at the median layer", at_median))
}
"""Sums at a layer that was chosen."""
