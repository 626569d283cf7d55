"""Answer only: the answer without the question, scored with the stored probes.

The control (condition `question`) keeps the question and blocks attention to all of its tokens. So
the answer keeps its position. The control is measured again here, and not taken from the main run.
"""

from anchorscope.experiments.experiment import Experiment, SampledSettings
from anchorscope.passes.interventions import REGISTRY, Intervention
from anchorscope.statistics.columns import (
    FLAG_COLUMNS,
    GROUP_COLUMNS,
    READOUT_COLUMNS,
    recurring,
    with_interval,
)

QUESTION = REGISTRY["question"]
ANSWER_ONLY = Intervention("answer-only", question="answer-only")
COLUMNS = {
    **READOUT_COLUMNS,
    **GROUP_COLUMNS,
    **with_interval("flips", "share whose predicted class flips without the question"),
    **with_interval("question", "the measure under the control"),
    **with_interval("contrast", "the paired difference of measure and control"),
    **with_interval("delta_p", "mean ΔP without the question, in percentage points"),
    **with_interval("question_delta_p", "the measure under the control"),
    **with_interval("delta_p_contrast", "the paired difference of measure and control"),
    **recurring("predicts"),
    **FLAG_COLUMNS,
}


class AnswerOnly(SampledSettings):
    """The answer without its question."""


EXPERIMENT = Experiment(
    name="answer-only",
    about="The question is left out of the prompt; the control blocks attention to all question "
    "tokens, which hides as much and shifts no position.",
    settings=AnswerOnly,
    columns=COLUMNS,
    views={
        "bars": "Predictions that flip when the question is left out",
        "layers": "Predictions that flip when the question is left out, by layer",
    },
)
