"""PPO on pixels, and nothing done about the target."""

from typing import Any

from protoalign.baselines.job import Adapted, Job
from protoalign.baselines.pixels import PixelNet, PixelViewNet, in_look
from protoalign.envs.crafter.pictured import PicturedCrafter
from protoalign.rng import generator


def fresh(job: Job, name: str) -> Any:
    """An untrained network in the source world."""
    rng = generator(job.seed, name)
    if isinstance(job.world, PicturedCrafter):
        return PixelViewNet(rng, job.world, job.source, job.config.encoder)
    return PixelNet(rng, job.world, job.source, job.config.encoder)


def train_source(job: Job) -> Any:
    return job.learn("source", fresh(job, "source/network"), job.config.source_steps, "source")


def adapt(job: Job, trained: Any) -> list[Adapted]:
    return [Adapted("as it is", in_look(trained, job.target))]


def evaluate(job: Job, trained: Any, adapted: list[Adapted]) -> dict[str, Any]:
    return job.judge(trained, adapted)
