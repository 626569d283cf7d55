"""Passes of answers without their questions."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from anchorscope.anchors import tokens
from anchorscope.experiments.answer_only import ANSWER_ONLY, QUESTION, AnswerOnly
from anchorscope.experiments.scored import Cell, with_facts
from anchorscope.passes.batches import Sample
from anchorscope.passes.planning import behind
from anchorscope.questions.prompts import without_question
from anchorscope.styles import style_of


def measure(cell: Cell, settings: AnswerOnly) -> pd.DataFrame:
    """Score every answer of a cell without its question, and with the whole question blocked.

    `n_tokens` is the number of question tokens that are left out or blocked.
    """
    passed = [
        replace(cell.samples[id_], others={ANSWER_ONLY.name: _behind(cell.samples[id_], ids)})
        for id_, ids in bare_prompts(cell).items()
    ]
    conditions = [ANSWER_ONLY, QUESTION]
    rows = cell.score(passed, conditions)
    gone = [(of.id, one.name, len({*of.question_tokens})) for of in passed for one in conditions]
    return with_facts(rows, pd.DataFrame(gone, columns=["id", "condition", "n_tokens"]))


def bare_prompts(cell: Cell) -> dict[str, tuple[int, ...]]:
    """Map each id to the token ids of its prompt without the question."""
    rows = cell.prompts_of_samples().to_dict("records")
    texts = {str(row["id"]): without_question(row, cell.style) for row in rows}
    different = list(dict.fromkeys(texts.values()))  # often the same for all samples
    special = not style_of(cell.style).templated
    encoded = tokens.encode(cell.loaded.tokenizer, different, add_special_tokens=special)
    ids = {one.text: one.ids for one in encoded}
    return {id_: ids[text] for id_, text in texts.items()}


def _behind(sample: Sample, prompt: Sequence[int]) -> Sample:
    """Append a sample's answer tokens, unchanged, to a prompt without the question."""
    alone = Sample("", tuple(prompt), {}, (), (), len(prompt))
    return replace(behind(sample, alone), partner=None)
