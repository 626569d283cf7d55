"""Ask the questions again, under a prompt that allows refusals, and see which are refused."""

import numpy as np

from anchorscope.anchors.no_answer import REFUSAL
from anchorscope.answers import answers
from anchorscope.experiments.boundary import RANDOM, Boundary
from anchorscope.experiments.measured import Measurements
from anchorscope.experiments.scored import Cell
from anchorscope.questions.prompts import with_instruction

REFUSED = f"{answers.NO_ANSWER}: {REFUSAL}"


def measure(cell: Cell, settings: Boundary) -> Measurements:
    """Score samples clean and under the control.

    The fact `unknown`, float64 [n], is 1 if the model refuses the question, else 0; NaN if the
    question was not asked.
    """
    measured = cell.score([*cell.samples.values()], [RANDOM])
    refused = refusals(cell, settings)
    unknown = [refused.get(id_, np.nan) for id_ in measured.ids]
    measured.arrays["unknown"] = np.array(unknown, dtype=np.float64)
    return measured


def refusals(cell: Cell, settings: Boundary) -> dict[str, bool]:
    """Answer again under a prompt that allows refusals. Return id → whether the model refuses.

    Samples whose longer prompt was not passed are left out.
    """
    prompts = with_instruction(cell.prompts_of_samples(), settings.permission, cell.style)
    columns = [name for name in answers.CARRIED if name in cell.answers]
    questions = cell.answers[["id", "question", *columns]].assign(answers=cell.answers["golds"])
    chosen = answers.Settings(cell.style, max_new_tokens=settings.max_new_tokens)
    table, _ = answers.answer(prompts, questions, cell.loaded, chosen)
    asked = table[table["answer"].notna()]
    return dict(zip(asked["id"], asked["dropped"] == REFUSED, strict=True))
