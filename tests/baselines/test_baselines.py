"""All five from beginning to end, small; a learning test of each part that can fail by itself."""

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

from protoalign import UserError, config
from protoalign.baselines import autoencoder, darla, ltmbr, lusr, unit4rl
from protoalign.baselines.autoencoder import Decoder, Encoder, divergence
from protoalign.baselines.job import Job
from protoalign.baselines.pixels import lay, load_look
from protoalign.baselines.run import run
from protoalign.envs.hunter import Hunter
from protoalign.errors import GateError
from protoalign.experiments.reproduce import hand_over
from protoalign.rl.ppo import Batch, Next
from protoalign.runs import Run

WORLD = Hunter()
SMALL = replace(
    config.BASELINE["fast"],
    source_steps=8192,
    latent_steps=8192,
    target_steps=8192,
    frames=2000,
    code_updates=20,
    translation_updates=20,
    latent_ppo=config.PPOConfig(),
)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(config.BASELINE, "fast", SMALL)
    monkeypatch.setattr("protoalign.baselines.autoencoder.SHOWN", 0.0)


def job(path, settings=SMALL, seed=0) -> Job:
    return Job("test", Run(path), WORLD, settings, seed, load_look("source", WORLD), load_look("target", WORLD))


@pytest.mark.parametrize("name", ["ppo", "darla", "lusr", "unit4rl", "ltmbr"])
def test_from_beginning_to_end(name, small, tmp_path):
    result = run(name, "hunter-z1c1", tmp_path / "run", 3, "fast", "target")
    assert result["source"]["episodes"] == result["target"][0]["episodes"] == 2048
    assert result["target"][0]["steps"] == 0
    again = run(name, "hunter-z1c1", tmp_path / "run", 3, "fast", "target")
    assert again == result
    frames = {"source": {"frames": 2048}, "target": {"frames": 2048}}
    expected = {
        "ppo": {"source": {"source": 8192}},
        "darla": {"source": frames["source"] | {"source": 8192}},
        "lusr": {"source": frames["source"] | {"source": 8192}, "target": frames["target"]},
        "unit4rl": {"source": {"source": 8192} | frames["source"], "target": frames["target"] | {"adapt": 8192}},
        "ltmbr": {
            "source": {"source": 8192},
            "target": {"adapt": 8192},
            "control": {"none": 8192, "random": 8192},
        },
    }
    assert result["steps"] == expected[name]


def test_unit4rl_starts_from_the_policy_of_ppo(small, tmp_path):
    ppo, alone, given = (tmp_path / name for name in ("ppo", "alone", "given"))
    hand_over(ppo, given)
    assert not given.exists()
    run("ppo", "hunter-z1c1", ppo, 3, "fast", "target")
    hand_over(ppo, given)
    (kept,) = (given / "checkpoints").glob("source-*.safetensors")
    written = kept.stat().st_mtime_ns
    results = [run("unit4rl", "hunter-z1c1", folder, 3, "fast", "target") for folder in (alone, given)]
    assert kept.stat().st_mtime_ns == written
    for result in results:
        result.pop("seconds")
    assert results[0] == results[1]


def test_no_policy_on_codes_that_show_nothing(small, tmp_path, monkeypatch):
    monkeypatch.setattr("protoalign.baselines.autoencoder.SHOWN", 0.9)
    with pytest.raises(UserError, match=r"does not show enough of: .*cow"):
        run("darla", "hunter-z1c1", tmp_path / "run", 0, "fast", "target")
    assert Run(tmp_path / "run").metrics("code")
    assert not Run(tmp_path / "run").metrics("source")


def test_perceptual_loss_runs(small, tmp_path, monkeypatch):
    monkeypatch.setattr("protoalign.baselines.job.EVALUATION_EPISODES", 16)
    with pytest.raises(UserError, match="needs --encoder conv"):
        run("darla", "hunter-z1c1", tmp_path / "run", 0, "fast", "target", perceptual=True)
    result = run("darla", "hunter-z1c1", tmp_path / "run", 0, "fast", "target", encoder="conv", perceptual=True)
    assert result["seconds"].keys() >= {"judge", "code", "source"}


