from protoalign.config import EXPLORE, INFER, TASK, task_config


def test_the_paper_preset_is_the_papers_table():
    config = TASK["paper"]
    ppo = config.ppo
    assert (config.network, config.steps) == ("relation", 25_000_000)
    assert (ppo.discount, ppo.gae_lambda, ppo.clip, ppo.value_coef) == (0.9, 0.95, 0.2, 0.5)
    assert (ppo.learning_rate, ppo.final_learning_rate, ppo.max_grad_norm) == (5e-4, 5e-4, 0.5)
    assert (ppo.batch, ppo.epochs, ppo.minibatch) == (4096, 3, 256)
    assert (INFER["paper"].network, INFER["paper"].width) == ("broadcast", 32)
    explore = EXPLORE["paper"]
    assert (explore.network, explore.steps, explore.ppo) == ("relation", 10_000_000, ppo)
    assert (explore.hide_all, explore.refresh, explore.from_task) == (1.0, 0, 0.0)


def test_never_more_steps_than_asked_for_and_history_of_the_size_asked_for():
    for steps in (4096, 500_000, 6_000_000):
        config = task_config("fast", steps)
        trained = config.updates * config.ppo.batch
        assert steps - config.ppo.batch < trained <= steps
        recorded = config.recorded * config.updates * config.ppo.segment
        assert min(config.history, trained) <= recorded <= min(trained, config.history + config.updates * config.ppo.segment)
