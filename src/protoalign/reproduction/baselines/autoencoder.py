"""Variational autoencoders of pictures, and policies that see their codes: what DARLA and LUSR are made of."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.errors import GateError
from protoalign.reproduction.baselines.job import Job
from protoalign.reproduction.baselines.pixels import CODE, EYES, flat, lay
from protoalign.rl.networks import MARKS, Dense, Heads, toward_marks
from protoalign.rl.train import fit
from protoalign.rng import generator, stream
from protoalign.worlds.base import Observation

HIDDEN = 64
BATCH = 32
RATE = 4e-3
HELD = 512  # pictures that are not trained on, to judge by
SHOWN = 0.9  # of each common kind of tile must be seen in reconstructions before any policy is trained on the codes
COMMON = 0.01  # of all tiles


class Encoder(eqx.Module):
    """Pictures to the mean and log-variance of a latent [B, N, latent], and to a second, deterministic code of the picture as
    a whole [B, style]."""

    eye: Any
    mean: Dense
    spread: Dense
    style: Dense

    def __init__(self, rng: np.random.Generator, job: Job, style: int = 0):
        self.eye = EYES[job.config.encoder](rng, job.screen)
        latent = job.sizes.latent
        self.mean = Dense(rng, CODE, latent, 1.0)
        self.spread = Dense(rng, CODE, latent, 0.1)
        self.style = Dense(rng, CODE, style, 1.0)

    def __call__(self, look: Array, seen: Array) -> tuple[Array, Array, Array]:
        return self.heads(self.eye(look, seen))

    def on_tiles(self, tiles: Array) -> tuple[Array, Array, Array]:
        return self.heads(self.eye.on_tiles(tiles))

    def heads(self, x: Array) -> tuple[Array, Array, Array]:
        return self.mean(x), self.spread(x), self.style(x.mean(1))


class Decoder(eqx.Module):
    """Latents and styles to pictures; the last layer paints one tile at a time."""

    hidden: Dense
    strokes: Dense
    brush: Dense

    def __init__(self, rng: np.random.Generator, job: Job, style: int = 0):
        latent, strokes, _ = job.sizes
        self.hidden = Dense(rng, latent + style, HIDDEN)
        self.strokes = Dense(rng, HIDDEN, strokes, 1.0)
        self.brush = Dense(rng, strokes, job.screen.pixels, 1.0)

    def __call__(self, latent: Array, style: Array) -> Array:
        """What to paint on each tile, [B, N, strokes]."""
        everywhere = jnp.broadcast_to(style[:, None], (*latent.shape[:2], style.shape[1]))
        return jax.nn.sigmoid(self.strokes(jax.nn.relu(self.hidden(jnp.concatenate([latent, everywhere], -1)))))

    def paint(self, strokes: Array) -> Array:
        """Tiles [B, N, pixels]."""
        return self.brush(strokes)

    def error(self, strokes: Array, look: Array, seen: Array) -> Array:
        """Squared error of the pictures, summed over each, [B]: |Ws + b - t|^2, multiplied out so that nothing is painted."""
        weight, short = self.brush.weight, self.brush.bias - look
        square = ((strokes.reshape(-1, strokes.shape[-1]) @ (weight @ weight.T)).reshape(strokes.shape) * strokes).sum(-1)
        mixed = (strokes * lay(seen, 2 * short @ weight.T)).sum(-1)
        return (square + mixed + lay(seen, (short**2).sum(-1, keepdims=True))[..., 0]).sum(-1)


def sample(key: Array, mean: Array, spread: Array) -> Array:
    return mean + jnp.exp(spread / 2) * jax.random.normal(key, mean.shape)


def divergence(mean: Array, spread: Array) -> Array:
    """KL from the unit normal distribution, summed over latents, [B]."""
    return 0.5 * (mean**2 + jnp.exp(spread) - spread - 1).sum((1, 2))


def train(
    job: Job, stage: str, models: Any, loss: Callable[[Any, Array, Array, Array], Array], grids: list[np.ndarray], updates: int
) -> Any:
    """Minimise `loss(models, seen, key, beta)`, with a batch of grids [domains, BATCH, N], the same number of each domain.

    Beta rises from 0 to its value in the first half: small objects are else given up before they are found.
    """
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, updates, 0.02))

    @jax.jit
    def step(state: Any, seen: Array, key: Array, beta: Array) -> Any:
        models, moments = state
        value, grads = jax.value_and_grad(loss)(models, seen, key, beta)
        change, moments = optimiser.update(grads, moments)
        return (optax.apply_updates(models, change), moments), value

    def update(state: Any, i: int) -> Any:
        rng = generator(job.seed, f"{stage}/{i}")
        seen = np.stack([g[rng.integers(HELD, len(g), BATCH)] for g in grids])
        beta = jnp.float32(job.config.beta * min(1, 2 * i / updates))
        state, value = step(state, seen, jax.random.fold_in(stream(job.seed, stage), i), beta)
        return state, {"loss": value}

    job.run.configure(stage, {"updates": updates, "batch": BATCH, "beta": job.config.beta})
    start = (models, optimiser.init(models))
    title = f"{stage} {job.world.spec.name}"
    (models, _), seconds = fit(job.run, stage, title, updates, start, update, "loss {loss:.2f}")
    job.spent(stage, seconds)
    return models


def shown(job: Job, look: Array, seen: np.ndarray, tiles: Array) -> dict[str, float]:
    """By kind, the share of its tiles [B, N] whose reconstruction [B, N, pixels] is nearest to a picture of that kind.

    Kinds that are not among the tiles are left out.
    """
    true, found = job.kind_of[seen], job.kind_of[nearest(look, tiles)]
    return {
        name: round(float((found[true == kind] == kind).mean()), 4)
        for kind, name in enumerate(job.kinds)
        if (true == kind).any()
    }


def nearest(look: Array, tiles: Array) -> np.ndarray:
    """The id [B, N] whose picture each tile is nearest to."""
    return np.asarray(((look**2).sum(-1) - 2 * tiles @ look.T).argmin(-1))


def check_shown(job: Job, look: Array, seen: np.ndarray, tiles: Array) -> None:
    """No policy can learn from codes that have lost the animals. What is rare may be lost, and in some worlds much is."""
    share = shown(job, look, seen, tiles)
    job.run.add_result({"shown": share})
    common = dict(zip(job.kinds, np.bincount(job.kind_of[seen].reshape(-1), minlength=len(job.kinds)) / seen.size, strict=True))
    lost = {name: s for name, s in share.items() if s < SHOWN and common[name] >= COMMON}
    if lost:
        raise GateError(
            f"the autoencoder of {job.name} does not show enough of: {', '.join(lost)} ({min(lost.values()):.0%} of tiles are "
            f"recognised, {SHOWN:.0%} are needed): try another --seed"
        )


class CodeNet(eqx.Module):
    """Three layers on a frozen code, each number of it shifted and scaled as it varies among some pictures."""

    look: Array
    encoder: Encoder
    middle: Array
    size: Array
    layers: list[Dense]
    heads: Heads

    def __init__(self, rng: np.random.Generator, job: Job, encoder: Encoder, some: np.ndarray):
        self.look = job.source
        self.encoder = encoder
        codes = encoder(self.look, jnp.asarray(some))[0].reshape(len(some), -1)
        self.middle, self.size = codes.mean(0), codes.std(0) + 0.01
        inputs = codes.shape[1] + len(MARKS) * job.screen.numbers
        width = job.sizes.width
        self.layers = [Dense(rng, n, width) for n in (inputs, width, width)]
        self.heads = Heads(rng, width, job.screen.actions)

    def encode(self, observation: Observation) -> Array:
        # Once, while collecting: no gradient reaches the encoder.
        grid, numbers = flat(observation)
        code = self.encoder(self.look, grid)[0].reshape(len(grid), -1)
        return jax.lax.stop_gradient(jnp.concatenate([(code - self.middle) / self.size, toward_marks(numbers)], 1))

    def __call__(self, seen: Array) -> tuple[Array, Array]:
        for layer in self.layers:
            seen = jax.nn.relu(layer(seen))
        return self.heads(seen)
