"""The planted cell that the tests of detectors share."""

import pytest

from detectors.planted import Planted, planted


@pytest.fixture(scope="module")
def small() -> Planted:
    return planted(n=240)
