"""Rows of a user's own: the cells of a frame are read as they are."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from anchorscope.answers import rows


@pytest.mark.parametrize(
    "kind", [np.float16, np.float32, np.float64, "Float32", pd.ArrowDtype(pa.float32())]
)
def test_a_number_of_a_frame_keeps_its_shortest_text(kind: object) -> None:
    numbers = pd.array([7.4, None, 8], dtype="Float64")
    frame = pd.DataFrame({"question": ["q1", "q2", "q3"], "answers": pd.Series(numbers)})
    table, counts = rows.question_rows(frame.astype({"answers": kind}))
    assert sorted(map(list, table["answers"])) == [["7.4"], ["8"]]
    assert counts.dropped == {"no answers": 1}
