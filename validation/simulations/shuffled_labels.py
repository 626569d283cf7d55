"""Count the claims that a measured cell makes once its labels mean nothing.

    python -m validation.simulations.shuffled_labels results my-model popqa [--times 20]

Labels are shuffled among questions of one relation or, if a relation is unknown, among those that
ask for one kind of answer, such as a person. Two partners keep a common label. Answers, hidden
states and pairs are those of the cell. Probes and text models are fitted to the shuffled labels, so
that each `yes` is false.
"""

import argparse
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from anchorscope.cell import tables
from anchorscope.claims import keys
from anchorscope.config.settings import Bootstrap
from anchorscope.passes import activations, interventions
from anchorscope.passes.partners import proxies_of
from anchorscope.probes import fitting, scoring
from anchorscope.statistics.analysis import partner_places
from anchorscope.storage.files import read_parquet

READOUTS = ("mlp/final", "mlp/prompt_end")
ARMS = ("clean", "knockout", "rest")
"""Arms that claims compare. Without the arm `gold`, whose answers would be right, all labels can be
shuffled."""


def shuffled(answers: pd.DataFrame, seed: int) -> np.ndarray:
    """Return the labels, int64 [n], shuffled among pairs, and among single samples, of a wording.

    `answers` come from `activations.measured`.
    """
    random, labels = np.random.default_rng(seed), answers["label"].to_numpy(dtype=np.int64).copy()
    partner, places = partner_places(answers, answers["crossed_partner"]), np.arange(len(answers))
    first = (partner < 0) | (places < partner)  # one sample of each pair, and each single one
    units = pd.DataFrame({"place": places, "paired": partner >= 0, "wording": _wording(answers)})
    for _, of_wording in units[first].groupby(["paired", "wording"], dropna=False):
        rows = of_wording["place"].to_numpy()
        labels[rows] = random.permutation(labels[rows])
    return np.where(first, labels, labels[partner])


def _wording(answers: pd.DataFrame) -> np.ndarray:
    """Return the relations or, if one is unknown, the kinds of the answers, object [n]."""
    if answers["relation"].notna().all():
        return answers["relation"].to_numpy()
    relation = pd.Series(proxies_of(answers["question"])["relation"], dtype=object)
    return relation.str.partition(":")[0].to_numpy()


def claims(folder: str | Path, answers: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return the claims at `mlp/final` of a cell, by probes of shuffled labels.

    Probes have the default settings, also those of the folds, so partners mostly share one.
    """
    answers = answers.assign(label=shuffled(answers, seed))
    conditions = [(one.name, 0) for arm in ARMS for one in interventions.arms()[arm]]
    design = fitting.design(answers, fitting.ProbeSettings())
    states = partial(activations.read, folder)
    scores, _ = scoring.score_cell(states, answers, design, READOUTS, conditions)
    made = tables.of_main_run(scores, answers, bootstrap=Bootstrap().model_dump(), seed=0)
    found = made["claims"]
    return found[found["position"] == "final"].assign(key=keys(found), seed=seed)


def shuffles(folder: str | Path, answers: pd.DataFrame, times: int) -> Iterator[pd.DataFrame]:
    """Yield the claims of each shuffle, and print their verdicts."""
    for seed in range(times):
        found = claims(folder, answers, seed)
        print(seed, *(f"{k}: {v};" for k, v in zip(found["key"], found["verdict"], strict=True)))
        yield found


def main() -> None:
    """Print the verdicts, and how often each claim was judged and held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("results")
    parser.add_argument("model")
    parser.add_argument("dataset")
    parser.add_argument("--times", type=int, default=20)
    chosen = parser.parse_args()
    logging.disable(logging.INFO)
    cell = f"{chosen.model}/{chosen.dataset}"
    folder = f"{chosen.results}/activations/{cell}"
    answers = read_parquet(f"{chosen.results}/answers/{cell}.parquet")
    measured = activations.measured(answers, folder)
    labels, moved = measured["label"].to_numpy(), shuffled(measured, 0)
    print(f"{(labels != moved).mean():.0%} of {len(labels)} labels change in the first shuffle")
    every = pd.concat(shuffles(folder, measured, chosen.times), ignore_index=True)
    print(pd.crosstab(every["key"], every["verdict"]).to_string())


if __name__ == "__main__":
    main()
