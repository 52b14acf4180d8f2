"""The README's Python, run as it stands."""

import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_snippets_run(snippet):
    exec(snippet, {})


def test_there_are_snippets():
    assert len(SNIPPETS) >= 2
