"""Figures of the paper that ours stand beside ("Online Prototype Alignment for Few-shot Policy Transfer", ICML 2023)."""

WORLDS = ("hunter-z1c1", "hunter-z2c2", "hunter-z3c3", "hunter-z4c4")

# Table of all results, its own method: mean and standard deviation over 4 seeds, source and target.
SOURCE = {"hunter-z1c1": (1.65, 0.05), "hunter-z2c2": (3.22, 0.07), "hunter-z3c3": (4.40, 0.11), "hunter-z4c4": (5.61, 0.06)}
TARGET = {"hunter-z1c1": (1.71, 0.05), "hunter-z2c2": (3.03, 0.31), "hunter-z3c3": (4.47, 0.18), "hunter-z4c4": (5.68, 0.30)}
RATIO = 1.00  # aggregate

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
