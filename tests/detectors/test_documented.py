"""The method that docs/architecture.md adds does all that every method does."""

from collections.abc import Iterator

import documented as page
import pytest
import test_leaks
import test_methods
from planted import Planted

from anchorscope.detectors import methods
from anchorscope.detectors.registry import METHODS


@pytest.fixture(scope="module")
def name(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The method's name, while it is registered."""
    folder = tmp_path_factory.mktemp("methods")
    method = page.write_method(folder)
    methods.__path__.append(str(folder))
    METHODS[method.name] = method
    yield method.name
    del METHODS[method.name]
    methods.__path__.remove(str(folder))


def test_it_scores_each_sample_by_itself_and_knows_nothing_of_it(name: str, small: Planted) -> None:
    train = small.cell.training(0)
    test_methods.test_a_sample_alone_scores_as_among_others(small, train, name)
    test_leaks.test_no_method_knows_what_it_scores(small, name)
