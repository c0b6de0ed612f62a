"""Train a convolutional network to read handwritten digits.

The 1797 images of 8x8 pixels come with scikit-learn, so nothing is downloaded. Every epoch prints
the accuracy on the fifth of the images kept for testing, redraws the plot, and writes a checkpoint.
From that, `--resume` continues exactly as if the run had never stopped.

    python examples/train_digits.py
    python examples/train_digits.py --epochs 20 --resume runs/digits/checkpoint.pt
    python -m gradlib.distributed.run --nproc-per-node 2 examples/train_digits.py
    mpiexec -n 2 python examples/train_digits.py

Several processes divide each batch among them; a checkpoint does not know how many they were.
"""

import math
import time

import script_tools as tools
from matplotlib.figure import Figure  # without pyplot: needs no display
from sklearn.datasets import load_digits
from tqdm import tqdm

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from gradlib.optim.lr_scheduler import LambdaLR
from gradlib.utils.data import DataLoader, DistributedSampler, TensorDataset


class DigitNet(nn.Module):
    """Three convolutions, each normalised and rectified, two poolings, and a linear layer."""

    def __init__(self, channels=24):
        super().__init__()
        self.features = nn.Sequential(
            *self.block(1, channels),  # [N, 1, 8, 8] -> [N, 24, 8, 8]
            *self.block(channels, channels),
            nn.MaxPool2d(2),  # -> [N, 24, 4, 4]
            *self.block(channels, 2 * channels),
            nn.MaxPool2d(2),  # -> [N, 48, 2, 2]
        )
        self.dropout = nn.Dropout(0.1)
        self.classify = nn.Linear(2 * channels * 2 * 2, 10)

    @staticmethod
    def block(inputs, outputs):
        convolution = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
        return convolution, nn.BatchNorm2d(outputs), nn.ReLU()

    def forward(self, images):
        """Scores [N, 10] for images [N, 1, 8, 8]."""
        return self.classify(self.dropout(self.features(images).flatten(1)))


def parse_options():
    parser = tools.Parser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=tools.whole_number(1), default=15)
    parser.add_argument("--limit", type=tools.whole_number(1), help="use only so many images")
    tools.add_common_options(parser, out="runs/digits", batch_size=64, lr=0.01)
    return parser.parse_args()


