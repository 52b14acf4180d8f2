"""The world model of small patches, the sampled posterior, and acting on it, in a small world with twelve kinds."""

import numpy as np
import pytest

from protoalign.alignment import foresight
from protoalign.alignment.explored_transfer import Oddity
from protoalign.alignment.hypotheses import VARIANT
from protoalign.alignment.local_training import transitions_of
from protoalign.alignment.mapping import Draws
from protoalign.alignment.sampled_judge import CautiousThompson
from protoalign.alignment.sampling import resembling
from protoalign.alignment.target_evidence import MOST, TargetEvidence
from protoalign.rl.history import Episodes
from protoalign.rl.networks import Scene
from protoalign.worlds.base import Observation

from . import many
from .many import CLOSED, FLOOR, GO, GOLD, KINDS, LAVA, LOCKED, NUMBERS, OPEN, SIZE, STONE, UP, WALL, Cave, Target

C = len(KINDS)
RIGHT = UP + 1


def room(*things):
    """A room of floor within walls; things as (row, column, prototype)."""
    tiles = np.full((SIZE, SIZE), WALL)
    tiles[1:-1, 1:-1] = FLOOR
    for row, col, kind in things:
        tiles[row, col] = kind
    return tiles


# -- the model ---------------------------------------------------------------------------------------------------------------


def test_transitions_are_all_steps_of_episodes_and_what_is_earned_from_them_on():
    tiles = np.arange(2 * 4).reshape(2, 4, 1, 1) % 5
    seen = Observation(tiles, np.array([[[3.0], [3], [2], [9]], [[1], [2], [0], [0]]]))
    action, reward = np.array([[0, 1, 2], [1, 0, 0]]), np.array([[0.0, 1, -1], [5, 9, 9]])
    found = transitions_of(Episodes(seen, action, reward, np.array([3, 1]), np.array([True, False])), Scene((1, 1), 5, 3, 1))
    assert found.before.ravel().tolist() == [0, 1, 2, 4]
    assert found.after.ravel().tolist() == [1, 2, 3, 0]
    assert found.change.ravel().tolist() == [1, 0, 2, 2]
    assert found.worth.tolist() == [0, 0, -1, 5]
    assert found.ended.tolist() == [False, False, True, False]
    assert found.first.tolist() == [True, False, False, True]


def test_a_view_that_moves_is_compared_where_things_lay():
    before = np.arange(9).reshape(3, 3)
    after = np.concatenate([before[:, 1:], [[9], [9], [9]]], 1)  # the view went one column to the right
    seen = Observation(np.stack([before, after])[None], np.zeros((1, 2, 0)))
    scene = Scene((3, 3), 10, 1, cell=4)
    found = transitions_of(Episodes(seen, *np.zeros((2, 1, 1), int), np.array([1]), np.array([False])), scene)
    assert found.after[0].tolist() == [[11, 1, 2], [11, 4, 5], [11, 7, 8]]


def test_the_model_learns_the_world():
    model, figures = many.model()
    assert figures["tile_right"] > 0.97
    assert figures["change_right"] > 0.85
    assert figures["event_right"] > 0.85
    assert figures["outcome_right"] > 0.95
    assert model.bad.tolist() == [False, False, False, False, True, False], "an end without a reward, and nothing else"


def test_danger_is_foreseen_and_depends_on_what_things_are():
    every = np.array([np.arange(C), np.arange(C)])
    every[1, [LAVA, GOLD]] = GOLD, LAVA
    codes = C + room((2, 2, RIGHT), (2, 3, LAVA), (3, 2, GOLD))
    risk = foresight.danger(many.model()[0].on_host(), every, codes, NUMBERS[0])
    assert risk.shape == (2, 3)
    assert risk[0, GO] > 0.7
    assert risk[1, GO] < 0.15
    assert risk[:, :GO].max() < 0.15


