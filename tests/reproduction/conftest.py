import pytest

from tests.reproduction import toy


@pytest.fixture(autouse=True, scope="module")
def all_quick_to_compile(quick_to_compile):
    """Everything here runs for a moment."""


@pytest.fixture(autouse=True, scope="module")
def toy_worlds():
    with toy.registered():
        yield
