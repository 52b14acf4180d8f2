"""Gymnasium ids, registered by `import protoalign`; the environments themselves are imported when one is made."""

from gymnasium.envs import registration


def register() -> None:
    """`protoalign/Hunter-ZxCy-v0` for x, y up to 4, and `protoalign/Hunter-v0` with a `variant` keyword for any other.

    `protoalign/Crafter-v0`, the original game; it needs the package crafter.
    """
    variants = [f"Z{z}C{c}" for z in range(5) for c in range(5) if z + c]
    for name, variant in [("Hunter", "Z1C1"), *((f"Hunter-{v}", v) for v in variants)]:
        env_id = f"protoalign/{name}-v0"
        if env_id not in registration.registry:
            registration.register(
                env_id,
                entry_point="protoalign.envs.gym:HunterEnv",
                vector_entry_point="protoalign.envs.gym:HunterVectorEnv",
                kwargs={"variant": variant},
            )
    if "protoalign/Crafter-v0" not in registration.registry:
        registration.register("protoalign/Crafter-v0", entry_point="protoalign.envs.crafter.original:CrafterEnv")
