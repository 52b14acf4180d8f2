"""The stages `infer` and `explore` of a hosted world, for the engine opa: q_theta on the history, then pi_exp.

They come after `model`, which finds out which pictures are one prototype. q_theta learns from pictures, each of them hidden
behind a tile type of its own, and tells prototypes.
"""

from protoalign.agent import Agent
from protoalign.alignment import hosted_exploration as exploration
from protoalign.alignment import training
from protoalign.alignment.hosted_imagination import check
from protoalign.errors import UserError
from protoalign.rng import generator
from protoalign.settings import plain
from protoalign.stages.setup import Store, keep, shown
from protoalign.worlds.gym import GymWorld


def infer(world: GymWorld, store: Store, agent: Agent) -> Agent:
    """Train the inference model q_theta on the history of the task policy."""
    config, name = agent.settings.infer, world.spec.name
    if agent.task is None:
        raise UserError("this agent plays somebody else's policy, of which pi_exp cannot be made: use the engine bayes")
    if agent.local is None:
        raise UserError("it is not known yet which pictures are one kind: train with 'protoalign model' first")
    check(agent.scene.prototypes, name)
    store.configure("infer", plain(config))
    if agent.model is not None and "infer" in store.result().get("seconds", {}):
        return agent
    history = shown(store, agent)
    model = training.build_model(agent.seed, agent.scene, agent.hideable, config)
    kind_of = tuple(int(c) for c in agent.vocabulary.prototype_of)
    model, seconds = training.train_inference(store, config, model, history, agent.seed, name, kind_of)
    agent = keep(store, agent, model=model)
    store.add_result({"seconds": {"infer": seconds}})
    return agent


def explore(world: GymWorld, store: Store, agent: Agent) -> Agent:
    """Train the exploration policy pi_exp, and measure how often one, two and four episodes tell all that is met."""
    config, name, seed = agent.settings.explore, world.spec.name, agent.seed
    if agent.model is None:
        raise UserError("there is no inference model yet: train one with 'protoalign infer' first")
    store.configure("explore", plain(config))
    if agent.explorer is not None and "one_episode_met_correct" in store.result():
        return agent
    vocabulary, longest = agent.vocabulary, agent.longest
    net = exploration.explorer_from(
        agent.task, agent.scene, vocabulary.canonical, generator(seed, "explore/network"), config.from_task
    )
    net, model, spent = exploration.train_explorer(
        store, config, agent.settings.infer, world, vocabulary, agent.model, net, shown(store, agent), seed, longest, name
    )
    found = exploration.measure(world, vocabulary, model, net, seed, config.measured, longest, agent.names)
    agent = keep(store, agent, model=model, explorer=net)
    store.add_result({**found, "explore_steps": spent["steps"], "seconds": {"explore": spent["seconds"]}})
    return agent
