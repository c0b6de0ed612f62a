"""Which op and which line cost most on the GPU, in forward and in backward?  Asked of Nsight Systems.

Every op emits a range with a sequence number, Nsight Systems records the ranges and the kernels, and `load_nsys` joins
them again: each kernel to its op, each backward node to the line that made it.

    python examples/nsys_profile.py                           # runs alone: ranges without a profiler cost nothing
    nsys profile --trace=cuda,nvtx --output run python examples/nsys_profile.py --device cuda
    nsys export --type sqlite --output run.sqlite run.nsys-rep
    python examples/nsys_profile.py --report run.sqlite
"""

import pathlib

import script_tools as tools

import gradlib as torch
from gradlib import nn
from gradlib.autograd.profiler import emit_nvtx, load_nsys, record_function
from gradlib.nn import functional as F


class Net(nn.Module):
    """Two layers with a residual connection, to have more than one line to compare."""

    def __init__(self, width=256):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        hidden = F.gelu(self.first(x))
        return x + self.second(hidden)


def parse_options():
    parser = tools.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=tools.whole_number(1), default=10)
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument(
        "--report", type=pathlib.Path, metavar="FILE", help="read an export of nsys, train nothing"
    )
    return parser.parse_args()


def train(steps, device):
    """A training loop as any other; only the `with` lines are for the profiler."""
    torch.manual_seed(0)
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs = torch.randn(64, 256, device=device)
    targets = inputs.roll(1, dims=1)
    F.mse_loss(model(inputs), targets).backward()  # warm up: compile kernels outside of the profile
    with emit_nvtx(with_stack=True):
        for step in range(steps):
            with record_function(f"step {step}"):
                loss = F.mse_loss(model(inputs), targets)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    print(f"loss {loss.item():.4f} after {steps} steps")


def report(path):
    """What nsys recorded, by op and by source line."""
    try:
        trace = load_nsys(path)
        print(trace.forward_backward().head(15), trace.by_line().head(15), sep="\n\n")
    except (OSError, RuntimeError) as error:
        raise tools.UsageError(f"--report {path}: {error}") from None


def main():
    options = parse_options()
    if options.report is not None:
        report(options.report)
    else:
        train(options.steps, tools.pick_device(options.device))


if __name__ == "__main__":
    tools.run(main)
