"""Knockout: attention to the exact question tokens is cut, and each layer's probe asked again.

Samples whose predicted class flips are Q-Anchored, the others A-Anchored (paper section 3.2).
Control: as many random question tokens are cut.
"""

from __future__ import annotations

from anchorscope.config.settings import Section
from anchorscope.experiments.experiment import Experiment
from anchorscope.passes.interventions import ARMS, BY_NAME, REGISTRY


class Settings(Section):
    """Attention to the exact question tokens cut; what is measured is said by `conditions`."""


EXPERIMENT = Experiment(
    name="knockout",
    label="Knockout",
    about="Attention to the exact question tokens (E_Q) is cut in every layer; the control cuts as "
    "many random question tokens.",
    interventions=tuple(one for one in REGISTRY[1:] if one.name not in ARMS),
    settings=Settings,
    own_rules=True,
    views={
        "knockout": f"ΔP when {BY_NAME['knockout'].when}",
        "controls": "What flips by itself, and what the probes know",
        "probes": "The probes",
        "readouts": "ΔP at every read-out",
    },
    columns={
        "model": "",
        "dataset": "",
        "site": "read-out site",
        "position": "read-out token",
        "condition": "the pass",
        "grouping": "`per_layer`, by the flips of each layer; `reference_layer`, of the headline "
        "layer; `replicate`, behind a second prompt",
        "anchor": "`Q`, flips; `A`, does not; `all`",
        "layer": "from 0",
        "n": "samples of the group, a mean over random draws",
        "share": "`n` over the cell's samples",
        "delta_p": "mean ΔP, percentage points",
        "ci_low": "",
        "ci_high": "interval of it",
        "probe_auc": "of the clean probe",
        "answer_accuracy": "share of right answers in the group",
        "n_blocked": "mean tokens blocked",
        "flip_share": "share of flips among `n_paired`",
        "flip_low": "",
        "flip_high": "interval of it",
        "n_paired": "samples with a complete control; of `matched` and `placebo`, right answers "
        "whose pair counts",
        "signal": "whether the probe knows more than every floor",
        "floor": "hardest floor",
        "floor_auc": "its AUC",
        "gain": "probe AUC above that floor, paired",
        "gain_low": "",
        "gain_high": "interval of it",
        "share_ci_low": "",
        "share_ci_high": "interval of `share`",
        "delta_logit": "mean change of the score towards the clean class",
        "n_clusters": "clusters of the group",
        "band_low": "",
        "band_high": "max-t band of ΔP, for claims about all layers",
        "thin": "fewer samples or clusters than a figure draws",
        "auc_low": "",
        "auc_high": "interval of `probe_auc`",
        "cell_signal": "signal of the read-out, each sample scored at its fold's layer",
        "headline": "whether this is the headline layer",
        "popularity": "mean of the group",
        "inflation": "how much refitted probes widen the interval of ΔP",
    },
)
