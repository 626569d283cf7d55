"""Measure how often intervals of a simulated cell contain the mean estimate of the procedure.

    python -m validation.simulations.interval_coverage bands [--worlds 400] [--samples 300 1000]
    python -m validation.simulations.interval_coverage crossing

The mean estimate is taken over fresh simulated cells of the same size. In each, probes, penalties
and calibration are fitted anew. A cell has two wordings per subject.

`bands` tests the intervals of ΔP, shares and contrasts. One direction of the features encodes the
label in half of the samples, and the knockout removes this signal. Another encodes it in the rest.
`crossing` tests the intervals of pair terms. Features are sums of a part of the question, a part of
the answer, and noise. Each effect named in `STRENGTHS` is encoded in a direction of its own.
"""

import argparse
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch

from anchorscope.curve.controls import contrasts
from anchorscope.curve.curve import curve
from anchorscope.pairs import crossing
from anchorscope.probes import fitting, scoring
from anchorscope.probes.fitting import ProbeSettings
from anchorscope.statistics import analysis
from anchorscope.statistics.scores import Scores

WIDTH = 16
STRENGTH, COMMON = 1.2, 0.4
"""Size of the signal, and the share of the features' variance that a subject's samples share."""
MOVED = 0.1
"""Standard deviation of the change of a feature under any blocking."""
PLACEMENTS = 3
CONDITIONS = [("knockout", 0), *(("random", draw) for draw in range(PLACEMENTS))]
CURVE = {"ΔP of Q": ("Q", "delta_p", "ci"), "ΔP of all": ("all", "delta_p", "ci")}
CURVE |= {"share of flips": ("all", "flip_share", "flip")}
CONTRASTS = {"knockout − random, share": "share", "knockout − random, ΔP": "delta_p"}

STRENGTHS = {"question": 0.6, "answer": 0.6, "truth": 1.0, "own": 0.5}
"""Size of the signal in each planted direction. Other features have variance 1."""
SHARED = {"question": 0.3, "answer": 0.3}  # shares of this variance by question and by answer
PAIRS = ("pair_right", "pair_wrong")
ENDS = ["estimate", "ci_low", "ci_high"]
COLUMNS = ["quantity", "probes", "estimate", "low", "high"]


