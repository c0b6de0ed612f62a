"""What every training script needs around its training: options, devices, checkpoints.

The promise kept here: whatever the user got wrong (an option, a path, a checkpoint) ends in one
line on standard error and exit status 2, never in a traceback.
"""

import argparse
import importlib
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
        leave_ranks()
    except UsageError as error:
        sys.exit(_complain(name, str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_complain(name, "interrupted", 130))


def _complain(name, text, status):
    if all(os.environ.get(variable, "0") == "0" for variable in RANKS):  # others would say the same
        print(f"{name}: {' '.join(text.split())}", file=sys.stderr)
    return status


# What torchrun, Open MPI's and MPICH's mpiexec, and srun tell the processes that they start.
RANKS = "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"
SIZES = "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"


def join_ranks(device):
    """Join the processes that a launcher has started with this one; (rank, how many they are).

    A program that was started alone is rank 0 of 1.
    """
    if all(int(os.environ.get(variable, "1")) == 1 for variable in SIZES):
        return 0, 1
    distributed = importlib.import_module(
        "gradlib.distributed"
    )  # only programs with ranks pay for it
    by_mpiexec = "WORLD_SIZE" not in os.environ and "SLURM_PROCID" not in os.environ
    if device.type == "cuda":
        torch.cuda.set_device(distributed.get_node_local_rank(0) % torch.cuda.device_count())
        backend = "nccl"
    else:
        backend = "mpi" if by_mpiexec and distributed.is_mpi_available() else "gloo"
    distributed.init_process_group(backend)
    return distributed.get_rank(), distributed.get_world_size()


def leave_ranks():
    """Say goodbye to the other processes, if there are any."""
    distributed = sys.modules.get("gradlib.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.destroy_process_group()


def share_of(batch_size, size):
    """How many entries of a batch each of `size` processes takes."""
    if batch_size < size:
        raise UsageError(f"--batch-size {batch_size} is too small for {size} processes")
    return batch_size // size


def mean_over_ranks(total, count, device):
    """total / count, both summed over all processes."""
    sums = torch.tensor([total, count], dtype=torch.float64, device=device)
    distributed = sys.modules.get("gradlib.distributed")
    if distributed is not None and distributed.is_initialized():
        distributed.all_reduce(sums)
    total, count = sums.tolist()
    return total / count


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
