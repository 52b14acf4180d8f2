"""The stages `infer` and `explore`, for the engine opa, the paper's: q_theta on the history, then pi_exp."""

from protoalign.agent import Agent
from protoalign.alignment import training
from protoalign.errors import UserError
from protoalign.settings import plain
from protoalign.stages.setup import Store, keep, past, presence, source_of
from protoalign.worlds.base import World


def infer(world: World, store: Store, agent: Agent) -> Agent:
    """Train the inference model q_theta on the history of the task policy, for the engine opa."""
    config = agent.settings.infer
    store.configure("infer", plain(config))
    if agent.model is not None and "infer" in store.result().get("seconds", {}):
        return agent
    history = past(store, agent)
    model = training.build_model(agent.seed, agent.scene, agent.hideable, config)
    model, seconds = training.train_inference(store, config, model, history, agent.seed, world.spec.name)
    agent = keep(store, agent, model=model, presence=presence(history, agent.hideable))
    store.add_result({"seconds": {"infer": seconds}})
    return agent


def explore(world: World, store: Store, agent: Agent) -> Agent:
    """Train the exploration policy pi_exp, and measure how often one, two and four episodes tell everything."""
    config = agent.settings.explore
    if agent.model is None:
        raise UserError("there is no inference model yet: train one with 'protoalign infer' first")
    store.configure("explore", plain(config))
    if agent.explorer is not None and "one_episode_correct" in store.result():
        return agent
    source, seed = source_of(world, agent.vocabulary), agent.seed
    history = past(store, agent)
    explorer, model, spent = training.train_exploration(
        store, config, agent.settings.infer, source, agent.model, agent.task, history, seed, agent.longest, world.spec.name
    )
    fresh = source_of(world.fresh(), agent.vocabulary) if hasattr(world, "fresh") else source
    names = tuple(agent.names[c] for c in agent.hideable)
    found = training.measure(fresh, model, explorer, seed, config.measured, agent.longest, names)
    agent = keep(store, agent, model=model, explorer=explorer)
    store.add_result({**found, "explore_steps": spent["steps"], "seconds": {"explore": spent["seconds"]}})
    return agent
