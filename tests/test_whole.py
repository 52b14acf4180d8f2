"""All stages for both engines at once: what is trained in a second thread, and what happens if one of the two fails."""

import contextlib
import threading
import time
from dataclasses import replace

import pytest

from protoalign import UserError
from protoalign.runs import Memory, Stopped, merged
from protoalign.stages import setup, whole
from protoalign.worlds import registry


@pytest.fixture
def trained_task(monkeypatch, agent):
    monkeypatch.setattr(whole, "task", lambda *args: agent)
    monkeypatch.setattr(setup, "cores", lambda: 2)
    monkeypatch.setattr(whole, "rehearse", lambda *args: None)
    monkeypatch.setattr(whole, "dynamics", lambda *args: None)
    monkeypatch.setattr(whole, "model", lambda world, store, agent, fitted: agent)
    monkeypatch.setattr(whole, "variants", lambda world, store, agent: agent)
    monkeypatch.setattr(whole, "explore", lambda world, store, agent: agent)


def test_if_measuring_one_engine_fails_the_other_is_stopped(monkeypatch, trained_task):
    """The thread notices at the next row that it logs; nothing hangs, and the first error is what is told."""
    ended = []

    def train_for_long(world, store, agent):
        started.set()
        try:
            for _ in range(3000):
                store.log({"stage": "infer", "update": 1})
                time.sleep(0.01)
        except Stopped:
            ended.append("stopped")
            raise
        return agent

    started = threading.Event()
    monkeypatch.setattr(whole, "infer", train_for_long)
    world, store = registry.make("hunter-z1c1"), Memory()

    def measure_and_fail():
        with whole.learning(world, store, 0, "fast", None, None, (), "both") as trained_for:
            trained_for("bayes")
            assert started.wait(10)
            raise UserError("this one fails")

    with pytest.raises(UserError, match="this one fails"):
        measure_and_fail()
    assert ended == ["stopped"]


def test_an_error_in_the_second_thread_is_told(monkeypatch, trained_task):
    def fail(world, store, agent):
        raise UserError("no episode has ended")

    monkeypatch.setattr(whole, "infer", fail)
    with pytest.raises(UserError, match="no episode has ended"):
        whole.train("hunter-z1c1", engine="both")


@pytest.mark.parametrize("cores", [1, 2])
def test_both_engines_are_trained_on_one_core_or_two(monkeypatch, trained_task, agent, cores):
    threads = {}

    def note(name):
        def train(world, store, agent, fitted=None):
            if fitted is not None:
                fitted()
                fitted()
            threads.setdefault(name, []).append(threading.current_thread())
            return agent

        return train

    monkeypatch.setattr(setup, "cores", lambda: cores)
    monkeypatch.setattr(whole, "dynamics", note("dynamics"))
    monkeypatch.setattr(whole, "infer", note("infer"))
    monkeypatch.setattr(whole, "model", note("model"))
    assert whole.train("hunter-z1c1", engine="both").engines == ("bayes", "opa")
    main = threading.main_thread()
    assert threads["model"] == [main]
    assert {name: [x is main for x in threads[name]] for name in ("dynamics", "infer")} == {
        "dynamics": [cores == 1],
        "infer": [cores == 1],
    }, "each once, in the second thread if there are two cores"
    with pytest.raises(UserError, match="no engine 'neither'"):
        whole.train("hunter-z1c1", engine="neither")


def test_figures_are_added_to_tables_of_figures():
    assert merged({"seconds": {"task": 1}, "a": 1}, {"seconds": {"model": 2}, "a": 3, "b": {}}) == {
        "seconds": {"task": 1, "model": 2},
        "a": 3,
        "b": {},
    }


def test_a_rehearsal_compiles_what_the_stages_run(monkeypatch, agent):
    """What was rehearsed is not compiled again by the stage itself; nothing goes wrong in it unnoticed here."""
    from jax._src import monitoring

    from protoalign.stages import bayes, rehearsal
    from tests.conftest import SMALL, WORLD

    compiled = []
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: compiled.append(str(more.get("fun_name"))) if "backend_compile" in event else None
    )

    def programs():
        return {name for name in compiled for part in ("_game", "fit", "_gather") if part in name}

    monkeypatch.setattr(rehearsal, "suppress", lambda kind: contextlib.nullcontext())
    settings = replace(SMALL, judge=replace(SMALL.judge, updates=2, batch=9, games=256, measured=256))
    rehearsal.rehearse(registry.make(WORLD), settings, 3)
    assert len(programs()) >= 3
    compiled.clear()
    monkeypatch.setattr(bayes, "PRACTICE", 256)
    monkeypatch.setattr(bayes, "dynamics", lambda *args: None)
    monkeypatch.setattr(bayes, "past", lambda *args: None)
    monkeypatch.setattr(bayes, "presence", lambda *args: agent.presence)
    bayes.model(registry.make(WORLD), Memory(), replace(agent, settings=settings, judge=None))
    assert not programs(), "all was compiled before"
