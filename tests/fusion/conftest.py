"""These tests need numba; where it is not installed they are not collected (`ci/test` makes an environment with it)."""

from __future__ import annotations

from gradlib.devices.numpy import chains

collect_ignore_glob = [] if chains.available() else ["test_*.py"]
