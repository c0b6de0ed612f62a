"""Calls of all kinds (keywords, empty tensors, dtypes, out=, bad arguments) mean the same as in PyTorch."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from calling import same

CALLS = [
    pytest.param(line, id=f"{path.stem}: {line}")
    for path in sorted((Path(__file__).parent / "calls").glob("*.txt"))
    for line in path.read_text().splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("code", CALLS)
def test_same_call(code):
    same(code)
