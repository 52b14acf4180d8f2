"""LTMBR (Sun et al., 2022): the latent dynamics and rewards learned in the source regularise a new encoder in the target.

In the source, policy and model are learned together: L = L_PPO + w (MSE(P(z, a), z') + MSE(R(z, a), r)), with z of length one
and z' held fixed. In the target, encoder and policy start anew and the model is given and frozen. Two controls tell what the
model is worth: no model loss at all, and a frozen random model.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from protoalign.reproduction.baselines import ppo_pixels
from protoalign.reproduction.baselines.job import Adapted, Job
from protoalign.reproduction.baselines.pixels import PixelNet, Seen, in_look
from protoalign.rl.networks import Dense
from protoalign.rl.ppo import Auxiliary, Batch
from protoalign.rng import generator
from protoalign.worlds.base import Observation


class LatentModel(eqx.Module):
    """One linear map per action, from a latent to the next one and to the reward."""

    step: Dense
    reward: Dense

    def __init__(self, rng: np.random.Generator, size: int, actions: int):
        self.step = Dense(rng, size, actions * size, 1.0)
        self.reward = Dense(rng, size, actions, 0.1)

    def __call__(self, latent: Array, action: Array) -> tuple[Array, Array]:
        number, size = latent.shape
        taken = jax.nn.one_hot(action, self.reward.bias.shape[0])
        following = jnp.einsum("na,naz->nz", taken, self.step(latent).reshape(number, -1, size))
        return following, (taken * self.reward(latent)).sum(1)


class ModelledNet(eqx.Module):
    """An actor-critic on a latent of length one, and a model of that latent."""

    net: PixelNet
    model: LatentModel

    @property
    def look(self) -> Array:
        return self.net.look

    def encode(self, observation: Observation) -> Seen:
        return self.net.encode(observation)

    def latent(self, seen: Seen) -> Array:
        x = self.net.features(seen)
        return x * jax.lax.rsqrt((x**2).sum(-1, keepdims=True) + 1e-12)  # with a gradient even where all is nothing

    def __call__(self, seen: Seen) -> tuple[Array, Array]:
        latent = self.latent(seen)
        return self.net.heads(latent.shape[-1] ** 0.5 * latent)  # numbers of about one each for the heads


def model_loss(weight: float, frozen: bool) -> Auxiliary:
    def loss(net: ModelledNet, batch: Batch) -> Array:
        assert batch.next is not None
        model = jax.lax.stop_gradient(net.model) if frozen else net.model
        following, reward = model(net.latent(batch.seen), batch.action)
        after = jax.lax.stop_gradient(net.latent(batch.next.seen))
        known = batch.next.known / jnp.maximum(batch.next.known.sum(), 1)
        wrong = ((following - after) ** 2).mean(-1) + (reward - batch.next.reward) ** 2
        return weight * (known * wrong).sum()

    return loss


def fresh(job: Job, name: str) -> ModelledNet:
    net = ppo_pixels.fresh(job, name)
    size = net.heads.policy.weight.shape[0]
    return ModelledNet(net, LatentModel(generator(job.seed, f"{name}/model"), size, job.screen.actions))


def train_source(job: Job) -> ModelledNet:
    loss = model_loss(job.config.source_model, frozen=False)
    return job.learn("source", fresh(job, "source/network"), job.config.source_steps, "source", loss)


def adapt(job: Job, trained: ModelledNet) -> list[Adapted]:
    new = fresh(job, "adapt/network")
    new = ModelledNet(in_look(new.net, job.target), new.model)
    given = ModelledNet(new.net, trained.model)
    loss, steps = model_loss(job.config.model, frozen=True), job.config.target_steps
    return [
        Adapted("new", given),
        Adapted("model given", job.learn("adapt", given, steps, "target", loss), "adapt"),
        Adapted("no model", job.learn("none", new, steps, "control"), "none"),
        Adapted("random model", job.learn("random", new, steps, "control", loss), "random"),
    ]


def evaluate(job: Job, trained: ModelledNet, adapted: list[Adapted]) -> dict[str, Any]:
    return job.judge(trained, adapted)