def test_an_action_tells_most_where_hypotheses_foresee_different_things():
    every = np.array([np.arange(C), np.arange(C)])
    every[1, [CLOSED, LOCKED]] = LOCKED, CLOSED
    model, even = many.model()[0].on_host(), np.full(2, 0.5)
    told = foresight.told_by(model, every, even, C + room((2, 2, RIGHT), (2, 3, CLOSED), (4, 4, LOCKED)), NUMBERS[0])
    assert told[GO] > 0.3
    assert told[:GO].max() < 0.5 * told[GO]
    apart = foresight.told_by(model, every[:1].repeat(2, 0), even, C + room((2, 2, RIGHT)), NUMBERS[0])
    np.testing.assert_allclose(apart, 0, atol=1e-4)


# -- the posterior -----------------------------------------------------------------------------------------------------------


def test_everything_is_found_and_never_is_it_said_to_be_certain():
    right = []
    for seed in range(2):
        target = Target(seed)
        target.play(60)
        right.append(target.right.mean())
        judge, sampler = target.judge, target.judge.sampler
        assert len({state.tobytes() for state in sampler.pool}) == len(sampler.pool)
        # What was added up step by step is what all evidence says at once.
        told = (sampler.pool != C).all(1)
        np.testing.assert_allclose(judge.evidence.total(sampler.packs, sampler.pool[told]), sampler.said[told], atol=1e-2)
        # Only what a move changes is asked again.
        every = sampler.around(sampler.best, seed)
        np.testing.assert_allclose(sampler.compare(every), judge.evidence.total(sampler.packs, every), atol=1e-2)
        draws, belief = judge.score(), judge.belief()
        assert np.exp(draws.logs).sum() == pytest.approx(1 - judge.unfound)
        np.testing.assert_allclose(belief.sum(1), 1)
        assert belief.shape == (len(target.met), C + 1)
        assert belief.max() < 1 - 0.9 * judge.unfound
        which, shares = draws.leading()
        assert shares[0] >= draws.logs.max() - 1e-6
        assert np.exp(shares).sum() == pytest.approx(1 - judge.unfound)
        assert len(which) == len({row.tobytes() for row in draws.types[:, draws.acted]})
    assert np.mean(right) > 0.8, right


def test_what_does_not_matter_does_not_make_it_unsure():
    logs = np.log([0.3, 0.3, 0.35])
    types, instead = np.array([[0, 1], [0, 2], [1, 1]]), np.array([0, 1])
    which, shares = Draws(types, logs, instead, np.array([True, True])).leading()
    assert which[0] == 2
    np.testing.assert_allclose(np.exp(shares), [0.35, 0.3, 0.3])
    which, shares = Draws(types, logs, instead, np.array([True, False])).leading()
    assert types[which[0], 0] == 0
    np.testing.assert_allclose(np.exp(shares), [0.6, 0.35])


def test_a_variant_that_looks_like_its_kind_is_likelier_to_be_one():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 256, (2, 8, 8, 3), np.uint8)
    nearly = one.copy()
    nearly[:2, :2] ^= 7
    like = resembling(np.stack([one, other, nearly]))
    assert like[2, 0] > 0.8
    assert like[2, 1] == like[1, 0] == like[0, 2] == 0
    target = Target(0)
    target.play(3)
    sampler = target.judge.sampler
    shared = np.arange(len(target.met))
    shared[2] = shared[0]
    before = sampler.prior(shared[None])[0]
    sampler.like = np.zeros((len(shared), len(shared)))
    sampler.like[2, 0] = like[2, 0]
    assert sampler.prior(shared[None])[0] - before == pytest.approx(-np.log(VARIANT) * like[2, 0])
    apart = np.arange(len(shared))[None]
    told = sampler.prior(apart)[0]
    sampler.like[:] = 0
    assert sampler.prior(apart)[0] == told, "nothing is gained where each is a kind of its own"


def test_how_many_tiles_are_usual_tells():
    target = Target(0)
    target.play(2)
    evidence = target.judge.evidence
    truth = np.array(target.met)
    wall, floor = target.met.index(WALL), target.met.index(FLOOR)
    swapped = truth.copy()
    swapped[[wall, floor]] = truth[[floor, wall]]
    right, wrong = evidence.numbers_of(np.stack([truth, swapped]))
    assert right > wrong + 1
    evidence.firsts.clear()
    assert not evidence.numbers_of(truth[None]).any()


