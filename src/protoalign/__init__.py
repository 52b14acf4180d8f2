"""protoalign: move a trained policy into a world that looks different but works the same."""

from protoalign.errors import UserError
from protoalign.registration import register

__version__ = "0.1.0"
__all__ = ["UserError", "__version__"]

register()