def test_killed_and_started_again(tmp_path):
    """A run killed while it trains ends with the same numbers as one that was not."""
    program = """
import sys
from dataclasses import replace
from pathlib import Path
from protoalign import runtime
runtime.configure()
from protoalign import config, runs
from protoalign.baselines.run import run
import protoalign.rl.train as training
training.SAVE_SECONDS = 0.0
small = dict(source_steps=40960, frames=2000, translation_updates=60, target_steps=40960)
config.BASELINE["fast"] = replace(config.BASELINE["fast"], **small)
if sys.argv[2] != "never":
    stage, after = sys.argv[2].split(":")
    save = runs.Run.save
    def save_and_die(self, name, step, tree, info):
        save(self, name, step, tree, info)
        if name == stage and step >= int(after):
            import os
            os._exit(9)
    runs.Run.save = save_and_die
print(run("unit4rl", "hunter-z1c1", Path(sys.argv[1]), 1, "fast", "target")["target"])
"""

    def start(folder, death):
        command = [sys.executable, "-c", program, str(tmp_path / folder), death]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}, check=False)

    whole = start("whole", "never")
    assert whole.returncode == 0, whole.stderr
    for death in ("translate:20", "adapt:5"):
        assert start("killed", death).returncode == 9
    last = start("killed", "never")
    assert last.returncode == 0, last.stderr
    assert last.stdout.splitlines()[-1] == whole.stdout.splitlines()[-1]


def test_kinds_that_never_occur_are_not_judged(tmp_path):
    some = job(tmp_path)
    seen = np.zeros((4, 64), np.uint8)
    seen[:, :3] = 4  # floor and walls only, as in a world without animals they would be
    share = autoencoder.shown(some.source, seen, lay(jnp.asarray(seen), some.source))
    assert autoencoder.by_kind(some, share) == {"floor": 1.0, "wall": 1.0}
    autoencoder.check_shown(some, some.source, seen, lay(jnp.asarray(seen), some.source))
    with pytest.raises(GateError, match="wall"):
        autoencoder.check_shown(some, some.source, seen, lay(jnp.zeros_like(jnp.asarray(seen)), some.source))


def test_translation_between_equal_worlds_keeps_the_floor(tmp_path):
    """Four tiles in five are floor, and their translation must soon look like it; the rare kinds take longer."""
    same = job(tmp_path, replace(SMALL, translation_updates=600))
    translator = unit4rl.train_translator(replace_target(same))
    look = np.asarray(unit4rl.translate(translator, same.source))
    share = np.abs(look - np.asarray(same.source)).mean(1)
    assert share[0] < 0.15


def replace_target(job: Job) -> Job:
    return replace(job, target=job.source)


def test_model_loss_is_the_formula_and_leaves_a_frozen_model_alone(tmp_path):
    net = ltmbr.fresh(job(tmp_path), "source/network")
    seen = jnp.asarray(np.asarray(WORLD.observe(WORLD.reset(jax.random.key(0), 8))).reshape(8, -1))
    action, reward = jnp.arange(8) % 9, jnp.linspace(-1, 1, 8)
    known = jnp.arange(8) < 5
    zero = jnp.zeros(8)
    batch = Batch(seen, action, zero, zero, zero, zero > -1, Next(seen[::-1], reward, known))
    z, after = (np.asarray(net.latent(x)) for x in (seen, seen[::-1]))
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


def test_what_is_frozen_stays_as_it_was(small, tmp_path, monkeypatch):
    """The encoder while DARLA's policy learns on its code, the model while LTMBR's encoder learns in the target."""
    before = {}
    learn = Job.learn

    def remember(self, stage, net, *rest, **more):
        after = learn(self, stage, net, *rest, **more)
        before[stage] = (net, after)
        return after

    monkeypatch.setattr(Job, "learn", remember)
    darla.train_source(job(tmp_path / "darla"))
    one, other = before["source"]
    assert eqx.tree_equal(one.encoder, other.encoder)
    assert not eqx.tree_equal(one.layers, other.layers)
    mine = job(tmp_path / "ltmbr")
    trained = ltmbr.train_source(mine)
    assert not eqx.tree_equal(before["source"][0].model, trained.model)
    ltmbr.adapt(mine, trained)
    one, other = before["adapt"]
    assert eqx.tree_equal(trained.model, other.model)
    assert not eqx.tree_equal(one.net.eye, other.net.eye)
    assert eqx.tree_equal(before["random"][0].model, before["random"][1].model)


