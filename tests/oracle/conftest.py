"""Tests that compare with PyTorch; where it is not installed, none of them is collected."""

import importlib.util

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
