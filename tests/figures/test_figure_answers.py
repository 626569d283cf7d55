"""What a figure says of responses that were no answers, and of spans that are not sure."""

from typing import Any

from figure_tables import caption, crossing_of, curve_of, details

from anchorscope.figures.figure_answers import answer_details, no_answer_note, responses_of
from anchorscope.figures.figure_main import chart

MODELS = [("small", "Small"), ("large", "Large")]
DATASETS = [("popqa", "PopQA"), ("nq", "NQ")]


def record(dropped: dict[str, int], kept: int, unsure: int = 0, copied: int = 0) -> dict[str, Any]:
    notes = {"E_A not sure": unsure, "an example's answer again": copied}
    return {"counts": {"dropped": dropped, "kept": kept, "notes": notes}}


RECORDS: dict[str, dict[str, Any]] = {
    "results/answers/small/popqa.parquet": record(
        {"no answer: refusal": 100, "no answer: unfinished": 20, "no answer anchor": 7}, 880, 3
    ),
    "results/answers/small/nq.parquet": record({"no answer: refusal": 10}, 1990, 0, 12),
    "results/answers/large/popqa.parquet": record({}, 1000),
    "results/answers/another/popqa.parquet": record({"no answer: refusal": 1}, 1),
    "results/prompts/small/popqa.parquet": record({"no answer: refusal": 1}, 1),
}


def test_no_answers_are_named_by_reason_and_unsure_spans_and_copies_by_cell() -> None:
    cells = responses_of(RECORDS, MODELS, DATASETS)
    note = "Non-answers left out: 3\u00a0% of the responses (refusal 110, unfinished 20)."
    assert no_answer_note(cells) == note
    assert answer_details(cells) == [
        "Non-answers, left out: Small on PopQA, 120 of 1,000 (refusal 100, unfinished 20); "
        "Small on NQ, 10 of 2,000 (refusal 10).",
        "Answers whose exact tokens are uncertain: Small on PopQA, 3 of 880.",
        "Answers copied from a worked example: Small on NQ, 12 of 1,990.",
    ]


def test_nothing_is_said_where_every_response_was_an_answer() -> None:
    cells = responses_of(RECORDS, MODELS[1:], DATASETS)
    assert [cell.name for cell in cells] == ["Large on PopQA"]
    assert no_answer_note(cells) == "" and answer_details(cells) == []


def test_the_caption_or_the_details_hold_the_note() -> None:
    note = no_answer_note(responses_of(RECORDS, MODELS, DATASETS)).replace("\u00a0", " ")
    models, datasets = MODELS[:1], DATASETS[:1]
    tables = curve_of(models, datasets, 4), crossing_of(models, datasets, 1).head(0)
    drawn = chart(
        *tables, title="ΔP", panels=models, datasets=datasets, no_answers=note, notes=["Last."]
    )
    spec = drawn.to_dict()
    assert note in f"{caption(spec)} {details(spec)}" and details(spec).endswith("Last.")
