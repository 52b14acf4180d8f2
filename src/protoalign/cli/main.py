"""All commands, and what happens to errors."""

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import tyro
from rich.console import Console
from rich.markup import escape

from protoalign.cli import method, tools
from protoalign.errors import UserError

COMMANDS: dict[str, Callable[..., Any]] = {
    "run": method.run,
    "task": method.task,
    "model": method.model,
    "infer": method.infer,
    "explore": method.explore,
    "transfer": method.transfer,
    "evaluate": method.evaluate,
    "report": tools.report,
    "worlds": tools.worlds,
    "baseline": tools.baseline,
    "sweep": tools.sweep,
    "reproduce": tools.reproduce,
    "bench": tools.bench,
    "play": tools.play,
}


def main() -> None:
    try:
        tyro.extras.subcommand_cli_from_dict(
            COMMANDS,
            prog="protoalign",
            description="Move a trained policy into a world that looks different but works the same. "
            "Start with 'protoalign worlds', then 'protoalign run WORLD'.",
            config=(tyro.conf.FlagCreatePairsOff,),
        )
    except UserError as error:
        fail(str(error))
    except OSError as error:  # a full disk, a folder that may not be written
        fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except KeyboardInterrupt:
        print("stopped; a training command started again goes on from its last checkpoint", file=sys.stderr)
        sys.exit(130)


def fail(text: str) -> NoReturn:
    Console(stderr=True).print(f"[red]protoalign:[/] {escape(text)}", highlight=False, soft_wrap=True, emoji=False)
    sys.exit(2)
