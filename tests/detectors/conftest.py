"""The planted cell that most tests of detectors share."""

import pytest
from planted import Planted, planted


@pytest.fixture(scope="session")
def small() -> Planted:
    """A cell of 240 answers; shared, so leave it unchanged."""
    return planted(n=240)
