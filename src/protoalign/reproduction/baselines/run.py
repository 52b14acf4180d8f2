"""One baseline in one world from one seed: train, adapt, judge. The same call again goes on where it was stopped."""

from pathlib import Path
from typing import Any

from protoalign.errors import UserError
from protoalign.reproduction.baselines import darla, ltmbr, lusr, ppo_pixels, unit4rl
from protoalign.reproduction.baselines.job import Job
from protoalign.reproduction.baselines.pixels import load_look
from protoalign.reproduction.settings import Encoder, baseline_config, family
from protoalign.rng import check_seed
from protoalign.runs import Run
from protoalign.runtime import versions
from protoalign.settings import of, plain
from protoalign.worlds import registry

BASELINES: dict[str, Any] = {"ppo": ppo_pixels, "darla": darla, "lusr": lusr, "unit4rl": unit4rl, "ltmbr": ltmbr}


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
    """Train a baseline in a world, adapt it to the look `target` and judge it there; figures for result.json.

    `steps`: environment steps of every policy; the preset's if not given.
    """
    if name not in BASELINES:
        raise UserError(f"no baseline is called '{name}': use {', '.join(BASELINES)}")
    world = registry.make(env)
    shown = world.spec.name
    check_seed(seed)
    if not hasattr(world, "observe"):
        raise UserError(f"{shown} is stepped by Gymnasium: baselines need a world in JAX, such as hunter-z1c1")
    if perceptual and name != "darla":
        raise UserError("--perceptual is for darla only")
    config = baseline_config(shown, preset, steps, encoder, perceptual)
    least = (config.latent_ppo if name in ("darla", "lusr") else config.ppo).batch
    if steps is not None and steps < least:
        raise UserError(f"--steps {steps} is less than one update; use at least {least}")
    if perceptual and config.encoder == "tiles":
        raise UserError("--perceptual needs --encoder conv: a tile that is blackened can only be guessed from its neighbours")
    load_look(target, world)  # complain about it before any training
    games = of(registry.own_settings(shown), preset).target_episodes
    folder = Run(out)
    with folder.lock():
        for section, value in (("env", shown), ("seed", seed), ("preset", preset)):
            folder.configure(section, value)
        folder.configure("baseline", {"name": name, "target": target} | plain(config))
        if "target" in folder.result():
            return folder.result()
        method, job = BASELINES[name], Job(name, folder, world, config, family(shown).sizes, seed, target, games)
        trained = method.train_source(job)
        found = method.evaluate(job, trained, method.adapt(job, trained))
        about = {"baseline": name, "env": shown, "seed": seed, "preset": preset, "encoder": config.encoder}
        return folder.add_result(about | {"look": target, "versions": versions()} | found)
