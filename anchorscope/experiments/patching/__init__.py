"""Patching: replace the exact question tokens by another sample's, and keep the answer.

The knockout hides what the question asks about. Patching makes the question ask about something
else (token patching in arXiv 2601.07422). The control replaces an equal number of question tokens
outside E_Q. Its new tokens are from outside E_Q in a question with another relation or template.
"""

from typing import Literal

from pydantic import Field

from anchorscope.config.sections import Listed, Section
from anchorscope.experiments.experiment import Experiment
from anchorscope.passes.interventions import Intervention
from anchorscope.statistics.columns import (
    FLAG_COLUMNS,
    FLIP_COLUMNS,
    GROUP_COLUMNS,
    READOUT_COLUMNS,
)

RANDOM = Intervention("patch-random", question="patch-random")
ARMS = {
    arm: Intervention(f"patch-{arm}", question=f"patch-{arm}")
    for arm in ("matched", "published", "placebo")
}
COLUMNS = {
    **READOUT_COLUMNS,
    "arm": "whose tokens replace the sample's",
    **GROUP_COLUMNS,
    "n_paired": "samples whose predicted class is the partner's (`published`: is right), and "
    "whose control replaced as many tokens and changed at least one",
    **FLIP_COLUMNS,
    "changed": "share of the tokens replaced by the control that differ from the original",
    **FLAG_COLUMNS,
    "source": "`relations` of the dataset, or `wording` of the questions, by which partners match",
}


class Patching(Section):
    """Question tokens replaced by tokens of other samples."""

    arms: Listed[Literal["matched", "published", "placebo"]] = Field(
        ["matched", "published", "placebo"]
    )
    """Kinds of partners whose exact question tokens replace the sample's."""


EXPERIMENT = Experiment(
    name="patching",
    about="The exact question tokens (E_Q) are replaced by the E_Q of another sample of the same "
    "relation; the control replaces as many question tokens outside E_Q.",
    settings=Patching,
    follows_pair=True,
    columns=COLUMNS,
    views={
        "bars": "Predictions that flip when the exact question tokens are replaced",
        "layers": "Predictions that flip when the exact question tokens are replaced, by layer",
    },
)
