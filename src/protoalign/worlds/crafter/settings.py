"""Crafter's settings, by preset."""

from dataclasses import replace

from protoalign.settings import ExploreConfig, InferConfig, JudgeConfig, ModelConfig, PPOConfig, Settings, TaskConfig

REDRAWN = ("stone", "tree", "coal", "cow", "zombie", "skeleton")  # what the paper's target redraws

_PPO = PPOConfig(envs=256, minibatch=1024, learning_rate=5e-4, final_learning_rate=5e-5, discount=0.99)

CRAFTER_SETTINGS = {
    "fast": Settings(
        TaskConfig(width=256, steps=20_000_000, evaluation=512, ppo=_PPO),
        InferConfig(updates=300, batch=32, radius=1, tiles=2, longest=300, hide=REDRAWN, hide_all=0.8, twice=0.0),
        ExploreConfig(
            refresh=100,
            batch=32,
            episodes=1024,
            measured=1024,
            ppo=replace(_PPO, discount=0.97, entropy_coef=0.02, final_entropy_coef=0.0),
        ),
        JudgeConfig(updates=360, period=30, games=256, batch=32, final_learning_rate=4e-4, twice=0.0),
        ModelConfig(games=0),
        target_episodes=200,
    )
}
