"""The environment that libraries read when they are loaded. Imported first, it is set as the command line asks."""

import argparse
import os
import sys

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# What pins kernels to those of older processors. Machines that want the same bits everywhere do so to the products of
# NumPy alone, which then take twice as long. Here each library chooses for itself.
PINS = (
    "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE",
    "NPY_DISABLE_CPU_FEATURES",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_CBWR",
    "ONEDNN_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
)


def add_threads(parser):
    parser.add_argument(
        "--threads",
        type=positive,
        default=1,
        metavar="N",
        help="of each library (default: 1); with more, the machine's other cores should be idle",
    )


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more, but got {number}")
    return number


def set_up(arguments):
    """Set it; options other than --threads are not looked at."""
    parser = argparse.ArgumentParser(prog="python ci/bench", add_help=False, allow_abbrev=False)
    add_threads(parser)
    threads = str(parser.parse_known_args(arguments)[0].threads)
    os.environ.update(dict.fromkeys(BLAS_THREADS, threads))
    for name in PINS:
        os.environ.pop(name, None)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX leaves memory to others


set_up(sys.argv[1:])
