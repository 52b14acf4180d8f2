"""What `import protoalign` offers."""

import subprocess
import sys

import pytest

import protoalign as pa


def test_everything_is_there_and_says_what_it_is():
    for name in pa.__all__:
        assert getattr(pa, name) is not None
        if name != "__version__":
            assert (getattr(pa, name).__doc__ or "").strip(), name
    assert dir(pa) == pa.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pa.nothing  # noqa: B018


def test_importing_it_is_quick_and_leaves_jax_to_be_set_up():
    done = subprocess.run([sys.executable, "-c", "import sys, protoalign; print('jax' in sys.modules)"], capture_output=True)
    assert done.stdout.split() == [b"False"]


def test_an_agent_in_memory_and_in_a_folder(agent, world, mapping, tmp_path):
    agent.save(tmp_path / "agent")
    again = pa.load(tmp_path / "agent")
    found = [pa.evaluate(a.policy(mapping, seed=3), world.make("target"), 5, seed=1) for a in (agent, again)]
    assert found[0] == found[1]
    assert found[0].keys() >= {"return", "return_se", "length", "episodes"}
    picture, _ = world.make("target").reset(seed=0)
    greedy = again.policy(mapping, greedy=True)
    assert {greedy(picture) for _ in range(3)} == {greedy(picture)}
    with pytest.raises(pa.UserError, match="too few"):
        pa.evaluate(greedy, world.make("target"), 1)


def test_an_agent_that_is_not_finished_says_so(agent, world):
    from dataclasses import replace

    with pytest.raises(pa.UserError, match="finish its training"):
        replace(agent, explorer=None).align(world.make("target"), engine="opa")
    with pytest.raises(pa.UserError, match="bayes"):
        replace(agent, judge=None).align(world.make("target"))
    with pytest.raises(pa.UserError, match="no engine 'magic'"):
        agent.align(world.make("target"), engine="magic")


def test_worlds_without_what_the_method_needs_are_refused_before_training(world):
    class Blind(type(world)):
        def pictures(self, look):
            return super().pictures(look)[..., :1]

    with pytest.raises(pa.UserError, match="has no pictures"):
        pa.train(Blind(world.variants, world.size))
    with pytest.raises(pa.UserError, match="no world is called"):
        pa.train("pong")