def pathways(n: int, seed: int) -> tuple[pd.DataFrame, dict[tuple[str, int], np.ndarray]]:
    """Draw answers, and features [n, width] by condition. The clean AUC is .86 at n = 300."""
    random = np.random.default_rng(seed)
    z, of_question = (random.random(n) < 0.45).astype(int), random.random(n) < 0.5
    shared = np.repeat(random.normal(size=(n // 2, WIDTH)), 2, axis=0)
    clean = np.sqrt(COMMON) * shared + np.sqrt(1 - COMMON) * random.normal(size=(n, WIDTH))
    signal = STRENGTH * (2 * z - 1)
    clean[:, 0] += signal * of_question
    clean[:, 1] += signal * ~of_question
    found = {("clean", 0): clean}
    for condition in CONDITIONS:
        found[condition] = clean + MOVED * random.normal(size=clean.shape)
    found["knockout", 0][:, 0] -= signal * of_question
    return _asked(z).assign(random_complete=True), found


def _asked(z: np.ndarray) -> pd.DataFrame:
    """Return answers with these labels, two for each subject."""
    places = range(len(z))
    ids, questions = [f"i{i:05}" for i in places], [f"q{i}" for i in places]
    subjects = [f"s{i // 2}" for i in places]
    return pd.DataFrame({"id": ids, "question": questions, "subject": subjects, "label": z})


def _scored(
    answers: pd.DataFrame, states: Mapping[scoring.Condition, np.ndarray], probe: dict[str, Any]
) -> Scores:
    """Return the scores of a world under each condition."""
    rows, design = np.arange(len(answers)), fitting.design(answers, ProbeSettings(**probe))
    weights = scoring.refit_weights(answers, design)

    def read(_: str, *condition: Any) -> tuple[np.ndarray, torch.Tensor]:
        return rows, torch.as_tensor(states[condition][None]).float()

    return scoring.Scoring(read, design, weights, ["mlp/final"], list(states)).run()


def fixed(scores: Scores) -> Scores:
    """Return the scores without those of refits, so that intervals hold the models fixed."""
    probes, floors = (
        {name: s[:1] for name, s in of.items()} for of in (scores.probes, scores.floors)
    )
    return replace(scores, weights=scores.weights[:0], probes=probes, floors=floors)


def bands(n: int, seed: int, probe: dict[str, Any], times: int = 1000) -> pd.DataFrame:
    """Return estimates and intervals of a world of `n` samples, with probes fixed and refitted.

    `probe` holds the settings of the probes, `times` is the number of bootstrap draws.
    """
    answers, features = pathways(n, seed)
    scored = _scored(answers, features, probe)
    records = []
    for name, scores in (("fixed", fixed(scored)), ("refitted", scored)):
        given: dict[str, Any] = {"draws": times, "seed": seed}
        cut = {key: s for key, s in scores.probes.items() if "/random/" not in key}
        found = analysis.cell_table(curve, replace(scores, probes=cut), answers, **given)
        rows = found.set_index("anchor")
        for quantity, (anchor, column, ends) in CURVE.items():
            values = rows.loc[anchor, [column, f"{ends}_low", f"{ends}_high"]]
            records.append((quantity, name, *values))
        paired = analysis.cell_table(contrasts, scores, answers, **given).set_index("quantity")
        for quantity, column in CONTRASTS.items():
            records.append((quantity, name, *paired.loc[column, ENDS]))
    return pd.DataFrame(records, columns=COLUMNS)


def crossed_pairs(n: int, seed: int) -> tuple[pd.DataFrame, dict[tuple[str, int], np.ndarray]]:
    """Draw answers with their partners, and features [n, width] by condition.

    Clean features are those of each answer after its own question, crossed features those after its
    partner's. A subject's partners all belong to one other subject. Half of the answers are right.
    """
    random = np.random.default_rng(seed)
    places = np.arange(n).reshape(-1, 4)  # two subjects of one label, each in two wordings
    partner = places[:, [2, 3, 0, 1]].ravel()
    z = np.repeat(random.permutation(len(places)) % 2, 4)
    part = {
        name: np.sqrt(size) * np.repeat(random.normal(size=(n // 2, WIDTH)), 2, axis=0)
        for name, size in SHARED.items()
    }
    sign = 2 * z - 1
    part["question"][:, 0] += STRENGTHS["question"] * sign
    part["answer"][:, 1] += STRENGTHS["answer"] * sign
    left = np.sqrt(1 - sum(SHARED.values()))

    def rows(question: np.ndarray, wrong: np.ndarray, own: int) -> np.ndarray:
        x = part["question"][question] + part["answer"] + left * random.normal(size=(n, WIDTH))
        x[:, 2] += STRENGTHS["truth"] * wrong
        x[:, 3] -= STRENGTHS["own"] * own
        return x

    states = {
        ("clean", 0): rows(np.arange(n), sign, 1),
        ("crossed", 0): rows(partner, np.ones(n), -1),
    }
    asked = _asked(z)
    ids = asked["id"].to_numpy()
    more = {"crossed_partner": ids[partner], "partner_source": "relations"}
    return asked.assign(ea_text="y" + asked["id"], **more), states


def pairs(n: int, seed: int, probe: dict[str, Any]) -> pd.DataFrame:
    """Return pair terms and their intervals in a world, with probes fixed and refitted."""
    answers, states = crossed_pairs(n, seed)
    # two subjects in a pair share a fold
    learned = answers.assign(subject=[f"p{i // 4}" for i in range(n)])
    scored = _scored(learned, states, probe)
    records = []
    for name, scores in (("fixed", fixed(scored)), ("refitted", scored)):
        table = analysis.cell_table(
            lambda one: crossing.tables(one)["crossing"], scores, answers, draws=2
        )
        rows = table.set_index("quantity")
        records += [(quantity, name, *rows.loc[quantity, ENDS]) for quantity in PAIRS]
    return pd.DataFrame(records, columns=COLUMNS)


def coverage(found: pd.DataFrame) -> pd.DataFrame:
    """Return the share of worlds whose interval contains the mean estimate, a row per quantity."""
    truth = found.groupby("quantity")["estimate"].transform("mean")
    held = (found["low"] <= truth) & (truth <= found["high"])
    return held.groupby([found["quantity"], found["probes"]], sort=False).mean().unstack()


def main() -> None:
    """Print the coverage."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("of", choices=("bands", "crossing"))
    parser.add_argument("--worlds", type=int, default=400)
    parser.add_argument("--samples", type=int, nargs="+", default=[300, 1000])
    chosen = parser.parse_args()
    logging.disable(logging.INFO)  # no lines of progress
    torch.set_num_threads(1)
    work = bands if chosen.of == "bands" else pairs
    for n in chosen.samples:
        found = pd.concat(work(n, seed, probe={}) for seed in range(chosen.worlds))
        print(f"n = {n}, {chosen.worlds} worlds")
        print(coverage(found).round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
