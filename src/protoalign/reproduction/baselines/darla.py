"""DARLA (Higgins et al., 2017): a disentangled code of source pictures, by a beta-VAE; then a policy on the frozen code.

Its pictures come from a random policy in the source world. It sees nothing of the target before it is put there.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.reproduction.baselines import ppo_pixels
from protoalign.reproduction.baselines.autoencoder import (
    HELD,
    CodeNet,
    Decoder,
    Encoder,
    check_shown,
    divergence,
    sample,
    train,
)
from protoalign.reproduction.baselines.job import Job
from protoalign.reproduction.baselines.pixels import lay
from protoalign.rng import generator


def train_source(job: Job) -> CodeNet:
    grids = job.watch("source")
    look = job.source
    judge = train_judge(job, grids) if job.config.perceptual else None

    def loss(models: Any, seen: Array, key: Array, beta: Array) -> Array:
        encoder, decoder = models
        mean, spread, style = encoder(look, seen[0])
        strokes = decoder(sample(key, mean, spread), style)
        if judge is None:
            wrong = decoder.error(strokes, look, seen[0])
        else:  # as far apart as the judge's features of them
            wrong = ((judge(look, seen[0])[0] - judge.on_tiles(decoder.paint(strokes))[0]) ** 2).sum((1, 2))
        return (wrong + beta * divergence(mean, spread)).mean()

    rng = generator(job.seed, "code/network")
    models = (Encoder(rng, job), Decoder(rng, job))
    encoder, decoder = train(job, "code", models, loss, [grids], job.config.code_updates)
    held = grids[:HELD]
    mean, _, style = encoder(look, jnp.asarray(held))
    check_shown(job, look, held, decoder.paint(decoder(mean, style)))
    net = CodeNet(generator(job.seed, "source/network"), job, encoder, held)
    return job.learn("source", net, job.config.latent_steps, "source", ppo=job.config.latent_ppo)


def train_judge(job: Job, grids: np.ndarray) -> Encoder:
    """A denoising autoencoder: it restores pictures of which a rectangle of tiles is blackened."""
    height, width = job.screen.grid
    rows, cols = np.divmod(np.arange(height * width), width)
    look = job.source

    def loss(models: Any, seen: Array, key: Array, beta: Array) -> Array:
        encoder, decoder = models
        corner = jax.random.uniform(key, (2, 2, len(seen[0]))) * np.array([height, width])[:, None, None]
        low, high = corner.min(1)[..., None], corner.max(1)[..., None]  # [2, B, 1]
        hidden = (rows >= low[0]) & (rows < high[0]) & (cols >= low[1]) & (cols < high[1])  # [B, N]
        tiles = jnp.where(hidden[..., None], 0, lay(seen[0], look))
        mean, _, style = encoder.on_tiles(tiles)
        return decoder.error(decoder(mean, style), look, seen[0]).mean()

    rng = generator(job.seed, "judge/network")
    models = (Encoder(rng, job), Decoder(rng, job))
    return train(job, "judge", models, loss, [grids], job.config.code_updates)[0]


adapt = ppo_pixels.adapt
evaluate = ppo_pixels.evaluate
