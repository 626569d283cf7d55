"""A token budget too small for one sample is one clear message, before the first pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from anchorscope.models import budget
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow.config import load

ROOT = Path(__file__).parents[2]
BASE = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))


def test_what_one_sample_takes_may_be_all_of_the_budget() -> None:
    budget.check(["a", "b"], [40, 68], 32, 100)
    budget.check([], [], 32, 1)


def test_the_longest_sample_is_named_with_what_it_takes_and_the_value_to_set() -> None:
    with pytest.raises(AnchorscopeError) as caught:
        budget.check(["a", "b", "c"], [40, 69, 90], 32, 100)
    said = str(caught.value)
    for part in (
        "batch_tokens: 100 is too small for 2 of 3 samples",
        "takes 122 tokens, 90 of its prompt and 32 of its answer",
        "sample c",
        "set batch_tokens to 122 or more, or max_prompt_tokens to 68",
        "#small-budget",
    ):
        assert part in said


def test_the_config_refuses_a_budget_that_no_prompt_can_keep_to() -> None:
    few = {"max_new_tokens": 50, "few_shot_examples": 5}
    load({**BASE, "generation": few, "batch_tokens": budget.least(50)})
    with pytest.raises(AnchorscopeError) as caught:
        load({**BASE, "generation": few, "batch_tokens": budget.least(50) - 1})
    for part in ("batch_tokens", "57 tokens hold no prompt", "up to 50", "58", "#small-budget"):
        assert part in str(caught.value)
