"""Gymnasium ids, registered by `import protoalign`; the environments themselves are imported when one is made.

In `gymnasium.make` and `gymnasium.make_vec` (with `vectorization_mode="vector_entry_point"`) a look is called `appearance`.
"""

from typing import Any

from gymnasium.envs import registration


def register() -> None:
    """`protoalign/Hunter-ZxCy-v0` for x, y up to 4, and `protoalign/Hunter-v0` with a `variant` keyword for any other.

    `protoalign/Crafter-v0`, the original game.
    """
    variants = [f"Z{z}C{c}" for z in range(5) for c in range(5) if z + c]
    for name, variant in [("Hunter", "Z1C1"), *((f"Hunter-{v}", v) for v in variants)]:
        env_id = f"protoalign/{name}-v0"
        if env_id not in registration.registry:
            registration.register(
                env_id,
                entry_point="protoalign.registration:hunter",
                vector_entry_point="protoalign.registration:hunter_vector",
                kwargs={"variant": variant},
            )
    if "protoalign/Crafter-v0" not in registration.registry:
        registration.register("protoalign/Crafter-v0", entry_point="protoalign.worlds.crafter.original:CrafterEnv")


def hunter(variant: str = "Z1C1", appearance: str = "source", size: int = 8, tile: int = 8, **options: Any) -> Any:
    """One game of Hunter; options as of `WorldEnv`."""
    from protoalign.worlds.env import WorldEnv
    from protoalign.worlds.hunter import parse

    return WorldEnv(parse(variant, size, tile), appearance, **options)


def hunter_vector(
    num_envs: int = 1, variant: str = "Z1C1", appearance: str = "source", size: int = 8, tile: int = 8, **options: Any
) -> Any:
    """Many games of Hunter; options as of `WorldVectorEnv`."""
    from protoalign.worlds.env import WorldVectorEnv
    from protoalign.worlds.hunter import parse

    return WorldVectorEnv(num_envs, parse(variant, size, tile), appearance, **options)
