"""Train an agent in Hunter, put it into a look it has never seen, and let it find out what is what.

python examples/quickstart.py            # about three minutes on one core; PROTOALIGN_QUICK=1: less, and it plays poorly
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import protoalign as pa

budget = {"steps": 200_000} if os.environ.get("PROTOALIGN_QUICK") else {}

source = pa.make("hunter-z1c1")
agent = pa.train(source, seed=0, **budget)  # in memory; out="runs/z1" keeps it, and resumes

target = source.make("random:7")  # a Gymnasium environment of the same world in random pictures
mapping = agent.align(target, episodes=4, sure=0.99)
print(mapping)
print("returns while finding out:", mapping.returns)

before, after = agent.policy(), agent.policy(mapping)
for name, policy in (("before", before), ("after", after)):
    found = pa.evaluate(policy, target, episodes=20, seed=1)
    print(f"return {name}: {found['return']:.2f} ± {found['return_se']:.2f}")

with TemporaryDirectory() as folder:
    agent.save(Path(folder) / "agent")
    mapping.save(Path(folder) / "redrawn")
    again = pa.load(Path(folder) / "agent").policy(pa.Mapping.load(Path(folder) / "redrawn"), greedy=True)
    picture, _ = target.reset(seed=2)
    print("first action:", source.spec.actions[again(picture)])
    print("the same scene in the source's pictures:", mapping.translate(picture).shape)
