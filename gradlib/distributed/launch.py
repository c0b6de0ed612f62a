"""The older name of the launcher: it tells programs ``--local-rank=N``, unless ``--use-env`` is given."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence

from .._refused import refuse
from .run import console, get_args_parser, run

__all__ = ["launch", "main", "parse_args"]

__getattr__ = refuse(__name__, whole=True)


def parse_args(args: Sequence[str] | None) -> Namespace:
    """Read the command line, which has ``--use-env`` beside what `run` has.

    Args:
        args: None for that of this process.
    """
    parser = get_args_parser()
    parser.add_argument(
        "--use-env", "--use_env", action="store_true", help="no --local-rank for the program"
    )
    return parser.parse_args(args)


def launch(args: Namespace) -> None:
    """Start what the command line asks for.

    Args:
        args: of `parse_args`.
    """
    if args.no_python and not args.use_env:
        raise ValueError(
            "When using the '--no-python' flag, you must also set the '--use-env' flag."
        )
    run(args)


def main(args: Sequence[str] | None = None) -> None:
    """`launch` for a command line; warns that this is the older name.

    Args:
        args: None for that of this process.
    """
    warnings.warn(
        "The module torch.distributed.launch is deprecated\nand will be removed in future. Use torchrun, "
        "whose programs read os.environ['LOCAL_RANK'] instead of --local-rank.",
        FutureWarning,
        stacklevel=2,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    console(main)
