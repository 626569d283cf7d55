"""Recipes of the small models, and the hashes that shipped checkpoints are held against."""

from typing import Any

from workflow import PROJECT

from anchorscope.workflow import config
from validation import cells, recipes

RUN = config.read([PROJECT / "config.yaml", PROJECT / "validation/calibration.yaml"])
KNOWN = cells.read(PROJECT / "validation/cells.yaml", RUN)
LLAMA = KNOWN.recipes["calibration-llama"]


def of_world(**changes: Any) -> str:
    """The hash after a change of one world."""
    world = KNOWN.worlds["world-search"].model_copy(update=changes)
    return recipes.hash_of(LLAMA, KNOWN.worlds | {"world-search": world})


def test_a_recipe_hash_follows_what_is_learned_and_nothing_else() -> None:
    now = recipes.hash_of(LLAMA, KNOWN.worlds)
    others = {name: KNOWN.worlds[name] for name in LLAMA.datasets}
    assert recipes.hash_of(LLAMA, others) == of_world() == now
    assert of_world(seed=9) != now and of_world(wordings=1) != now
    for change in ({"steps": 10}, {"settle_bare": 10}, {"architecture": "qwen3"}):
        assert recipes.hash_of(LLAMA.model_copy(update=change), KNOWN.worlds) != now
