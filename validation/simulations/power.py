"""Measure how often `signal` is claimed if the probe knows no more than the text, or if it does.

    python -m validation.simulations.power [--tries 200]

A world has answers whose texts hold some of 90 features. Of these, 60 predict whether an answer is
wrong. A hidden state is a noisy linear image of the 60, so it knows nothing that is not in the
text. `towards` is the strength in this image of the direction that predicts the label. It is chosen
so that probes and text models have the same mean AUC. `beyond` is the weight of something that the
state knows and no text tells. Probe and text model are trained as in a cell, and judged by
`strength.by_layer`.

The columns are the mean gain in AUC, and three shares of data sets with a signal: `fixed` keeps
both models fixed, `rule` widens intervals by refits, `formula` is computed by `statistics.power`.
`widened` is the median factor by which refits widen the interval, and `varies` the spread of the
gain over data sets, relative to its standard error with fixed models.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from anchorscope.probes import fitting, floors, scoring
from anchorscope.statistics import intervals, power, samples, strength

TELLING, OTHER, WIDTH = 60, 30, 48
"""Numbers of features that predict the label, of other features, and of units of a state."""
STRENGTH, NOISE = 1.5, 0.5
SIZES = {57: 900, 130: 900, 400: 900, 900: 1800}
"""Number of right answers → number of samples."""
TOWARDS = {57: 0.856, 130: 1.044, 400: 1.356, 900: 1.481}
BEYOND = {
    0.0: dict.fromkeys(SIZES, 0.0),
    0.05: {57: 0.752, 130: 0.812, 400: 0.801},
    0.1: {57: 1.043, 130: 1.177},
}
"""Mean gain in AUC → number of right answers → `beyond`."""
LEVEL = 0.95
PROBE = {"inner_folds": 3, "grid": [1e-3, 0.01, 0.1, 1.0]}


@dataclass(frozen=True)
class World:
    """Features of texts, their image in the states, and what they say about the label."""

    weights: np.ndarray  # of the predictive features in the logit of *wrong*, [TELLING]
    share: np.ndarray  # of the texts that hold a feature, [TELLING + OTHER]
    image: np.ndarray  # linear map from the predictive features to a state, [TELLING, WIDTH]
    hidden: np.ndarray  # direction of what no text tells, [WIDTH]
    beyond: float  # weight in the logit of what no text tells

    @classmethod
    def of(cls, towards: float, beyond: float) -> "World":
        """Draw a world."""
        random = np.random.default_rng(0)
        weights = random.normal(size=TELLING)
        share = random.uniform(0.05, 0.5, TELLING + OTHER)
        told = share[:TELLING]
        weights /= np.sqrt((weights**2 * told * (1 - told)).sum())
        image = 2 * random.normal(size=(TELLING, WIDTH)) / np.sqrt(TELLING)
        lean, hidden = random.normal(size=(2, WIDTH)) / np.sqrt(WIDTH)
        return cls(weights, share, image + towards * np.outer(weights, lean), hidden, beyond)

    def draw(
        self, random: np.random.Generator, right: int, n: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Draw texts [n, features], states [n, WIDTH] and labels [n], of which `right` are 0."""
        wanted, found = np.array([right, n - right]), np.zeros(2)
        parts = []
        while (found < wanted).any():
            texts = (random.random((n, len(self.share))) < self.share).astype(np.float64)
            unsaid = random.normal(size=n)
            told = (texts - self.share)[:, :TELLING] @ self.weights
            logit = STRENGTH * told + self.beyond * unsaid + np.log((n - right) / right)
            z = (random.random(n) < samples.sigmoid(logit)).astype(int)
            parts.append((texts, unsaid, z))
            found += np.bincount(z, minlength=2)
        texts, unsaid, z = (np.concatenate(part) for part in zip(*parts, strict=True))
        rows = [np.flatnonzero(z == label)[:count] for label, count in enumerate(wanted)]
        chosen = random.permutation(np.concatenate(rows))
        texts, unsaid, z = texts[chosen], unsaid[chosen], z[chosen]
        states = (texts - self.share)[:, :TELLING] @ self.image
        states += NOISE * random.normal(size=states.shape)
        if self.beyond:
            states += 1.5 * np.outer(unsaid, self.hidden)
        return texts, states, z


def judged(world: World, right: int, n: int, seed: int, draws: int = 400) -> dict[str, float]:
    """Return gain in AUC, its standard error, verdicts, and the factor by which refits widen it."""
    texts, states, z = world.draw(np.random.default_rng(seed), right, n)
    ids = [f"{i:05}" for i in range(n)]
    answers = pd.DataFrame({"id": ids, "question": ids, "component": ids, "label": z})
    of = evidence(states[None], texts, answers, seed, draws)
    fixed, widened = (strength.by_layer(one, LEVEL) for one in (replace(of, learned_from=None), of))
    gain, low, lower = fixed["gain"][0], fixed["gain_low"][0], widened["gain_low"][0]
    called = {"fixed": low > 0, "rule": lower > 0}
    error = (fixed["gain_high"][0] - low) / 3.92
    return {"gain": gain, **called, "factor": (gain - lower) / (gain - low), "error": error}


def evidence(
    states: np.ndarray, texts: np.ndarray, answers: pd.DataFrame, seed: int, draws: int
) -> strength.Predictions:
    """Train probe and text model, also on bootstrap draws, and return their scores.

    `states` are hidden states [layers, n, width], `texts` the features of the texts [n, features].
    Each sample is scored at the layer that its outer fold chose.
    """
    design = fitting.design(answers, fitting.ProbeSettings(seed=seed, **PROBE))
    weights = scoring.refit_weights(answers, design)
    x = torch.as_tensor(states, dtype=torch.float32)
    probes = fitting.fit(x, design)
    layer = samples.layer_of_fold(probes.inner_auc)
    used, place = np.unique(layer, return_inverse=True)
    fold, number = design.fold, np.arange(len(design.z))
    s = fitting.out_of_fold(probes, x, fold)[layer[fold], number]
    anew = fitting.refit(x[used], design, probes.c[used], weights)
    refitted = fitting.out_of_fold(anew, x[used], design.of_refits(len(weights)))
    return strength.Predictions(
        np.stack([s, *refitted[place.ravel()[fold], :, number].T])[:, None],
        {"text": floors.learn(texts @ texts.T, design, weights)},
        design.z,
        samples.bootstrap(answers, draws, seed),
        intervals.Resamples(number, weights.astype(np.float64)),
    )


def called(right: int, n: int, gain: float, tries: int) -> pd.DataFrame:
    """Return a row of `judged` for each of `tries` data sets of one world."""
    world = World.of(TOWARDS[right], BEYOND[gain][right])
    return pd.DataFrame([judged(world, right, n, seed) for seed in range(tries)])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tries", type=int, default=200)
    tries = parser.parse_args().tries
    for gain, right in [(one, n) for one in BEYOND for n in BEYOND[one]]:
        n = SIZES[right]
        found = called(right, n, gain, tries)
        row = {"right": right, "n": n, **found[["gain", "fixed", "rule"]].mean()}
        row["formula"] = power.chance(gain, n, 1 - right / n)
        row["widened"] = found["factor"].median()
        row["varies"] = found["gain"].std() / found["error"].mean()
        print(pd.Series(row).round(3).to_frame(f"gain of {gain}").T.to_string(), flush=True)


if __name__ == "__main__":
    main()
