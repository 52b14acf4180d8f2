"""The world model, and its judge: proper likelihoods, hypotheses, training that resumes, and calibration."""

from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from protoalign.alignment import assignments
from protoalign.alignment.imagination import Imagined, hide, imagine
from protoalign.alignment.inference import Step
from protoalign.alignment.mistaken_play import gather, mistakes
from protoalign.alignment.model_judge import ModelJudge, Weights, calibrate, start_likelihood, step_likelihood, weigh
from protoalign.alignment.model_training import games_of, thin, train_model
from protoalign.alignment.world_model import Moves, WorldModel
from protoalign.rl.history import Episodes
from protoalign.rl.networks import RelativeNet, Scene
from protoalign.rl.source_world import SourceWorld, survey
from protoalign.runs import Memory, Run
from protoalign.settings import ModelConfig
from protoalign.worlds.base import Observation

from ..toy import AGENT, BERRY, FIRE, Garden
from .helpers import ALL, plainly, scene, source

SMALL = ModelConfig(width=12, games=256, updates=200, batch=64)


def random_model(of: Scene, radius: int = 2, seed: int = 0) -> WorldModel:
    """Random weights that tell prototypes apart."""
    rng = np.random.default_rng(seed)
    model = WorldModel(rng, of, ModelConfig(radius=radius, width=9))
    return jax.tree.map(lambda x: x + jnp.asarray(0.3 * rng.normal(size=x.shape), jnp.float32), model)


@cache
def games() -> Episodes:
    task = RelativeNet(np.random.default_rng(0), scene(), 16, ALL)
    return gather(source(), task, 5, ALL, jax.random.key(0), SMALL.games, 31)


@cache
def fitted() -> tuple[WorldModel, dict[str, Any], float]:
    return train_model(Memory(), SMALL, scene(), ALL, games(), 0)


def some_steps(number: int, seed: int = 0) -> tuple[Moves, Step]:
    """Transitions in prototypes, as they are."""
    flat = games_of(games())
    move = flat.moves(flat.steps[np.random.default_rng(seed).integers(0, len(flat.steps), number)])
    before, after = (x.reshape(-1, *scene().grid) for x in (move.before, move.after))
    return move, Step(before, after, move.numbers_before, move.numbers_after, move.action, move.reward)


def in_codes(step: Step, imagined: Imagined) -> Step:
    return step._replace(before=hide(imagined, step.before, 5, ALL), after=hide(imagined, step.after, 5, ALL))


@pytest.mark.parametrize("agent", [(), (1,)])
def test_all_next_boards_and_all_first_pictures_have_probability_one(agent):
    model = random_model(Scene((2, 2), 3, 2, numbers=1, agent=agent))
    boards = jnp.array(list(product(range(3), repeat=4)), jnp.uint8)
    n = len(boards)
    before = jnp.tile(jnp.array([[0, 1, 2, 2]], jnp.uint8), (n, 1))
    numbers = jnp.ones((n, 1))
    like = model.moves(Moves(before, boards, numbers, numbers, jnp.ones(n, jnp.int32), jnp.zeros(n), jnp.zeros(n, bool)))
    assert like.tiles.std() > 0.1
    np.testing.assert_allclose(jnp.exp(like.tiles).sum(), 1, rtol=1e-4)
    np.testing.assert_allclose(jnp.exp(model.starts(boards)).sum(), 1, rtol=1e-4)


def test_prototypes_begin_alike_so_that_nothing_is_evidence():
    judge = ModelJudge(WorldModel(np.random.default_rng(0), replace_agent(scene()), SMALL), Weights(slack=0.0), ALL)
    _, step = some_steps(4)
    state = judge.watch(
        judge.begin(plainly(4), Observation(5 + step.before, step.numbers_before)), plainly(4), in_codes(step, plainly(4))
    )
    np.testing.assert_allclose(state - state[:, :1], 0, atol=1e-3)


def replace_agent(of: Scene) -> Scene:
    return of._replace(agent=())


