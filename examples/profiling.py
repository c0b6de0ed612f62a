"""Where do the time and the memory of a training step go?

Trains the network of train_digits.py for a few steps under the profiler, prints the costs by operation and by source
line and what the peak of memory consists of, and writes two files: profile.html, a page for any browser, and
trace.json, for ui.perfetto.dev or chrome://tracing. On a CUDA device the times of kernels are there, too.

    python examples/profiling.py
    python examples/profiling.py --device cuda --steps 10 --out runs/profile
"""

import pathlib
import tempfile

import script_tools as tools
from train_digits import DigitNet, load_images

import gradlib as torch
from gradlib.autograd.profiler import profile, record_function
from gradlib.nn import functional as F


def parse_options():
    parser = tools.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=tools.whole_number(1), default=4)
    parser.add_argument("--batch-size", type=tools.whole_number(1), default=64)
    parser.add_argument("--device", help="cpu or cuda (default: cuda where there is one)")
    parser.add_argument("--out", type=pathlib.Path, help="folder (default: a new temporary one)")
    return parser.parse_args()


def train(steps, batch_size, device):
    """A training loop as any other, but for the `with` lines; the first step warms up and is not recorded."""
    dataset, _ = load_images(seed=0)
    images, labels = (t.to(device) for t in dataset[:batch_size])
    model = DigitNet().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)

    def step():
        with record_function("forward"):
            scores = model(images)
            loss = F.cross_entropy(scores, labels)
        with record_function("backward"):
            optimizer.zero_grad()
            loss.backward()
        with record_function("update"):
            optimizer.step()

    step()
    use_device = "cuda" if device.type == "cuda" else None
    with profile(
        use_device=use_device, with_stack=True, profile_memory=True, record_shapes=True
    ) as prof:
        for _ in range(steps):
            step()
    return prof


def main():
    options = parse_options()
    device = tools.pick_device(options.device)
    folder = options.out or pathlib.Path(tempfile.mkdtemp(prefix="profile-"))
    tools.make_folder(folder)
    prof = train(options.steps, options.batch_size, device)
    by = "self_device_time_total" if device.type == "cuda" else "self_cpu_time_total"
    print(prof.key_averages().table(sort_by=by, row_limit=12))
    print(prof.by_line().head(10), prof.memory_timeline(), sep="\n\n", end="\n\n")
    for name, write in (
        ("profile.html", prof.export_html),
        ("trace.json", prof.export_chrome_trace),
    ):
        write(folder / name)
        print(f"wrote {folder / name}")


if __name__ == "__main__":
    tools.run(main)
