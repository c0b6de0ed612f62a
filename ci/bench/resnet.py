"""A training step of a ResNet-50 (He et al., Deep residual learning, 2015; stride in the 3x3 convolutions)."""

import dataclasses

from workloads import PLAIN, Source, trainer


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of a network of bottlenecks and its batch."""

    images: int = 64
    side: int = 224
    width: int = 64
    blocks: tuple[int, ...] = (3, 4, 6, 3)
    classes: int = 1000


def network(torch, sizes):
    """images [n, 3, side, side] -> scores [n, classes]"""
    nn, relu = torch.nn, torch.nn.functional.relu

    def convolution(inputs, outputs, size, stride=1):
        layer = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        return nn.Sequential(layer, nn.BatchNorm2d(outputs))

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.first = convolution(inputs, width, 1)
            self.second = convolution(width, width, 3, stride)
            self.third = convolution(width, 4 * width, 1)
            self.beside = nn.Identity()
            if stride > 1 or inputs != 4 * width:
                self.beside = convolution(inputs, 4 * width, 1, stride)

        def forward(self, x):
            y = relu(self.second(relu(self.first(x))))
            return relu(self.third(y) + self.beside(x))

    layers = [convolution(3, sizes.width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = sizes.width
    for stage, count in enumerate(sizes.blocks):
        width = sizes.width << stage
        for i in range(count):
            layers.append(Bottleneck(inputs, width, 2 if i == 0 and stage else 1))
            inputs = 4 * width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, sizes.classes)]
    return nn.Sequential(*layers)


FULL = Sizes()


def step(torch, device, how=PLAIN, sizes=FULL):
    """A function that makes one training step and returns the loss before it."""
    source = Source(torch, device)
    model = source.fill(network(torch, sizes))
    inputs = source.normal(sizes.images, 3, sizes.side, sizes.side)
    targets = source.integers(sizes.classes, sizes.images)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def loss_of(model):
        return torch.nn.functional.cross_entropy(model(inputs), targets)

    return trainer(torch, device, model, optimizer, loss_of, how)
