"""Interchange: the same frozen answer behind another question, beside the knockout's groups.

Control: a placebo question, behind which the answer keeps its label.
"""

from __future__ import annotations

from anchorscope.config.settings import Section
from anchorscope.experiments.experiment import Experiment
from anchorscope.passes.interventions import ARMS, BY_NAME


class Settings(Section):
    """The same answer behind another question; what is measured is said by `conditions`."""


EXPERIMENT = Experiment(
    name="interchange",
    label="Interchange",
    about="The same answer stands behind the question of another sample of the same relation, "
    "where its label is reversed; behind the control's question it keeps its label.",
    interventions=tuple(BY_NAME[name] for name in ARMS),
    settings=Settings,
    own_rules=True,
    views={},
    columns={
        "model": "",
        "dataset": "",
        "site": "read-out site",
        "position": "read-out token",
        "layer": "from 0",
        "arm": "`matched`, label reversed; `placebo`, label unchanged; `matched-placebo`, the "
        "difference over samples that count in both",
        "label": "`all`; `0` right, `1` wrong answers",
        "anchor": "`Q`, `A`, `all`, by the knockout's flips at that layer",
        "n": "samples of the group",
        "n_partner": "those with a partner",
        "n_paired": "those whose pair counts",
        "coverage": "`n_paired` over `n`",
        "follows": "share of pairs whose predicted class flips",
        "follows_low": "",
        "follows_high": "interval of it",
        "delta_p": "mean ΔP, percentage points",
        "delta_p_low": "",
        "delta_p_high": "interval of it",
        "headline": "whether this is the headline layer",
        "thin": "fewer samples or clusters than a figure draws",
        "source": "where subjects and relations come from: `relations` or `wording`",
    },
)
