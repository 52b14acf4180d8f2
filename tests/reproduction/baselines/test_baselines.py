"""All five from beginning to end, in a toy world; a learning test of each part that can fail by itself."""

import json
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign import UserError
from protoalign.cli import tools
from protoalign.errors import GateError
from protoalign.reproduction import settings
from protoalign.reproduction.baselines import autoencoder, ltmbr, lusr
from protoalign.reproduction.baselines.autoencoder import CodeNet, Decoder, Encoder, divergence
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
FRAMES = 2048  # watched in the toy world


@pytest.fixture
def unlearned(monkeypatch):
    """Policies stay as they are: what is made for them to see is the test."""

    def learn(self, stage, net, steps, domain, auxiliary=None, ppo=None):
        self.count(domain, stage, steps)
        self.spent(stage, 0.0)
        return net

    monkeypatch.setattr(Job, "learn", learn)


def job(path, config=SMALL, world=WORLD) -> Job:
    return Job("test", Run(path), world, config, settings.Sizes(), 0, "target", 16)


@pytest.fixture(scope="module")
def ppo_run(tmp_path_factory):
    """PPO in a view with a number and tiles that are not square, judged through pictures in another program."""
    folder = tmp_path_factory.mktemp("ppo") / "run"
    return folder, run("ppo", "toy-view", folder, 3, "fast", "target")


def test_ppo_from_beginning_to_end(ppo_run):
    folder, result = ppo_run
    assert result["source"]["episodes"] == result["target"][0]["episodes"] == toy.TINY.target_episodes
    assert result["steps"] == {"source": {"source": 512}}
    assert [row["steps"] for row in Run(folder).metrics("source")] == [256, 512]
    assert run("ppo", "toy-view", folder, 3, "fast", "target") == result


def test_from_the_command_line(ppo_run, capsys):
    """The same command again shows the result."""
    folder, result = ppo_run
    tools.baseline("ppo", "toy-view", seed=3, out=folder, json=True)
    assert json.loads(capsys.readouterr().out) == result
    tools.baseline("ppo", "toy-view", seed=3, out=folder)
    assert f"{result['target'][0]['return']:.3f}" in capsys.readouterr().out
    with pytest.raises(UserError, match="was made with seed = 3, not 4"):
        tools.baseline("ppo", "toy-view", seed=4, out=folder)


def test_darla_from_beginning_to_end(unlearned, tmp_path, monkeypatch):
    """A tenth of the preset's training: one tile in twenty-five is a zombie, one a cow, and codes come to show them."""
    monkeypatch.setattr(autoencoder, "SHOWN", 0.0)
    result = run("darla", "toy-board", tmp_path / "run", 0, "fast", "target")
    assert min(result["shown"][kind] for kind in ("floor", "zombie", "cow")) > 0.9
    assert result["steps"] == {"source": {"frames": FRAMES, "source": 512}}
    assert result["target"][0]["steps"] == 0


def test_no_policy_on_codes_that_show_too_little(unlearned, tmp_path, monkeypatch):
    monkeypatch.setattr(autoencoder, "SHOWN", 1.01)
    monkeypatch.setitem(settings.FAMILIES, "toy", settings.Family({"fast": replace(toy.BASELINE, code_updates=20)}))
    with pytest.raises(GateError, match=r"does not show enough of: .*cow"):
        run("darla", "toy-board", tmp_path / "run", 0, "fast", "target")
    assert Run(tmp_path / "run").metrics("code")
    assert "source" not in Run(tmp_path / "run").result()["seconds"]


@pytest.mark.parametrize("name", ["lusr", "ltmbr"])
def test_from_beginning_to_end(name, unlearned, tmp_path, monkeypatch):
    monkeypatch.setattr(autoencoder, "SHOWN", 0.0)
    monkeypatch.setitem(settings.FAMILIES, "toy", settings.Family({"fast": replace(toy.BASELINE, code_updates=20)}))
    result = run(name, "toy-view", tmp_path / "run", 3, "fast", "target")
    assert result["source"]["episodes"] == result["target"][0]["episodes"] == toy.TINY.target_episodes
    assert result["target"][0]["steps"] == 0
    frames = {"frames": FRAMES}
    expected = {
        "lusr": {"source": frames | {"source": 512}, "target": frames},
        "ltmbr": {"source": {"source": 512}, "target": {"adapt": 512}, "control": {"none": 512, "random": 512}},
    }
    assert result["steps"] == expected[name]
    assert (tmp_path / "run" / "swaps.png").exists() == (name == "lusr")


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


def test_unit4rl_killed_and_started_again_from_the_policy_of_ppo(ppo_run, tmp_path, monkeypatch):
    """A run killed while it trains ends with the same numbers as one that was not."""
    monkeypatch.setattr("protoalign.rl.train.SAVE_SECONDS", 0.0)
    ppo, (whole, killed) = ppo_run[0], (tmp_path / name for name in ("whole", "killed"))
    hand_over(tmp_path / "nowhere", killed)
    assert not killed.exists()
    expected = run("unit4rl", "toy-view", whole, 3, "fast", "target")
    hand_over(ppo, killed)
    kept = killed / "checkpoints" / "source-00000002.safetensors"
    written = kept.stat().st_mtime_ns
    save = Run.save

    class Killed(BaseException):
        pass

    def save_and_die(self, name, step, tree, info):
        save(self, name, step, tree, info)
        if name == "translate" and step >= 10:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Run, "save", save_and_die)
        with pytest.raises(Killed):
            run("unit4rl", "toy-view", killed, 3, "fast", "target")
    assert [row["update"] for row in Run(killed).metrics("translate")] == [10]
    found = run("unit4rl", "toy-view", killed, 3, "fast", "target")
    assert kept.stat().st_mtime_ns == written, "the source policy was not trained again"
    for result in (expected, found):
        result.pop("seconds")
    assert found == expected
    frames = {"frames": FRAMES}
    assert found["steps"] == {"source": {"source": 512} | frames, "target": frames | {"adapt": 512}}
    assert found["mapping"]["floor"] == "floor", "most tiles are floor, and their translation soon looks like it"


