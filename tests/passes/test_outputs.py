"""Token probabilities of the main run, against the whole model one row at a time."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ALL_FAMILIES
from instrument import TOKENIZER, answers_table
from test_sharing import behind_heads

from anchorscope.models import loading
from anchorscope.models.families import Loaded
from anchorscope.passes import activations, runner
from anchorscope.passes.batches import Sample, arrange
from anchorscope.passes.interventions import CROSSED, CROSSED_GOLD, GOLD, REGISTRY, on
from anchorscope.passes.planning import behind, sample_of
from anchorscope.storage.errors import AnchorscopeError

CONDITIONS = {"knockout": {}, "random": {}, "crossed": {}, "gold": {}}
UNCUT = ("clean", "crossed", "gold", "crossed-gold")


def samples_of(rows: pd.DataFrame) -> list[Sample]:
    """Of the corpus, swapped with their neighbours; E_A begins one token into longer answers.

    Every second one also has a gold answer.
    """
    longer = rows["ea_end"] - rows["ea_start"] > 1
    rows["ea_start"] += longer.astype(int)
    samples = [sample_of(row) for row in rows.to_dict("records")]
    for number, (one, other) in enumerate(pairwise(samples)):
        one.others[CROSSED] = behind(one, other)
        if number % 2:
            gold = one.others[GOLD] = replace(behind(other, one), id=one.id, partner=None)
            one.others[CROSSED_GOLD] = behind(gold, other)
    return samples


def written(folder: Path, loaded: Loaded, samples: Sequence[Sample]) -> pd.DataFrame:
    """The probabilities that a run of these samples leaves."""
    plan = arrange(samples, on(CONDITIONS), batch_tokens=600)
    activations.write(folder, loaded, plan, ["mlp/final"])
    return activations.outputs(folder)


def assert_those_of_the_whole_model(
    loaded: Loaded, samples: Sequence[Sample], table: pd.DataFrame
) -> None:
    groups = dict(iter(table.groupby(["id", "condition"])))
    passed = {
        (one.id, name): one.under(REGISTRY[name])
        for one in samples
        for name in UNCUT
        if REGISTRY[name].version is None or REGISTRY[name].version in one.others
    }
    assert groups.keys() == passed.keys()
    for key, one in passed.items():
        with torch.inference_mode():
            logits = loaded.model(torch.tensor([one.input_ids])).logits[0].double()
        rows = groups[key].set_index("place")
        assert list(rows.index) == list(range(one.answer_start, one.positions["last_answer"] + 1))
        assert list(rows["exact"]) == [p > one.positions["before_answer"] for p in rows.index]
        for place in rows.index:
            log_p = logits[place - 1].log_softmax(-1)
            token = one.input_ids[place]
            expected = {
                "logprob": log_p[token],
                "logit": logits[place - 1, token],
                "entropy": -(log_p.exp() * log_p).sum(),
            }
            for name, value in expected.items():
                assert rows.loc[place, name] == pytest.approx(float(value), abs=1e-4), key


@pytest.mark.parametrize("family", ALL_FAMILIES)
def test_they_are_those_of_the_whole_model_wherever_nothing_is_cut(
    family: str, load: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(family, TOKENIZER[family])
    table_of = answers_table if loaded.window else behind_heads  # longer than the window
    samples = samples_of(table_of(loaded.tokenizer))
    monkeypatch.setattr(runner, "LOGITS_AT_ONCE", 1)  # few logits at once change nothing
    table = written(tmp_path, loaded, samples)
    assert_those_of_the_whole_model(loaded, samples, table)
    facts = activations.measured(table_of(loaded.tokenizer), tmp_path)
    sums = table[table["exact"]].groupby(["id", "condition"])["logprob"].sum().unstack()
    found = facts.set_index("id")[[f"logprob_{name}" for name in sums]]
    np.testing.assert_allclose(found, sums.loc[found.index])


def test_logits_are_bent_as_the_model_bends_them(checkpoint: Any, tmp_path: Path) -> None:
    loaded = loading.load(checkpoint("gemma3_text"))
    loaded.model.config.final_logit_softcapping = 0.5
    samples = samples_of(answers_table(loaded.tokenizer))
    table = written(tmp_path, loaded, samples)
    assert table["logit"].abs().max() < 0.5
    assert_those_of_the_whole_model(loaded, samples, table)


def test_a_probability_that_is_not_finite_is_refused(checkpoint: Any, tmp_path: Path) -> None:
    loaded = loading.load(checkpoint("qwen2"))
    loaded.model.get_output_embeddings().weight.data[:] = float("nan")
    with pytest.raises(AnchorscopeError, match="log-probability is not finite(.|\n)*sample q"):
        written(tmp_path, loaded, samples_of(answers_table(loaded.tokenizer))[:1])
