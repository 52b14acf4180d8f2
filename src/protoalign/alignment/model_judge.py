"""The world model as a judge: how well does every hypothesis about what things are explain what happens?

Of each step the evidence for a hypothesis is  -w_t relu(best - tiles - slack) + w_r reward,  in logs, `best` being the tiles'
log-likelihood under the hypothesis that explains them best; a first picture counts w_0. A model is never quite right, and small
errors that add up over tiles and steps look like evidence between two prototypes that move alike: hence the slack, a cap on
what one step can say, and weights that are fitted on games in which the truth is known (`calibrate`). Prototypes that nothing
but outcomes tells apart in such games are `Alike`: tiles then say nothing between them, in any world.
"""

from itertools import combinations, permutations, product
from math import factorial, prod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from protoalign.alignment import assignments
from protoalign.alignment.imagination import Imagined, hide
from protoalign.alignment.inference import Step, fix_known
from protoalign.alignment.judges import LEAST
from protoalign.alignment.world_model import Moves, WorldModel
from protoalign.rl.history import Episodes
from protoalign.worlds.base import Observation

Alike = tuple[tuple[int, ...], ...]  # permutations of C prototypes, a group, under which next tiles are as likely; (): none
MOST_ALIKE = 24  # permutations
LEADERS = 8  # assignments that are judged, once all others together are less probable than RULED_OUT
RULED_OUT = 1e-6
IMPOSSIBLE = -4.0  # log-density of an outcome, about 1 where it is as foreseen


class Weights(NamedTuple):
    """How much evidence counts; numbers or arrays []."""

    tile: Array | float = 1.0
    reward: Array | float = 1.0
    start: Array | float = 1.0
    slack: Array | float = 3.0  # nats: within so many of a step's best explanation of the tiles, all are as good
    cap: Array | float = 12.0  # nats: the most that one step can say
    usual: Array | float = -1.0  # log-likelihood for each tile that changes which few steps in the source go below


class Evidence(NamedTuple):
    """Logs [..., H], before they are weighed."""

    tiles: Array
    outcome: Array


def weigh(weights: Weights, evidence: Evidence, possible: Array | bool = True) -> Array:
    """What a step says of every hypothesis, [..., H]; those not `possible` [..., H] set no standard."""

    def best(x: Array) -> Array:
        return jnp.where(possible, x, -jnp.inf).max(-1, keepdims=True)

    behind = jax.nn.relu(best(evidence.tiles) - evidence.tiles - weights.slack)
    said = weights.reward * evidence.outcome - weights.tile * behind
    return jnp.maximum(said - best(said), -weights.cap)


def _evidence(model: WorldModel, tables: Array, step: Step) -> Evidence:
    """Of one transition, `step` without leading axis, all prototypes being different. Whether it ended is not known here."""
    move = Moves(
        step.before.reshape(-1),
        step.after.reshape(-1),
        step.numbers_before.astype(jnp.float32),
        step.numbers_after.astype(jnp.float32),
        jnp.asarray(step.action, jnp.int32),
        step.reward,
        jnp.asarray(False),
    )
    like = model.under(tables, move)
    return Evidence(like.tiles, like.reward + like.numbers)


def per_change(tiles: Array, before: Array, after: Array) -> Array:
    """Log-likelihoods [...] of all tiles of a step, divided by how many changed, and two more: boards [..., H * W]."""
    return tiles / (2 + (before != after).sum(-1))


@eqx.filter_jit
def step_likelihood(judge: "ModelJudge", step: Step) -> tuple[Array, Array, Array]:
    """What one transition (a batch of one) says of all assignments, [K!] logs up to a constant; how strange it is under the one
    that explains its tiles best: how many times less likely, in logs for each tile that changed, than few are in the source;
    and under which assignments [K!] its outcome is out of the question."""
    step = jax.tree.map(lambda x: x[0], step)
    evidence = judge.evidence(step)
    best = per_change(evidence.tiles.max(), step.before.reshape(-1), step.after.reshape(-1))
    return weigh(judge.weights, evidence), best / judge.weights.usual, evidence.outcome < IMPOSSIBLE


