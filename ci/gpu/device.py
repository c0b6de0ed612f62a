"""What the scripts of stages share: which device they run on. Importing this makes the device ready."""

from __future__ import annotations

import argparse
import sys


def _chosen() -> bool:
    """Take the device from the command line; whether it is a GPU. CuPy must not have been imported yet.

    Exits with the reason where there is no device: a stage that cannot see one has failed.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("real", "cupy-on-cpu"), default="real")
    real = parser.parse_args().device == "real"
    if not real:
        from tests.cupy_on_cpu import machine  # brings g++'s cache of kernels

        machine.install()
    from gradlib.devices.cuda.namespace import why_not  # after the machine is there

    reason = why_not()
    if reason is not None:
        sys.exit(reason)
    return real


REAL = _chosen()