def test_perceptual_loss_runs(unlearned, tmp_path, monkeypatch):
    monkeypatch.setattr(autoencoder, "SHOWN", 0.0)
    monkeypatch.setitem(settings.FAMILIES, "toy", settings.Family({"fast": replace(toy.BASELINE, code_updates=20)}))
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


def test_model_loss_is_the_formula_and_leaves_a_frozen_model_alone(tmp_path):
    net = ltmbr.fresh(job(tmp_path), "source/network")
    seen = flat(WORLD.observe(WORLD.reset(jax.random.key(0), 8)))
    other = jax.tree.map(lambda x: x[::-1], seen)
    action, reward = jnp.arange(8) % 9, jnp.linspace(-1, 1, 8)
    known = jnp.arange(8) < 5
    zero = jnp.zeros(8)
    batch = Batch(seen, action, zero, zero, zero, zero > -1, Next(other, reward, known))
    losses = [jax.value_and_grad(ltmbr.model_loss(4.0, frozen)) for frozen in (False, True)]
    (loss, learned), (_, grads), z, after = jax.jit(
        lambda net, batch: (*(loss(net, batch) for loss in losses), net.latent(batch.seen), net.latent(batch.next.seen))
    )(net, batch)
    z, after = np.asarray(z), np.asarray(after)
    np.testing.assert_allclose((z**2).sum(1), 1, atol=1e-4)
    step, bias = np.asarray(net.model.step.weight).reshape(64, 9, 64), np.asarray(net.model.step.bias).reshape(9, 64)
    expected = 0.0
    for i in range(5):
        a = int(action[i])
        following = z[i] @ step[:, a] + bias[a]
        paid = z[i] @ np.asarray(net.model.reward.weight)[:, a] + float(net.model.reward.bias[a])
        expected += ((following - after[i]) ** 2).mean() + (paid - float(reward[i])) ** 2
    assert float(loss) == pytest.approx(4 * expected / 5, rel=1e-4)
    assert max(float(abs(g).max()) for g in jax.tree.leaves(learned.model)) > 0
    assert max(float(abs(g).max()) for g in jax.tree.leaves(grads.model)) == 0
    assert max(float(abs(g).max()) for g in jax.tree.leaves(grads.net)) > 0


def test_no_gradient_reaches_the_encoder_of_a_policy_on_codes(tmp_path):
    mine, rng = job(tmp_path), np.random.default_rng(0)
    net = CodeNet(rng, mine, Encoder(rng, mine), np.asarray(some_grids()[0]))
    seen = WORLD.observe(WORLD.reset(jax.random.key(0), 8))
    grads = jax.jit(jax.grad(lambda net: sum(x.sum() for x in net(net.encode(seen)))))(net)
    assert max(float(abs(g).max()) for g in jax.tree.leaves((grads.encoder, grads.look)) if g.size) == 0
    assert float(abs(grads.layers[0].weight).max()) > 0


def some_grids() -> jax.Array:
    """Of both domains, [2, 8, N]."""
    states = (WORLD.reset(jax.random.key(i), 8) for i in (0, 1))
    return jnp.stack([flat(WORLD.observe(state)).tiles for state in states])


def test_losses_of_lusr(tmp_path):
    """Forward: two pictures and twice the divergence. Reverse: it trains the encoder only.

    With nothing random in the latent and one and the same picture, permuting styles changes nothing.
    """
    mine, rng = job(tmp_path), np.random.default_rng(0)
    encoder, decoder = Encoder(rng, mine, 16), Decoder(rng, mine, 16)
    still = eqx.tree_at(lambda e: (e.spread.weight, e.spread.bias), encoder, (jnp.zeros((32, 2)), jnp.full(2, -30.0)))
    both, seen, key = (mine.source, mine.target), some_grids(), jax.random.key(0)
    loss = jax.jit(jax.value_and_grad(lusr.code_loss, argnums=(0, 1)))
    with_reverse, without = (loss(encoder, decoder, both, seen, key, 0.1, weight)[1] for weight in (1.0, 0.0))
    for_encoder, for_decoder = jax.tree.map(lambda a, b: abs(a - b).max(initial=0), with_reverse, without)
    assert float(for_encoder.mean.weight) > 0.1
    assert max(map(float, jax.tree.leaves(for_decoder))) < 1e-3
    seen = jnp.repeat(seen[:, :1], 8, 1)
    expected = 0.0
    for look, some in zip(both, seen, strict=True):
        mean, spread, style = still(look, some)
        picture = np.asarray(decoder.paint(decoder(mean, style)))[0]
        wrong = ((picture - np.asarray(look)[np.asarray(some[0])]) ** 2).sum()
        expected += wrong + 0.1 * float(divergence(mean, spread)[0])
    assert float(loss(still, decoder, both, seen, key, 0.1, 0.0)[0]) == pytest.approx(expected, rel=1e-3)


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