def test_hypotheses_are_scored_as_the_model_scores_prototypes():
    model = random_model(scene())
    move, _ = some_steps(3)
    tables = jnp.asarray(ModelJudge(model, Weights(), ALL).tables)
    chosen = np.array([0, 7, 77])
    for i in range(3):
        one = jax.tree.map(lambda x, i=i: x[i], move)
        got = model.under(tables, one._replace(before=one.before + 5, after=one.after + 5))
        first = model.starts_under(tables, one.before + 5)
        for h in chosen:
            table = tables[h, 5:].astype(jnp.uint8)
            as_prototypes = move._replace(before=table[move.before], after=table[move.after])
            for a, b in zip(got, model.moves(as_prototypes), strict=True):
                np.testing.assert_allclose(a[h], b[i], rtol=1e-3, atol=1e-3)
            np.testing.assert_allclose(first[h], model.starts(as_prototypes.before)[i], rtol=1e-3, atol=1e-3)


def test_known_codes_are_scored_like_known_slots():
    model = random_model(scene())
    move, _ = some_steps(1)
    one = jax.tree.map(lambda x: x[0], move)
    half = jnp.arange(5) < 2  # floor and zombie are seen as what they are
    grids = [jnp.where(half[g], g, g + 5) for g in (one.before, one.after)]
    tables = jnp.asarray(ModelJudge(model, Weights(), ALL).tables)
    same = np.flatnonzero((np.asarray(tables)[:, 5:7] == [0, 1]).all(1))
    a = model.under(tables[same], one._replace(before=one.before + 5, after=one.after + 5))
    b = model.under(tables[same], one._replace(before=grids[0], after=grids[1]))
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-3)


def test_renaming_slots_renames_scores():
    judge = ModelJudge(random_model(scene()), Weights(0.5, 0.7, 0.2, 1.0), ALL)
    _, step = some_steps(6)

    def scores(imagined: Imagined) -> jax.Array:
        codes = in_codes(step, imagined)
        state = judge.begin(imagined, Observation(codes.before, codes.numbers_before))
        return judge.score(judge.watch(state, imagined, codes), imagined)

    plain, other = plainly(6), imagine(jax.random.key(3), 6, 5, 1.0)
    table = assignments.table(5)
    renamed = scores(other)
    assert float(jnp.abs(renamed[:, 0] - scores(plain)[:, 0]).max()) > 0.1
    for i in range(6):
        moved = assignments.index_of(jnp.asarray(table)[:, np.asarray(other.truth[i])])  # slot s of `other` is slot truth[s]
        np.testing.assert_allclose(renamed[i, moved], scores(plain)[i], atol=2e-3)


def test_host_and_compiled_judges_agree():
    judge = ModelJudge(random_model(scene()), Weights(0.5, 0.7, 0.2, 1.0), ALL)
    _, step = some_steps(2)
    codes = in_codes(step, plainly(2))
    seen = Observation(codes.before, codes.numbers_before)
    begun = judge.begin(plainly(2), seen)
    said = judge.watch(jnp.zeros((2, 120)), plainly(2), codes)
    for i in range(2):
        one = jax.tree.map(lambda x, i=i: np.asarray(x[i : i + 1]), codes)
        tables = np.concatenate([judge.tables, judge.tables[:8]])  # padded to a power of two
        np.testing.assert_allclose(step_likelihood(judge, one)[0], said[i], atol=1e-3)
        first = start_likelihood(judge.model, judge.weights, tables, jax.tree.map(lambda x, i=i: x[i : i + 1], seen))
        np.testing.assert_allclose(first[:120], begun[i] - begun[i].max(), atol=1e-3)


def test_what_is_known_is_not_doubted_and_sets_the_standard():
    hidden = np.array([True, True, False, False, False])
    judge = ModelJudge(random_model(scene()), Weights(), ALL)
    _, step = some_steps(3)
    imagined = plainly(3, hidden)
    codes = in_codes(step, imagined)
    state = judge.begin(imagined, Observation(codes.before, codes.numbers_before))
    score = judge.score(judge.watch(state, imagined, codes), imagined)
    agree = (assignments.table(5)[:, 2:] == [2, 3, 4]).all(1)
    assert agree.sum() == 2
    assert (score[:, ~agree] < -25).all()
    said = judge.watch(jnp.zeros((3, 120)), imagined, codes)
    np.testing.assert_allclose(said[:, agree].max(1), 0, atol=1e-4)


