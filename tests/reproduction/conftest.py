import jax
import pytest

from tests.reproduction import toy


@pytest.fixture(autouse=True, scope="module")
def quick_to_compile():
    """Programs that run for a moment: compiling them well would take longer than it saves."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(autouse=True, scope="module")
def toy_worlds():
    with toy.registered():
        yield
