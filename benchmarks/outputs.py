"""Token probabilities and P(True): this project's way beside the whole model, row by row.

P(True) is asked as LLMsKnow asks it (Orgad et al., 2024), whose definition can be written in a few
lines; Anchorscope's own question has other words, see docs/performance.md.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

import baselines
import pandas as pd
import torch
from ways import Result, Way
from workloads import Workload

from anchorscope.models.families import Loaded
from anchorscope.passes import outputs
from anchorscope.passes.planning import sample_of

TOKENS, P_TRUE = "token probabilities", "P(True)"
STAGES = (TOKENS, P_TRUE)
INDENT = 12 * " "
ASKS = (
    "Question: {question}\n{i}Possible answer: {answer}\n{i}Is the possible answer:\n"
    "{i}(A) {first}\n{i}(B) {second}\n{i}The possible answer is:"
)
"""LLMsKnow's question, with the blanks that its lines begin with."""
ORDERS = (("True", "False"), ("False", "True"))
Probabilities = dict[tuple[int, int], torch.Tensor]
"""(sequence, token's place) → its log-probability, and the entropy it was taken from, [2]."""


def of(work: Workload, loaded: Loaded, table: pd.DataFrame) -> dict[str, dict[str, Way]]:
    """Stage → way's name → `Way`; P(True) only of a checkpoint that can read the question."""
    some = len(table) / len(work.some)
    everyone = range(len(table))
    stages = {
        TOKENS: {
            "anchorscope": Way(partial(_of_answers, loaded, table)),
            "one-pass": Way(partial(literal, loaded, table, everyone, baselines.AT_ONCE)),
            "literal-1": Way(partial(literal, loaded, table, work.some, 1), some),
        }
    }
    if work.checkpoint:
        stages[P_TRUE] = {
            "anchorscope": Way(partial(_of_choices, loaded, table)),
            "one-pass": Way(partial(llmsknow, loaded, table, everyone)),
        }
    return stages


def _of_answers(loaded: Loaded, table: pd.DataFrame) -> Result:
    """The way of this project."""
    samples = [sample_of(row) for row in table.to_dict("records")]
    numbers = {sample.id: number for number, sample in enumerate(samples)}
    rows = outputs.of_answers(loaded, samples)
    return {
        (numbers[id_], int(place)): torch.tensor([logprob, entropy])
        for id_, place, logprob, entropy in zip(
            rows["id"], rows["place"], rows["logprob"], rows["entropy"], strict=True
        )
    }


@torch.inference_mode()
def literal(
    loaded: Loaded, table: pd.DataFrame, numbers: Iterable[int], at_once: int
) -> Probabilities:
    """The whole model on some sequences, sorted by length: logits of every token."""
    found: Probabilities = {}
    call: Any = loaded.model
    for some in baselines.batches(table, numbers, at_once):
        rows = [table.iloc[number] for number in some]
        ids = baselines.padded(row["input_ids"] for row in rows)
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        exists = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        log_p = call(input_ids=ids, attention_mask=exists).logits.float().log_softmax(-1)
        for place, (number, row) in enumerate(zip(some, rows, strict=True)):
            for token in range(row["prompt_length"], row["ea_end"]):
                before = log_p[place, token - 1]
                entropy = -(before.exp() * before).sum()
                found[number, token] = torch.stack([before[ids[place, token]], entropy])
    return found


def llmsknow(loaded: Loaded, table: pd.DataFrame, numbers: Iterable[int]) -> Result:
    """P(True) by LLMsKnow's definition: one new token a question, of which two scores are read."""
    call: Any = loaded.model
    letters = _letters(loaded)
    found: dict[tuple[int, int], torch.Tensor] = {}
    for number in numbers:
        for order, ids in enumerate(questions(loaded, table.iloc[number])):
            out = call.generate(
                torch.tensor([ids]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                max_new_tokens=1,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
                pad_token_id=0,
            )
            found[number, order] = out.logits[0][0, letters].float().softmax(-1)[order]
    return found


def _of_choices(loaded: Loaded, table: pd.DataFrame) -> Result:
    """The same questions by the way of this project."""
    letters = _letters(loaded)
    found: dict[tuple[int, int], torch.Tensor] = {}
    for order in range(len(ORDERS)):
        prompts = [questions(loaded, row)[order] for _, row in table.iterrows()]
        logits = outputs.of_choices(loaded, prompts, [letters] * len(prompts))
        p_true = torch.tensor(logits).softmax(-1)[:, order]
        found |= {(number, order): p for number, p in enumerate(p_true)}
    return found


def questions(loaded: Loaded, row: pd.Series) -> list[list[int]]:
    """LLMsKnow's question on one answer in both orders, as token ids."""
    texts = [
        ASKS.format(question=row["question"], answer=row["ea_text"], first=a, second=b, i=INDENT)
        for a, b in ORDERS
    ]
    return [list(loaded.tokenizer(text)["input_ids"]) for text in texts]


def _letters(loaded: Loaded) -> tuple[int, int]:
    """The letters without a blank before them, as LLMsKnow takes them."""
    a, b = (loaded.tokenizer.encode(letter, add_special_tokens=False)[0] for letter in ("A", "B"))
    return a, b
