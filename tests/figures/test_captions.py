"""Captions: few lines at any width, the essentials first, and nothing lost."""

from typing import Any

import pandas as pd
import pytest

from anchorscope.figures.notes import LINES, Caption, chosen_note, no_answer_note

SENTENCES = [f"Sentence {k} of a caption, with some words more." for k in range(9)]
MODELS = [("small", "Small"), ("large", "Large")]


@pytest.mark.parametrize("characters", [30, 60, 100, 240])
def test_what_a_caption_has_no_room_for_opens_the_details(characters: int) -> None:
    lines, details = Caption(SENTENCES, ["Further."]).wrapped(characters)
    assert len(lines) <= LINES and max(map(len, lines)) <= characters
    moved = details[: details.index("Further.")]
    kept = [sentence for sentence in SENTENCES if sentence not in moved]
    assert " ".join(lines) == " ".join(kept) and kept == SENTENCES[: len(kept)]


def test_a_figure_counts_the_non_answers_of_its_own_models() -> None:
    def answers(dropped: dict[str, int], kept: int) -> dict[str, Any]:
        return {"counts": {"dropped": dropped, "kept": kept}}

    records = {
        "results/answers/small/popqa.parquet": answers(
            {"no answer: refusal": 100, "no answer: unfinished": 20, "no answer anchor": 7}, 880
        ),
        "results/answers/small/nq.parquet": answers({"no answer: refusal": 10}, 1990),
        "results/answers/large/popqa.parquet": answers({}, 1000),
        "results/answers/another/popqa.parquet": answers({"no answer: refusal": 1}, 1),
    }
    note = "Non-answers left out: 3\u00a0% of the responses (refusal 110, unfinished 20)."
    datasets = [("popqa", "PopQA"), ("nq", "NQ")]
    assert no_answer_note(records, MODELS, datasets) == note
    assert no_answer_note(records, MODELS[1:], datasets) == ""


def test_a_caption_says_how_many_answers_were_chosen_unless_all_were_measured() -> None:
    cell = pd.DataFrame({"anchor": ["Q", "all"], "n": [9, 60], "n_answers": [35.2, 272.0]})
    assert chosen_note([cell, cell]) == (
        "Right and wrong answers were balanced: 60 per cell were chosen of 272."
    )
    whole = cell.assign(n_answers=cell["n"])
    assert chosen_note([whole]) == chosen_note([cell.drop(columns="n_answers")]) == ""
