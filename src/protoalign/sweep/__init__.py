"""Many runs at once: a grid of worlds, seeds, looks and baselines, on the cores of one machine or on a Ray cluster."""

from protoalign.sweep.grid import Grid, read_grid
from protoalign.sweep.sweep import sweep

__all__ = ["Grid", "read_grid", "sweep"]
