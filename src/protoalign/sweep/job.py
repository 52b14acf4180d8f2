"""One run folder of a sweep, from beginning to end; called again, it goes on where it was."""

import hashlib
from pathlib import Path
from typing import Any

from protoalign.errors import UserError
from protoalign.files import read_json, write_json
from protoalign.sweep.grid import Job


def run_job(job: Job, out: Path) -> dict[str, Any]:
    """Train in `out`/NAME and transfer into all looks; figures by look, and by engine. What is there is not done again."""
    folder = out / job.name
    found = _baseline(job, folder) if job.baseline else _method(job, folder)
    write_json(folder / "sweep.json", found)
    return found


def finished(job: Job, out: Path) -> dict[str, Any] | None:
    """What `run_job` returned, if all of it has been done before."""
    path = out / job.name / "sweep.json"
    try:
        found = read_json(path) if path.exists() else None
    except UserError:
        return None
    if not isinstance(found, dict) or any(found.get(name) != value for name, value in _about(job).items()):
        return None
    looks, asked = found.get("looks"), found.get("engines")
    if not isinstance(looks, dict) or not isinstance(asked, list):
        return None
    return found if set(job.looks) <= looks.keys() and set(job.engines) <= set(asked) else None


def _about(job: Job) -> dict[str, Any]:
    parts = ("world", "seed", "preset", "baseline", "steps", "episodes")
    return {name: getattr(job, name) for name in parts}


def _method(job: Job, folder: Path) -> dict[str, Any]:
    from protoalign import stages
    from protoalign.stages.whole import engines_of
    from protoalign.worlds import registry
    from protoalign.worlds.gym import GymWorld

    world = registry.make(job.world)
    engine: Any = "both" if len(job.engines) > 1 else job.engines[0]
    for look in job.looks:  # complain before any training
        world.make(look).close() if isinstance(world, GymWorld) else world.pictures(look)
    first = _config(folder).get("transfer", {}).get("target", job.looks[0])  # a folder has one look of its own
    result = stages.run(world, folder, job.seed, first, job.episodes, job.preset, job.steps, engine=engine)
    looks: dict[str, Any] = {look: {} for look in job.looks}
    agent = None
    for name in engines_of(engine):
        for look in job.looks:
            if look == first:
                looks[look][name] = result["engines"][name]
                continue
            agent = agent or stages.train(world, job.seed, folder, job.preset, job.steps, engine=engine)
            looks[look][name] = _transfer(agent, world, look, name, job, folder)
    asked = {"engines": list(job.engines)}
    return _about(job) | asked | {"looks": looks, "seconds": result["seconds"], "task_steps": result["task_steps"]}


def _transfer(agent: Any, world: Any, look: str, engine: Any, job: Job, folder: Path) -> Any:
    from protoalign import stages

    path = folder / "transfers" / f"{_file(look)}-{engine}.json"
    if path.exists() and isinstance(found := read_json(path), dict) and found.get("target") == look:
        return found
    _, found = stages.transfer(agent, world, look, job.episodes, job.seed, engine=engine)
    path.parent.mkdir(exist_ok=True)
    write_json(path, found)
    return found


def _baseline(job: Job, folder: Path) -> dict[str, Any]:
    from protoalign.reproduction.baselines.pixels import load_look
    from protoalign.reproduction.baselines.run import run
    from protoalign.worlds import registry

    assert job.baseline is not None
    world: Any = registry.make(job.world)
    if hasattr(world, "observe"):
        for look in job.looks:  # complain before any training
            load_look(look, world)
    looks = {}
    own = _config(folder).get("baseline", {}).get("target", job.looks[0])
    for look in job.looks:  # it adapts to one look: a folder for each
        where = folder if look == own else folder / "looks" / _file(look)
        found = run(job.baseline, job.world, where, job.seed, job.preset, look, job.steps)
        source, target = found["source"], found["target"][-1]
        top = {"source_return": source["return"], "target_return": target["return"], "ratio": target["ratio"]}
        looks[look] = {job.baseline: found | top}
    return _about(job) | {"engines": [], "looks": looks}


def _config(folder: Path) -> dict[str, Any]:
    from protoalign.runs import Run

    return Run(folder, create=False).config if (folder / "config.json").exists() else {}


def _file(look: str) -> str:
    """A file's name for a look; different for different looks."""
    name = "".join(c if c.isalnum() or c in ".-" else "-" for c in look)[-60:]
    return f"{name}-{hashlib.sha256(look.encode()).hexdigest()[:8]}"
