"""A whole training step as one CUDA graph: forward, backward, mixed precision and the optimizer in a single launch.

Small models spend their time launching kernels. `gradlib.cuda.capture` records the step once and launches it as a
whole; what cannot be recorded is named with its line before. On a machine without CUDA the step is called plainly, and
a dry run says whether it could be captured.

    python examples/cuda_graph.py
    python examples/cuda_graph.py --device cuda --steps 500
"""

import time

import script_tools as tools

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F


def parse_options():
    parser = tools.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=tools.whole_number(1), default=20)
    parser.add_argument("--width", type=tools.whole_number(1), default=64)
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    return parser.parse_args()


def make_step(width, device, capturable=True):
    """A training step, and its first batch."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, 10)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, capturable=capturable)
    scaler = torch.amp.GradScaler(device.type)

    def step(x, y):
        optimizer.zero_grad()
        with torch.autocast(device.type):
            loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    x = torch.randn(32, width).to(device)
    y = (torch.arange(32) % 10).to(device)
    return step, x, y


def run(label, step, x, y, steps, device):
    """Some steps to warm up, then `steps` timed ones."""
    for _ in range(4):
        step(x, y)
    if device.type == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        loss = step(x, y)
    value = loss.item()  # waits for the device
    milliseconds = (time.perf_counter() - begin) / steps * 1e3
    print(f"{label}: loss {value:.4f}, {milliseconds:.3f} ms a step")


def main():
    options = parse_options()
    device = tools.pick_device(options.device)
    step, x, y = make_step(options.width, device)
    if device.type == "cpu":
        print("CUDA graphs need a CUDA device; running the step on the CPU")
        findings = torch.cuda.dry_run(step, x, y)
        print("\n".join(map(str, findings)) or "the step could be captured")
        # outside a dry run an optimizer can be capturable with a CUDA device only
        step, x, y = make_step(options.width, device, capturable=False)
        run("plain", step, x, y, options.steps, device)
        return
    run("plain", step, x, y, options.steps, device)
    step, x, y = make_step(options.width, device)
    run("captured", torch.cuda.capture(step), x, y, options.steps, device)


if __name__ == "__main__":
    tools.run(main)
