"""All stages for both engines at once: what is trained in a second thread, and what happens if one of the two fails."""

import threading
import time

import pytest

from protoalign import UserError
from protoalign.runs import Memory, Stopped, merged
from protoalign.stages import whole
from protoalign.worlds import registry


@pytest.fixture
def trained_task(monkeypatch, agent):
    monkeypatch.setattr(whole, "task", lambda *args: agent)
    monkeypatch.setattr(whole, "cores", lambda: 2)
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
    monkeypatch.setattr(whole, "model", lambda world, store, agent: agent)
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
    monkeypatch.setattr(whole, "model", lambda world, store, agent: agent)
    with pytest.raises(UserError, match="no episode has ended"):
        whole.train("hunter-z1c1", engine="both")


@pytest.mark.parametrize("cores", [1, 2])
def test_both_engines_are_trained_on_one_core_or_two(monkeypatch, trained_task, agent, cores):
    threads = {}

    def note(name):
        def train(world, store, agent):
            threads[name] = threading.current_thread()
            return agent

        return train

    monkeypatch.setattr(whole, "cores", lambda: cores)
    monkeypatch.setattr(whole, "infer", note("infer"))
    monkeypatch.setattr(whole, "model", note("model"))
    assert whole.train("hunter-z1c1", engine="both").engines == ("bayes", "opa")
    assert threads["model"] is threading.main_thread()
    assert (threads["infer"] is threading.main_thread()) == (cores == 1)
    with pytest.raises(UserError, match="no engine 'neither'"):
        whole.train("hunter-z1c1", engine="neither")


def test_figures_are_added_to_tables_of_figures():
    assert merged({"seconds": {"task": 1}, "a": 1}, {"seconds": {"model": 2}, "a": 3, "b": {}}) == {
        "seconds": {"task": 1, "model": 2},
        "a": 3,
        "b": {},
    }