def test_reverse_loss_trains_the_encoder_only(tmp_path):
    mine = job(tmp_path)
    rng = np.random.default_rng(0)
    encoder, decoder = Encoder(rng, WORLD, "tiles", 16), Decoder(rng, WORLD, 16)
    seen = jnp.asarray(np.stack([mine.watch(domain)[:8] for domain in ("source", "target")]))

    def reverse(encoder, decoder):
        loss = [lusr.code_loss(encoder, decoder, (mine.source, mine.target), seen, jax.random.key(0), 0.1, w) for w in (1, 0)]
        return loss[0] - loss[1]

    for_encoder, for_decoder = jax.grad(reverse, argnums=(0, 1))(encoder, decoder)
    assert float(abs(for_encoder.mean.weight).max()) > 0.1
    assert max(float(abs(g).max()) for g in jax.tree.leaves(for_decoder)) < 1e-3


def test_forward_loss_is_two_pictures_and_twice_the_divergence(tmp_path):
    """With nothing random in the latent and one and the same picture, permuting styles changes nothing."""
    mine = job(tmp_path)
    rng = np.random.default_rng(0)
    encoder, decoder = Encoder(rng, WORLD, "tiles", 16), Decoder(rng, WORLD, 16)
    still = eqx.tree_at(lambda e: (e.spread.weight, e.spread.bias), encoder, (jnp.zeros((32, 2)), jnp.full(2, -30.0)))
    seen = jnp.asarray(np.stack([np.repeat(mine.watch(domain)[:1], 4, 0) for domain in ("source", "target")]))
    looks = (mine.source, mine.target)
    expected = 0.0
    for look, some in zip(looks, seen, strict=True):
        mean, spread, style = still(look, some)
        picture = np.asarray(decoder.paint(decoder(mean, style)))[0]
        wrong = ((picture - np.asarray(look)[np.asarray(some[0])]) ** 2).sum()
        expected += wrong + 0.1 * float(divergence(mean, spread)[0])
    assert float(lusr.code_loss(still, decoder, looks, seen, jax.random.key(0), 0.1, 0.0)) == pytest.approx(expected, rel=1e-3)


def test_codes_come_to_show_what_is_rare(small, tmp_path):
    """A third of the preset's training: one tile in sixty-four is a zombie, and it is seen."""
    quick = job(tmp_path, replace(SMALL, frames=8000, code_updates=2000))
    darla.train_source(quick)
    share = quick.run.result()["shown"]
    assert min(share[kind] for kind in ("floor", "zombie", "wall")) > 0.9


def test_wrong_arguments_from_the_command_line(tmp_path):
    def call(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "protoalign", "baseline", *arguments, "--out", str(tmp_path / "run")],
            capture_output=True,
            text=True,
            env=os.environ | {"NO_COLOR": "1"},
            check=False,
        )

    few = call("ppo", "hunter-z1c1", "--steps", "10")
    assert few.returncode == 2
    assert "use at least 4096" in few.stderr
    few = call("darla", "hunter-z1c1", "--steps", "4096")
    assert few.returncode == 2
    assert "use at least 16384" in few.stderr
    look = call("ppo", "hunter-z1c1", "--target", "nowhere")
    assert look.returncode == 2
    assert "no look is called 'nowhere'" in look.stderr
    assert not (tmp_path / "run").exists()
    perceptual = call("ppo", "hunter-z1c1", "--perceptual")
    assert perceptual.returncode == 2
    assert "--perceptual is for darla only" in perceptual.stderr
    done = call("ppo", "hunter-z1c1", "--steps", "4096", "--encoder", "conv", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == {"source": {"source": 4096}}