def test_tiles_say_nothing_between_prototypes_that_are_alike():
    alike = ((0, 1, 2, 3, 4), (0, 3, 2, 1, 4))
    judge = ModelJudge(random_model(scene()), Weights(reward=0.0, slack=0.0), ALL, alike)
    _, step = some_steps(3)
    said = judge.watch(jnp.zeros((3, 120)), plainly(3), in_codes(step, plainly(3)))
    table = assignments.table(5)
    exchanged = assignments.index_of(jnp.asarray(np.array(alike[1])[table]))
    np.testing.assert_allclose(said, said[:, exchanged], atol=1e-3)
    assert float(said.std()) > 0.1
    one = jax.tree.map(lambda x: np.asarray(x[:1]), in_codes(step, plainly(3)))
    np.testing.assert_allclose(step_likelihood(judge, one)[0], said[0], atol=1e-3)


@pytest.mark.parametrize("alike", [(), ((0, 1, 2, 3, 4), (0, 3, 2, 1, 4))])
def test_only_leaders_are_judged_once_all_others_are_ruled_out(alike):
    """They are judged as if all were; the others keep their distance to the best. What is open is judged whole."""
    judge = ModelJudge(random_model(scene()), Weights(0.5, 0.7, 0.2, 1.0), ALL, alike)
    _, step = some_steps(2)
    codes, imagined, leading = in_codes(step, plainly(2)), plainly(2), np.array([3, 17, 40, 60, 61, 80, 100, 119])
    posterior = jnp.where(jnp.isin(jnp.arange(120), leading), 0.0, jnp.array([[-30.0], [-3.0]]))
    whole = judge.watch(jnp.zeros((2, 120)), imagined, codes)
    some = judge.watch(jnp.zeros((2, 120)), imagined, codes, posterior=posterior)
    np.testing.assert_allclose(some[1], whole[1], atol=1e-4)
    np.testing.assert_array_equal(np.delete(some[0], leading), 0)
    np.testing.assert_allclose(np.asarray(some[0])[leading].max(), 0, atol=1e-5)
    alone = weigh(judge.weights, jax.tree.map(lambda x: x[leading], judge.evidence(jax.tree.map(lambda x: x[0], codes))))
    np.testing.assert_allclose(np.asarray(some[0])[leading], alone, atol=1e-3)


def test_one_step_says_no_more_than_the_cap():
    judge = ModelJudge(random_model(scene()), Weights(3.0, 3.0, 1.0, 0.0, 2.0), ALL)
    _, step = some_steps(4)
    said = judge.watch(jnp.zeros((4, 120)), plainly(4), in_codes(step, plainly(4)))
    np.testing.assert_allclose(said.max(1) - said.min(1), 2, atol=1e-4)


def test_mistakes_are_right_exchanged_or_anything():
    taken = np.asarray(mistakes(jax.random.key(0), 4000, 5))
    assert (np.sort(taken, 1) == np.arange(5)).all()
    wrong = (taken != np.arange(5)).sum(1)
    assert abs((wrong == 0).mean() - 0.35) < 0.03
    assert abs((wrong == 2).mean() - 0.5 - 0.15 * 10 / 120) < 0.03
    assert (np.asarray(mistakes(jax.random.key(0), 10, 1)) == 0).all()


def test_gathered_games_are_whole_games_of_the_source():
    tiles, length = games().observation.tiles, games().length
    assert tiles.shape == (256, 32, 6, 6)
    assert set(np.unique(tiles)) == set(ALL)
    assert ((tiles == 2).sum((2, 3)) == 1).all()  # one agent, always: these are prototypes, not what they are taken for
    assert length.max() == 31
    assert (games().reward > 0).any()
    assert (games().reward < 0).any()


def test_fitting_beats_a_world_in_which_nothing_changes():
    _, figures, seconds = fitted()
    assert figures["tile_log_likelihood"] > figures["tile_baseline"] + 0.03
    assert figures["event_log_likelihood"] > figures["event_baseline"] + 3
    assert figures["warnings"] == []
    assert seconds > 0


def test_the_fitted_model_tells_floor_wall_and_agent():
    judge = ModelJudge(fitted()[0], Weights(), ALL)
    judge, figures = calibrate(judge, [jax.tree.map(lambda x: x[:16], games())])
    assert figures["nats"] > -np.log(6)  # of 120, less than 3! are left on average
    assert judge.weights.tile > 0.02
    assert {g for g in judge.alike if g != ALL} <= {(0, 3, 2, 1, 4)}  # if any, zombie and cow


class Killed(Exception):
    pass


