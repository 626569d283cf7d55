"""The table of samples: the same numbers as the curve, a row for each sample."""

import numpy as np
import pandas as pd
import pytest
from handmade import scores_of

from anchorscope.experiments.knockout.per_sample import COLUMNS, for_spreadsheets, per_sample

N = 8


def scores() -> pd.DataFrame:
    """Two layers of one fold; the deeper one is better, and half of the samples flip there."""
    z = np.arange(N) % 2
    clean = np.stack([np.where(z, -1.0, 1.0), np.where(z, 2.0, -2.0)])
    knockout = np.stack([clean[0], np.where(np.arange(N) < 4, -clean[1], clean[1])])
    s = {"clean": clean, "knockout": knockout, "random": clean}
    return scores_of(s, [f"s{i}" for i in range(N)])


def answers() -> pd.DataFrame:
    columns = {"id": [f"s{i}" for i in range(N)][::-1], "question": "Who?", "answer": "=Ann ."}
    table = pd.DataFrame(columns | {"ea_text": "Ann", "outcome": "right", "subject": None})
    table["label"] = pd.array([i % 2 for i in range(N)][::-1], dtype="Int64")
    table["dropped"] = None
    return table


def test_every_sample_has_a_row_at_the_headline_layer():
    table = per_sample(scores(), answers()).set_index("id")
    assert list(table.reset_index()[list(COLUMNS)]) == list(COLUMNS) and len(table) == N
    assert (table["layer"] == 1).all()
    assert table["group"].tolist() == ["Q"] * 4 + ["A"] * 4
    p = 1 / (1 + np.exp(-2.0))
    assert table["p"]["s1"] == pytest.approx(p) and table["p"]["s0"] == pytest.approx(1 - p)
    assert table["delta_p"]["s0"] == pytest.approx(100 * (1 - 2 * p))
    assert table["delta_p"]["s7"] == 0 and table["label"]["s7"] == 1


def test_answers_that_were_not_measured_have_no_row():
    more = pd.concat([answers(), answers().iloc[:1].assign(id="unmeasured")], ignore_index=True)
    assert len(per_sample(scores(), more)) == N
    assert len(per_sample(scores(), answers(), ["attn/final"])) == 0


def test_a_text_is_no_formula_to_a_spreadsheet():
    table = for_spreadsheets(per_sample(scores(), answers()))
    assert set(table["answer"]) == {"'=Ann ."} and set(table["question"]) == {"Who?"}
