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

import numpy as np

from protoalign.errors import UserError
from protoalign.worlds.base import World
from protoalign.worlds.env import WorldEnv

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


def read_key(size: os.terminal_size) -> str:
    """One key; the bytes of an arrow or of a letter outside ASCII arrive together.

    "q" at the end of input, and "" when the terminal has no longer the size that was drawn for.
    """
    file = sys.stdin.fileno()
    while not select.select([file], [], [], 0.2)[0]:
        if shutil.get_terminal_size() != size:
            return ""
    key = os.read(file, 1)
    if not key:
        return "q"
    if (key == b"\x1b" or key[0] >= 128) and select.select([file], [], [], 0.05)[0]:
        key += os.read(file, 3)
    return key.decode(errors="replace").replace("\x1bO", "\x1b[")  # some terminals send arrows so


def screen(picture: np.ndarray, text: list[str], size: os.terminal_size) -> str:
    """The picture at the largest scale that fits the terminal above the lines of text, or else a line that says so."""
    columns, lines = size
    below = [line[: max(columns, 1)] for line in text]
    for scale in (1, 2, 4, 8):
        height, width = (n // scale // 2 * 2 for n in picture.shape[:2])
        if min(height, width) > 0 and width <= columns and height // 2 + len(below) < lines:
            blocks = picture[: height * scale, : width * scale].reshape(height, scale, width, scale, 3)
            return "\n".join([picture_text(blocks.mean((1, 3)).astype(np.uint8)), *below])
    said = ["too small for the picture: enlarge the terminal", *text]
    return "\n".join(line[: max(columns, 1)] for line in said[: max(lines - 1, 1)])


def play(world: World, look: str, seed: int) -> None:
    """Games in a world whose actions there are keys for, until the person quits."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError("play needs a terminal: run it in one, without pipes")
    actions = world.spec.actions
    if not set(KEYS.values()) <= set(actions):
        raise UserError(f"there are no keys for {world.spec.name}, whose actions are {', '.join(actions)}")
    env = WorldEnv(world, look, render_mode="rgb_array")
    env.reset(seed=seed)
    games, total, score, note = 0, 0.0, 0.0, "shoot the zombies, walk into the cows"
    if look not in ("source", "target"):
        note = f"find out who is who in {Path(look).name or look}"
    over = False
    with suppress(KeyboardInterrupt), raw_terminal():
        while True:
            mean = f"   mean of {games} games {total / games:.2f}" if games else ""
            size = shutil.get_terminal_size()
            shown = screen(env.render(), [HELP, f"score {score:+.0f}   {note}{mean}"], size)
            print("\x1b[H" + shown.replace("\n", "\x1b[K\n"), end="\x1b[K\n\x1b[0J", flush=True)
            key = read_key(size)
            if key == "q":
                return
            if key == "n" or (over and key):
                env.reset()
                score, note, over = 0.0, "", False
            elif key in KEYS:
                _, reward, terminated, truncated, _ = env.step(np.int64(actions.index(KEYS[key])))
                score += reward
                over = terminated or truncated
                note = f"{KEYS[key]} {reward:+.0f}" if reward else KEYS[key]
                if over:
                    games, total = games + 1, total + score
                    note = ("all gone" if terminated else "time is up") + ", any key for a new game"
