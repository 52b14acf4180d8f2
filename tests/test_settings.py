import json

import pytest

from protoalign import UserError
from protoalign.settings import PRESETS, Settings, of, parse, plain, shorten
from protoalign.worlds.crafter.settings import CRAFTER_SETTINGS


def test_the_paper_preset_is_the_papers_table():
    task, infer, explore = PRESETS["paper"].task, PRESETS["paper"].infer, PRESETS["paper"].explore
    ppo = task.ppo
    assert (task.network, task.steps) == ("relation", 25_000_000)
    assert (ppo.discount, ppo.gae_lambda, ppo.clip, ppo.value_coef) == (0.9, 0.95, 0.2, 0.5)
    assert (ppo.learning_rate, ppo.final_learning_rate, ppo.max_grad_norm) == (5e-4, 5e-4, 0.5)
    assert (ppo.batch, ppo.epochs, ppo.minibatch) == (4096, 3, 256)
    assert (infer.network, infer.width, infer.twice) == ("broadcast", 32, 0)
    assert (explore.steps, explore.ppo, explore.hide_all, explore.refresh, explore.from_task) == (10_000_000, ppo, 1.0, 0, 0.0)


def test_never_more_steps_than_asked_for_and_history_of_the_size_asked_for():
    for steps in (4096, 500_000, 6_000_000):
        config = shorten(Settings(), steps).task
        trained = config.updates * config.ppo.batch
        assert steps - config.ppo.batch < trained <= steps
        recorded = config.recorded * config.updates * config.ppo.segment
        assert min(config.history, trained) <= recorded <= min(trained, config.history + config.updates * config.ppo.segment)


def test_budgets_that_are_too_small_and_presets_that_there_are_not():
    for budget in ({"steps": 10}, {"updates": 0}, {"explore_steps": 100}):
        with pytest.raises(UserError, match="at least"):
            shorten(Settings(), **budget)
    with pytest.raises(UserError, match="no preset 'paper' here: use fast"):
        of(CRAFTER_SETTINGS, "paper")


@pytest.mark.parametrize("settings", [*PRESETS.values(), *CRAFTER_SETTINGS.values()])
def test_settings_come_back_from_json(settings):
    assert parse(Settings, json.loads(json.dumps(plain(settings)))) == settings


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("task", "network"), "nothing"),
        (("task", "width"), -3),
        (("task", "width"), "64"),
        (("task", "ppo"), None),
        (("task", "ppo", "envs"), 1.5),
        (("infer", "hide"), [1, 2]),
        (("infer", "longest"), "long"),
        (("explore", "from_task"), float("inf")),
        (("task", "nonsense"), 1),
        (("infer",), {}),
        (("task",), []),
    ],
)
def test_settings_changed_by_hand_are_refused_by_name(path, value):
    values = json.loads(json.dumps(plain(Settings())))
    inner = values
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(UserError, match=path[-1] if path != ("infer",) else "infer"):
        parse(Settings, values)
