"""Train a small GPT on the source text of Python's own standard library, then let it write.

The text is on every machine that has Python, so nothing is downloaded. The model reads and writes
ASCII characters and knows nothing of Python when it starts; after a minute or two, what it writes
looks like Python from afar.

    python examples/train_text.py
    python examples/train_text.py --steps 2000 --resume runs/text/checkpoint.pt --prompt "class "
    python -m gradlib.distributed.run --nproc-per-node 2 examples/train_text.py
    mpiexec -n 2 python examples/train_text.py

Several processes divide each batch among them; a checkpoint does not know how many they were.
"""

import math
import pathlib
import sysconfig
import time

import script_tools as tools
from matplotlib.figure import Figure  # without pyplot: needs no display
from tqdm import tqdm

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from gradlib.optim.lr_scheduler import LambdaLR

SYMBOLS = 128  # ASCII
REPORT = 100  # steps between two reports, each with a checkpoint
MODULES = """
    argparse ast collections/__init__ configparser contextlib csv dataclasses difflib enum fractions
    functools heapq inspect ipaddress json/decoder json/encoder logging/__init__ random shutil
    statistics string subprocess tarfile textwrap threading tokenize traceback typing
""".split()


class Block(nn.Module):
    """One transformer layer: every position looks back, then thinks for itself."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    def attend(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(
            0
        )  # each [B, heads, T, width / heads]
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, width))


class GPT(nn.Module):
    """A decoder-only transformer over `symbols` symbols with learned positions."""

    def __init__(self, symbols, context, width=128, layers=3, heads=4):
        super().__init__()
        self.context = context
        self.symbol = nn.Embedding(symbols, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, symbols)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)

    def forward(self, text):
        """Scores [B, T, symbols] of the symbol after each one of text [B, T], T <= context."""
        positions = torch.arange(text.shape[1], device=text.device)
        x = self.symbol(text) + self.position(positions)
        return self.head(self.norm(self.blocks(x)))


def parse_options():
    parser = tools.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=tools.whole_number(1), default=600)
    parser.add_argument("--context", type=tools.whole_number(1), default=64, help="characters seen")
    parser.add_argument("--prompt", default="def ", help="what the sample starts with")
    parser.add_argument("--length", type=tools.whole_number(0), default=400, help="of the sample")
    tools.add_common_options(parser, out="runs/text", batch_size=16, lr=2e-3)
    return parser.parse_args()


def encode(text):
    """The characters of an ASCII text as a tensor of integers."""
    return torch.tensor(list(text.encode("ascii")))


def decode(symbols):
    """The inverse of encode."""
    return bytes(symbols.tolist()).decode("ascii")


def load_text(context, limit=1_000_000):
    """At most `limit` characters of the standard library: 90% to train on, then 10% to test on."""
    folder = pathlib.Path(sysconfig.get_path("stdlib"))
    files = [file for name in MODULES if (file := folder / f"{name}.py").is_file()]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    symbols = encode(text.encode("ascii", "ignore").decode("ascii")[:limit])
    cut = len(symbols) * 9 // 10
    train, test = symbols[:cut], symbols[cut:]
    if len(test) <= context:
        raise tools.UsageError(
            f"--context {context} is longer than the text in {folder} to test on"
        )
    return train, test


def draw_batch(text, size, context, device):
    """`size` pieces of text from random places, and the same moved on by one character."""
    starts = torch.randint(0, len(text) - context, (size, 1))
    pieces = text[starts + torch.arange(context + 1)].to(device)
    return pieces[:, :-1], pieces[:, 1:]


def loss_of(model, inputs, targets):
    """Mean cross-entropy, in nats per character."""
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def train_steps(model, context, text, size, optimizer, scheduler, device, progress, steps):
    """So many updates on batches of `size` pieces; returns the mean loss over all processes."""
    total = 0.0
    for _ in range(steps):
        loss = loss_of(model, *draw_batch(text, size, context, device))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        total += loss.item()
        progress.set_postfix(loss=f"{loss.item():.3f}")
        progress.update()
    return tools.mean_over_ranks(total, steps, device)


@torch.no_grad()
def evaluate(model, text, size, device, batches=8):
    """Mean loss on random pieces of the test text."""
    model.eval()
    losses = [
        loss_of(model, *draw_batch(text, size, model.context, device)).item()
        for _ in range(batches)
    ]
    model.train()
    return sum(losses) / batches


@torch.no_grad()
def write(model, prompt, length, device, temperature=0.7):
    """The prompt and `length` characters more, each drawn from what the model expects next."""
    model.eval()
    text = encode(prompt).to(device)
    for _ in range(length):
        scores = model(text[None, -model.context :])[0, -1]
        chances = F.softmax(scores / temperature, dim=-1)
        text = torch.cat([text, torch.multinomial(chances, 1)])
    return decode(text)


def schedule(steps):
    """Factor of the learning rate by step: a short climb, then half a cosine down to a tenth."""
    climb = min(100, max(1, steps // 10))

    def factor(step):
        if step < climb:
            return (step + 1) / climb
        done = min(1.0, (step - climb) / max(1, steps - climb))
        return 0.1 + 0.45 * (1 + math.cos(math.pi * done))

    return factor


def plot(history, path):
    """Training and test loss over the steps."""
    steps = [entry["step"] for entry in history]
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, [entry["train_loss"] for entry in history], marker=".", label="training")
    axes.plot(steps, [entry["test_loss"] for entry in history], marker=".", label="test")
    axes.set(xlabel="step", ylabel="loss (nats per character)")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def main():
    options = parse_options()
    if not options.prompt or not options.prompt.isascii():
        raise tools.UsageError("--prompt must be one ASCII character or more")
    device = tools.pick_device(options.device)
    rank, processes = tools.join_ranks(device)
    share = tools.share_of(options.batch_size, processes)
    train, test = load_text(options.context)

    torch.manual_seed(options.seed)
    model = GPT(SYMBOLS, options.context).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.1)
    scheduler = LambdaLR(optimizer, schedule(options.steps))
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    run = {"program": "train_text.py", "context": options.context}  # what checkpoints must agree on
    history = tools.resume(options.resume, run, parts, device) if options.resume else []
    done = history[-1]["step"] if history else 0
    if done >= options.steps:
        raise tools.UsageError(
            f"{options.resume} has {done} steps behind it: ask for more with --steps"
        )
    out = tools.make_folder(options.out)

    trained = nn.parallel.DistributedDataParallel(model) if processes > 1 else model

    size = sum(parameter.numel() for parameter in model.parameters())
    if rank == 0:
        print(f"{len(train) + len(test)} characters, {size} parameters, device {device}")
    begin = time.perf_counter()
    bar = {"total": options.steps, "initial": done, "unit": "step", "leave": False}
    with tqdm(**bar, disable=rank > 0) as progress:
        while done < options.steps:
            # a resumed run draws what an unbroken one would, and each process something else
            torch.manual_seed(options.seed + done + rank)
            steps = min(REPORT - done % REPORT, options.steps - done)
            train_loss = train_steps(
                trained,
                options.context,
                train,
                share,
                optimizer,
                scheduler,
                device,
                progress,
                steps,
            )
            done += steps
            if rank > 0:
                continue
            test_loss = evaluate(model, test, options.batch_size, device)
            history.append({"step": done, "train_loss": train_loss, "test_loss": test_loss})
            tools.save_checkpoint(out / "checkpoint.pt", run, parts, history)
            plot(history, out / "text.png")
            progress.write(f"step {done}  loss {train_loss:.3f}  test loss {test_loss:.3f}")
    if rank == 0:
        print(f"{time.perf_counter() - begin:.1f} s; a sample:\n")
        print(write(model, options.prompt, options.length, device))


if __name__ == "__main__":
    tools.run(main)
