"""From answers through the model to what is claimed of them, in a small cell."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from instrument import measured
from small_cell import answers_of

from anchorscope.experiments.crossing.estimates import PAIR, term
from anchorscope.passes import activations, interventions, planning


def differing_in_the_subject(tokenizer: Any) -> pd.DataFrame:
    """Right answers to questions of one template, whose subjects have as many tokens each."""
    table = answers_of(tokenizer, 24)
    table = table[table["relation"] == "trade"].iloc[:6].reset_index(drop=True)
    random, rows = np.random.default_rng(0), []
    first = table.iloc[0]
    for row in table.to_dict("records"):
        ids = [*first["input_ids"][: first["prompt_length"]]]
        for token in first["eq_tokens"]:
            ids[token] = int(random.integers(5, 300))
        answer = row["input_ids"][row["prompt_length"] :]
        start = len(ids)
        of_prompt = {"eq_tokens": first["eq_tokens"], "question_tokens": first["question_tokens"]}
        by = start - row["prompt_length"]
        moved = {name: row[name] + by for name in ("final", "ea_start", "ea_end")}
        rows.append(row | of_prompt | moved | {"input_ids": ids + answer, "prompt_length": start})
    golds = [[answer] for answer in table["ea_text"]]
    return pd.DataFrame(rows).assign(golds=golds, label=0)


def test_where_questions_differ_in_e_q_alone_nothing_of_the_pair_passes_beside_it(
    load: Callable[..., Any],
) -> None:
    loaded = load("llama")
    answers = differing_in_the_subject(loaded.tokenizer)
    plan = planning.plan(answers, conditions={"knockout": {}, "crossed": {}}, batch_tokens=10**6)
    index = activations.index(plan).set_index("id")
    pairs = index["crossed_partner"].dropna()
    assert len(pairs) >= 4 and index["frame"].nunique() == 1
    states = measured(loaded, plan, ["mlp/final"])
    weights = np.random.default_rng(1).normal(size=next(iter(states.values())).shape[-1])

    def s(id_: str, condition: str) -> np.ndarray:
        return states[id_, f"{condition}.0/mlp.final"].double().numpy() @ weights

    for one, other in pairs.items():
        for arm in ("clean", "knockout"):
            here, there = (condition.name for condition in interventions.arms()[arm])
            four = [s(one, here), s(one, there), s(other, there), s(other, here)]
            pair = np.abs(term(PAIR, np.stack(four))).max()
            assert pair > 1e-3 if arm == "clean" else pair < 1e-5