@eqx.filter_jit
def start_likelihood(model: WorldModel, weights: Weights, tables: Array, seen: Observation) -> Array:
    """The same of one first picture, codes [1, H, W], for N hypotheses: `tables` [N, C + S], the prototype of every code."""
    said = weights.start * model.starts_under(jnp.asarray(tables), jnp.asarray(seen.tiles).reshape(-1))
    return said - said.max()


class ModelJudge(eqx.Module):
    """Judges all assignments of K <= 6 hideable prototypes to K slots. A state is what was said so far, [B, H]."""

    model: WorldModel
    weights: Weights
    hideable: tuple[int, ...] = eqx.field(static=True)
    alike: Alike = eqx.field(static=True, default=())

    @property
    def tables(self) -> np.ndarray:
        """The prototype of every code under every assignment, [H, C + K] int32."""
        slots = np.array(self.hideable, np.int32)[assignments.table(len(self.hideable))]
        known = np.tile(np.arange(self.model.scene.prototypes, dtype=np.int32), (len(slots), 1))
        return np.concatenate([known, slots], 1)

    @property
    def prototypes(self) -> int:
        return self.model.scene.prototypes

    def begin(self, imagined: Imagined, seen: Observation) -> Array:
        first = seen.tiles.reshape(len(seen.tiles), -1)
        said = self.weights.start * jax.lax.map(lambda g: self.model.starts_under(jnp.asarray(self.tables), g), first)
        return said + self._known(imagined)

    def watch(
        self, state: Array, imagined: Imagined, step: Step, going: Array | None = None, posterior: Array | None = None
    ) -> Array:
        known = self._known(imagined) == 0
        going = jnp.ones(len(state), bool) if going is None else going
        posterior = jnp.zeros_like(state) if posterior is None else posterior

        def one(x: tuple[Step, Array, Array, Array]) -> Array:
            step, possible, posterior, going = x
            chance, leaders = jax.lax.top_k(jax.nn.softmax(posterior), min(LEADERS, len(posterior)))
            settled = chance.sum() > 1 - RULED_OUT

            def judge_leaders() -> Array:
                said = weigh(self.weights, self.evidence(step, leaders), possible[leaders])
                return jnp.zeros(len(posterior)).at[leaders].set(said)  # the others keep their distance to the best

            return jax.lax.switch(
                jnp.where(going, 1 + settled, 0),
                [
                    lambda: jnp.zeros(len(posterior)),
                    lambda: weigh(self.weights, self.evidence(step), possible),
                    judge_leaders,
                ],
            )

        return state + jax.lax.map(one, (step, known, posterior, going))

    def evidence(self, step: Step, which: Array | None = None) -> Evidence:
        """Of one transition, `step` without leading axis, for all assignments [H], or for some, by number."""
        tables = jnp.asarray(self.tables)
        if not self.alike:
            return _evidence(self.model, tables if which is None else tables[which], step)
        if which is None:
            found = _evidence(self.model, tables, step)
            return found._replace(tiles=found.tiles[self.renamed].mean(0))
        found = _evidence(self.model, tables[jnp.asarray(self.renamed)[:, which].reshape(-1)], step)
        tiles, outcome = (x.reshape(len(self.alike), len(which)) for x in found)
        return Evidence(tiles.mean(0), outcome[0])

    @property
    def renamed(self) -> np.ndarray:
        """The number [G, H] of every assignment with prototypes renamed by each of `alike`, the first of which renames none."""
        number = {tuple(row): i for i, row in enumerate(self.tables[:, self.model.scene.prototypes :].tolist())}
        return np.array([[number[tuple(g[c] for c in row)] for row in number] for g in self.alike])

    def score(self, state: Array, imagined: Imagined) -> Array:
        known = self._known(imagined)
        return jnp.maximum(jax.nn.log_softmax(state), LEAST) + known

    def belief(self, state: Array, imagined: Imagined) -> Array:
        return assignments.marginals(jax.nn.log_softmax(self.score(state, imagined)))

    def posterior(self, score: Array) -> Array:
        return jax.nn.log_softmax(score)

    def unweighed(self, state: Array, imagined: Imagined) -> Array:
        return state

    def _known(self, imagined: Imagined) -> Array:
        """0 for assignments [B, H] that agree with what is known, less for others."""
        kinds = len(self.hideable)
        assert imagined.truth.shape[1] == kinds, "a slot for each prototype, no second looks"
        return assignments.total(fix_known(jnp.zeros((*imagined.truth.shape, kinds)), imagined))


