"""Whatever a config holds: one clear error, never a traceback."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml
from hostile import cases, short
from hypothesis import given
from hypothesis import strategies as st

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import config

SHIPPED = yaml.safe_load((Path(__file__).parents[2] / "config.yaml").read_text(encoding="utf-8"))
NAMES = st.one_of(
    short,
    st.sampled_from(["results", "models", "hub", "local", "train", "../x", "all", "a/b", "", "."]),
)
KEYS = st.one_of(NAMES, st.none(), st.booleans(), st.integers(), st.floats())
SCALARS = st.one_of(KEYS, st.dates(), st.binary(max_size=3))
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
"""Whatever YAML can spell."""


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a config, as the keys that lead to it."""
    found = [at] if at else []
    pairs = list(value.items()) if isinstance(value, dict) else []
    for key, inner in pairs or enumerate(value if isinstance(value, list) else []):
        found += places(inner, (*at, key))
    return found


PLACES = places(SHIPPED)


def changed(edits: list[tuple[tuple[Any, ...], str, Any, Any]]) -> Any:
    raw = copy.deepcopy(SHIPPED)
    for at, what, name, value in edits:
        inside = raw
        try:
            for key in at[:-1]:
                inside = inside[key]
            if what == "drop":
                del inside[at[-1]]
            elif what == "add":
                inside[at[-1]][name] = value
            else:
                inside[at[-1]] = value
        except (KeyError, IndexError, TypeError):  # an earlier edit took the place away
            continue
    return raw


EDITS = st.lists(
    st.tuples(
        st.sampled_from(PLACES),
        st.sampled_from(["set", "set", "add", "drop"]),
        KEYS,
        JUNK,
    ),
    min_size=1,
    max_size=3,
)


@cases
@given(EDITS)
def test_a_config_with_anything_in_it_is_taken_or_refused_in_words(edits: Any) -> None:
    raw = changed(edits)
    try:
        loaded = config.load(raw)
    except AnchorscopeError as error:
        assert error.what and error.do
    else:
        assert config.load(raw) == loaded
