"""Whole games of a policy in worlds that are stepped on the host, seen through any eyes."""

from collections.abc import Callable

import gymnasium
import numpy as np

from protoalign.rl.evaluate import Played
from protoalign.worlds.gym import Seen
from protoalign.worlds.tile_dictionary import TileDictionary

AT_ONCE = 40  # games side by side
Eyes = Callable[[np.ndarray], np.ndarray]  # tile pictures [n, h, w, 3] to prototypes [n]
Plays = Callable[[np.ndarray, np.ndarray], np.ndarray]  # grids [D, H, W] of prototypes, numbers [D, M]: probabilities [D, A]


def play_hosted(
    make: Callable[[], gymnasium.Env], tile: tuple[int, int], plays: Plays, eyes: Eyes, episodes: int, seed: int
) -> Played:
    """So many games, the n-th from seed + n. What chance does to the policy follows from that seed and the time: who sees the
    same plays the same. Tiles beyond those that a dictionary holds are all shown as prototype 0."""
    dictionary = TileDictionary(tile, endless=True)
    table = np.zeros(256, np.int64)
    known = 0
    games = [Seen(make(), dictionary) for _ in range(min(AT_ONCE, episodes))]
    returns, lengths = np.zeros(episodes), np.zeros(episodes, int)
    for first in range(0, episodes, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, episodes))
        chance = {n: np.random.default_rng([seed, n]) for n in numbers}
        going = {n: games[n - first].reset(seed=(seed + n) % 2**31) for n in numbers}
        while going:
            if len(dictionary) > known:
                table[known : len(dictionary)] = eyes(dictionary.pictures[known:])
                known = len(dictionary)
            order = list(going)
            grids = table[np.stack([going[n][0] for n in order])]
            shares = plays(grids, np.stack([going[n][1] for n in order]))
            for n, share in zip(order, shares, strict=True):
                action = int(np.searchsorted(np.cumsum(share), chance[n].random() * share.sum()))
                ids, told, reward, terminated, truncated = games[n - first].step(min(action, len(share) - 1))
                returns[n] += reward
                lengths[n] += 1
                going[n] = ids, told
                if terminated or truncated:
                    del going[n]
    for game in games:
        game.env.close()
    return Played(returns, lengths, {})


def nearest(pictures: np.ndarray, prototype_of: np.ndarray) -> Eyes:
    """One who knows only pictures [ids, h, w, 3] and their prototypes [ids]: that of the picture which is most like a tile
    when it is scaled to that size."""
    known = pictures.reshape(len(pictures), -1).astype(np.float32)

    def eyes(tiles: np.ndarray) -> np.ndarray:
        rows, columns = (np.arange(n) * m // n for n, m in zip(pictures.shape[1:3], tiles.shape[1:3], strict=True))
        flat = tiles[:, rows][:, :, columns].reshape(len(tiles), -1).astype(np.float32)
        return prototype_of[((known**2).sum(1) - 2 * flat @ known.T).argmin(1)]

    return eyes
