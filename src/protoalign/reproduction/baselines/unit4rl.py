"""UNIT4RL (Gamrian and Goldberg, 2019): pictures of the target are translated into pictures of the source by UNIT (Liu et al.,
2017), unpaired; the source policy sees the translations, and is then fine-tuned on them in the target.

Generators begin and end with layers of one tile each, with no look at neighbours between: a generator maps pictures of tiles to
pictures of tiles, so a translated picture is the same grid in a translated look. Discriminators see neighbourhoods of 5 x 5
tiles. Losses and weights are those of the public code without its VGG term; noise on latents is drawn once per id and picture.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.reproduction.baselines import ppo_pixels
from protoalign.reproduction.baselines.job import Adapted, Job
from protoalign.reproduction.baselines.pixels import Screen, in_look, lay
from protoalign.rl.networks import Dense
from protoalign.rl.train import fit
from protoalign.rng import generator, stream

WIDTH = 64
SEES = 16  # channels of a discriminator
BATCH = 16
RATE = 2e-3
CRITIC_RATE = 4e-3
RECONSTRUCTION = CYCLE = 10.0
LATENT = 0.1  # weight of the latents' mean square


class Generator(eqx.Module):
    """A domain's encoder and decoder, on tiles [..., pixels] from -1 to 1."""

    into: Dense
    around: list[Dense]
    back: list[Dense]
    out: Dense

    def __init__(self, rng: np.random.Generator, screen: Screen):
        self.into = Dense(rng, screen.pixels, WIDTH)
        self.around = [Dense(rng, WIDTH, WIDTH) for _ in range(2)]
        self.back = [Dense(rng, WIDTH, WIDTH) for _ in range(2)]
        self.out = Dense(rng, WIDTH, screen.pixels, 1.0)

    def encode(self, tiles: Array) -> Array:
        x = jax.nn.relu(self.into(tiles))
        for layer in self.around:
            x = x + jax.nn.relu(layer(x))
        return x

    def decode(self, x: Array) -> Array:
        for layer in self.back:
            x = x + jax.nn.relu(layer(x))
        return jnp.tanh(self.out(x))


class Discriminator(eqx.Module):
    """How real each tile [B, H, W] looks among its neighbours."""

    code: Dense
    weights: list[Array]
    out: Dense
    grid: tuple[int, int] = eqx.field(static=True)

    def __init__(self, rng: np.random.Generator, screen: Screen):
        self.code = Dense(rng, screen.pixels, SEES)
        scale = (2 / (9 * SEES)) ** 0.5
        self.weights = [jnp.asarray(scale * rng.standard_normal((3, 3, SEES, SEES)), jnp.float32) for _ in range(2)]
        self.out = Dense(rng, SEES, 1, 1.0)
        self.grid = screen.grid

    def __call__(self, looks: Array, seen: Array) -> Array:
        """Of grids [B, N], each in its own look [B, C, pixels] or all in one [C, pixels]."""
        x = lay(seen, jax.nn.leaky_relu(self.code(looks), 0.2)).reshape(len(seen), *self.grid, SEES)
        for weight in self.weights:
            x = jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
            x = jax.nn.leaky_relu(x, 0.2)
        return self.out(x)[..., 0]


class Translator(eqx.Module):
    source: Generator
    target: Generator


class Critic(eqx.Module):
    source: Discriminator
    target: Discriminator


def translate(translator: Translator, look: Array) -> Array:
    """A look of the target (values from 0 to 1), as the source would show it."""
    return (translator.source.decode(translator.target.encode(2 * look - 1)) + 1) / 2


