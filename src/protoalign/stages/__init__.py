"""The stages of the method, each resumable in a run folder, or done in memory: task; model, or infer and explore; transfer.

store = Run(folder) or Memory()
agent = task(world, store, seed, settings)
agent = variants(world, store, model(world, store, agent))  # for the engine bayes
agent = explore(world, store, infer(world, store, agent))  # for the engine opa
"""

from protoalign.stages.bayes import finder, judge_of, model, variants
from protoalign.stages.hosted import model as hosted_model
from protoalign.stages.hosted_opa import explore as hosted_explore
from protoalign.stages.hosted_opa import infer as hosted_infer
from protoalign.stages.opa import explore, infer
from protoalign.stages.setup import Store, check_world, past, settings_of, source_of
from protoalign.stages.source import task
from protoalign.stages.target import measure, transfer
from protoalign.stages.whole import MAPPINGS, run, train

__all__ = [
    "MAPPINGS",
    "Store",
    "check_world",
    "explore",
    "finder",
    "hosted_explore",
    "hosted_infer",
    "hosted_model",
    "infer",
    "judge_of",
    "measure",
    "model",
    "past",
    "run",
    "settings_of",
    "source_of",
    "task",
    "train",
    "transfer",
    "variants",
]
