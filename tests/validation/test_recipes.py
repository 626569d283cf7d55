"""Recipes of the small models, and the hashes that shipped checkpoints are held against."""

from typing import Any

from workflow import PROJECT

from anchorscope.workflow import config
from validation import cells, recipes

RUN = config.read([PROJECT / "config.yaml", PROJECT / "validation/calibration.yaml"])
KNOWN = cells.read(PROJECT / "validation/cells.yaml", RUN)
LLAMA = KNOWN.recipes["calibration-llama"]


def of_world(**changes: Any) -> str:
    """The hash after a change of the entry of one world."""
    entry = RUN.datasets["world-search"]
    if world := changes.pop("world", None):
        assert entry.world is not None
        changes["world"] = entry.world.model_copy(update=world)
    changed = {"world-search": entry.model_copy(update=changes)}
    run = RUN.model_copy(update={"datasets": RUN.datasets | changed})
    return recipes.hash_of(LLAMA, run)


def test_a_recipe_hash_follows_what_is_learned_and_nothing_else() -> None:
    now = recipes.hash_of(LLAMA, RUN)
    assert of_world(label="x") == of_world(sample_size=100) == now
    assert of_world(world={"wordings": 2}) == now
    assert of_world(world={"seed": 9}) != now and of_world(world={"wordings": 1}) != now
    for change in ({"steps": 10}, {"settle_bare": 10}, {"architecture": "qwen3"}):
        assert recipes.hash_of(LLAMA.model_copy(update=change), RUN) != now
