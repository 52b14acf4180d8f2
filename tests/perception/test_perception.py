import jax
import numpy as np
import pytest

from protoalign.envs import appearance, hunter
from protoalign.envs.hunter import CATEGORY_NAMES
from protoalign.perception import novelty
from protoalign.perception.categories import Clusters, Labelled
from protoalign.perception.classifier import TileClassifier

LOOKS = ["target", *(f"random:{seed}" for seed in range(50))]


def tiles(look, seed=0, noise=0.0, variant="z2c2"):
    """The 64 tiles of one board and their true categories."""
    world = hunter.parse(variant)
    grid = np.asarray(world.observe(jax.jit(world.reset, static_argnums=1)(jax.random.key(seed), 1)))[0].reshape(-1)
    pictures = appearance.load(look, CATEGORY_NAMES)[grid].astype(float)
    pictures += 255 * noise * np.random.default_rng(seed).normal(size=pictures.shape)
    return np.clip(pictures, 0, 255).astype(np.uint8), grid


@pytest.fixture(scope="module")
def detector():
    return novelty.train(appearance.load("source", CATEGORY_NAMES), np.random.default_rng(0))


def test_every_new_look_is_noticed_and_no_old_one_is(detector):
    assert not detector.unseen(appearance.load("source", CATEGORY_NAMES)).any()
    for look in LOOKS:
        assert detector.unseen(appearance.load(look, CATEGORY_NAMES)).all(), look


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1, 0.2])
def test_looks_are_told_apart_without_labels(noise):
    wrong = 0
    for seed, look in enumerate(LOOKS[:20]):
        pictures, truth = tiles(look, seed, noise)
        categories = Clusters(pictures)
        pairs = set(zip(categories.assign(pictures).tolist(), truth.tolist(), strict=True))
        wrong += not (len(pairs) == len(set(truth.tolist())) == len(categories))
    assert wrong <= (0 if noise < 0.2 else 2)


def test_later_pictures_and_new_looks():
    pictures, truth = tiles("target", 0, 0.05)
    categories = Clusters(pictures)
    later, later_truth = tiles("target", 5, 0.05)
    name = dict(zip(truth.tolist(), categories.assign(pictures).tolist(), strict=True))
    assert categories.assign(later).tolist() == [name[t] for t in later_truth.tolist()]
    assert len(categories) == 5
    stranger = appearance.load("random:3", CATEGORY_NAMES)[:1]
    assert categories.assign(stranger).tolist() == [5]
    assert categories.assign(stranger).tolist() == [5]


def test_the_classifier_tells_tiles_apart_and_stands_noise():
    pictures, truth = tiles("random:7", 0, 0.05)
    classify = TileClassifier(pictures, truth)
    later, later_truth = tiles("random:7", 9, 0.1)
    assert (classify(later) == later_truth).mean() > 0.98
    assert (TileClassifier(pictures[:3], np.array([2, 2, 2]))(later) == 2).all()


def test_source_looks_are_the_categories_and_an_oracle_says_the_same():
    """So prototypes found by looks and by labels are the same in the source, up to their numbers."""
    for seed in range(5):
        pictures, truth = tiles("source", seed, variant="z4c4")
        by_look, by_label = Clusters(pictures), Labelled()
        found, told = by_look.assign(pictures), by_label.assign(pictures, truth.reshape(8, 8))
        assert len(set(zip(found.tolist(), truth.tolist(), strict=True))) == len(by_look) == len(set(truth.tolist()))
        assert len(set(zip(found.tolist(), told.tolist(), strict=True))) == len(by_label) == len(by_look)
        for i in range(len(by_label)):
            np.testing.assert_allclose(by_label.centres[i], pictures[told == i][0].ravel() / 255)
            assert (by_label.examples[i] == pictures[told == i][0]).all()


@pytest.mark.parametrize("look", LOOKS[:8])
def test_a_change_of_light_is_seen_as_such(look):
    """The whole picture a shade brighter, darker or redder: the same categories, and no new ones. A new thing is still new."""
    pictures, truth = tiles(look, 0)
    categories = Clusters(pictures)
    name = dict(zip(truth.tolist(), categories.assign(pictures).tolist(), strict=True))
    rng = np.random.default_rng(1)
    for seed in range(1, 6):
        later, later_truth = tiles(look, seed)
        colours = later.reshape(-1, 3).astype(int)
        lowest, highest = (
            np.maximum(-colours.min(0), -50),
            np.minimum(255 - colours.max(0), 50),
        )  # nothing cut off at black or white
        lit = (later + rng.integers(lowest, highest + 1)).astype(np.uint8)
        assert categories.assign(lit).tolist() == [name[t] for t in later_truth.tolist()]
        assert len(categories) == 5
    lit[7] = appearance.load("random:99", CATEGORY_NAMES)[0]
    assert categories.assign(lit)[7] == 5
