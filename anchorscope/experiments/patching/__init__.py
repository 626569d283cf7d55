"""Patching: the exact question tokens replaced by another sample's, before the same answer.

Where the knockout hides what the question asks about, patching says something else in its place
(token patching in arXiv 2601.07422). Control: as many question tokens outside E_Q replaced by such
tokens of an unlike question.
"""

from anchorscope.experiments.experiment import Experiment
from anchorscope.passes.interventions import Intervention

RANDOM = Intervention(
    "patch-random",
    "as many random question tokens replaced",
    "as many random question tokens are replaced by those of an unlike question",
    "arm",
    prompt="patch-random",
)
ARMS = {
    arm: Intervention(
        f"patch-{arm}",
        f"exact question tokens replaced, {arm} partner",
        f"the exact question tokens are replaced by those of a {arm} partner",
        "arm",
        prompt=f"patch-{arm}",
        control=RANDOM.name,
    )
    for arm in ("matched", "published", "placebo")
}

EXPERIMENT = Experiment(
    name="patching",
    about="The exact question tokens (E_Q) are replaced by those of another sample of the same "
    "relation; the control replaces as many question tokens outside E_Q.",
    views={
        "bars": "Predictions that flip when the exact question tokens are replaced",
        "layers": "Predictions that flip when the exact question tokens are replaced, by layer",
    },
    columns=(
        *("site", "position", "layer", "arm", "label", "anchor", "n", "n_paired"),
        *("flips", "flips_low", "flips_high", "random", "random_low", "random_high"),
        *("contrast", "contrast_low", "contrast_high", "changed", "headline", "thin", "source"),
    ),
)
