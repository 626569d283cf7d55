"""Whatever a config holds: one clear error, never a traceback."""

import copy
from typing import Any

from hostile import cases, short
from hypothesis import given, strategies as st
from workflow import SHIPPED

from anchorscope.storage.errors import AnchorscopeError
from anchorscope.workflow import config

NAMES = st.one_of(
    short,
    st.sampled_from(["results", "models", "hub", "local", "train", "../x", "all", "a/b", "", "."]),
)
SCALARS = st.one_of(NAMES, st.none(), st.booleans(), st.integers(), st.floats(), st.dates())
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
"""Whatever YAML can spell."""


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a config, as the keys that lead to it."""
    pairs = list(value.items()) if isinstance(value, dict) else []
    return [at] * bool(at) + [p for key, inner in pairs for p in places(inner, (*at, key))]


def changed(edits: list[tuple[tuple[Any, ...], Any, Any]]) -> Any:
    """The shipped config with values set, or put beside others under a name."""
    raw = copy.deepcopy(SHIPPED)
    for at, name, value in edits:
        inside = raw
        for key in at[:-1]:
            inside = inside.get(key, {}) if isinstance(inside, dict) else {}
        if isinstance(inside, dict):
            inside[at[-1] if name is None else name] = value
    return raw


EDITS = st.lists(
    st.tuples(st.sampled_from(places(SHIPPED)), st.none() | NAMES, JUNK), min_size=1, max_size=3
)


@cases
@given(EDITS)
def test_a_config_with_anything_in_it_is_taken_or_refused_in_words(edits):
    raw = changed(edits)
    try:
        loaded = config.load(raw)
    except AnchorscopeError as error:
        assert error.what and error.do
    else:
        assert config.load(raw) == loaded
