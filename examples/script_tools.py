"""What every training script needs around its training: options, devices, checkpoints.

The promise kept here: whatever the user got wrong (an option, a path, a checkpoint) ends in one
line on standard error and exit status 2, never in a traceback.
"""

import argparse
import os
import pathlib
import sys

import gradlib as torch


class UsageError(Exception):
    """Something the user can put right; the text is the whole line to show."""


class Parser(argparse.ArgumentParser):
    """An argument parser that reports a wrong option in one line, without the usage text."""

    def error(self, message):
        raise UsageError(f"{message} (see --help)")


def run(main):
    """Call `main()`; a UsageError becomes one line and exit status 2, Ctrl-C exit status 130."""
    name = os.path.basename(sys.argv[0])
    try:
        main()
    except UsageError as error:
        sys.exit(_complain(name, str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_complain(name, "interrupted", 130))


def _complain(name, text, status):
    print(f"{name}: {' '.join(text.split())}", file=sys.stderr)
    return status


def whole_number(least):
    """For `type=`: an integer from `least` up."""

    def convert(text):
        if not text.isdecimal() or not least <= int(text) < 2**32:
            raise argparse.ArgumentTypeError(
                f"must be a whole number from {least} up, got {text!r}"
            )
        return int(text)

    return convert


def positive_float(text):
    """For `type=`: a number above 0 and below infinity."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def add_common_options(parser, *, out, batch_size, lr):
    """Options that the training scripts share."""
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument("--seed", type=whole_number(0), default=0, help="makes a run repeatable")
    parser.add_argument("--batch-size", type=whole_number(1), default=batch_size)
    parser.add_argument("--lr", type=positive_float, default=lr, help="highest learning rate")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out), metavar="DIR")
    parser.add_argument(
        "--resume", type=pathlib.Path, metavar="FILE", help="a checkpoint to go on from"
    )


def pick_device(name):
    """The device called `name`, or the best there is when `name` is None."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(f"cannot use --device {name}: {reason}") from error
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"cannot use --device {name}: choose cpu or cuda")
    return device


def make_folder(path):
    """Create `path` and return it."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to --out {path}: {error.strerror}") from error
    return path


def save_checkpoint(path, run, parts, history):
    """Write a checkpoint; a crash never leaves half a file under the name `path`.

    Args:
        path: where to.
        run: dict of plain values that a resumed run must agree on, with "program" among them.
        parts: dict of what has a `state_dict` (model, optimizer, ...).
        history: list of what was measured so far.
    """
    states = {name: part.state_dict() for name, part in parts.items()}
    partial = path.with_name(path.name + ".partial")
    try:
        torch.save({**run, **states, "history": history}, partial)
        os.replace(partial, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def resume(path, run, parts, device):
    """Load what save_checkpoint wrote into `parts` and return the history.

    Raises:
        UsageError: the file cannot be read, is no checkpoint, or belongs to a run of another kind.
    """
    try:
        checkpoint = torch.load(path, map_location=device, weights_only=True)
    except OSError as error:
        raise UsageError(f"cannot read checkpoint {path}: {error.strerror or error}") from error
    except Exception as error:  # a damaged file fails in many ways; which file is what matters
        raise UsageError(f"{path} is not a checkpoint ({type(error).__name__})") from error
    if not isinstance(checkpoint, dict) or "program" not in checkpoint:
        raise UsageError(f"{path} is not a checkpoint of {run['program']}")
    for key, wanted in run.items():
        if checkpoint.get(key) != wanted:
            raise UsageError(f"{path} was made with {key} {checkpoint.get(key)}, not {wanted}")
    try:
        for name, part in parts.items():
            part.load_state_dict(checkpoint[name])
        return list(checkpoint["history"])
    except (KeyError, RuntimeError, ValueError, TypeError) as error:
        raise UsageError(f"{path} does not fit this program: {error}") from error