def test_two_looks_of_one_prototype_are_found_and_known_prototypes_are_taken_as_they_are():
    def speckled(tiles):
        return np.where((tiles == WALL) & (np.indices(tiles.shape).sum(0) % 2 == 0), C, tiles)

    known = tuple(c for c in range(C) if c not in (FLOOR, WALL, GOLD))
    target = Target(0, speckled, known=known)
    target.play(40)
    found = dict(zip(target.met, target.judge.sampler.best.tolist(), strict=True))
    assert found == {FLOOR: FLOOR, WALL: WALL, C: WALL, GOLD: GOLD}
    assert not target.judge.sampler.known[[FLOOR, WALL, GOLD]].any()
    assert target.judge.sampler.known[UP:].all()


def test_a_wrong_mode_is_left_again():
    """All arrows a quarter turn off: consistent with every turn, and no single change or exchange mends it."""
    target = Target(5)
    target.play(30)
    sampler = target.judge.sampler
    wrong = np.array([UP + (x - UP + 1) % 4 if x >= UP else x for x in target.met])
    sampler.pool, sampler.said = wrong[None], sampler.compare(wrong[None])
    target.play(25)
    arrows = np.array(target.met) >= UP
    assert arrows.sum() == 4
    assert target.right[arrows].all()


def test_what_nothing_explains_is_not_forgotten():
    """An end that should not have been, then many that should."""
    target = Target(0)
    target.play(60)
    judge = target.judge
    assert judge.unexplained < 1
    codes, types, numbers = judge.codes, judge.evidence.types, judge.numbers[None]
    judge.watch(0, 0.0, codes, types, numbers, ended=True, over=True)  # turning round ended an episode
    found = judge.unexplained
    assert found > 2
    rows = judge.evidence.rows["outcome"]
    for _ in range(60):
        target.play(30)
        if len(rows.rows) > 2 * MOST["outcome"]:
            break
    assert len(rows.kept) <= MOST["outcome"] < len(rows.rows)
    assert judge.unexplained > 0.8 * found


def test_what_nothing_explains_counts_more_the_more_often_it_happens():
    target = Target(0)
    target.play(60)
    judge = target.judge
    found = []
    for _ in range(10):
        judge.watch(0, 0.0, judge.codes, judge.evidence.types, judge.numbers[None], ended=True, over=True)
        found.append(judge.unexplained)
    assert found[-1] > 2 * found[0] > 0


def test_a_new_outcome_is_kept_even_if_nothing_explains_all_others():
    evidence = TargetEvidence(many.model()[0].on_host(), np.random.default_rng(0))
    cave, rows = Cave(np.random.default_rng(0)), evidence.rows["outcome"]
    for _ in range(MOST["outcome"] + 3):
        board = cave.reset()
        evidence.begin(board, 0, NUMBERS[0])
        evidence.watch(board, 0, 0.0, True, board, 0, (NUMBERS[0], NUMBERS[0]))
        assert len(rows.rows) - 1 in rows.kept
        rows.odd = set(rows.kept)
    assert len(rows.kept) == MOST["outcome"]


def test_an_explorer_remembers_what_nothing_explains():
    """As `test_what_nothing_explains_is_not_forgotten`, where q_theta says what is what; here everything looks as it did."""
    oddity, cave, rng = (
        Oddity(many.model()[0], np.random.default_rng(0)),
        Cave(np.random.default_rng(0)),
        np.random.default_rng(1),
    )
    nothing, numbers = np.zeros(0, int), (NUMBERS[0], NUMBERS[0])
    board = cave.reset()
    oddity.begin(board, 0, NUMBERS[0])
    oddity.watch(board, 0, 0.0, True, board, 0, numbers)  # turning round ended an episode
    found = oddity.of(nothing)[1]
    assert found > 2
    rows = oddity.evidence.rows["outcome"]
    while len(rows.rows) <= 2 * MOST["outcome"]:
        oddity.begin(board := cave.reset(), 0, NUMBERS[0])
        for _ in range(20):
            before, action = board, int(rng.choice(3, p=many.RANDOM))
            board, reward, ended = cave.step(action)
            oddity.watch(before, action, reward, ended, board, 0, numbers)
            oddity.of(nothing)
            if ended:
                break
    assert 0 in rows.kept
    assert oddity.of(nothing)[1] > 0.8 * found


