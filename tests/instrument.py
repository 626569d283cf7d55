"""A measured cell without the workflow, and slow, obvious versions of its passes as oracles."""

import itertools
import random
from typing import Any

import pandas as pd
import torch
from conftest import ALL_FAMILIES, CORPUS

from anchorscope.config.readouts import POSITIONS, SITES
from anchorscope.models import families
from anchorscope.passes import planning, runner

TOKENIZER = dict.fromkeys(ALL_FAMILIES, "byte_level") | dict.fromkeys(
    ("llama", "mistral"), "metaspace"
)
READOUTS = [f"{site}/{place}" for site in SITES for place in POSITIONS]
CONDITIONS = {"knockout": {}, "random": {"draws": 2}, "question": {}, "noop": {"samples": 3}}
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
EXPERTS = ("qwen3_moe", "mixtral")
"""Families whose states depend, by rounding alone, on how many other tokens an expert is given."""
BFLOAT16 = 0.15
"""Largest change of a state by rounding, as a share of its norm; 0.02 to 0.08 on a CPU."""
REROUTED = 0.05
"""Largest share of a mixture's states that rounding may send to other experts."""


def answers_table(tokenizer, texts=CORPUS, seed=0):
    """An answers table from the corpus: E_Q in two runs, the answer's last token closing it."""
    draws = random.Random(seed)
    records = []
    for number, text in enumerate(texts):
        prompt = text[: text.index("A:") + 2]
        ids = tokenizer(text)["input_ids"]
        start = len(tokenizer(prompt)["input_ids"])
        question = list(range(3, start - 2))
        first = draws.randrange(3, 3 + len(question) // 3)
        row = {"id": f"q{number}", "input_ids": ids, "prompt_length": start, "ea_start": start}
        row |= {"eq_tokens": [first, first + 1, first + 4], "question_tokens": question}
        records.append(row | dict.fromkeys(("ea_end", "final"), len(ids) - 1) | {"dropped": None})
    return pd.DataFrame(records)


def same(one, other, family="llama"):
    """Whether two states are equal to the last bit; to rounding, where experts are mixed."""
    return torch.allclose(one, other, **CLOSE) if family in EXPERTS else torch.equal(one, other)


def planned(answers, **settings):
    return planning.plan(answers, **{"conditions": CONDITIONS, "batch_tokens": 800} | settings)


def measured(loaded, plan, readouts=READOUTS):
    """(id, tensor name) → [layers, width]."""
    return {
        (plan.samples[number].id, name): states[place]
        for batch, tensors in runner.measure(loaded, plan, readouts)
        for name, states in tensors.items()
        for place, number in enumerate(batch.samples)
    }


def cuts(plan):
    """(id, condition, draw) → (sample, tokens cut)."""
    rows = itertools.chain(*(batch.rows for batch in plan.batches))
    found = [(plan.samples[row.sample], row) for row in rows]
    return {(one.id, row.condition, row.draw): (one, row.tokens) for one, row in found}


def slow_mask(length, cut):
    """Additive mask [1, 1, length, length] of one unpadded row, one pair at a time."""
    table = torch.full((length, length), torch.finfo(torch.float32).min)
    for query, key in itertools.product(range(length), repeat=2):
        hidden = key in cut and query not in cut
        if query == key or (key < query and not hidden):
            table[query, key] = 0
    return table[None, None]


def outputs(loaded, ids, **given):
    """Site → whole outputs of all layers on one row, and what the model returned; plain hooks."""
    seen = {site: [] for site in SITES}
    handles = [
        families.part(loaded, layer, site).register_forward_hook(
            lambda module, args, output, site=site: seen[site].append(
                families.first_tensor(output)[0].clone()  # Falcon adds to it in place
            )
        )
        for layer in families.layers(loaded)
        for site in SITES
    ]
    with torch.inference_mode():
        out = families.base(loaded.model)(torch.tensor([ids]), use_cache=False, **given)
    for handle in handles:
        handle.remove()
    return seen, out


def unshared(loaded, plan):
    """(id, tensor name) → [layers, width]: one row at a time, in full, under its own slow mask."""
    found = {}
    for row in itertools.chain(*(batch.rows for batch in plan.batches)):
        sample, id_ = row.passed, row.passed.id
        mask = slow_mask(len(sample.input_ids), row.tokens)
        seen, _ = outputs(loaded, sample.input_ids, attention_mask=mask)
        for site, (position, token) in itertools.product(seen, sample.positions.items()):
            name = f"{row.condition}.{row.draw}/{site}.{position}"
            found[id_, name] = torch.stack([states[token] for states in seen[site]])
    return found


def layer_by_layer(loaded, sample, cut, deepest):
    """One row, with the cut in the attention of layers 0...deepest only: site → [layer] states."""
    length = len(sample.input_ids)
    masks = slow_mask(length, ()), slow_mask(length, cut)
    handles = [
        families.part(loaded, layer, "attn").register_forward_pre_hook(
            lambda module, args, kwargs, mask=masks[number <= deepest]: (
                args,
                kwargs | {"attention_mask": mask},
            ),
            with_kwargs=True,
        )
        for number, layer in enumerate(families.layers(loaded))
    ]
    seen, _ = outputs(loaded, sample.input_ids)
    for handle in handles:
        handle.remove()
    return seen


def assert_alike(found, expected):
    """Two tables of states are equal but for rounding."""
    assert found.keys() == expected.keys()
    for key, states in found.items():
        torch.testing.assert_close(states, expected[key], **CLOSE)


def assert_rounded(found, exact, family):
    """bfloat16 states are the exact ones but for rounding, and for tokens at another expert."""
    assert found.keys() == exact.keys()
    assert {states.dtype for states in found.values()} == {torch.bfloat16}
    far = [
        key
        for key, states in found.items()
        if ((states - exact[key]).norm(dim=-1) / exact[key].norm(dim=-1)).max() > BFLOAT16
    ]
    assert len(far) <= (REROUTED * len(found) if family in EXPERTS else 0), far


def short_of_memory(model: Any, rows: int) -> Any:
    """Lets the model pass so many rows at once; more raise what a GPU raises."""

    def refuse(_: Any, args: Any, kwargs: Any) -> None:
        if len(kwargs["input_ids"]) > rows:
            raise torch.OutOfMemoryError("CUDA out of memory")

    return model.base_model.register_forward_pre_hook(refuse, with_kwargs=True)


def greedy(loaded, ids, eos, most):
    """The greedy answer to one row, passed in full for every token: no cache, no padding."""
    new = []
    while len(new) < most and not (new and new[-1] in eos):
        with torch.inference_mode():
            logits = loaded.model(torch.tensor([[*ids, *new]]), use_cache=False).logits
        new.append(int(logits[0, -1].argmax()))
    return tuple(new)
