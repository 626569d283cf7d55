"""Contrasts: the effect of blocking the exact tokens, less that of as many random tokens.

This is the published control. It describes and carries no claim: exact tokens are a question's rare
words, and random ones are mostly small words.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from anchorscope.experiments.analysis import POINTS, Analysis, Columns, Group, Quantity, stacked
from anchorscope.experiments.experiment import interval_of, recurring
from anchorscope.experiments.knockout.curve import control_is_complete
from anchorscope.passes.interventions import Intervention, controlled_cuts
from anchorscope.probes.bands import Means, Spread
from anchorscope.probes.samples import Readout

CONTRASTS = {
    **recurring("site", "position"),
    "contrast": "`knockout-random`: the knockout minus the published control",
    "quantity": "`share` of flips and mean `delta_p`, in percentage points",
    **recurring("layer", "n"),
    "n_clusters": "subjects or questions among them",
    "estimate": "the paired difference",
    **interval_of("estimate", "ci"),
    "under": "mean of the first condition",
    "beside": "mean of the second condition",
    **recurring("signal", "inflation", "headline"),
}
"""Column of the table → what it holds."""
RANDOM_CONTRAST = "knockout-random"


def contrasts(analysis: Analysis) -> pd.DataFrame:
    """Compare every cut that has a control with this control, layer by layer.

    Differences are paired: they are taken over the samples where the control blocks as many tokens
    as the cut. A control's draws are averaged within a sample.

    Returns:
        One row per contrast, quantity and layer, with the columns `CONTRASTS`.

    Raises:
        AnchorscopeError: The answers lack `<control>_complete`, or floors are not of the same
            samples as the scores.
    """
    measured = [
        (one, control)
        for one, control in controlled_cuts()
        if {one.name, control.name} <= analysis.readout.effects.keys()
    ]
    return stacked([_of_contrast(*pair, analysis) for pair in measured], CONTRASTS)


def _of_contrast(one: Intervention, control: Intervention, analysis: Analysis) -> pd.DataFrame:
    counted = control_is_complete(analysis.readout, analysis.answers, control.name)
    signal = analysis.strength["signal"]

    def groups(readout: Readout) -> list[Group]:
        among = (counted & readout.effects[one.name].measured)[None, None]
        members = among.repeat(len(readout.clean), axis=1)
        under, beside = (_effects(readout, each.name) for each in (one, control))
        return [
            Group(
                {"contrast": f"{one.name}-{control.name}", "quantity": quantity},
                members,
                members,
                {
                    "estimate": Quantity(
                        Means(under[quantity] - beside[quantity], members), "ci", POINTS
                    )
                },
                {
                    "under": Means(under[quantity], members),
                    "beside": Means(beside[quantity], members),
                },
            )
            for quantity in under
        ]

    def describe(_: Columns, spreads: Mapping[str, Spread]) -> Columns:
        return {"signal": signal, "inflation": spreads["estimate"].inflation}

    return analysis.table(CONTRASTS, groups, (one.name, control.name), describe)


def _effects(readout: Readout, condition: str) -> dict[str, np.ndarray]:
    """Return what a condition does to each sample, in percentage points, [1, layers, n]."""
    effects = readout.effects[condition]
    every = {"share": 100.0 * effects.flip, "delta_p": effects.delta_p}
    return {name: values.mean(0, keepdims=True) for name, values in every.items()}
