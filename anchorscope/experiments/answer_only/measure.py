"""Passes of answers without their questions."""

from collections.abc import Sequence
from dataclasses import replace

from anchorscope.anchors import tokens
from anchorscope.experiments.answer_only import ANSWER_ONLY, QUESTION, AnswerOnly
from anchorscope.experiments.measured import Measurements
from anchorscope.experiments.scored import Cell
from anchorscope.passes.batches import Sample
from anchorscope.passes.planning import behind
from anchorscope.questions.prompts import without_question
from anchorscope.styles import style_of


def measure(cell: Cell, settings: AnswerOnly) -> Measurements:
    """Score every answer of a cell without its question, and with the whole question blocked."""
    passed = [
        replace(cell.samples[id_], others={ANSWER_ONLY.name: _behind(cell.samples[id_], ids)})
        for id_, ids in bare_prompts(cell).items()
    ]
    return cell.score(passed, [ANSWER_ONLY, QUESTION])


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
