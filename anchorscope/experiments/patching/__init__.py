"""Patching: the exact question tokens replaced by another sample's, before the same answer.

Where the knockout hides what the question asks about, patching says something else in its place
(token patching in arXiv 2601.07422). Control: as many question tokens outside E_Q replaced by such
tokens of an unlike question.
"""

from __future__ import annotations

from anchorscope.config.settings import Section
from anchorscope.experiments.experiment import Experiment
from anchorscope.passes.interventions import Intervention

RANDOM = Intervention(
    "patch-random",
    "as many random question tokens replaced",
    "as many random question tokens are replaced by those of an unlike question",
    prompt="patch-random",
)
ARMS = {
    arm: Intervention(
        f"patch-{arm}",
        f"exact question tokens replaced, {arm} partner",
        f"the exact question tokens are replaced by those of a {arm} partner",
        prompt=f"patch-{arm}",
        control=RANDOM.name,
    )
    for arm in ("matched", "published", "placebo")
}


class Settings(Section):
    """Exact question tokens replaced by those of another sample."""


EXPERIMENT = Experiment(
    name="patching",
    label="Patching",
    about="The exact question tokens (E_Q) are replaced by those of another sample of the same "
    "relation; the control replaces as many question tokens outside E_Q.",
    interventions=(*ARMS.values(), RANDOM),
    settings=Settings,
    views={
        "bars": "Predictions that flip when the exact question tokens are replaced",
        "layers": "Predictions that flip when the exact question tokens are replaced, by layer",
    },
    columns={
        "model": "",
        "dataset": "",
        "site": "read-out site",
        "position": "read-out token",
        "layer": "from 0",
        "arm": "`matched`: behind the partner's tokens the answer has the other label, and the "
        "partner's own answer has the sample's; `published`: right answers that the probe calls "
        "right, tokens of a partner that was answered wrongly; `placebo`: the answer keeps its "
        "label",
        "label": "`all`; `0` right, `1` wrong answers",
        "anchor": "`Q`, `A`, `all`, by the knockout's flips at that layer",
        "n": "samples of the group",
        "n_paired": "those that count: they have a partner, the control changed a token, and the "
        "partner's own clean pass is classified as theirs (not in `published`)",
        "flips": "share of them whose predicted class flips",
        "flips_low": "",
        "flips_high": "interval of it",
        "random": "the same under the control",
        "random_low": "",
        "random_high": "interval of it",
        "contrast": "`flips` less `random`, paired",
        "contrast_low": "",
        "contrast_high": "interval of it",
        "changed": "share of the control's replaced tokens whose id is another than before",
        "headline": "whether this is the headline layer",
        "thin": "fewer samples or clusters than a figure draws",
        "source": "where subjects and relations come from: `relations` or `wording`",
    },
)
