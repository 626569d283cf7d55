"""Table `summary`: how well each read-out of a cell detects wrong answers, in one row.

Texts, the report, `anchorscope show` and detectors take these numbers from here.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
import pandas as pd

from anchorscope.claims import CLAIMS
from anchorscope.statistics import power
from anchorscope.statistics.analysis import Analysis
from anchorscope.statistics.columns import recurring, with_interval
from anchorscope.statistics.intervals import Estimate
from anchorscope.statistics.strength import applying, over_model

VERDICTS = [key for key, claim in CLAIMS.items() if claim.unit == "samples"]
"""Claims about how well the probe detects."""
SUMMARY = {
    **recurring("site", "position"),
    **with_interval("auc", "AUC of the probe"),
    "text_model": "the text model that the probe beats least clearly; if an AUC of 0.6 is harder "
    "to beat, the one with the highest AUC",
    **with_interval("text_auc", "AUC of this text model"),
    **with_interval("prompt_end_auc", "AUC of the probe at the prompt's end, before the answer"),
    **with_interval("token_auc", "AUC of the probability that the model gave its exact answer"),
    **with_interval(
        "text_gain", "gain in AUC over the text model, or over an AUC of 0.6 if that is harder"
    ),
    **with_interval("prompt_end_gain", "gain in AUC over the probe at the prompt's end"),
    **{key: f"verdict on the claim `{key}`" for key in VERDICTS},
    "right": "right answers measured",
    "wrong": "wrong answers measured",
    "right_asked": "right among all answers",
    "wrong_asked": "wrong among all answers",
    "right_needed": f"right answers still needed to detect a gain of {power.USUAL_GAIN}",
}
"""Column of the table → what it holds. Probes score each answer at the layer that its fold chose.
"""


def summary(analysis: Analysis) -> pd.DataFrame:
    """Return one row with the columns `SUMMARY`; `with_verdicts` fills in the claims.

    `analysis.answers` must come from `activations.measured`.
    """
    readout, z, over_prompt = analysis.readout, analysis.z, analysis.over_prompt
    right, wrong = (int(n) for n in np.bincount(z, minlength=2))
    right_asked, wrong_asked = np.bincount(z, analysis.stands_for, minlength=2).round().astype(int)
    row = {
        **readout.key,
        **auc_of(readout.own, analysis).columns("auc"),
        **text_model(analysis),
        **auc_of(improbable(analysis.answers), analysis).columns("token_auc"),
        **analysis.over_text.estimate.columns("text_gain"),
        "right": right,
        "wrong": wrong,
        "right_asked": right_asked,
        "wrong_asked": wrong_asked,
        "right_needed": right_needed(right, wrong),
    }
    if over_prompt is not None and analysis.before is not None:
        row |= auc_of(analysis.before.own, analysis).columns("prompt_end_auc")
        row |= over_prompt.estimate.columns("prompt_end_gain")
    return pd.DataFrame([row]).reindex(columns=[*SUMMARY])


def text_model(analysis: Analysis) -> dict[str, Any]:
    """Return the text model that the probe beats least clearly, and its AUC; nothing if none.

    If an AUC of 0.6 is harder to beat, return the text model with the highest AUC.
    """
    models = applying(analysis.readout.position, analysis.scores.floors)
    if not models:
        return {}
    aucs = {name: auc_of(s[0], analysis) for name, s in models.items()}
    named = [name for name in aucs if analysis.over_text.over == over_model(name)]
    hardest = next(iter(named), max(aucs, key=lambda name: float(aucs[name].value)))
    return {"text_model": hardest, **aucs[hardest].columns("text_auc")}


def auc_of(s: np.ndarray, analysis: Analysis) -> Estimate:
    """Return the AUC of scores [n], models held fixed; NaN in `s`: not measured."""
    aucs = analysis.resamples.aucs(s[None], analysis.z)[:, 0]
    return Estimate.of_resamples(aucs, analysis.level)


def improbable(answers: pd.DataFrame) -> np.ndarray:
    """Return minus the log-probability of each exact answer, float64 [n]; NaN if not measured."""
    known = answers.get("logprob_clean", pd.Series(np.nan, index=answers.index))
    return -known.to_numpy(dtype=np.float64)


def right_needed(right: int, wrong: int) -> int:
    """Return how many right answers a cell lacks to detect a gain of `power.USUAL_GAIN`.

    Right and wrong answers are assumed to be added in the same proportion.
    """
    n = right + wrong
    return max(0, ceil(power.least_n(power.USUAL_GAIN, wrong / n) * right / n) - right)


def numbers(row: pd.DataFrame) -> dict[str, Any]:
    """Return a table of one row as numbers and texts; None if not measured."""
    columns = [name for name in SUMMARY if name not in ("site", "position")]
    found = row[columns].astype(object).iloc[0]
    told: dict[Any, Any] = found.where(found.notna(), None).to_dict()
    return told


def with_verdicts(table: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return a `summary` of a cell or figure with the verdicts of its table of claims."""
    cell = [name for name in ("model", "dataset", "site", "position") if name in table]
    found = claims.set_index([*cell, "claim"])["verdict"]
    places = pd.MultiIndex.from_frame(table[cell])
    columns = {key: found.xs(key, level="claim").reindex(places).to_numpy() for key in VERDICTS}
    return table.assign(**columns)
