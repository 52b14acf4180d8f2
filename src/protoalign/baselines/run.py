"""One baseline in one world from one seed: train, adapt, judge. The same call again goes on where it was stopped."""

from pathlib import Path
from typing import Any

from protoalign import envs
from protoalign.baselines import darla, ltmbr, lusr, ppo_pixels, unit4rl
from protoalign.baselines.job import Job
from protoalign.baselines.pixels import load_look
from protoalign.config import Encoder, baseline_config, plain
from protoalign.envs.crafter.pictured import PicturedCrafter
from protoalign.errors import UserError
from protoalign.rng import check_seed
from protoalign.runs import Run
from protoalign.runtime import versions

BASELINES: dict[str, Any] = {"ppo": ppo_pixels, "darla": darla, "lusr": lusr, "unit4rl": unit4rl, "ltmbr": ltmbr}


def offered(world: str) -> list[str]:
    """Names of the baselines that there are in a world."""
    return [name for name in BASELINES if name != "ltmbr" or world != "crafter"]


def run(
    name: str,
    env: str,
    out: Path,
    seed: int,
    preset: str,
    target: str,
    steps: int | None = None,
    encoder: Encoder | None = None,
    perceptual: bool = False,
) -> dict[str, Any]:
    if name not in BASELINES:
        raise UserError(f"no baseline is called '{name}': use {', '.join(BASELINES)}")
    world = PicturedCrafter() if env.lower() == "crafter" else envs.board(env)
    check_seed(seed)
    if name not in offered(world.name):
        raise UserError(f"{name} works in Hunter only: try {', '.join(offered(world.name))}")
    if perceptual and name != "darla":
        raise UserError("--perceptual is for darla only")
    config = baseline_config(preset, steps, encoder, perceptual, world.name)
    least = (config.latent_ppo if name in ("darla", "lusr") else config.ppo).batch
    if steps is not None and steps < least:
        raise UserError(f"--steps {steps} is less than one update; use at least {least}")
    if perceptual and config.encoder == "tiles":
        raise UserError("--perceptual needs --encoder conv: a tile that is blackened can only be guessed from its neighbours")
    looks = [load_look(look, world) for look in ("source", target)]
    folder = Run(out)
    with folder.lock():
        for section, value in (("env", world.name), ("seed", seed), ("preset", preset)):
            folder.configure(section, value)
        folder.configure("baseline", {"name": name, "target": target} | plain(config))
        if "target" in folder.result():
            return folder.result()
        method, job = BASELINES[name], Job(name, folder, world, config, seed, *looks)
        trained = method.train_source(job)
        figures = method.evaluate(job, trained, method.adapt(job, trained))
        about = {"baseline": name, "env": world.name, "seed": seed, "preset": preset, "encoder": config.encoder}
        return folder.add_result(about | {"look": target, "versions": versions()} | figures)
