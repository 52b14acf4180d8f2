"""All five from beginning to end, in a toy world; a learning test of each part that can fail by itself."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError
from protoalign.errors import GateError
from protoalign.reproduction import settings
from protoalign.reproduction.baselines import autoencoder, darla, ltmbr, lusr, unit4rl
from protoalign.reproduction.baselines.autoencoder import Decoder, Encoder, divergence
from protoalign.reproduction.baselines.job import Adapted, Job
from protoalign.reproduction.baselines.pixels import flat, lay
from protoalign.reproduction.baselines.run import run
from protoalign.reproduction.experiments.reproduce import hand_over
from protoalign.rl.ppo import Batch, Next
from protoalign.runs import Run
from protoalign.worlds.hunter import Hunter
from tests.reproduction import toy

WORLD = Hunter()
SMALL = replace(settings.OTHERS.presets["fast"], frames=2000, code_updates=20, translation_updates=20)
FRAMES = 1024  # watched in the toy world


@pytest.fixture(autouse=True, scope="module")
def worlds():
    with toy.registered():
        yield


@pytest.fixture
def lenient(monkeypatch):
    monkeypatch.setattr(autoencoder, "SHOWN", 0.0)


def job(path, config=SMALL, world=WORLD) -> Job:
    return Job("test", Run(path), world, config, settings.Sizes(), 0, "target", 16)


@pytest.mark.parametrize("name", settings.NAMES)
def test_from_beginning_to_end(name, lenient, tmp_path):
    """In a view with a number and tiles that are not square, judged through pictures in another program."""
    result = run(name, "toy-view", tmp_path / "run", 3, "fast", "target")
    assert result["source"]["episodes"] == result["target"][0]["episodes"] == toy.TINY.target_episodes
    assert result["target"][0]["steps"] == 0
    again = run(name, "toy-view", tmp_path / "run", 3, "fast", "target")
    assert again == result
    frames = {"source": {"frames": FRAMES}, "target": {"frames": FRAMES}}
    expected = {
        "ppo": {"source": {"source": 512}},
        "darla": {"source": frames["source"] | {"source": 512}},
        "lusr": {"source": frames["source"] | {"source": 512}, "target": frames["target"]},
        "unit4rl": {"source": {"source": 512} | frames["source"], "target": frames["target"] | {"adapt": 512}},
        "ltmbr": {"source": {"source": 512}, "target": {"adapt": 512}, "control": {"none": 512, "random": 512}},
    }
    assert result["steps"] == expected[name]


class Constant(eqx.Module):
    """Always the same action; remembers nothing of what it sees."""

    look: jax.Array
    action: int = eqx.field(static=True)

    def encode(self, observation):
        return flat(observation)

    def __call__(self, seen):
        logits = jnp.where(np.arange(4) == self.action, 100.0, 0.0)
        return jnp.broadcast_to(logits, (len(seen.tiles), 4)), jnp.zeros(len(seen.tiles))


def test_judged_by_ids_or_through_pictures(tmp_path):
    """In both, a policy that always goes up ends at a cow, at a zombie or after ten steps."""
    for name, world in (("board", toy.Toy()), ("view", toy.Toy(True, (3, 5)))):
        some = replace(job(tmp_path / name, world=world), games=200)
        some.count("source", "source", 0)
        net = Constant(some.source, 0)
        found = some.judge(net, [Adapted("as it is", net)])
        for row in (found["source"], found["target"][0]):
            assert row["episodes"] == 200
            assert abs(row["return"]) < 0.2, "cows and zombies are met as often"
            assert 5 < row["length"] < 10


def test_unit4rl_killed_and_started_again_from_the_policy_of_ppo(tmp_path, monkeypatch):
    """A run killed while it trains ends with the same numbers as one that was not."""
    monkeypatch.setattr("protoalign.rl.train.SAVE_SECONDS", 0.0)
    ppo, whole, killed = (tmp_path / name for name in ("ppo", "whole", "killed"))
    hand_over(ppo, killed)
    assert not killed.exists()
    expected = run("unit4rl", "toy-board", whole, 1, "fast", "target")
    run("ppo", "toy-board", ppo, 1, "fast", "target")
    hand_over(ppo, killed)
    (kept,) = (killed / "checkpoints").glob("source-00000002.safetensors")
    written = kept.stat().st_mtime_ns
    save = Run.save

    class Killed(BaseException):
        pass

    for stage, after in (("translate", 10), ("adapt", 1)):

        def save_and_die(self, name, step, tree, info, stage=stage, after=after):
            save(self, name, step, tree, info)
            if name == stage and step >= after:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Run, "save", save_and_die)
            with pytest.raises(Killed):
                run("unit4rl", "toy-board", killed, 1, "fast", "target")
    found = run("unit4rl", "toy-board", killed, 1, "fast", "target")
    assert kept.stat().st_mtime_ns == written, "the source policy was not trained again"
    for result in (expected, found):
        result.pop("seconds")
    assert found == expected


def test_no_policy_on_codes_that_show_nothing(tmp_path):
    with pytest.raises(GateError, match=r"does not show enough of: .*cow"):
        run("darla", "toy-board", tmp_path / "run", 0, "fast", "target")
    assert Run(tmp_path / "run").metrics("code")
    assert not Run(tmp_path / "run").metrics("source")


def test_perceptual_loss_runs(lenient, tmp_path):
    with pytest.raises(UserError, match="needs --encoder conv"):
        run("darla", "toy-board", tmp_path / "run", 0, "fast", "target", perceptual=True)
    result = run("darla", "toy-board", tmp_path / "run", 0, "fast", "target", encoder="conv", perceptual=True)
    assert result["seconds"].keys() >= {"judge", "code", "source"}


def test_kinds_that_never_occur_are_not_judged(tmp_path):
    some = job(tmp_path)
    seen = np.zeros((4, 64), np.uint8)
    seen[:, :3] = 4  # floor and walls only, as in a world without animals they would be
    painted = lay(jnp.asarray(seen), some.source)
    assert autoencoder.shown(some, some.source, seen, painted) == {"floor": 1.0, "wall": 1.0}
    autoencoder.check_shown(some, some.source, seen, painted)
    with pytest.raises(GateError, match="wall"):
        autoencoder.check_shown(some, some.source, seen, lay(jnp.zeros_like(jnp.asarray(seen)), some.source))


def test_kinds_with_several_pictures_are_one_kind(tmp_path):
    """As things on grounds in Crafter: the pictures have names of their own, what is shown is counted by kind."""

    class Grounds(toy.Toy):
        @property
        def spec(self):
            return replace(super().spec, truth=("floor", "zombie", "agent", "zombie", "zombie"))

    some = job(tmp_path, world=Grounds())
    assert some.names == ("floor", "zombie", "agent", "zombie 2", "zombie 3")
    seen = np.array([[0, 1, 3, 4]], np.uint8)
    painted = lay(jnp.asarray(np.array([[0, 3, 1, 0]], np.uint8)), some.source)
    assert autoencoder.shown(some, some.source, seen, painted) == {"floor": 1.0, "zombie": 0.6667}


def test_translation_between_equal_worlds_keeps_the_floor(tmp_path):
    """Most tiles are floor, and their translation must soon look like it; the rare kinds take longer."""
    same = replace(job(tmp_path, replace(toy.BASELINE, translation_updates=600), toy.Toy()), look="source")
    translator = unit4rl.train_translator(same)
    look = np.asarray(unit4rl.translate(translator, same.source))
    assert np.abs(look - np.asarray(same.source)).mean(1)[0] < 0.15


def test_model_loss_is_the_formula_and_leaves_a_frozen_model_alone(tmp_path):
    net = ltmbr.fresh(job(tmp_path), "source/network")
    seen = flat(WORLD.observe(WORLD.reset(jax.random.key(0), 8)))
    other = jax.tree.map(lambda x: x[::-1], seen)
    action, reward = jnp.arange(8) % 9, jnp.linspace(-1, 1, 8)
    known = jnp.arange(8) < 5
    zero = jnp.zeros(8)
    batch = Batch(seen, action, zero, zero, zero, zero > -1, Next(other, reward, known))
    z, after = (np.asarray(net.latent(x)) for x in (seen, other))
    np.testing.assert_allclose((z**2).sum(1), 1, atol=1e-4)
    step, bias = np.asarray(net.model.step.weight).reshape(64, 9, 64), np.asarray(net.model.step.bias).reshape(9, 64)
    expected = 0.0
    for i in range(5):
        a = int(action[i])
        following = z[i] @ step[:, a] + bias[a]
        paid = z[i] @ np.asarray(net.model.reward.weight)[:, a] + float(net.model.reward.bias[a])
        expected += ((following - after[i]) ** 2).mean() + (paid - float(reward[i])) ** 2
    assert float(ltmbr.model_loss(4.0, frozen=False)(net, batch)) == pytest.approx(4 * expected / 5, rel=1e-4)
    grads = jax.grad(ltmbr.model_loss(4.0, frozen=True))(net, batch)
    assert max(float(abs(g).max()) for g in jax.tree.leaves(grads.model)) == 0
    assert max(float(abs(g).max()) for g in jax.tree.leaves(grads.net)) > 0


def test_what_is_frozen_stays_as_it_was(lenient, tmp_path, monkeypatch):
    """The encoder while DARLA's policy learns on its code, the model while LTMBR's encoder learns in the target."""
    before = {}
    learn = Job.learn

    def remember(self, stage, net, *rest, **more):
        after = learn(self, stage, net, *rest, **more)
        before[stage] = (net, after)
        return after

    monkeypatch.setattr(Job, "learn", remember)
    darla.train_source(job(tmp_path / "darla", toy.BASELINE, toy.Toy(True, (3, 5))))
    one, other = before["source"]
    assert eqx.tree_equal(one.encoder, other.encoder)
    assert not eqx.tree_equal(one.layers, other.layers)
    mine = job(tmp_path / "ltmbr", toy.BASELINE, toy.Toy(True, (3, 5)))
    trained = ltmbr.train_source(mine)
    assert not eqx.tree_equal(before["source"][0].model, trained.model)
    ltmbr.adapt(mine, trained)
    one, other = before["adapt"]
    assert eqx.tree_equal(trained.model, other.model)
    assert not eqx.tree_equal(one.net.eye, other.net.eye)
    assert eqx.tree_equal(before["random"][0].model, before["random"][1].model)


def some_grids() -> jax.Array:
    """Of both domains, [2, 8, N]."""
    states = (WORLD.reset(jax.random.key(i), 8) for i in (0, 1))
    return jnp.stack([flat(WORLD.observe(state)).tiles for state in states])


def test_reverse_loss_trains_the_encoder_only(tmp_path):
    mine, rng, seen = job(tmp_path), np.random.default_rng(0), some_grids()
    encoder, decoder = Encoder(rng, mine, 16), Decoder(rng, mine, 16)

    def reverse(encoder, decoder):
        loss = [lusr.code_loss(encoder, decoder, (mine.source, mine.target), seen, jax.random.key(0), 0.1, w) for w in (1, 0)]
        return loss[0] - loss[1]

    for_encoder, for_decoder = jax.grad(reverse, argnums=(0, 1))(encoder, decoder)
    assert float(abs(for_encoder.mean.weight).max()) > 0.1
    assert max(float(abs(g).max()) for g in jax.tree.leaves(for_decoder)) < 1e-3


def test_forward_loss_is_two_pictures_and_twice_the_divergence(tmp_path):
    """With nothing random in the latent and one and the same picture, permuting styles changes nothing."""
    mine, rng = job(tmp_path), np.random.default_rng(0)
    encoder, decoder = Encoder(rng, mine, 16), Decoder(rng, mine, 16)
    still = eqx.tree_at(lambda e: (e.spread.weight, e.spread.bias), encoder, (jnp.zeros((32, 2)), jnp.full(2, -30.0)))
    seen = jnp.repeat(some_grids()[:, :1], 4, 1)
    both = (mine.source, mine.target)
    expected = 0.0
    for look, some in zip(both, seen, strict=True):
        mean, spread, style = still(look, some)
        picture = np.asarray(decoder.paint(decoder(mean, style)))[0]
        wrong = ((picture - np.asarray(look)[np.asarray(some[0])]) ** 2).sum()
        expected += wrong + 0.1 * float(divergence(mean, spread)[0])
    assert float(lusr.code_loss(still, decoder, both, seen, jax.random.key(0), 0.1, 0.0)) == pytest.approx(expected, rel=1e-3)


def test_codes_come_to_show_what_is_rare(tmp_path):
    """One tile in twenty-five is a zombie, and it is seen; otherwise this would end at the gate."""
    config = replace(toy.BASELINE, frames=8000, code_updates=1500)
    quick = job(tmp_path, config, toy.Toy())
    darla.train_source(quick)
    assert min(quick.run.result()["shown"].values()) > 0.9


def test_wrong_arguments(tmp_path):
    def refuse(match, *arguments, **more):
        with pytest.raises(UserError, match=match):
            run(*arguments[:2], tmp_path / "run", 0, "fast", *(arguments[2:] or ("target",)), **more)

    refuse("use at least 4096", "ppo", "hunter-z1c1", steps=10)
    refuse("use at least 16384", "darla", "hunter-z1c1", steps=4096)
    refuse("no look is called 'nowhere'", "ppo", "hunter-z1c1", "nowhere")
    refuse("one picture per kind", "ppo", "hunter-z1c1", "two:wall:target")
    refuse("--perceptual is for darla only", "ppo", "hunter-z1c1", perceptual=True)
    refuse("no baseline is called", "dreamer", "hunter-z1c1")
    refuse("no world is called", "ppo", "nowhere")
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="no preset 'paper' of baselines in crafter"):
        settings.baseline_config("crafter", "paper")


def test_from_the_command_line(tmp_path):
    command = [sys.executable, "-m", "protoalign", "baseline", "ppo", "hunter-z1c1", "--steps", "4096", "--json"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env=os.environ | {"NO_COLOR": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == {"source": {"source": 4096}}
