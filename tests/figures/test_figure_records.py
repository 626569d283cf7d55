"""What a figure says of responses that were no answers, and of its models."""

from typing import Any

from anchorscope.figures.figure_notes import no_answer_note

MODELS = [("small", "Small"), ("large", "Large")]
DATASETS = [("popqa", "PopQA"), ("nq", "NQ")]


def record(dropped: dict[str, int], kept: int) -> dict[str, Any]:
    return {"counts": {"dropped": dropped, "kept": kept}}


RECORDS: dict[str, dict[str, Any]] = {
    "results/answers/small/popqa.parquet": record(
        {"no answer: refusal": 100, "no answer: unfinished": 20, "no answer anchor": 7}, 880
    ),
    "results/answers/small/nq.parquet": record({"no answer: refusal": 10}, 1990),
    "results/answers/large/popqa.parquet": record({}, 1000),
    "results/answers/another/popqa.parquet": record({"no answer: refusal": 1}, 1),
    "results/prompts/small/popqa.parquet": record({"no answer: refusal": 1}, 1),
}


def test_no_answers_are_named_by_reason_where_there_are_some() -> None:
    note = "Non-answers left out: 3\u00a0% of the responses (refusal 110, unfinished 20)."
    assert no_answer_note(RECORDS, MODELS, DATASETS) == note
    assert no_answer_note(RECORDS, MODELS[1:], DATASETS) == ""
