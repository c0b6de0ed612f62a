"""Two halves of a model on two CUDA streams, gradients included, and saved tensors that wait in host memory.

Forward runs each branch on a stream of its own, and backward runs each where its forward ran. The sanitizer says
whether a wait is missing; leave out the line marked with it to see its report. On a machine without CUDA the same work
is done plainly.

    python examples/streams.py
    python examples/streams.py --device cuda --offload
"""

import contextlib

import script_tools as tools

import gradlib as torch
from gradlib import nn
from gradlib.autograd.graph import save_on_cpu
from gradlib.nn import functional as F


class TwoBranches(nn.Module):
    """Two stacks of layers that know nothing of each other until their results are added."""

    def __init__(self, width, depth=3):
        super().__init__()
        self.left, self.right = (
            nn.Sequential(*[m for _ in range(depth) for m in (nn.Linear(width, width), nn.GELU())])
            for _ in range(2)
        )

    def forward(self, x):
        if not x.is_cuda:
            return self.left(x) + self.right(x)
        here, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(here)  # x and the weights are ready
        x.record_stream(side)
        with torch.cuda.stream(side):
            right = self.right(x)
        left = self.left(x)
        here.wait_stream(side)  # the sanitizer complains without this line
        right.record_stream(here)
        return left + right


def parse_options():
    parser = tools.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=tools.whole_number(1), default=5)
    parser.add_argument("--width", type=tools.whole_number(1), default=64)
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument(
        "--offload", action="store_true", help="keep what backward needs in pinned host memory"
    )
    return parser.parse_args()


def train(options, device):
    torch.manual_seed(0)
    model = TwoBranches(options.width).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(32, options.width).to(device)
    target = x.roll(1, dims=1)
    on_cuda = device.type == "cuda"
    sanitize = torch.cuda.sanitizer.sanitize if on_cuda else contextlib.nullcontext
    saved = (lambda: save_on_cpu(pin_memory=on_cuda)) if options.offload else contextlib.nullcontext
    with sanitize():
        for step in range(options.steps):
            optimizer.zero_grad()
            with saved():
                loss = F.mse_loss(model(x), target)
            loss.backward()
            optimizer.step()
            print(f"step {step + 1}  loss {loss.item():.4f}")


def main():
    options = parse_options()
    device = tools.pick_device(options.device)
    if device.type == "cpu":
        print("streams need a CUDA device; doing the same work on the CPU")
    train(options, device)


if __name__ == "__main__":
    tools.run(main)