# -- how much to believe it --------------------------------------------------------------------------------------------------

SLACKS = (0.0, 1.0, 3.0, 5.0)
START = (0.6, 0.6, 0.2)  # where the fit of weights begins
LEAST_GAIN = 0.05  # nats: what tiles tell of a pair in a game, if they tell anything; 0.69 would be all
NEARLY = 0.01  # nats
TEMPERATURES = (0.03, 0.1, 0.3, 1.0)
FEW, LEAST_USUAL = 0.01, -0.1  # share of steps that are unusual; where nothing is left to chance, so much is still usual


@eqx.filter_jit
def follow(judge: ModelJudge, episodes: Episodes) -> tuple[Evidence, Array]:
    """Evidence [L, E, H] of every step, and of first pictures [E, H], in E games of prototypes that are all hidden.

    Slots are numbered as prototypes are: the truth is assignment 0. Steps after the end say nothing.
    """
    scene, kinds = judge.model.scene, len(judge.hideable)
    number, length = episodes.action.shape
    plain = jnp.broadcast_to(jnp.arange(kinds, dtype=jnp.int32), (number, kinds))
    hidden = Imagined(plain, plain, None, plain, jnp.ones((number, kinds), bool))
    codes = hide(hidden, jnp.asarray(episodes.observation.tiles), scene.prototypes, judge.hideable)
    codes, numbers = codes.reshape(number, length + 1, -1), jnp.asarray(episodes.observation.numbers)
    nothing = Evidence(*(jnp.zeros(len(judge.tables)) for _ in Evidence._fields))

    def one(which: Array) -> Evidence:
        e, t = which // length, which % length
        grids, values = (codes[e, t], codes[e, t + 1]), (numbers[e, t], numbers[e, t + 1])
        step = Step(*grids, *values, episodes.action[e, t], episodes.reward[e, t])
        return jax.lax.cond(t < episodes.length[e], lambda s: judge.evidence(s), lambda _: nothing, step)

    found = jax.lax.map(one, jnp.arange(number * length))
    found = jax.tree.map(lambda x: x.reshape(number, length, -1).swapaxes(0, 1), found)
    return found, jax.lax.map(lambda g: judge.model.starts_under(jnp.asarray(judge.tables), g), codes[:, 0])


def find_alike(judge: ModelJudge, tiles: list[np.ndarray]) -> Alike:
    """The prototypes that tiles do not tell apart, from their evidence [L, E, H] in games of each world, the truth being
    assignment 0.

    Of a pair it is asked how much the tiles of a whole game tell between the truth and the two exchanged, believed as much as
    is best: next to nothing, if what they tell is an error of the model.
    """
    kinds, table = len(judge.hideable), assignments.table(len(judge.hideable))
    groups = [{k} for k in range(kinds)]
    for a, b in combinations(range(kinds), 2):
        swap = np.arange(kinds)
        swap[[a, b]] = b, a
        wrong = (table == swap).all(1).argmax()
        steps = [x[..., 0] - x[..., wrong] for x in tiles]  # [L, E] each
        slack = float(judge.weights.slack)
        ahead = np.concatenate([(np.sign(x) * np.maximum(abs(x) - slack, 0)).sum(0) for x in steps])
        if max((np.log(2) - np.logaddexp(0, -t * ahead)).mean() for t in TEMPERATURES) < LEAST_GAIN:
            one, other = (next(g for g in groups if x in g) for x in (a, b))
            if one is not other:
                groups = [g for g in groups if g is not one and g is not other] + [one | other]
    classes = sorted((sorted(g) for g in groups if len(g) > 1), key=len)
    while prod(factorial(len(g)) for g in classes) > MOST_ALIKE:
        classes.pop()
    found = []
    for orders in product(*(permutations(g) for g in classes)):
        renamed = np.arange(judge.model.scene.prototypes)
        for group, order in zip(classes, orders, strict=True):
            renamed[np.array(judge.hideable)[group]] = np.array(judge.hideable)[list(order)]
        found.append(tuple(renamed.tolist()))
    return tuple(found) if classes else ()


