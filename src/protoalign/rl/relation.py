"""The paper's network (appendix B.2): self-attention over all tiles, which carry their position."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.rl.networks import MARKS, Believed, Dense, Heads, Scene, toward_marks
from protoalign.worlds.base import Observation


class RelationNet(eqx.Module):
    """Two passes through one layer of four heads, then the maximum over tiles."""

    category: Array  # [C, F]
    position: Array  # [2, F], for a tile's row and column, both from -1 to 1
    qkv: Dense
    mix: Dense
    expand: Dense
    shrink: Dense
    hidden: Dense
    numbers: Dense | None
    heads: Heads
    scene: Scene = eqx.field(static=True)
    hideable: tuple[int, ...] = eqx.field(static=True)
    num_heads: int = eqx.field(static=True)
    passes: int = eqx.field(static=True)

    def __init__(
        self,
        rng: np.random.Generator,
        scene: Scene,
        width: int = 32,
        hideable: tuple[int, ...] = (),
        num_heads: int = 4,
        passes: int = 2,
    ):
        self.category = jnp.asarray(rng.standard_normal((scene.prototypes, width)), jnp.float32)
        self.position = jnp.asarray(rng.standard_normal((2, width)), jnp.float32)
        self.qkv = Dense(rng, width, 3 * width, 1.0)
        self.mix = Dense(rng, width, width, 1.0)
        self.expand = Dense(rng, width, width)
        self.shrink = Dense(rng, width, width, 1.0)
        self.hidden = Dense(rng, width, width)
        self.heads = Heads(rng, width, scene.actions)
        self.numbers = Dense(rng, len(MARKS) * scene.numbers, width, 1.0) if scene.numbers else None
        self.scene = scene
        self.hideable = hideable
        self.num_heads = num_heads
        self.passes = passes

    def encode(self, observation: Observation | Believed) -> Observation | Believed:
        return observation

    def __call__(self, seen: Observation | Believed, extra: Array | float = 0.0) -> tuple[Array, Array]:
        """`extra` [B, F] is added to the pooled features."""
        if isinstance(seen, Observation):
            tiles = self.category[seen.tiles.reshape(len(seen.tiles), -1).astype(jnp.int32)]
        else:
            batch = len(seen.codes)
            known = jnp.broadcast_to(self.category, (batch, *self.category.shape))
            every = jnp.concatenate([known, seen.belief @ self.category[np.array(self.hideable)]], 1)  # [B, C + S, F]
            codes = seen.codes.reshape(batch, -1, 1) == np.arange(every.shape[1], dtype=seen.codes.dtype)
            tiles = codes.astype(jnp.float32) @ every
        x = self.relate(tiles) + extra
        if self.numbers is not None:
            x = x + self.numbers(toward_marks(seen.numbers))
        return self.heads(jax.nn.relu(x))

    def relate(self, x: Array) -> Array:
        """Features [B, F] of what stands on every tile, [B, N, F]."""
        places = np.stack(np.meshgrid(*(np.linspace(-1, 1, n) for n in self.scene.grid), indexing="ij"), -1).reshape(-1, 2)
        x = x + places.astype(np.float32) @ self.position
        for _ in range(self.passes):
            x = layer_norm(x + self.attend(x))
            x = layer_norm(x + self.shrink(jax.nn.relu(self.expand(x))))
        return self.hidden(x.max(1))

    def attend(self, x: Array) -> Array:
        @jax.checkpoint
        def one(qkv: Array) -> Array:  # [N, 3F] -> [N, F]
            tiles, width = qkv.shape[0], qkv.shape[1] // 3
            q, k, v = (y.reshape(tiles, self.num_heads, -1).swapaxes(0, 1) for y in jnp.split(qkv, 3, -1))
            weight = jax.nn.softmax(q @ k.swapaxes(1, 2) / (width / self.num_heads) ** 0.5)  # [heads, N, N]
            return (weight @ v).swapaxes(0, 1).reshape(tiles, width)

        # A few boards at a time: the attention weights of a whole minibatch would not fit in a processor's cache.
        return self.mix(jax.lax.map(one, self.qkv(x), batch_size=32))


def layer_norm(x: Array) -> Array:
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
