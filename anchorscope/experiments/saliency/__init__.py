"""Saliency: how much the probe's logit hangs on attention from the exact question tokens.

S_l(i, j) = |Σ over heads A ⊙ ∂L/∂A| in layer l, from token i to a later token j. A are the weights
after the softmax, L the logit of the headline layer's probe (the flow of Wang et al. 2023, arXiv
2305.14160, as in arXiv 2601.07422, whose L is not known). Control: as many random question tokens,
to the same targets.
"""

from typing import Literal

from pydantic import Field

from anchorscope.experiments.experiment import (
    FLAG_COLUMNS,
    READOUT_COLUMNS,
    SIZE_COLUMNS,
    Experiment,
    SampledSettings,
    recurring,
    with_interval,
)
from anchorscope.passes.interventions import Intervention

RANDOM = Intervention(
    "saliency-random",
    "saliency of as many random question tokens",
    "attention to as many random question tokens is weighed by a little more or less",
    role="control",
    tokens="random",
)
SALIENCY = Intervention(
    "saliency",
    "saliency of the exact question tokens",
    "attention to the exact question tokens is weighed by a little more or less",
    role="cut",
    tokens="exact",
    controlled_by=RANDOM.name,
)
COLUMNS = {
    **READOUT_COLUMNS,
    "part": "`sum`: layers up to the headline layer, added up; `layer`: one of them; `density`: "
    "one point of the density over samples",
    "anchor": "`Q`, `A` or `all`, by the knockout's flips at the headline layer",
    **SIZE_COLUMNS,
    "n_paired": "samples counted: those with a target, whose control has as many tokens as E_Q",
    **with_interval("flow", "mean saliency of the pairs of a token of E_Q and one of E_A"),
    **with_interval("random", "the same of as many random question tokens, mean of the draws"),
    **with_interval("contrast", "the paired difference of `flow` and `random`"),
    **with_interval("ratio", "`flow` divided by `random`"),
    **with_interval("auc", "how well the flow tells `Q` from `A`; of `all`"),
    **with_interval("random_auc", "the same for the random tokens"),
    **with_interval("auc_contrast", "the paired difference of `auc` and `random_auc`"),
    **with_interval(
        "crossed_auc",
        "how well the flow tells which right answers flip behind another question; of `all`",
    ),
    "loss": "what was differentiated: the probe's `logit`, or its cross-entropy, `probe`",
    "x": "where the density is, in the units of `flow`",
    "density": "share of samples for each factor of ten of the flow",
    "random_density": "the same for the random tokens, at `x`",
    **FLAG_COLUMNS,
    **recurring("signal"),
}


class Saliency(SampledSettings):
    """How much the probe depends on attention to the exact question tokens."""

    loss: Literal["logit", "probe"] = Field("logit")
    """What is differentiated: the probe's logit, or its cross-entropy."""


EXPERIMENT = Experiment(
    name="saliency",
    about="Attention from the exact question tokens (E_Q) to the exact answer tokens, times the "
    "gradient of the probe's logit; the control takes as many random question tokens.",
    settings=Saliency,
    needs=("gradients", "floors"),
    interventions=(SALIENCY, RANDOM),
    passes=lambda settings, draws, readouts: 1 + readouts,  # one back for each read-out
    columns=COLUMNS,
    views={"density": "Saliency from the question to the answer", "layers": "Saliency by layer"},
)
