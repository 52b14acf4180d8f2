import numpy as np
import pytest

from protoalign import worlds
from protoalign.perception.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def hunter() -> Vocabulary:
    """Of a world whose five pictures are five prototypes."""
    return learned(worlds.make("hunter-z1c1").pictures("source"))


@pytest.fixture(scope="session")
def crafter() -> Vocabulary:
    """Of a world in which things stand on several grounds."""
    return learned(worlds.make("crafter").pictures("source"))


def learned(pictures: np.ndarray) -> Vocabulary:
    return Vocabulary.fit(pictures).learn(np.ones(len(pictures), bool), np.random.default_rng(0))
