"""Is a mapping right? It is compared with what the target's tiles truly are: for judging and reports, never for finding out."""

from typing import Any

import numpy as np

from protoalign.alignment.mapping import Mapping
from protoalign.errors import UserError
from protoalign.worlds.base import World


def redrawn(world: World, look: str) -> set[str]:
    """Kinds that look different from the source."""
    source, target = world.pictures("source"), world.pictures(look)
    different = (source != target).reshape(-1, len(source), source[0].size).any((0, 2))
    return {name for name, new in zip(_truth(world), different, strict=True) if new}


def judge(mapping: Mapping, world: World, look: str) -> dict[str, Any]:
    """What every tile type truly is beside what it was taken for; and whether all of it is right.

    All that was redrawn must have been met and taken for what it is, nothing may be taken for two kinds at once, and no old
    kind for another one. Kinds that were never met are not right, whatever would be guessed of them.
    """
    if world.spec.truth is None:  # nothing to judge by
        found = [{"found": r.name, "probability": round(r.probability, 5), "unseen": r.unseen} for r in mapping.types]
        return {"mapping": found, "mapping_correct": None}
    names, pictures = _truth(world), world.pictures(look)
    kind = tuple(base(name) for name in mapping.names)
    codes = mapping.tile_types(pictures.reshape(-1, *pictures.shape[-2:]))[:, 0]  # all of them, one below the other
    true_names = np.array(names * (len(codes) // len(names)))
    first = len(mapping.names)
    rows: list[dict[str, Any]] = []
    right: set[str] = set()
    wrong: set[str] = set()
    for i, row in enumerate(row for row in mapping.types if row.unseen):
        truly = sorted(set(true_names[codes == first + i])) or ["nothing"]
        rows.append(
            {
                "true": " or ".join(truly),
                "found": row.name,
                "probability": round(row.probability, 5),
                "unseen": True,
            }
        )
        (right if truly == [kind[row.prototype]] else wrong).update(truly)
    for k in np.flatnonzero(mapping.known):
        c = mapping.hideable[k]
        rows.append({"true": kind[c], "found": mapping.names[c], "probability": 1.0, "unseen": False})
    misread = {str(name) for name, code in zip(true_names, codes, strict=True) if code < first and name != kind[code]}
    new = redrawn(world, look)
    variants = codes.reshape(-1, len(names)) < first + len(mapping.tile_types)  # met, by look of a kind that has several
    whole = {name for name in names if all(row[np.array(names) == name].any() for row in variants)}
    done = (right - wrong - misread) & whole
    return {
        "mapping": rows,
        "mapping_correct": new <= done and not wrong and not misread,
        "redrawn": len(new),
        "kinds_right": len(new & done),
        "kinds_not_met": sorted(new - wrong - misread - (right & whole)),
        "misread": sorted(misread),
    }


def _truth(world: World) -> tuple[str, ...]:
    if world.spec.truth is None:
        raise UserError(f"{world.spec.name} does not tell what its pictures truly show: nothing to judge by")
    return world.spec.truth


def base(name: str) -> str:
    """Names of prototypes are made unique by a number at the end: `arrow 2` is an arrow."""
    word, _, number = name.rpartition(" ")
    return word if word and number.isdecimal() else name
