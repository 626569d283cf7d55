"""Whether a figure says in which cells sure samples lead to another verdict."""

import pandas as pd
import pytest

from anchorscope.figures.figure_answers import sure_note
from anchorscope.figures.figure_request import request_of

PLACE = {"model": "m", "dataset": "d", "site": "mlp", "position": "final"}
ASKED = request_of(title="T", panels=[("m", "Model")], datasets=[("d", "Data")])


def rows(cut: tuple[float, float], control: tuple[float, float], auc: float) -> pd.DataFrame:
    """A cell's rows under the knockout and under random tokens."""
    ends = {"knockout": cut, "random": control}
    return pd.DataFrame(
        {
            **PLACE,
            "condition": name,
            "flip_low": low,
            "flip_high": high,
            "probe_auc": auc,
            "auc": auc,
        }
        | {"headline": True, "anchor": "all", "stratum": "sure", "value": "sure", "thin": False}
        for name, (low, high) in ends.items()
    )


APART, OVER = ((0.3, 0.5), (0.0, 0.1)), ((0.3, 0.5), (0.2, 0.4))


@pytest.mark.parametrize(
    ("whole", "sure", "says"),
    [
        ((*APART, 0.8), (*APART, 0.7), False), ((*APART, 0.8), (*OVER, 0.8), True),
        ((*APART, 0.8), (*APART, 0.55), True), ((*OVER, 0.55), (*OVER, 0.5), False),
        ((*APART, 0.8), (*OVER, float("nan")), False),
    ],
)  # fmt: skip
def test_a_cell_is_named_whose_verdict_changes_among_sure_answers(whole, sure, says) -> None:
    note = sure_note(rows(*whole), rows(*sure), ASKED)
    assert ("Model on Data" in note) is says and bool(note) is says


def test_too_few_sure_answers_and_cells_without_a_control_change_no_verdict() -> None:
    whole, sure = rows(*APART, 0.8), rows(*OVER, 0.5)
    assert sure_note(whole, sure.assign(thin=True), ASKED) == ""
    assert sure_note(whole[whole["condition"] == "knockout"], sure, ASKED) == ""
    assert sure_note(whole, sure.iloc[:0], ASKED) == ""