class Mortal(Run):
    """Is killed whenever it has saved, until near the end."""

    def save(self, stage: str, step: int, tree: Any, info: dict[str, Any]) -> None:
        super().save(stage, step, tree, info)
        if step < 16:
            raise Killed


def test_killed_and_resumed_the_model_is_the_same_to_the_bit(monkeypatch, tmp_path):
    monkeypatch.setattr("protoalign.rl.train.SAVE_SECONDS", 0.0)
    monkeypatch.setattr("protoalign.rl.train.FIT_LOG_EVERY", 4)
    for _ in range(3):
        with pytest.raises(Killed):
            train_model(Mortal(tmp_path), SMALL, scene(), ALL, games(), 0)
    model, *_ = train_model(Mortal(tmp_path), SMALL, scene(), ALL, games(), 0)
    for a, b in zip(jax.tree.leaves(model), jax.tree.leaves(fitted()[0]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_prototypes_hardly_seen_are_named():
    few = games()
    tiles = few.observation.tiles.copy()
    tiles[3:][tiles[3:] == 3] = 0
    few = few._replace(observation=few.observation._replace(tiles=tiles))
    told = thin(few, ALL, ("floor", "zombie", "agent", "cow", "wall"))
    assert len(told) == 1
    assert "cow" in told[0]
    assert thin(few, (0, 1, 2)) == []


def test_noise_is_believed_little():
    judge = ModelJudge(random_model(scene(), seed=5), Weights(), ALL)
    judge, figures = calibrate(judge, [jax.tree.map(lambda x: x[:16], games())])
    assert figures["nats"] > -np.log(120) - 0.3
    assert max(float(judge.weights.tile), float(judge.weights.start)) < 0.1 or judge.alike


@cache
def garden() -> tuple[SourceWorld, Scene, Episodes, WorldModel]:
    world = SourceWorld(Garden(), tuple(range(5)))
    of = survey(world, 0)
    task = RelativeNet(np.random.default_rng(0), of, 16, (0, 1, 2, 3))
    played = gather(world, task, 5, (0, 1, 2, 3), jax.random.key(1), 512, 20)
    model, _, _ = train_model(Memory(), replace(SMALL, radius=1, updates=200), of, (0, 1, 2, 3), played, 0)
    return world, of, played, model


def test_in_a_view_berry_and_fire_are_told_by_what_happens():
    _, of, played, model = garden()
    assert of.cell == 7
    judge = ModelJudge(model, Weights(), (0, 1, 2, 3))
    flat = games_of(played)
    move = flat.moves(flat.eventful[:64])
    plain = np.tile(np.arange(4, dtype=np.int32), (64, 1))
    imagined = Imagined(plain, plain, None, plain, np.ones((64, 4), bool))  # type: ignore[arg-type]
    before, after = (hide(imagined, x.reshape(-1, *of.grid), 5, (0, 1, 2, 3)) for x in (move.before, move.after))
    assert (before.reshape(64, -1)[:, of.cell] == AGENT).all()  # it is never hidden
    step = Step(before, after, move.numbers_before, move.numbers_after, move.action, move.reward)
    said = judge.watch(jnp.zeros((64, 24)), imagined, step)
    swapped = int(np.flatnonzero((assignments.table(4) == [0, 1, FIRE, BERRY]).all(1))[0])
    assert (said[:, 0] - said[:, swapped] > 1).mean() > 0.8


def test_what_has_left_the_view_is_not_judged():
    model = random_model(Scene((3, 3), 3, 2, cell=4))
    before = jnp.array([[0, 1, 2, 2, 0, 1, 1, 2, 0]], jnp.uint8)
    after = jnp.array([[1, 2, 0, 0, 1, 0, 2, 0, 0]], jnp.uint8)  # moved one to the right: the left column is out of sight
    rest = (jnp.zeros((1, 0)), jnp.zeros((1, 0)), jnp.zeros(1, jnp.int32), jnp.zeros(1), jnp.zeros(1, bool))
    same = model.moves(Moves(before, before, *rest)).tiles
    moved = model.moves(Moves(before, after, *rest)).tiles
    new = model.moves(Moves(before, after.at[0, jnp.array([2, 5])].set(1), *rest)).tiles  # what came into sight is not judged
    np.testing.assert_allclose(moved, new, atol=1e-4)
    assert abs(float(moved[0] - same[0])) > 0.1