def test_evidence_of_another_judge_is_added_and_replaced():
    target = Target(2)
    target.play(2)
    t = target.met.index(FLOOR)
    before = target.judge.sampler.best[t]
    pairs = np.zeros((len(target.met), C))
    pairs[t, LAVA] = 400.0
    target.judge.add(pairs)
    assert target.judge.sampler.best[t] == LAVA != before
    target.judge.add(0 * pairs)
    assert target.judge.sampler.best[t] == before


# -- acting ------------------------------------------------------------------------------------------------------------------


def goes_on(tiles, numbers):
    return np.tile([0.05, 0.05, 0.9], (len(tiles), 1))


def turns(tiles, numbers):
    return np.tile([0.5, 0.5, 0.0], (len(tiles), 1))


def before_something():
    """A judge of a room in which the agent stands before a new type, another one lies aside, and all else is known."""
    target = Target(0, known=tuple(c for c in range(C) if c not in (LAVA, GOLD)))
    target.judge.begin(target.codes(room((2, 2, RIGHT), (2, 3, GOLD), (4, 3, LAVA))), 2, NUMBERS)
    return target


def test_caution_while_it_is_open_what_is_dangerous_and_none_when_it_is_known_to_be_safe():
    target = before_something()
    sampler = target.judge.sampler
    truth = np.array(target.met)

    def goes(pool, times=30, **options):
        """How often the actor goes on, each time as if it came here for the first time."""
        sampler.pool, sampler.said = pool, np.zeros(len(pool))
        actor, taken = CautiousThompson(goes_on, np.random.default_rng(0), curious=False, **options), 0
        for _ in range(times):
            actor.begin()
            taken += actor(target.judge) == GO
        return taken / times

    both = np.stack([truth, truth[::-1]])
    assert goes(both) < 0.1
    assert goes(both, cautious=False) > 0.6
    assert goes(truth[None]) > 0.6
    sampler.pool, sampler.said = both, np.zeros(2)
    actor = CautiousThompson(goes_on, np.random.default_rng(0), curious=False)
    usual = int(target.judge.model.again)
    taken = [actor(target.judge) == GO for _ in range(usual + 40)]
    assert not any(taken[: usual + 3])
    assert np.mean(taken[usual + 6 :]) > 0.4, "a board that is seen again and again ends caution"


def test_a_draw_is_from_what_is_believed_now_and_changes_as_seldom_as_can_be():
    pool = np.arange(3)[:, None]
    before, now = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.3, 0.5])
    drawn = np.zeros((2, 4000), int)
    for i in range(4000):
        actor = CautiousThompson(goes_on, np.random.default_rng(i))
        for k, chance in enumerate((before, now)):
            actor._hold(pool, chance, np.array([True]))
            drawn[k, i] = actor.mine[0]
    error = 4 * np.sqrt(0.25 / 4000)
    np.testing.assert_allclose(np.bincount(drawn[0]) / 4000, before, atol=error)
    np.testing.assert_allclose(np.bincount(drawn[1]) / 4000, now, atol=error)
    assert np.mean(drawn[0] != drawn[1]) == pytest.approx(0.3, abs=error)


class Doors(Cave):
    """The agent stands between a closed door and a locked one; what else they could be lies in the corners."""

    def reset(self):
        self.ground = room((2, 3, CLOSED), (2, 1, LOCKED), (1, 1, LAVA), (1, 4, GOLD), (4, 1, STONE), (4, 4, OPEN))
        self.row, self.col, self.facing = 2, 2, 0
        return self.tiles


def test_curiosity_settles_what_play_never_tests():
    """The policy only turns: it never runs into doors."""
    sure = {}
    for curious in (True, False):
        target = Target(0, cave=Doors(np.random.default_rng(0)), known=tuple(c for c in range(C) if c not in (CLOSED, LOCKED)))
        actions = target.play(40, CautiousThompson(turns, target.rng, curious=curious), episode=6)
        assert (GO in actions) == curious
        belief = target.judge.belief()
        sure[curious] = min(belief[t, x] for t, x in enumerate(target.met) if x in (CLOSED, LOCKED))
    assert sure[True] > 0.9
    assert sure[False] < 0.8
