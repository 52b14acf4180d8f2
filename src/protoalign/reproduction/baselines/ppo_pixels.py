"""PPO on pixels, and nothing done about the target."""

from typing import Any

from protoalign.reproduction.baselines.job import Adapted, Job
from protoalign.reproduction.baselines.pixels import PixelNet, in_look
from protoalign.rng import generator


def fresh(job: Job, name: str) -> PixelNet:
    """An untrained network in the source world."""
    return PixelNet(generator(job.seed, name), job.screen, job.source, job.config.encoder, job.sizes.width)


def train_source(job: Job) -> PixelNet:
    return job.learn("source", fresh(job, "source/network"), job.config.source_steps, "source")


def adapt(job: Job, trained: Any) -> list[Adapted]:
    return [Adapted("as it is", in_look(trained, job.target))]


def evaluate(job: Job, trained: Any, adapted: list[Adapted]) -> dict[str, Any]:
    return job.judge(trained, adapted)
