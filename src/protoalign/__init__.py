"""protoalign: move a trained policy into a world that looks different but works the same."""

from protoalign.errors import UserError

__version__ = "0.1.0"
__all__ = ["UserError", "__version__"]
