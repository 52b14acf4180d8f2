"""A person plays in the terminal, in colour: two pixels per character cell, one above the other."""

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import gymnasium
import numpy as np

from protoalign.envs.gym import HunterEnv
from protoalign.envs.hunter import ACTION_NAMES
from protoalign.errors import UserError

KEYS = {
    "w": "up", "s": "down", "a": "left", "d": "right", "\x1b[A": "up", "\x1b[B": "down", "\x1b[D": "left", "\x1b[C": "right",
    "i": "fire-up", "k": "fire-down", "j": "fire-left", "l": "fire-right", " ": "none",
}  # fmt: skip
HELP = "w a s d or arrows: walk   i j k l: fire   space: wait   n: new game   q: quit"


def picture_text(picture: np.ndarray) -> str:
    """A picture [2n, m, 3] as n lines of coloured half blocks."""
    lines = []
    for upper, lower in zip(picture[::2], picture[1::2], strict=True):
        cells = [
            f"\x1b[38;2;{u[0]};{u[1]};{u[2]};48;2;{v[0]};{v[1]};{v[2]}m▀"
            for u, v in zip(upper.tolist(), lower.tolist(), strict=True)
        ]
        lines.append("".join(cells) + "\x1b[0m")
    return "\n".join(lines)


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Keys arrive one by one, unechoed; the terminal is put back as it was."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)
    try:
        tty.setcbreak(file)
        print("\x1b[?25l\x1b[2J", end="")
        yield
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)
        print("\x1b[?25h", flush=True)


def read_key() -> str:
    """One key; the bytes of an arrow or of a letter outside ASCII arrive together. "q" at the end of input."""
    file = sys.stdin.fileno()
    key = os.read(file, 1)
    if not key:
        return "q"
    if (key == b"\x1b" or key[0] >= 128) and select.select([file], [], [], 0.05)[0]:
        key += os.read(file, 3)
    return key.decode(errors="replace").replace("\x1bO", "\x1b[")  # some terminals send arrows so


def shrink(picture: np.ndarray) -> np.ndarray:
    """The picture at the largest scale that fits the terminal with three lines of text below it."""
    columns, lines = shutil.get_terminal_size()
    for scale in (1, 2, 4):
        height, width = (n // scale for n in picture.shape[:2])
        if width <= columns and height // 2 + 3 <= lines:
            return picture.reshape(height, scale, width, scale, 3).mean((1, 3)).astype(np.uint8)
    raise UserError(
        f"the board needs a terminal of {width} columns and {height // 2 + 3} lines; this one has {columns} x {lines}"
    )


def play(variant: str, look: str, seed: int, size: int) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("play needs a terminal: run it in one, without pipes")
    env: gymnasium.Env = HunterEnv(variant, appearance=look, obs="pixels", size=size)
    observation, _ = env.reset(seed=seed)
    games, total, score, note = 0, 0.0, 0.0, "shoot the zombies, walk into the cows"
    if look not in ("source", "target"):
        note = f"find out who is who in {Path(look).name or look}"
    over = False
    shrink(observation)  # or complain, before the screen is touched
    with suppress(KeyboardInterrupt), raw_terminal():
        while True:
            print("\x1b[H" + picture_text(shrink(observation)), end="\x1b[0J\n")
            print(f"{HELP}\nscore {score:+.0f}   {note}" + (f"   mean of {games} games {total / games:.2f}" if games else ""))
            key = read_key()
            if key == "q":
                return
            if key == "n" or over:
                observation, _ = env.reset()
                score, note, over = 0.0, "", False
                continue
            if key in KEYS:
                observation, reward, terminated, truncated, _ = env.step(np.int64(ACTION_NAMES.index(KEYS[key])))
                score += float(reward)
                over = terminated or truncated
                note = f"{KEYS[key]} {reward:+.0f}" if reward else KEYS[key]
                if over:
                    games, total = games + 1, total + score
                    note = ("all gone" if terminated else "time is up") + ", any key for a new game"