def calibrate(judge: ModelJudge, games: list[Episodes]) -> tuple[ModelJudge, dict[str, Any]]:
    """The judge with weights under which the truth is likeliest along practice games, before the first and after every step.

    Games are in prototypes, played without knowing which is which (else what is done would tell), each world's or variant's as
    one item of the list; all worlds count the same. Being sure and wrong costs most, so what misleads anywhere is believed
    less everywhere. Figures: the weights, and nats, the mean log-probability of the truth.
    """
    games = [jax.tree.map(jnp.asarray, g) for g in games]
    judge = ModelJudge(judge.model, judge.weights, judge.hideable)
    watched = [follow(judge, g) for g in games]
    alike = find_alike(judge, [np.asarray(evidence.tiles) for evidence, _ in watched])
    if alike:
        judge = ModelJudge(judge.model, judge.weights, judge.hideable, alike)
        watched = [(e._replace(tiles=e.tiles[..., judge.renamed].mean(-2)), start) for e, start in watched]
    inside = [jnp.arange(g.action.shape[1])[:, None] < g.length for g in games]
    cap, usual, found = jnp.float32(judge.weights.cap), _usual(watched, games), []
    for slack in SLACKS:
        z, loss = _temper(watched, inside, jnp.float32(slack), cap)
        found.append((float(loss), Weights(z[0], z[1], z[2], jnp.float32(slack), cap, usual)))
    # Of slacks that are nearly as good the largest: in other worlds the model errs more than where it was practised.
    least = min(loss for loss, _ in found)
    least, weights = [pair for pair in found if pair[0] < least + NEARLY][-1]
    figures: dict[str, Any] = {"nats": round(-least, 4), "games": sum(len(g.length) for g in games), "alike": alike}
    figures |= {name: round(float(x), 4) for name, x in zip(Weights._fields, weights, strict=True)}
    return ModelJudge(judge.model, weights, judge.hideable, alike), figures


def _usual(watched: list[tuple[Evidence, Array]], games: list[Episodes]) -> Array:
    """The log-likelihood for each tile that changes which one step in a hundred goes below, the truth being known."""
    found = []
    for (evidence, _), played in zip(watched, games, strict=True):
        tiles = played.observation.tiles.reshape(*played.observation.tiles.shape[:2], -1)
        each = per_change(evidence.tiles[..., 0].T, tiles[:, :-1], tiles[:, 1:])  # [E, L]
        found.append(np.asarray(each)[np.arange(each.shape[1]) < np.asarray(played.length)[:, None]])
    return jnp.minimum(jnp.float32(np.quantile(np.concatenate(found), FEW)), LEAST_USUAL)


@eqx.filter_jit
def _temper(watched: list[tuple[Evidence, Array]], inside: list[Array], slack: Array, cap: Array) -> tuple[Array, Array]:
    """The weights [3] of tiles, rewards and first pictures, at most 1, and the loss under them."""

    def loss(z: Array) -> Array:
        weights = Weights(jnp.exp(z[0]), jnp.exp(z[1]), jnp.exp(z[2]), slack, cap)
        total = jnp.zeros(())
        for (evidence, start), going in zip(watched, inside, strict=True):
            begun = weights.start * start
            said = begun + jnp.cumsum(weigh(weights, evidence), 0)
            truth = jax.nn.log_softmax(said)[..., 0]
            total -= (truth * going).sum() / going.sum() + jax.nn.log_softmax(begun)[:, 0].mean() / 10
        return total / len(watched)

    optimiser = optax.adam(0.2)

    def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
        z, moments = carry
        change, moments = optimiser.update(jax.grad(loss)(z), moments)
        return (jnp.clip(z + change, -5.0, 0.0), moments), None

    z = jnp.log(jnp.array(START))
    (z, _), _ = jax.lax.scan(step, (z, optimiser.init(z)), None, 40)
    return jnp.exp(z), loss(z)
