"""Stories made up for tests: no run is needed."""

import numpy as np

from protoalign.report.story import Finding, Game, Pair, Shown, Trace


def make_story(types: int, kinds: int, tile: tuple[int, int], grid: tuple[int, int], steps: int = 30) -> tuple[Finding, Shown]:
    """A finding with random beliefs, pictures and games: the last type is met late, the last kind known from the start."""
    rng = np.random.default_rng([types, kinds])
    size = (grid[0] * tile[0], grid[1] * tile[1])
    belief = rng.dirichlet(np.full(kinds, 0.1), (steps, types)).astype(np.float32)
    met = np.ones((steps, types), bool)
    met[: steps // 2, -1:] = False
    actions = ("noop", "move_left", "turn right", "pickup", "make_sword", "fire-up", "odd")

    def pictures(*shape: int) -> np.ndarray:
        return rng.integers(0, 4, (*shape, 3), np.uint8) * 85  # of 64 colours: noise of all colours makes films slow

    def game(length: int, whole: bool) -> Game:
        return Game(
            list(pictures(length + 1, *size)), [i % 7 for i in range(length)], [0.1 - i % 3 for i in range(length)], whole
        )

    trace = Trace(
        np.repeat([0, 1], [steps - 5, 5]), rng.integers(0, 7, steps), rng.normal(size=steps), belief,
        np.linspace(0, 0.9, steps), met, rng.integers(-1, types, (12, *grid)), pictures(12, *size),
    )  # fmt: skip
    found = Finding(
        tuple(f"thing {k}" for k in range(kinds)), pictures(kinds, *tile), pictures(types, *tile), belief[-1],
        belief[-1].argmax(-1), np.arange(kinds) == kinds - 1, actions, 2, steps, "bayes", 0.9, pictures(*size), trace,
    )  # fmt: skip
    pairs = [Pair(k, pictures(*tile), pictures(1 + k % 2, *tile)) for k in range(kinds)]
    return found, Shown(pictures(*size), pictures(*size), pairs, game(4, True), game(9, False))
