"""The command line: `protoalign COMMAND`."""

from protoalign.cli.main import main

__all__ = ["main"]
