"""Settings of the baselines: presets, and what differs between families of worlds, as data.

A family is what a world's name begins with: `hunter` of `hunter-z1c1`. Families that are not listed have `OTHERS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from protoalign.errors import UserError
from protoalign.settings import PRESETS, PPOConfig
from protoalign.worlds.crafter.settings import CRAFTER_SETTINGS

Encoder = Literal["tiles", "conv"]
NAMES = ("ppo", "darla", "lusr", "unit4rl", "ltmbr")


@dataclass(frozen=True)
class BaselineConfig:
    """The paper's baselines, all on pixels."""

    encoder: Encoder = "tiles"
    """First layer as large as a tile, with the same stride, or a plain stack of convolutions."""
    source_steps: int = 2_000_000
    """Of the task policy in the source world."""
    latent_steps: int = 20_000_000
    """... where it sees a frozen code (DARLA, LUSR) and learns more slowly."""
    target_steps: int = 1_000_000
    """Of fine-tuning in the target (UNIT4RL, LTMBR)."""
    frames: int = 50_000
    """By a random policy, per domain: for autoencoders and translation."""
    code_updates: int = 6000
    """Of the autoencoders."""
    beta: float = 0.1
    """Weight of KL (sum over latents) against squared error (sum over the picture's values from 0 to 1), DARLA and LUSR."""
    perceptual: bool = False
    """DARLA's reconstruction error in the features of a denoising autoencoder instead of pixels."""
    reverse: float = 0.5
    """Weight of LUSR's reverse loss (sum over latents) against squared error (sum over the picture's values from 0 to 1)."""
    translation_updates: int = 8000
    """Of UNIT4RL's translation."""
    source_model: float = 1.0
    """Weight of LTMBR's model losses in the source: mean squared errors of latents of length one, and of rewards."""
    model: float = 4.0
    """... and in the target, of the model given."""
    ppo: PPOConfig = field(default_factory=PPOConfig)
    latent_ppo: PPOConfig = field(default_factory=lambda: PPOConfig(envs=512, minibatch=2048, learning_rate=1e-3))
    """... where the policy sees a frozen code: what it learns from is rarer, so it averages over more."""


class Sizes(NamedTuple):
    """Of networks: the more different tiles there are, the more it takes to tell them apart."""

    latent: int = 2  # numbers per tile in an autoencoder's code: 128 in Hunter's pictures of 8 x 8 tiles
    strokes: int = 16  # numbers that say what to paint on a tile
    width: int = 64  # of a policy's layers


SMALL = Sizes()


@dataclass(frozen=True)
class Family:
    """What differs between families of worlds."""

    presets: Mapping[str, BaselineConfig]
    sizes: Sizes = SMALL
    compared: tuple[str, ...] = NAMES
    """Baselines that tables compare the method with."""


_PAPER = PRESETS["paper"].task.ppo
_CRAFTER = CRAFTER_SETTINGS["fast"].task.ppo

OTHERS = Family(
    {
        "fast": BaselineConfig(),
        "paper": BaselineConfig(
            encoder="conv",
            source_steps=25_000_000,
            latent_steps=100_000_000,
            target_steps=5_000_000,
            frames=500_000,
            code_updates=100_000,
            translation_updates=100_000,
            ppo=_PAPER,
            latent_ppo=_PAPER,
        ),
    }
)
FAMILIES: dict[str, Family] = {
    "crafter": Family(
        {
            "fast": BaselineConfig(
                source_steps=3_000_000,
                latent_steps=3_000_000,
                target_steps=1_500_000,
                translation_updates=4000,
                ppo=_CRAFTER,
                latent_ppo=_CRAFTER,
            )
        },
        Sizes(latent=4, strokes=48, width=256),
        tuple(name for name in NAMES if name != "ltmbr"),  # as in the paper's table
    ),
}


def family(world: str) -> Family:
    """Of a world, by its name."""
    return FAMILIES.get(world.lower().partition("-")[0], OTHERS)


def baseline_config(
    world: str, preset: str, steps: int | None = None, encoder: Encoder | None = None, perceptual: bool = False
) -> BaselineConfig:
    """A preset in a world, with other steps of every policy and another encoder where they are given."""
    presets = family(world).presets
    if preset not in presets:
        raise UserError(f"there is no preset '{preset}' of baselines in {world}: use {' or '.join(presets)}")
    config = replace(presets[preset], perceptual=perceptual)
    if encoder is not None:
        config = replace(config, encoder=encoder)
    return config if steps is None else replace(config, source_steps=steps, latent_steps=steps, target_steps=steps)
