import pytest

from tests.reproduction import toy


@pytest.fixture(autouse=True, scope="module")
def toy_worlds():
    with toy.registered():
        yield
