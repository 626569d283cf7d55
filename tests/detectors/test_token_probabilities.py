"""What is made of token probabilities, and whether the model calls its answers true."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_cell import answers_of

from anchorscope.detectors import token_probabilities
from anchorscope.detectors.methods.output import FEATURES, QUANTITIES
from anchorscope.detectors.token_probabilities import ASKS


def test_features_are_statistics_of_the_exact_tokens_and_of_all_that_was_written() -> None:
    rng, rows = np.random.default_rng(0), []
    for condition, id_, lead, tokens in (("clean", "a", 2, 3), ("clean", "b", 0, 1),
                                         ("crossed", "a", 2, 3)):  # fmt: skip
        for place in range(lead + tokens):
            row = {"id": id_, "condition": condition, "place": place, "exact": place >= lead}
            rows.append(row | {name: rng.normal() for name in QUANTITIES})
    written = pd.DataFrame(rows).sample(frac=1, random_state=0)
    found = token_probabilities.features(written).set_index(["condition", "id"])
    assert len(found) == 3 and {*found} == {*FEATURES}
    for key in found.index:
        whole = [row for row in rows if (row["condition"], row["id"]) == key]
        spans = {"exact": [row for row in whole if row["exact"]], "answer": whole}
        for span, some in spans.items():
            assert found.loc[key, f"{span}_tokens"] == len(some)
            for name in QUANTITIES:
                values = [row[name] for row in some]
                for how, value in (("mean", np.mean), ("min", np.min), ("max", np.max)):
                    assert found.loc[key, f"{span}_{name}_{how}"] == pytest.approx(value(values))


def test_p_true_is_the_mean_of_both_orders(load: Callable[..., Any]) -> None:
    loaded = load("qwen3")
    asked = [("Who wrote it?", "Ann"), ("When was it born, then?", "1932")]
    found = token_probabilities.ask(loaded, asked, style="plain")
    for (question, answer), p_true in zip(asked, found, strict=True):
        means = []
        for place, (first, second) in enumerate((("True", "False"), ("False", "True"))):
            text = ASKS.format(question=question, answer=answer, first=first, second=second)
            ids, pair = token_probabilities.choice(loaded, text, "plain")
            with torch.inference_mode():
                logits = loaded.model(input_ids=torch.tensor([ids])).logits[0, -1]
            means.append(logits[list(pair)].softmax(-1)[place].item())
        assert p_true == pytest.approx(np.mean(means), abs=1e-5)


def test_both_letters_follow_the_same_tokens(load: Callable[..., Any]) -> None:
    for name in ("byte_level", "metaspace"):
        loaded = load("llama", name)
        ids, (a, b) = token_probabilities.choice(loaded, "The answer is:", "plain")
        decoded = [loaded.tokenizer.decode([*ids, token]) for token in (a, b)]
        assert a != b
        assert [text.rstrip()[-1] for text in decoded] == ["A", "B"]


def test_answers_are_asked_about_behind_their_own_and_their_partners_questions(
    load: Callable[..., Any],
) -> None:
    loaded = load("llama")
    answers = answers_of(loaded.tokenizer, 8).assign(crossed_partner=None)
    answers.loc[[0, 2], "crossed_partner"] = ["s02", "s00"]
    table = token_probabilities.p_true(loaded, answers, style="plain")
    assert list(table) == ["id", "condition", "p_true"]
    assert table["condition"].value_counts().to_dict() == {"clean": 8, "crossed": 2}
    values = table.set_index(["condition", "id"])["p_true"]
    asked = [(answers["question"][at], answers["ea_text"][0]) for at in (0, 2)]
    own, behind_partner = token_probabilities.ask(loaded, asked, style="plain")
    assert own != pytest.approx(behind_partner, abs=1e-4)
    assert values["clean", "s00"] == pytest.approx(own, abs=1e-5)
    assert values["crossed", "s00"] == pytest.approx(behind_partner, abs=1e-5)
