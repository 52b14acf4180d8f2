"""Calls that end in different ways, for workers."""

import os
import signal
import time

from protoalign.errors import UserError


def add(one, other):
    print("adding", one, other)
    return one + other


def meet(mine, other):
    mine.write_text("here")
    wait_for(other)
    return sorted(os.sched_getaffinity(0))


def unspeakable():
    return lambda: None


def die_once(marker):
    if not marker.exists():
        marker.write_text("dead")
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def crash_once(marker):
    if not marker.exists():
        marker.write_text("crashed")
        raise RuntimeError("the floor\ngave way")
    return "mended"


def refuse(counter):
    counter.write_text(counter.read_text() + "x" if counter.exists() else "x")
    raise UserError("that cannot be: do something else")


def wait_for(marker):
    while not marker.exists():
        time.sleep(0.05)
    return os.getpid()
