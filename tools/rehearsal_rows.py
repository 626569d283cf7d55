"""Add answers to real rows, because a model with random weights cannot give sensible ones.

Half of the rows get their own gold answer, and the other half the gold answer of another row. Each
answer is put into the same sentence. The rows keep their columns.
"""

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anchorscope.questions.fields import RowCells
from anchorscope.questions.reading import file_rows
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

SENTENCE = "The answer is {}."
COLUMN = "response"


def write(source: Path, fields: Mapping[str, Any], path: Path) -> None:
    """Write the rows of a file as JSON Lines, with a response in each that has a gold answer.

    Raises:
        AnchorscopeError: The file is missing, or a row cannot be read.
    """
    if not source.is_file():
        what = "these rows are missing"
        do = "name a folder with the rows of all four datasets, see resources/local-rows.yaml"
        raise AnchorscopeError(what, source, do, see="no-such-file")
    rows = answered(file_rows(source), fields)
    with atomic(path) as draft:
        lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        draft.write_text("".join(lines), encoding="utf-8")


def answered(rows: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with a response added.

    The rows are put in random order, and grouped by relation if they name relations. Every second
    row gets its own gold answer. The others get the gold answer of the row two places later. It
    mostly has the same relation, so that the kind of answer does not tell right from wrong.
    """
    notes = Counter[str]()
    cells = [RowCells(row, fields, f"row {number}", notes) for number, row in enumerate(rows, 1)]
    golds = {number: cell.golds[0] for number, cell in enumerate(cells) if cell.golds}
    order = random.Random(0).sample([*golds], len(golds))
    order.sort(key=lambda number: cells[number].text("relation", number=True) or "")
    said: dict[int, str] = {}
    for place, number in enumerate(order):
        other = order[(place + 2) % len(order)]
        said[number] = golds[number if place % 2 else other]
    return [
        {**row, COLUMN: SENTENCE.format(said[number]) if number in said else None}
        for number, row in enumerate(rows)
    ]
