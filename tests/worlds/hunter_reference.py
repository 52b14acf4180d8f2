"""Hunter once more, tile by tile in plain Python: slow, and written from the rules alone, to check the fast one against.

It uses random numbers in the same order (see `Hunter.begin` and `Hunter.transition`) and notes which rules it applied.
"""

from dataclasses import dataclass, field

import numpy as np

FLOOR, ZOMBIE, AGENT, COW, WALL = ".", "z", "a", "c", "#"
MOVES = {1: (-1, 0), 2: (1, 0), 3: (0, -1), 4: (0, 1)}


def pick(u: float, options: list) -> object:
    return options[int(np.floor(np.float32(u) * np.float32(len(options))))]


@dataclass
class Game:
    size: int
    grid: list[list[str]]
    agent: tuple[int, int]
    animals: list[tuple[str, tuple[int, int] | None]]  # kind and place, None when gone
    time: int = 0
    ending: bool = False
    shown: set[str] = field(default_factory=set)

    def text(self) -> list[str]:
        return ["".join(row) for row in self.grid]

    def inside(self, place: tuple[int, int]) -> bool:
        return 0 <= place[0] < self.size and 0 <= place[1] < self.size

    def at(self, place: tuple[int, int]) -> str:
        return self.grid[place[0]][place[1]]

    def put(self, place: tuple[int, int], what: str) -> None:
        self.grid[place[0]][place[1]] = what

    def remove(self, place: tuple[int, int]) -> str:
        """The animal standing there is gone; its kind."""
        for i, (kind, where) in enumerate(self.animals):
            if where == place:
                self.animals[i] = (kind, None)
                self.put(place, FLOOR)
                return kind
        raise AssertionError("no animal there")


def begin(u: np.ndarray, variants: list[tuple[int, int]], size: int = 8) -> Game:
    near, far = list(range(1, size // 4 + 1)), list(range(size // 2, size - 1))
    r1, c1 = pick(u[0], near), pick(u[1], near)
    r2, c2 = pick(u[2], far), pick(u[3], far)
    d1, d2 = (pick(x, ["bottom", "top", "right", "left"]) for x in u[4:6])
    shown = set()

    def segment(row: int, col: int, direction: str) -> set[tuple[int, int]]:
        return {
            "bottom": {(r, col) for r in range(row, size)},
            "top": {(r, col) for r in range(row + 1)},
            "right": {(row, c) for c in range(col, size)},
            "left": {(row, c) for c in range(col + 1)},
        }[direction]

    wall1, wall2 = segment(r1, c1, d1), segment(r2, c2, d2)
    if (d1, d2) == ("bottom", "left"):
        wall2 = {(r, c) for r, c in wall2 if c >= c1}
        shown.add("second wall cut at its left")
    if (d1, d2) == ("right", "top"):
        wall2 = {(r, c) for r, c in wall2 if r >= r1}
        shown.add("second wall cut at its top")
    tiles = [(r, c) for r in range(size) for c in range(size)]
    grid = [[WALL if (r, c) in wall1 | wall2 else FLOOR for c in range(size)] for r in range(size)]
    zombies, cows = pick(u[6], variants)
    agent = pick(u[7], [t for t in tiles if grid[t[0]][t[1]] == FLOOR])
    grid[agent[0]][agent[1]] = AGENT
    slots_z = max(z for z, _ in variants)
    animals: list[tuple[str, tuple[int, int] | None]] = []
    for kind, number, first, slots in (
        (ZOMBIE, zombies, 8, slots_z),
        (COW, cows, 8 + slots_z, max(c for _, c in variants)),
    ):
        for i in range(slots):
            if i >= number:
                animals.append((kind, None))
                continue
            free = [t for t in tiles if grid[t[0]][t[1]] == FLOOR]
            distant = [t for t in free if max(abs(t[0] - agent[0]), abs(t[1] - agent[1])) > 3]
            if not distant:
                shown.add("no room outside the square")
            place = pick(u[first + i], distant or free)
            grid[place[0]][place[1]] = kind
            animals.append((kind, place))
    return Game(size, grid, agent, animals, shown=shown)


def step(game: Game, action: int, u: np.ndarray) -> tuple[float, bool, bool]:
    """Reward, terminated, truncated."""
    reward = 0.0
    was_ending = game.ending
    old = game.agent
    if 1 <= action <= 4:
        dr, dc = MOVES[action]
        there = (old[0] + dr, old[1] + dc)
        if not game.inside(there) or game.at(there) == WALL:
            game.shown.add("walking into a wall or the edge")
        else:
            if game.at(there) != FLOOR:
                kind = game.remove(there)
                reward += 1 if kind == COW else -1
                game.shown.add(f"agent walks into {kind}")
            game.put(old, FLOOR)
            game.put(there, AGENT)
            game.agent = there
    elif action >= 5:
        dr, dc = MOVES[action - 4]
        hits, wall_before = 0, False
        for distance in (1, 2, 3):
            there = (old[0] + distance * dr, old[1] + distance * dc)
            if not game.inside(there):
                break
            if game.at(there) == WALL:
                wall_before = True
            elif game.at(there) in (ZOMBIE, COW):
                kind = game.remove(there)
                reward += 1 if kind == ZOMBIE else -1
                hits += 1
                game.shown.add(f"shot {kind}")
                if wall_before:
                    game.shown.add("shot through a wall")
        if hits >= 2:
            game.shown.add("shot that hits two")
    if game.time % 2 == 1:
        kinds = (ZOMBIE, COW) if u[0] < 0.5 else (COW, ZOMBIE)
        game.shown.add(f"{kinds[0]} move first")
        for turn in kinds:
            for i, (kind, place) in enumerate(list(game.animals)):
                if kind != turn or place is None:
                    continue
                noticed = max(abs(place[0] - old[0]), abs(place[1] - old[1])) <= 3
                weights = []
                for dr, dc in MOVES.values():
                    to = (place[0] + dr, place[1] + dc)
                    away = abs(to[0] - old[0]) + abs(to[1] - old[1]) > abs(place[0] - old[0]) + abs(place[1] - old[1])
                    weights.append(4 if noticed and game.inside(to) and away else 1)
                dart = np.float32(u[1 + i]) * np.float32(sum(weights))
                direction = next(k for k in range(4) if dart < sum(weights[: k + 1]))
                dr, dc = list(MOVES.values())[direction]
                to = (place[0] + dr, place[1] + dc)
                if not game.inside(to) or game.at(to) == WALL:
                    continue
                if game.at(to) == AGENT:
                    reward -= 1
                    game.put(place, FLOOR)
                    game.animals[i] = (kind, None)
                    game.shown.add(f"{kind} walks into the agent")
                elif game.at(to) == FLOOR:
                    game.put(place, FLOOR)
                    game.put(to, kind)
                    game.animals[i] = (kind, to)
                else:
                    game.shown.add("animal in an animal's way")
    game.time += 1
    cleared = all(place is None for _, place in game.animals)
    if not was_ending and (game.time >= 30 or cleared):
        game.ending = True
        game.shown.add("delayed end, all gone" if cleared else "delayed end, time is up")
    if was_ending and reward:
        game.shown.add("reward in the last step")
    return reward, was_ending and cleared, was_ending and not cleared
