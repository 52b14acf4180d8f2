"""Is a mapping into a hosted world right? It is compared with what the target's tiles truly are, where that is known: for
judging and reports, never for finding out."""

from typing import Any

import gymnasium
import numpy as np

from protoalign.alignment.automorphisms import alike
from protoalign.alignment.local_training import Transitions
from protoalign.alignment.mapping import Mapping
from protoalign.alignment.verdict import base
from protoalign.worlds.gym import GymWorld
from protoalign.worlds.reskin import Reskin


def true_prototypes(mapping: Mapping, target: gymnasium.Env, world: GymWorld, look: str) -> list[set[int]] | None:
    """Of every tile type the prototypes that it truly is: one if the target is a source redrawn picture by picture, all with
    the same name if the world names its pictures; an empty set for what the source never showed. None: nothing is known."""
    own = mapping.vocabulary
    known = {picture.tobytes(): int(c) for picture, c in zip(own.pictures, own.prototype_of, strict=True)}
    redrawn: Any = target
    while redrawn is not None and not isinstance(redrawn, Reskin):
        redrawn = getattr(redrawn, "env", None)
    pictures = mapping.tile_types.pictures
    if redrawn is not None:
        found = [redrawn.origin(picture) for picture in pictures]
        return [set() if x is None or x.tobytes() not in known else {known[x.tobytes()]} for x in found]
    if world.truth is None:
        return None
    shown = [world.truth("source", picture) for picture in own.pictures]
    pairs = list(zip(own.prototype_of.tolist(), shown, strict=True))
    return [{c for c, name in pairs if name is not None and name == world.truth(look, picture)} for picture in pictures]


def judge(
    mapping: Mapping,
    target: gymnasium.Env,
    world: GymWorld,
    look: str,
    model: Any = None,
    given: Transitions | None = None,
) -> dict[str, Any]:
    """What every tile type truly is beside what it was taken for.

    `mapping_correct`: all that were in sight when an action was chosen are right; what is only in last pictures of episodes
    does not matter. `right_exactly`: all that were met. `right_alike`: all but what could change places without anybody
    noticing, by the world model (in NumPy) and steps in the source.
    """
    true = true_prototypes(mapping, target, world, look)
    rows: list[dict[str, Any]] = []
    taken = mapping.prototypes.tolist()
    new = [row for row in mapping.types if row.unseen]
    for i, row in enumerate(new):
        said = {} if true is None else {"true": _named(mapping, true[i], world), "right": row.prototype in true[i]}
        rows.append(said | {"found": row.name, "probability": round(row.probability, 5), "unseen": True})
    rows += [
        {"true": row.name, "right": True, "found": row.name, "probability": 1.0, "unseen": False}
        for row in mapping.types
        if not row.unseen
    ]
    if true is None:
        return {"mapping": rows, "mapping_correct": None}
    right = np.array([c in some for c, some in zip(taken, true, strict=True)], bool)
    matters = np.ones(len(taken), bool) if mapping.draws is None else mapping.draws.acted
    told = bool(right.all())
    if model is not None and given is not None and not told:
        wrong = [i for i in range(len(taken)) if true[i]]
        meant = np.array([taken[i] if right[i] else min(true[i]) for i in wrong], int)
        told = len(wrong) == len(taken) and alike(model, given, meant, np.array(taken)[wrong], np.random.default_rng(0))
    return {
        "mapping": rows,
        "mapping_correct": bool(right[matters].all()),
        "right_exactly": bool(right.all()),
        "right_alike": told,
        "redrawn": len(taken),
        "kinds_right": int(right.sum()),
        "kinds_not_met": [],
        "misread": [],
    }


def _named(mapping: Mapping, some: set[int], world: GymWorld) -> str:
    """Prototypes by name; without their numbers where the world has given them one name, and all that have it are meant."""
    told = set() if world.truth is None else {world.truth("source", picture) for picture in mapping.vocabulary.pictures}
    told -= {base(name) for c, name in enumerate(mapping.names) if c not in some}
    names = [mapping.names[c] for c in some]
    return " or ".join(sorted({base(name) if base(name) in told else name for name in names})) or "nothing in the source"
