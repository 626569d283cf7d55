"""Dose: attention to the exact question tokens scaled, from cut to fourfold, in every layer.

An additive log w on the attention scores before the softmax, in all heads, as PASTA does it
(Zhang et al. 2023). Control: the same weights on as many other question tokens.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from anchorscope.config.sections import AsNumber, Listed, mistake
from anchorscope.experiments.experiment import (
    DELTA_COLUMNS,
    FLAG_COLUMNS,
    FLIP_COLUMNS,
    GROUP_COLUMNS,
    READOUT_COLUMNS,
    Experiment,
    SampledSettings,
    recurring,
    with_interval,
)
from anchorscope.passes.interventions import Intervention

WEIGHTS = (0.0, 0.125, 0.25, 0.5, 2.0, 4.0, 8.0)
"""What attention can be multiplied by; 1 would be the clean pass."""
CONTROLS = {
    weight: Intervention(
        f"dose-random-{weight:g}",
        f"attention to as many random tokens × {weight:g}",
        f"attention to as many random question tokens is multiplied by {weight:g}",
        role="control",
        tokens="random",
        weight=weight,
    )
    for weight in WEIGHTS
}
DOSES = {
    weight: Intervention(
        f"dose-{weight:g}",
        f"attention to the exact question tokens × {weight:g}",
        f"attention to the exact question tokens is multiplied by {weight:g}",
        role="cut",
        tokens="exact",
        weight=weight,
        controlled_by=CONTROLS[weight].name,
    )
    for weight in WEIGHTS
}
COLUMNS = {
    **READOUT_COLUMNS,
    "weight": "what attention to E_Q, or to the control's tokens, is multiplied by before the "
    "softmax; 0 is the knockout",
    **GROUP_COLUMNS,
    "n_paired": "samples counted: those whose control weighs as many tokens as E_Q has",
    **FLIP_COLUMNS,
    **with_interval(
        "step",
        "the paired difference of `flips` and those at the next weight towards 1, at which nothing "
        "flips; flips fall monotonically where no step's interval lies below 0",
    ),
    **DELTA_COLUMNS,
    **recurring("signal"),
    **FLAG_COLUMNS,
}


def _offered(weight: float) -> float:
    if weight not in WEIGHTS:
        offered = ", ".join(f"{one:g}" for one in WEIGHTS)
        raise mistake(f"attention cannot be multiplied by {weight:g} here", f"choose of {offered}")
    return weight


class Dose(SampledSettings):
    """Attention to the exact question tokens scaled."""

    weights: Listed[Annotated[float, AsNumber, AfterValidator(_offered)]] = Field(
        [0.0, 0.25, 0.5, 2.0, 4.0]
    )
    """Factors for attention, out of 0, 0.125, 0.25, 0.5, 2, 4 and 8."""


EXPERIMENT = Experiment(
    name="dose",
    about="Attention to the exact question tokens (E_Q) is multiplied by several weights; the "
    "control multiplies attention to as many other question tokens.",
    settings=Dose,
    interventions=tuple(one for weight in WEIGHTS for one in (DOSES[weight], CONTROLS[weight])),
    needs=("floors",),
    draws=1,
    passes=lambda settings, draws, readouts: 1 + len(settings.weights) * (1 + draws),
    columns=COLUMNS,
    views={
        "weights": "Predictions that flip when attention to E_Q is scaled",
        "layers": "Predictions that flip when attention to E_Q is scaled, by layer",
    },
)
