"""Worlds without truth. Scores read an answer's form or origin, or come from a chosen layer."""

from functools import partial

import numpy as np

from anchorscope.probes import intervals, samples
from validation.simulations import claim_worlds
from validation.simulations.claim_worlds import ANSWER, HOME, QUESTION, Rng, Scene, Values, World
from validation.simulations.passage_worlds import FOLDS, SIDES

EXAMPLES = 5  # number of worked examples in a prompt
LAYERS, LAYERS_ALIKE = 28, 0.9  # number of layers, correlation of their effects and noise


def popularity(random: Rng, *n: int, correlation: float) -> Values:
    """Return scores that rise if the form of an answer fits the popularity of the subject.

    Right answers and golds mostly fit. `correlation` is between the popularities of a wrong pair.
    """
    scene = Scene(random, *n)
    follows = {"right": 0.8, "wrong": 0.2, "gold": 0.8}
    of_wrong = claim_worlds.alike(random, n[1], correlation)

    def scores(role: str) -> np.ndarray:
        popular = scene.question[role] if role == "right" else of_wrong
        other = np.sqrt(1 - follows[role] ** 2) * random.normal(size=popular.shape)
        form = follows[role] * popular + other
        return scene.sums(role) + 0.6 * (popular[QUESTION] * form[ANSWER])

    return scene.world(scores)


def first_token(random: Rng, *n: int, lift: dict[str, float]) -> Values:
    """Return scores that read the log-probability of the first token. Golds have more tokens."""
    scene = Scene(random, *n)
    first = scene.likelihood(lift)
    ends = random.normal(size=(2, n[1]))[ANSWER]
    own = 0.5 + random.normal(size=(4, n[1]))
    more = -3 + ends + HOME * own + 0.5 * random.normal(size=(4, n[1]))
    scene.log_p = first | {"gold": first["gold"] + more}
    return scene.world(lambda role: scene.sums(role) + 0.2 * first[role])


def copied(random: Rng, *n: int, anew: bool, slope: float) -> Values:
    """Return scores that are lower if the answer is in the prompt's worked examples.

    A third of the wrong answers is copied from them. If `anew`, each question has its own examples.
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
        was_there[role] = is_copy[ANSWER] * behind
        scene.log_p[role] = scene.log_p[role] + 2 * was_there[role]
    return scene.world(lambda role: scene.sums(role) + slope * scene.log_p[role] - was_there[role])


def fades(random: Rng, *n: int, lost: float, gold: float = 0.0) -> Values:
    """Return scores that lose a share, `lost` on average, after the partner's question."""
    scene = Scene(random, *n)
    scene.answer["gold"] = scene.answer["gold"] + gold
    right, wrong = (random.uniform(0, 2 * lost, size) for size in n)
    share = {"right": right, "wrong": wrong, "gold": wrong}
    return scene.world(lambda role: scene.sums(role) * (1 - (1 - HOME) * share[role]))


def at_chosen_layer(random: Rng, *n: int) -> Values:
    """Return sums at many layers. Pairs are scored at the layer that their fold chose."""
    scene, scores = Scene(random, *n), {}
    fold = {side: random.integers(0, FOLDS, scene.n[side]) for side in SIDES}
    for role, size in scene.n.items():
        parts = [claim_worlds.alike(random, size, LAYERS_ALIKE, LAYERS) for _ in range(8)]
        question, answer, noise = np.split(np.stack(parts), [2, 4])
        of_layer = 0.5 * claim_worlds.four(question, answer) + claim_worlds.NOISE * noise
        scores[role] = scene.sums(role)[:, None] + of_layer
    layer = chosen_layers(scores, fold)
    found = scene.world(scene.sums) | {f"fold_{side}": places for side, places in fold.items()}
    for role, places in (fold | {"gold": fold["wrong"]}).items():
        found[role] = scores[role][:, layer[places], np.arange(len(places))]
    return found


def chosen_layers(scores: Values, fold: Values) -> np.ndarray:
    """Return each fold's choice of layer, by the AUC of the samples outside the fold, [FOLDS]."""
    own = np.concatenate([scores[side][place] for side in SIDES for place in (0, 3)], axis=-1)
    of_sample = np.concatenate([np.tile(fold[side], 2) for side in SIDES])
    wrong = np.repeat([0, 1], [2 * len(fold[side]) for side in SIDES])
    outside = [of_sample != number for number in range(FOLDS)]
    auc = [[intervals.auc(-s[some], wrong[some]) for some in outside] for s in own]
    return samples.layer_of_fold(np.array(auc))


FIRST_RARER = {"right": 4.0, "wrong": 3.0, "gold": 2.0}
FIRST_ALIKE = {"right": 4.0, "wrong": 3.0, "gold": 3.0}
FORMS: dict[str, World] = {
    "form follows popularity": partial(popularity, correlation=claim_worlds.ALIKE),
    "form follows popularity, near partners": partial(popularity, correlation=0.98),
    "first token of long golds, which is rarer": partial(first_token, lift=FIRST_RARER),
    "first token of long golds, as likely": partial(first_token, lift=FIRST_ALIKE),
    "copied from examples": partial(copied, anew=False, slope=0.0),
    "copied from examples, likelihood read": partial(copied, anew=False, slope=0.2),
    "copied from the question's examples": partial(copied, anew=True, slope=0.0),
    "copied from the question's examples, likelihood read": partial(copied, anew=True, slope=0.2),
    "fades by 0.2 on average": partial(fades, lost=0.2),
    "fades by 0.2 on average, golds score high": partial(fades, lost=0.2, gold=1.0),
    "fades by 0.4 on average": partial(fades, lost=0.4),
    "fades by 0.4 on average, golds score high": partial(fades, lost=0.4, gold=1.0),
    "shrinks to the wrong answers' mean by 0.3": partial(claim_worlds.additive, lost=0.3, to=-0.5),
}
"""Worlds in which right, wrong and gold answers differ in form or origin."""
CHOSEN: dict[str, World] = {"sums, layer chosen with the answers": at_chosen_layer}
