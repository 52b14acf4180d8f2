"""PPO on pixels, and nothing done about the target."""

from typing import Any

from protoalign.baselines.job import Adapted, Job
from protoalign.baselines.pixels import PixelNet, in_look
from protoalign.rng import generator


def fresh(job: Job, name: str) -> Any:
    """An untrained network in the source world."""
    return PixelNet(generator(job.seed, name), job.world, job.source, job.config.encoder)


def train_source(job: Job) -> Any:
    return job.learn("source", fresh(job, "source/network"), job.config.source_steps, "source")


def adapt(job: Job, trained: Any) -> list[Adapted]:
    return [Adapted("as it is", in_look(trained, job.target))]


def evaluate(job: Job, trained: Any, adapted: list[Adapted]) -> dict[str, Any]:
    return job.judge(trained, adapted)
