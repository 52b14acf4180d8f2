"""Work in a target of a hosted world."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from protoalign import runtime
from protoalign.alignment.explored_transfer import Exploration
from protoalign.alignment.sampled_transfer import Finding


@pytest.mark.parametrize(("work", "arguments"), [(Finding.mapping, 0), (Exploration.mapping, 0), (Exploration.learn, 5)])
def test_products_of_small_matrices_are_on_one_thread(work, arguments, monkeypatch):
    limits = []
    threads = SimpleNamespace(limit=lambda **limit: limits.append(limit) or nullcontext())
    monkeypatch.setattr(runtime, "_threads", lambda: threads)
    with pytest.raises(AttributeError):  # there is nothing to work with
        work(None, *[None] * arguments)
    assert limits == [{"limits": 1, "user_api": "blas"}]
