"""LUSR (Xing et al., 2021): a code in two parts, one general and one of the domain; the policy sees the general part only.

Its pictures come from a random policy, in the source and in the target world.
"""

import io
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from PIL import Image
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from protoalign.files import write_atomic
from protoalign.reproduction.baselines import ppo_pixels
from protoalign.reproduction.baselines.autoencoder import (
    HELD,
    CodeNet,
    Decoder,
    Encoder,
    check_shown,
    divergence,
    nearest,
    sample,
    shown,
    train,
)
from protoalign.reproduction.baselines.job import Adapted, Job
from protoalign.reproduction.baselines.pixels import lay, picture
from protoalign.rng import generator

STYLE = 16


def train_source(job: Job) -> CodeNet:
    encoder, decoder, held = train_code(job)
    check(job, encoder, decoder, held)
    net = CodeNet(generator(job.seed, "source/network"), job, encoder, held[0])
    return job.learn("source", net, job.config.latent_steps, "source", ppo=job.config.latent_ppo)


def train_code(job: Job) -> tuple[Encoder, Decoder, list[np.ndarray]]:
    """Encoder, decoder, and pictures of both domains that they were not trained on."""
    grids = [job.watch("source"), job.watch("target")]

    def loss(models: Any, seen: Array, key: Array, beta: Array) -> Array:
        encoder, decoder = models
        return code_loss(encoder, decoder, (job.source, job.target), seen, key, beta, job.config.reverse)

    rng = generator(job.seed, "code/network")
    models = (Encoder(rng, job, STYLE), Decoder(rng, job, STYLE))
    encoder, decoder = train(job, "code", models, loss, grids, job.config.code_updates)
    return encoder, decoder, [g[:HELD] for g in grids]


def code_loss(
    encoder: Encoder, decoder: Decoder, looks: tuple[Array, Array], seen: Array, key: Array, beta: Array | float, reverse: float
) -> Array:
    """Forward: pictures from their general code and the style of any picture of their domain. Reverse: the general code does
    not depend on the style it is drawn with; this trains the encoder only."""
    keys = iter(jax.random.split(key, 6))
    total, styles = jnp.float32(0), []
    for look, some in zip(looks, seen, strict=True):
        mean, spread, style = encoder(look, some)
        general = sample(next(keys), mean, spread)
        other = jax.random.permutation(next(keys), style)
        wrong = decoder.error(decoder(general, style), look, some) + decoder.error(decoder(general, other), look, some)
        total += (wrong + 2 * beta * divergence(mean, spread)).mean() / len(looks)
        styles.append(style)
    style = jnp.concatenate(styles)
    drawn = jax.random.normal(next(keys), (len(style), *general.shape[1:]))
    pair = (decoder.paint(decoder(drawn, s)) for s in (style, jax.random.permutation(next(keys), style)))
    one, other = (encoder.on_tiles(jax.lax.stop_gradient(tiles))[0] for tiles in pair)
    return total + reverse * jnp.abs(one - other).sum((1, 2)).mean()


def check(job: Job, encoder: Encoder, decoder: Decoder, held: list[np.ndarray]) -> None:
    """Does the general code show what is where, with the style of another picture? Does it tell the domain?"""

    @jax.jit
    def again(look: Array, seen: Array) -> tuple[Array, Array]:
        mean, _, style = encoder(look, seen)
        return mean, decoder.paint(decoder(mean, jnp.roll(style, 1, 0)))

    (source, pictures), (target, painted) = (
        again(look, some) for look, some in zip((job.source, job.target), held, strict=True)
    )
    domain = np.repeat([0, 1], [len(source), len(target)])
    told = cross_val_score(
        LogisticRegression(max_iter=1000), np.concatenate([source, target]).reshape(len(domain), -1), domain, cv=5
    )
    strange = decoder.paint(decoder(target, encoder(job.source, jnp.asarray(held[0]))[2]))  # the target in the source's style
    names, taken = job.names, nearest(job.source, strange)
    there = [c for c in range(len(names)) if (held[1] == c).any()]
    job.run.add_result(
        {
            "shown_target": shown(job, job.target, held[1], painted),
            "domain_told": round(float(told.mean()), 4),
            "mapping": {names[c]: names[np.bincount(taken[held[1] == c]).argmax()] for c in there},
        }
    )
    check_shown(job, job.source, held[0], pictures)


def swap(encoder: Encoder, decoder: Decoder, a: tuple[Array, Any], b: tuple[Array, Any]) -> list[Array]:
    """Tiles of a (a look and grids) with its own style, and with the style of b."""
    mean, _, own = encoder(*a)
    style = encoder(*b)[2]
    return [decoder.paint(decoder(mean, s)) for s in (own, style)]


adapt = ppo_pixels.adapt


def evaluate(job: Job, trained: CodeNet, adapted: list[Adapted]) -> dict[str, Any]:
    draw_swaps(job)
    return job.judge(trained, adapted)


def draw_swaps(job: Job, number: int = 8) -> None:
    """The paper's figure, as swaps.png: pictures a and b, a from its own codes, a with the style of b, for all pairs of worlds.

    A style is of the picture as a whole: it cannot move objects, as the paper's did.
    """
    encoder, decoder, pool = train_code(job)
    rng = generator(job.seed, "swaps")
    looks, columns = (job.source, job.target), []
    for i in range(number):
        domains = (i // 2 % 2, i % 2)
        a, b = ((looks[d], pool[d][rng.integers(0, len(pool[d]), 1)]) for d in domains)
        rows = [lay(jnp.asarray(seen), look) for look, seen in (a, b)] + swap(encoder, decoder, a, b)
        frames = (np.asarray(picture(tiles, job.screen))[0] for tiles in rows)
        columns.append(np.concatenate([np.pad(frame, ((2, 2), (2, 2), (0, 0)), constant_values=1) for frame in frames]))
    image = np.round(255 * np.clip(np.concatenate(columns, 1), 0, 1)).astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(image).resize((2 * image.shape[1], 2 * image.shape[0]), Image.Resampling.NEAREST).save(buffer, "PNG")
    write_atomic(job.run.path / "swaps.png", buffer.getvalue())
