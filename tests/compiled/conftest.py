"""These tests need ``GRADLIB_NUMBA=1``, from the start of the process on; else they are not collected."""

from gradlib.devices.numpy import compiled

collect_ignore_glob = [] if compiled.wanted() else ["test_*.py"]
