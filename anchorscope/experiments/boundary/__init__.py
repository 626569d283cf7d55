"""Boundary: which questions a model refuses if the prompt allows refusals, by group and layer.

The experiment tests a claim of arXiv 2601.07422: that the model does not know the facts of its
A-Anchored answers. The control forms the two groups by flips with random tokens blocked. Refusals
should be equally frequent in these two groups.
"""

from anchorscope.config.sections import Count, Text, key
from anchorscope.experiments.experiment import Experiment, SampledSettings
from anchorscope.passes.interventions import REGISTRY
from anchorscope.statistics.columns import (
    FLAG_COLUMNS,
    READOUT_COLUMNS,
    SIZE_COLUMNS,
    recurring,
    with_interval,
)

KNOCKOUT, RANDOM = REGISTRY["knockout"], REGISTRY["random"]
COLUMNS = {
    **READOUT_COLUMNS,
    "groups": "condition whose flips form the groups: `knockout` or `random`",
    "anchor": "`Q`, `A` or `all`, by these flips at that layer",
    **SIZE_COLUMNS,
    **with_interval("unknown", "share of questions that the model refuses"),
    **recurring("predicts"),
    **FLAG_COLUMNS,
}


class Boundary(SampledSettings):
    """Questions that a model refuses if the prompt allows refusals."""

    permission: Text = key(
        'If you do not know the answer, answer "I don\'t know".',
        "The instruction that allows the model to refuse.",
    )
    max_new_tokens: Count = key(32, "Longest answer under this instruction, in tokens.")


EXPERIMENT = Experiment(
    name="boundary",
    about="Questions that the model refuses once the prompt allows it, by group; the control forms "
    "the groups by the flips under random tokens.",
    settings=Boundary,
    columns=COLUMNS,
    views={"layers": "Questions that the model refuses once the prompt allows it"},
)