def generator_loss(translator: Translator, critic: Critic, looks: tuple[Array, Array], seen: Array, key: Array) -> Array:
    """`looks` and `seen` [2, B, N] are of the source and the target; losses are means over all tiles of the pictures."""
    total = jnp.float32(0)
    makers, judges = (translator.source, translator.target), (critic.source, critic.target)
    for here in (0, 1):
        own, other, look, some = makers[here], makers[1 - here], looks[here], seen[here]
        share = (some[..., None] == np.arange(len(look), dtype=some.dtype)).mean(1)  # of a picture's tiles [B, C]

        def mean(x: Array, share: Array = share) -> Array:
            return (share * x.mean(-1)).sum(-1).mean()

        keys = jax.random.split(jax.random.fold_in(key, here))
        latent = own.encode(look)
        noisy = latent + jax.random.normal(keys[0], (len(some), *latent.shape))
        across = other.decode(noisy)
        again = other.encode(across)
        back = own.decode(again + jax.random.normal(keys[1], again.shape))
        total += RECONSTRUCTION * mean(jnp.abs(own.decode(noisy) - look)) + CYCLE * mean(jnp.abs(back - look))
        total += LATENT * (mean(latent**2) + mean(again**2))
        total += ((judges[1 - here](across, some) - 1) ** 2).mean()
    return total


def critic_loss(critic: Critic, translator: Translator, looks: tuple[Array, Array], seen: Array, key: Array) -> Array:
    total = jnp.float32(0)
    makers, judges = (translator.source, translator.target), (critic.source, critic.target)
    for here in (0, 1):
        latent = makers[1 - here].encode(looks[1 - here])
        noise = jax.random.normal(jax.random.fold_in(key, here), (seen.shape[1], *latent.shape))
        false = judges[here](makers[here].decode(latent + noise), seen[1 - here])
        total += (false**2).mean() + ((judges[here](looks[here], seen[here]) - 1) ** 2).mean()
    return total


def train_translator(job: Job) -> Translator:
    grids = [job.watch("source"), job.watch("target")]
    looks = (2 * job.source - 1, 2 * job.target - 1)
    rng = generator(job.seed, "translate/network")
    translator = Translator(Generator(rng, job.screen), Generator(rng, job.screen))
    critic = Critic(Discriminator(rng, job.screen), Discriminator(rng, job.screen))
    updates = job.config.translation_updates
    optimiser, critic_optimiser = (
        optax.adam(optax.linear_schedule(rate, 0.1 * rate, updates), b1=0.5) for rate in (RATE, CRITIC_RATE)
    )

    @jax.jit
    def step(state: Any, seen: Array, key: Array) -> Any:
        translator, critic, moments, critic_moments = state
        first, second = jax.random.split(key)
        lost, grads = jax.value_and_grad(critic_loss)(critic, translator, looks, seen, first)
        change, critic_moments = critic_optimiser.update(grads, critic_moments)
        critic = optax.apply_updates(critic, change)
        value, grads = jax.value_and_grad(generator_loss)(translator, critic, looks, seen, second)
        change, moments = optimiser.update(grads, moments)
        return (optax.apply_updates(translator, change), critic, moments, critic_moments), {"loss": value, "critic_loss": lost}

    def update(state: Any, i: int) -> Any:
        rng = generator(job.seed, f"translate/{i}")
        seen = np.stack([g[rng.integers(0, len(g), BATCH)] for g in grids])
        return step(state, seen, jax.random.fold_in(stream(job.seed, "translate"), i))

    job.run.configure("translate", {"updates": updates, "batch": BATCH})
    start = (translator, critic, optimiser.init(translator), critic_optimiser.init(critic))
    shown = "loss {loss:.2f}  critic {critic_loss:.2f}"
    state, seconds = fit(job.run, "translate", f"translate {job.world.spec.name}", updates, start, update, shown)
    job.spent("translate", seconds)
    return state[0]


train_source = ppo_pixels.train_source


def adapt(job: Job, trained: Any) -> list[Adapted]:
    look = jax.jit(translate)(train_translator(job), job.target)
    apart = np.asarray(((look[:, None] - job.source) ** 2).sum(-1))  # [C, C]
    names = job.names
    job.run.add_result(
        {
            "translated": np.round(255 * np.asarray(look)).astype(int).tolist(),
            "mapping": {name: names[taken] for name, taken in zip(names, apart.argmin(1), strict=True)},
            "apart": {
                name: round(float(x), 3) for name, x in zip(names, apart.min(1), strict=True)
            },  # from what it is taken for
        }
    )
    net = in_look(trained, look)
    tuned = job.learn("adapt", net, job.config.target_steps, "target")
    return [Adapted("translated", net), Adapted("fine-tuned", tuned, "adapt")]


evaluate = ppo_pixels.evaluate
