"""Whether a probe follows when its answer is put behind another question.

Only *counted pairs* are compared at a layer: the sample has a partner in its own fold, and the
partner's own clean pass is classified as the sample's is. A probe that reads the question alone
then never follows.
"""

from functools import partial

import numpy as np
import pandas as pd

from anchorscope.experiments import pairs
from anchorscope.experiments.analysis import Analysis
from anchorscope.experiments.pairs import Arm
from anchorscope.passes.interventions import arms as registered_arms
from anchorscope.probes import samples
from anchorscope.probes.bands import Means
from anchorscope.probes.samples import Readout

INTERCHANGE = (
    "site", "position", "layer", "arm", "label", "anchor", "n", "n_partner", "n_paired", "coverage",
    "follows", "follows_low", "follows_high", "delta_p", "delta_p_low", "delta_p_high", "headline",
    "thin", "source",
)  # fmt: skip
DIFFERENCE = "-".join(registered_arms())


def report(analysis: Analysis) -> pd.DataFrame:
    """A row for each layer, arm, label and anchor: `INTERCHANGE`, see docs/products.md.

    The answers have `<arm>_partner` and `partner_source`, where the interchange was run. Blanks
    where no pair counts, no rows where no sample has a partner. Raises AnchorscopeError: scores and
    partners are not of the same samples.
    """
    answers = analysis.answers
    source = answers["partner_source"].iloc[0] if "partner_source" in answers else None
    found = partial(arms, answers=answers)
    return pairs.table(analysis, INTERCHANGE, found, source, ("knockout", *registered_arms()))


def arms(readout: Readout, answers: pd.DataFrame) -> dict[str, Arm]:
    """The arms measured, and where both are, `matched-placebo`; values `follows` and `delta_p`.

    The answers, as `samples.in_order` returns them, have `matched_partner` and `placebo_partner`.
    Raises AnchorscopeError: scores and partners are not of the same samples.
    """
    measured = [name for name in registered_arms() if name in readout.effects]
    found = {name: _arm(readout, answers, name) for name in measured}
    if {"matched", "placebo"} <= found.keys():
        matched, placebo = found["matched"], found["placebo"]
        both = {name: matched.values[name] - placebo.values[name] for name in matched.values}
        partner, counted = matched.partner & placebo.partner, matched.counted & placebo.counted
        found[DIFFERENCE] = Arm(partner, counted, both)
    return found


def _arm(readout: Readout, answers: pd.DataFrame, name: str) -> Arm:
    effects, partners = readout.effects[name], answers[f"{name}_partner"]
    given, places = partners.notna().to_numpy(), pairs.places(answers, partners)
    strange = (given != effects.measured) | (given & (places < 0))
    if strange.any():
        what = f"{strange.sum()} samples have a partner and no scores, or scores and no partner"
        where = f"read-out {readout.name}, {name}"
        raise samples.mismatch(f"{what}, id {answers['id'][strange].iloc[0]} first", where)
    wrong = readout.clean > 0
    return Arm(
        partner=given,
        # Another fold's probe has learned from the partner, or from the sample.
        counted=given & (wrong == wrong[:, places]) & (readout.fold == readout.fold[places]),
        values={"follows": effects.flip[0].astype(np.float64), "delta_p": effects.delta_p[0]},
    )


def contrasts(readout: Readout, answers: pd.DataFrame) -> dict[tuple[str, str], Means]:
    """Contrast and quantity → its mean, in percentage points.

    Over the right answers that count in both arms: behind any other question a wrong answer's
    verdict falls back to the default, so that wrong ones prove little.
    """
    found = arms(readout, answers)
    if DIFFERENCE not in found:
        return {}
    members = (found[DIFFERENCE].counted & (answers["label"] == 0).to_numpy())[None]
    return {
        (name, quantity): Means(factor * arm.values[value][None], members)
        for quantity, value, factor in (("share", "follows", 100.0), ("delta_p", "delta_p", 1.0))
        for name, arm in found.items()
    }
