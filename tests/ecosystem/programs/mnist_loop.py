"""The loop that most first programs have: a small convolutional network on images, train and test, a scheduler, a file.

Written as such programs are, with the calls they share; the images are made here, ten kinds of blobs.
"""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from exchange import fill, numbers, record, record_weights, save
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms


class Blobs(Dataset):
    """Images of 28 x 28 with one bright patch, whose place says the class."""

    def __init__(self, train, transform):
        count = 128 if train else 64
        noise = (numbers(f"images {train}", count, 28, 28) + 1) / 8
        self.targets = [i * 7 % 10 for i in range(count)]
        for image, target in zip(noise, self.targets, strict=True):
            row, column = divmod(target, 4)
            image[row * 9 : row * 9 + 7, column * 7 : column * 7 + 6] += 0.7
        self.images, self.transform = (noise * 255).clip(0, 255).astype("uint8"), transform

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, i):
        return self.transform(self.images[i]), self.targets[i]


class Classifier(nn.Module):
    def __init__(self, kinds=10):
        super().__init__()
        self.first = nn.Conv2d(1, 8, kernel_size=3)
        self.second = nn.Conv2d(8, 16, kernel_size=3, padding="same")
        self.drop = nn.Dropout2d(0.0)
        self.hidden = nn.Linear(16 * 6 * 6, 32)
        self.out = nn.Linear(32, kinds)

    def forward(self, images):
        maps = F.max_pool2d(F.relu(self.first(images)), 2)
        maps = F.max_pool2d(self.drop(F.relu(self.second(maps))), 2)
        return F.log_softmax(self.out(torch.relu(self.hidden(maps.flatten(1)))), dim=-1)


def train(model, loader, optimizer, device, epoch, every):
    model.train()
    for i, (images, kinds) in enumerate(loader):
        images, kinds = images.to(device, non_blocking=True), kinds.to(device)
        loss = F.nll_loss(model(images), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % every == 0:
            print(
                f"epoch {epoch}, {i * len(images):3d} of {len(loader.dataset)} images: {loss.item():.4f}"
            )
            record(f"train loss {epoch} {i}", loss)


@torch.no_grad()
def evaluate(model, loader, device, epoch):
    model.eval()
    total, right = 0.0, 0
    for images, kinds in loader:
        images, kinds = images.to(device), kinds.to(device)
        scores = model(images)
        total += F.nll_loss(scores, kinds, reduction="sum").item()
        right += (scores.max(1)[1] == kinds).sum().item()
    record(f"test loss {epoch}", torch.tensor(total / len(loader.dataset)))
    record(f"right {epoch}", right)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    args = parser.parse_args()
    torch.manual_seed(0)
    on_gpu = torch.accelerator.is_available()
    device = torch.accelerator.current_accelerator() if on_gpu else torch.device("cpu")
    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.2,), (0.3,))])
    loaders = [
        DataLoader(Blobs(part, transform), batch_size=32, num_workers=0, pin_memory=on_gpu)
        for part in (True, False)
    ]
    model = fill(Classifier()).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(args.epochs):
        train(model, loaders[0], optimizer, device, epoch, every=2)
        evaluate(model, loaders[1], device, epoch)
        scheduler.step()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "classifier.pt"
        torch.save(model.state_dict(), file)
        again = Classifier()
        again.load_state_dict(torch.load(file, map_location="cpu"))
    record_weights("saved", again)
    save()


if __name__ == "__main__":
    main()
