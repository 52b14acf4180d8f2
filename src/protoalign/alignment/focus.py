"""q_theta where many prototypes may be hidden: the same patches, but only those of the few tiles that matter most.

`PatchNet` looks at up to T tiles of every slot, in view or not: S * T patches, each of which may show any of S slots. Of dozens
of slots a handful is in view. Here the MOST tiles of the whole picture are looked at, whatever their slots: the best
tile of every slot first, then the second best, by the same order as there. As long as no picture has more of them the function
is that of `PatchNet`, weight by weight; its cost does not grow with the number of slots.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.alignment.imagination import Imagined
from protoalign.alignment.inference import PatchNet, Step, align_views

MOST = 12  # tiles of a picture
BEFORE = 1e4  # more than any tile is worth: the best tiles of all slots come before the second best of any


class Focus(NamedTuple):
    """What N transitions show at up to M tiles, before beliefs enter; S stands for no slot."""

    slots: Array  # [N, M, 2 * cells] int8 or int32, the slot of each cell around a tile before and after
    own: Array  # [N, M] of the same type, the tile's own slot; S where there is no such tile
    best: Array  # [N, M] bool, it is the best tile of its slot
    told: Array  # [N, M or 1, F], what all that is certain adds up to
    number: Array  # [N, M, 2] int8 or int32, how many tiles of its slot there are before and after


class FocusNet(PatchNet):
    """PatchNet for many slots."""

    def digest(self, step: Step, slots: int) -> Focus:  # type: ignore[override]
        scene = self.scene
        n, first, outside = len(step.action), scene.prototypes, scene.prototypes + slots
        before, after = (x.reshape(n, scene.tiles) for x in (step.before, step.after))
        if scene.cell is not None:
            after = align_views(before, after, scene.grid, outside)
        of_slot = (before >= first) & (before < outside)
        worth = jnp.where(of_slot, 1 + self._interest(before, after, outside), 0)  # [N, HW]
        same = before[:, None, :] == before[:, :, None]  # [N, HW, HW], of one slot
        # Of equals the first counts for more: no two tiles are alike, so nothing depends on the numbers of slots.
        more = worth[:, None, :] > worth[:, :, None]
        equal = (worth[:, None, :] == worth[:, :, None]) & np.tri(scene.tiles, k=-1, dtype=bool)
        rank = (same & (more | equal)).sum(-1)  # how many tiles of its slot are better
        order = jnp.where(of_slot & (rank < self.tiles), worth + (self.tiles - 1 - rank) * BEFORE, 0)
        found, tile = jax.lax.top_k(order, min(MOST, scene.tiles))
        around = jnp.concatenate([self._cells(x, tile, outside) for x in (before, after)], -1)  # [N, M, 2 * cells]
        told = self._told(step)[:, None]
        if self.place is not None:
            told = told + self.place[tile]
        if self.fixed is not None:
            told = told + self._fixed(around, outside)
        here = jnp.take_along_axis(before, tile, 1)
        number = [jnp.where(found > 0, (x[:, None, :] == here[..., None]).sum(-1), 0) for x in (before, after)]
        slot, counts = (np.int8 if size < 127 else np.int32 for size in (slots, scene.tiles))
        return Focus(
            jnp.where((around >= first) & (around < outside), around - first, slots).astype(slot),
            jnp.where(found > 0, here.astype(jnp.int32) - first, slots).astype(slot),
            (found > 0) & (jnp.take_along_axis(rank, tile, 1) == 0),
            told,
            jnp.stack(number, -1).astype(counts),
        )

    def update(self, hidden: Array, imagined: Imagined, digested: Focus, prior: Array | float = 0.0) -> Array:  # type: ignore[override]
        batch, slots = hidden.shape[:2]
        kinds, cells, tiles = len(self.hideable), 2 * len(self.cells), digested.own.shape[1]
        belief = jnp.pad(self._coloured(hidden, imagined, prior), ((0, 0), (0, 1), (0, 0)))  # what is no slot has none
        spot = digested.slots.reshape(batch, tiles * cells, 1).astype(jnp.int32)
        lies = jnp.take_along_axis(belief, spot, 1).reshape(batch * tiles, cells * kinds)
        weight = self.around.weight.reshape(kinds + 1, cells, -1)
        mark = (digested.slots == digested.own[..., None]).astype(jnp.float32).reshape(-1, cells)
        x = lies @ weight[:-1].swapaxes(0, 1).reshape(cells * kinds, -1) + mark @ weight[-1]
        x = jax.nn.relu(x.reshape(batch, tiles, -1) + digested.told)
        alike = (digested.own[:, :, None] == digested.own[:, None, :]).astype(jnp.float32)  # [B, M, M]
        x = alike @ x / alike.sum(-1, keepdims=True)
        # Only slots in view change: their states are taken out, and what is new is added to them.
        taken = (digested.own[..., None] == np.arange(slots, dtype=digested.own.dtype)) & digested.best[..., None]
        taken = taken.astype(jnp.float32)  # [B, M, S]
        state = taken @ hidden
        return hidden + taken.swapaxes(1, 2) @ (self._remember(state, x, digested.number) - state)
