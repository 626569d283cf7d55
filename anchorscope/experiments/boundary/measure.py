"""Ask the questions again, under a prompt that allows refusals, and see which are refused."""

import numpy as np
import pandas as pd

from anchorscope.anchors.no_answer import REFUSAL
from anchorscope.answers import answers
from anchorscope.experiments.boundary import RANDOM, Boundary
from anchorscope.experiments.scored import Cell, with_facts
from anchorscope.questions.prompts import with_instruction

REFUSED = f"{answers.NO_ANSWER}: {REFUSAL}"


def measure(cell: Cell, settings: Boundary) -> pd.DataFrame:
    """Score samples clean and under the control. Clean rows get the column `unknown`."""
    rows = cell.score([*cell.samples.values()], [RANDOM])
    facts = refusals(cell, settings).rename_axis("id").reset_index()
    return with_facts(rows, facts.assign(condition="clean"))


def refusals(cell: Cell, settings: Boundary) -> pd.Series:
    """Answer again under a prompt that allows refusals. Return id → whether the model refuses.

    Values are float64: 1 if refused, else 0. They are NaN if this longer prompt was not passed.
    """
    prompts = with_instruction(cell.prompts_of_samples(), settings.permission, cell.style)
    columns = [name for name in answers.CARRIED if name in cell.answers]
    questions = cell.answers[["id", "question", *columns]].assign(answers=cell.answers["golds"])
    chosen = answers.Settings(cell.style, max_new_tokens=settings.max_new_tokens)
    table, _ = answers.answer(prompts, questions, cell.loaded, chosen)
    refused = np.where(table["answer"].notna(), 1.0 * (table["dropped"] == REFUSED), np.nan)
    return pd.Series(refused, index=table["id"], name="unknown")
