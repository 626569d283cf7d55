"""A planted cell that the tests share."""

import pytest
from planted import Planted, planted


@pytest.fixture(scope="session")
def small() -> Planted:
    return planted(n=240)