def load_images(seed, limit=None):
    """Images in [-1, 1] and labels, split by a seeded permutation: 80% to train, 20% to test."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(digits.target, dtype=torch.int64)
    torch.manual_seed(seed)
    order = torch.randperm(len(labels))[:limit]
    cut = len(order) * 4 // 5
    if cut == 0:
        raise tools.UsageError("--limit must leave at least 2 images")
    train, test = order[:cut], order[cut:]
    return TensorDataset(images[train], labels[train]), (images[test], labels[test])


def shift(images):
    """Each image moved by up to one pixel along each axis: the same digits, written elsewhere."""
    count, _, height, width = images.shape
    padded = F.pad(images, (1, 1, 1, 1), value=-1.0)
    down, right = torch.randint(0, 3, (2, count, 1), device=images.device)
    rows = (torch.arange(height, device=images.device) + down).unsqueeze(2)  # [N, 8, 1]
    columns = (torch.arange(width, device=images.device) + right).unsqueeze(1)  # [N, 1, 8]
    image = torch.arange(count, device=images.device).view(-1, 1, 1)
    return padded[image, 0, rows, columns].unsqueeze(1)


def schedule(steps):
    """Factor of the learning rate by step: a short climb, then half a cosine down to zero."""
    climb = max(1, steps // 10)

    def factor(step):
        if step < climb:
            return (step + 1) / climb
        return 0.5 * (1 + math.cos(math.pi * min(1, (step - climb) / max(1, steps - climb))))

    return factor


def train_epoch(model, batches, optimizer, scheduler, device, title, quiet):
    """One pass over the training images; returns the mean loss."""
    model.train()
    total = count = 0
    with tqdm(batches, desc=title, unit="batch", leave=False, disable=quiet) as progress:
        for images, labels in progress:
            images, labels = shift(images.to(device)), labels.to(device)
            loss = F.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(labels)
            count += len(labels)
            progress.set_postfix(loss=f"{total / count:.4f}")
    return tools.mean_over_ranks(total, count, device)


@torch.no_grad()
def evaluate(model, images, labels, device):
    """Mean loss and share of right answers on the test images."""
    model.eval()
    scores, labels = model(images.to(device)), labels.to(device)
    right = (scores.argmax(dim=1) == labels).float().mean()
    return F.cross_entropy(scores, labels).item(), right.item()


def plot(history, path):
    """Losses and test accuracy over the epochs."""
    epochs = [entry["epoch"] for entry in history]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(epochs, [entry["train_loss"] for entry in history], marker=".", label="training")
    left.plot(epochs, [entry["test_loss"] for entry in history], marker=".", label="test")
    left.set(xlabel="epoch", ylabel="cross-entropy", yscale="log")
    left.legend()
    right.plot(
        epochs, [100 * entry["accuracy"] for entry in history], marker=".", color="tab:green"
    )
    right.set(xlabel="epoch", ylabel="test accuracy (%)")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def main():
    options = parse_options()
    device = tools.pick_device(options.device)
    rank, size = tools.join_ranks(device)
    train, (test_images, test_labels) = load_images(options.seed, options.limit)
    sampler = DistributedSampler(train, size, rank, seed=options.seed) if size > 1 else None
    share = tools.share_of(options.batch_size, size)
    batches = DataLoader(train, batch_size=share, shuffle=sampler is None, sampler=sampler)

    torch.manual_seed(options.seed)
    model = DigitNet().to(device)
    if size > 1:  # the statistics are those of the whole batch, as in one process
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, weight_decay=0.01)
    scheduler = LambdaLR(optimizer, schedule(options.epochs * len(batches)))
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}

    # What a checkpoint must agree on. The seed decides which images are for testing: with another
    # one, a resumed run would be tested on images that it was trained on.
    run = {"program": "train_digits.py", "seed": options.seed, "limit": options.limit}
    history = tools.resume(options.resume, run, parts, device) if options.resume else []
    if len(history) >= options.epochs:
        raise tools.UsageError(
            f"{options.resume} has {len(history)} epochs behind it: ask for more with --epochs"
        )
    out = tools.make_folder(options.out)
    trained = nn.parallel.DistributedDataParallel(model) if size > 1 else model

    if rank == 0:
        print(f"{len(train)} images to train on, {len(test_labels)} to test on, device {device}")
    start = time.perf_counter()
    for epoch in range(len(history) + 1, options.epochs + 1):
        # a resumed run draws what an unbroken one would, and each process something else
        torch.manual_seed(options.seed + epoch + 1000 * rank)
        if sampler is not None:
            sampler.set_epoch(epoch)
        title = f"epoch {epoch}/{options.epochs}"
        train_loss = train_epoch(
            trained, batches, optimizer, scheduler, device, title, quiet=rank > 0
        )
        if rank > 0:
            continue
        test_loss, accuracy = evaluate(model, test_images, test_labels, device)
        history.append(
            {"epoch": epoch, "train_loss": train_loss, "test_loss": test_loss, "accuracy": accuracy}
        )
        tools.save_checkpoint(out / "checkpoint.pt", run, parts, history)
        plot(history, out / "digits.png")
        print(f"{title}  loss {train_loss:.4f}  test loss {test_loss:.4f}  accuracy {accuracy:.2%}")
    seconds = time.perf_counter() - start
    if rank == 0:
        accuracy = history[-1]["accuracy"]
        print(f"test accuracy {accuracy:.2%} after {seconds:.1f} s; see {out}/digits.png")


if __name__ == "__main__":
    tools.run(main)
