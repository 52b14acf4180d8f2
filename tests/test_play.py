"""The game in the terminal: what is printed at which size, and a person who plays while the terminal shrinks and grows."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import pytest

from protoalign import UserError
from protoalign.play import play, screen
from protoalign.worlds import make

PICTURE = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)


@pytest.mark.parametrize(
    ("columns", "lines", "shown"),
    [
        (100, 40, (32, 64)),
        (80, 24, (16, 32)),
        (63, 40, (16, 32)),
        (20, 12, (8, 16)),
        (10, 8, (4, 8)),
        (7, 5, None),
        (1, 1, None),
    ],
)
def test_pictures_fit_the_terminal(columns, lines, shown):
    text = screen(PICTURE, ["help", "score"], os.terminal_size((columns, lines)))
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).split("\n")
    assert len(text) <= max(lines - 1, 1)
    assert max(map(len, text)) <= columns
    rows = [len(line) for line in text if "▀" in line]
    assert (rows == [shown[1]] * shown[0]) if shown else not rows
    if not shown and columns > 4:
        assert "too small".startswith(text[0])


def test_a_picture_of_odd_size_loses_its_rim():
    assert screen(PICTURE[:21, :21], [], os.terminal_size((80, 24))).count("▀") == 10 * 20


def test_worlds_and_places_that_cannot_be_played(monkeypatch):
    with pytest.raises(UserError, match="needs a terminal"):
        play(make("hunter-z1c1"), "source", 0)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    with pytest.raises(UserError, match="no keys for crafter"):
        play(make("crafter", worlds=1, first=1_000_000), "source", 0)


def test_a_person_plays_while_the_terminal_changes():
    terminal, inner = pty.openpty()

    def resize(lines, columns):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    resize(24, 80)
    code = "from protoalign.play import play; from protoalign.worlds import make; play(make('hunter-z2c2'), 'target', 1)"
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen([sys.executable, "-c", code], stdin=inner, stdout=inner, stderr=inner, env=environment)
    os.close(inner)

    def read_until(text):
        shown, limit = b"", time.monotonic() + 60
        while text not in shown:
            assert time.monotonic() < limit, shown[-500:]
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 65536)

    for change, expected in (
        (b"", b"shoot the zombies"),
        (b"\x1b[A", b"up"),
        ((6, 30), b"too small"),
        (b"l", b"fire-right"),
        ((40, 100), b"\x1b[38;2;"),
        (b"n", b"score +0"),
    ):
        if isinstance(change, bytes):
            os.write(terminal, change)
        else:
            resize(*change)
        read_until(expected)
    os.write(terminal, b"q")
    read_until(b"\x1b[?25h")
    assert process.wait(60) == 0
    os.close(terminal)
