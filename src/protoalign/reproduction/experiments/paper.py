"""Figures of the paper that ours stand beside ("Online Prototype Alignment for Few-shot Policy Transfer", ICML 2023)."""

WORLDS = ("hunter-z1c1", "hunter-z2c2", "hunter-z3c3", "hunter-z4c4")

# Table of all results, its own method: mean and standard deviation over 4 seeds, source and target.
SOURCE = {"hunter-z1c1": (1.65, 0.05), "hunter-z2c2": (3.22, 0.07), "hunter-z3c3": (4.40, 0.11), "hunter-z4c4": (5.61, 0.06)}
TARGET = {"hunter-z1c1": (1.71, 0.05), "hunter-z2c2": (3.03, 0.31), "hunter-z3c3": (4.47, 0.18), "hunter-z4c4": (5.68, 0.30)}
RATIO = 1.00  # aggregate

# The best mean return of any task policy in the source in that table, after 25 M steps.
SOURCE_RETURN = {"hunter-z1c1": 1.73, "hunter-z2c2": 3.22, "hunter-z3c3": 4.40, "hunter-z4c4": 5.61}

# Environment steps of pi_task and of pi_exp.
TASK_STEPS, EXPLORE_STEPS = 25_000_000, 10_000_000

# Table of exploration episodes: target return per world, aggregate ratio.
EPISODES = {
    1: ((1.41, 2.21, 3.48, 4.64), 0.80),
    2: ((1.67, 2.92, 4.23, 5.44), 0.96),
    4: ((1.71, 3.05, 4.47, 5.68), 1.00),
    16: ((1.68, 3.12, 4.45, 5.63), 1.00),
}

# Table of exploration policies on Z1C1, one episode: correct mapping, adaptation performance, informative interactions.
POLICIES = {"pi_exp": (0.86, 0.85, 1.62), "pi_random": (0.32, 0.21, 0.12), "pi_task": (0.28, 0.23, 0.08)}

# Table of reconstruction errors.
RECONSTRUCTION = {"source": (0.0112, 0.0142, 0.0179, 0.0410), "target": (4.920, 8.034, 9.998, 14.327)}
STEPS_IN_TARGET = 100  # about

# Table of all results, baselines: source and target per world, None where the table has none.
BASELINES: dict[str, tuple[tuple[float | None, float], ...]] = {
    "PPO": ((1.73, -0.01), (3.04, -0.03), (4.15, -0.04), (5.12, -0.03)),
    "DARLA": ((1.25, -0.01), (1.76, -0.02), (1.91, 0.01), (2.23, 0.02)),
    "LUSR": ((1.14, -0.33), (1.19, -0.03), (0.89, -0.05), (0.90, -0.03)),
    "UNIT4RL@0M": ((1.73, 0.22), (3.04, 0.81), (4.15, -0.87), (5.12, 1.34)),
    "LTMBR@0M": ((1.50, 0.00), (2.73, -0.01), (3.89, -0.01), (4.68, -0.03)),
    "UNIT4RL@3M": ((None, 1.35), (None, 3.13), (None, 3.84), (None, 4.67)),
    "UNIT4RL@5M": ((None, 1.68), (None, 3.24), (None, 4.35), (None, 5.40)),
    "LTMBR@3M": ((None, 1.27), (None, 2.14), (None, 2.83), (None, 3.30)),
    "LTMBR@5M": ((None, 1.38), (None, 2.51), (None, 3.64), (None, 4.63)),
}
RATIOS = {
    "PPO": -0.01,
    "DARLA": -0.00,
    "LUSR": -0.1,
    "UNIT4RL@0M": 0.11,
    "LTMBR@0M": 0.00,
    "UNIT4RL@3M": 0.91,
    "LTMBR@3M": 0.84,
}

# Table of results on Crafter, 20 M steps, 4 seeds: method, source, target, and the ratio that is printed there. That of its own
# method does not follow from its two returns, which give 0.92.
CRAFTER: tuple[tuple[str, float | None, float, float], ...] = (
    ("PPO", 11.62, 3.00, 0.26),
    ("DARLA", 7.50, 4.30, 0.57),
    ("LUSR", 7.97, 2.15, 0.27),
    ("UNIT4RL, 0 steps", 11.62, 3.50, 0.30),
    ("UNIT4RL, 5 M steps in the target", None, 7.88, 0.68),
    ("UNIT4RL, 20 M steps in the target", None, 9.17, 0.79),
    ("OPA, 4 episodes", 11.57, 10.69, 1.01),
)
