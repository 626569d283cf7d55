"""A detector of a tiny model."""

from typing import Any

import pytest
from own_rows import SETTINGS, rows

import anchorscope
from anchorscope import Detector


@pytest.fixture(scope="session")
def detector(load: Any) -> Detector:
    """Fitted to 60 answers; shared, so leave it unchanged."""
    loaded = load("llama")
    return anchorscope.fit(loaded.model, loaded.tokenizer, rows(), **SETTINGS)
