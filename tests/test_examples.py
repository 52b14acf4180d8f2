"""Every example runs, with budgets too small to learn much."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(path):
    done = subprocess.run(
        [sys.executable, str(path)], env=os.environ | {"PROTOALIGN_QUICK": "1"}, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "sure: " in done.stdout
    assert "return" in done.stdout
