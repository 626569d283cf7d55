"""Saliency: how much the probe's logit depends on attention to the exact question tokens.

The flow S_l(i, j) = |Σ over heads A ⊙ ∂L/∂A| goes from token i to a later token j in layer l. A is
the attention after the softmax, L the logit of the headline layer's probe. Wang et al. (arXiv
2305.14160) define this flow. arXiv 2601.07422 uses it, but its L is not known. The control is
the flow from an equal number of random question tokens to the same answer tokens.
"""

from typing import Literal

from pydantic import Field

from anchorscope.experiments.experiment import Experiment, SampledSettings
from anchorscope.passes.interventions import Intervention
from anchorscope.statistics.columns import (
    FLAG_COLUMNS,
    READOUT_COLUMNS,
    SIZE_COLUMNS,
    recurring,
    with_interval,
)

RANDOM = Intervention("saliency-random", tokens="random")
SALIENCY = Intervention("saliency", tokens="exact")
COLUMNS = {
    **READOUT_COLUMNS,
    "part": "`sum` over layers up to the headline layer; one `layer`; or one point of the "
    "`density` over samples",
    "anchor": "group at the headline layer",
    **SIZE_COLUMNS,
    **with_interval("flow", "mean saliency between E_Q and E_A"),
    **with_interval("random", "the measure for random tokens"),
    **with_interval("contrast", "the paired difference of measure and random tokens"),
    **with_interval("ratio", "`flow` divided by `random`"),
    **with_interval("auc", "AUC of the flow at telling `Q` from `A`"),
    **with_interval("random_auc", "the measure for random tokens"),
    **with_interval("auc_contrast", "the paired difference of measure and random tokens"),
    **with_interval(
        "crossed_auc", "AUC of the flow at telling which right answers flip after another question"
    ),
    "loss": "differentiated quantity: `logit`, or `probe` (its cross-entropy)",
    "x": "value of `flow` at this point",
    "density": "share of samples for each factor of ten of the flow",
    "random_density": "the measure for random tokens",
    **FLAG_COLUMNS,
    **recurring("predicts"),
}


class Saliency(SampledSettings):
    """Saliency: how much the probe depends on attention to the exact question tokens."""

    loss: Literal["logit", "probe"] = Field("logit")
    """Differentiated quantity: the probe's logit, or its cross-entropy."""


EXPERIMENT = Experiment(
    name="saliency",
    about="Attention of the exact answer tokens to the exact question tokens (E_Q), times the "
    "gradient of the probe's logit; the control takes as many random question tokens.",
    settings=Saliency,
    reads_attention=True,
    columns=COLUMNS,
    views={"density": "Saliency from the question to the answer", "layers": "Saliency by layer"},
)
