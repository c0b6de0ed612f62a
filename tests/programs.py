"""Programs as people write them for PyTorch: each takes the library and a device, and returns numbers to compare.

`tests/oracle` runs them on gradlib and PyTorch, `tests_gpu` on the CPU and a CUDA device. What is random comes from
NumPy, so that both see the same.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np


class Source:
    """Reproducible numbers as tensors of a library on a device."""

    def __init__(self, torch: Any, device: str):
        self.torch, self.device, self.draw = torch, device, np.random.RandomState(0)

    def normal(self, *shape: int) -> Any:
        return self.on_device(self.draw.randn(*shape).astype("f"))

    def uniform(self, *shape: int) -> Any:
        return self.on_device(self.draw.rand(*shape).astype("f"))

    def classes(self, n: int, *shape: int) -> Any:
        return self.on_device(self.draw.randint(0, n, shape))

    def on_device(self, array: np.ndarray) -> Any:
        return self.torch.from_numpy(array).to(self.device)

    def filled(self, module: Any) -> Any:
        """The module on the device, with parameters that do not depend on the library's generator."""
        draw = np.random.RandomState(1)
        with self.torch.no_grad():
            for _, p in sorted(module.named_parameters()):
                p.copy_(self.torch.from_numpy(draw.randn(*p.shape).astype("f") * 0.2))
        return module.to(self.device)


def image_classifier(torch, device):
    nn, functional, source = torch.nn, torch.nn.functional, Source(torch, device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
            self.norm, self.dropout = nn.BatchNorm2d(8), nn.Dropout2d(0.0)
            self.fc1, self.fc2 = nn.Linear(8 * 5 * 5, 16), nn.Linear(16, 10)

        def forward(self, x):
            x = functional.relu(self.conv1(x))
            x = functional.max_pool2d(functional.relu(self.norm(self.conv2(x))), 2)
            x = torch.flatten(self.dropout(x), 1)
            return functional.log_softmax(self.fc2(functional.relu(self.fc1(x))), dim=1)

    net, images, labels = source.filled(Net()), source.normal(32, 1, 14, 14), source.classes(10, 32)
    data = torch.utils.data
    loader = data.DataLoader(data.TensorDataset(images, labels), batch_size=8, drop_last=True)
    optimizer = torch.optim.Adadelta(net.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.7)
    for _ in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = functional.nll_loss(net(x), y)
            loss.backward()
            optimizer.step()
        scheduler.step()
    net.eval()
    with torch.no_grad():
        guesses = net(images).argmax(dim=1, keepdim=True)
    right = guesses.eq(labels.view_as(guesses)).sum().item()

    features, gradients = [], []  # and Grad-CAM
    hooks = [
        net.conv2.register_forward_hook(lambda module, inputs, out: features.append(out)),
        net.conv2.register_full_backward_hook(lambda module, to, come: gradients.append(come[0])),
    ]
    net(images[:2])[:, 3].sum().backward()
    for hook in hooks:
        hook.remove()
    weights = gradients[0].mean((2, 3), keepdim=True)
    cam = functional.relu((weights * features[0]).sum(1, keepdim=True))
    cam = functional.interpolate(cam, size=(14, 14), mode="bilinear", align_corners=False)
    return [loss, right, scheduler.get_last_lr(), cam]


def variational_autoencoder(torch, device):
    nn, functional, source = torch.nn, torch.nn.functional, Source(torch, device)
    encoder = source.filled(nn.Linear(20, 12))
    mean, spread = source.filled(nn.Linear(12, 3)), source.filled(nn.Linear(12, 3))
    layers = [nn.Linear(3, 12), nn.ReLU(inplace=True), nn.Linear(12, 20), nn.Sigmoid()]
    decoder = source.filled(nn.Sequential(*layers))
    parameters = [p for m in (encoder, mean, spread, decoder) for p in m.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2)
    x, noise = source.uniform(8, 20), source.normal(8, 3)
    for _ in range(5):
        hidden = functional.relu(encoder(x))
        mu, logvar = mean(hidden), spread(hidden)
        made = decoder(mu + noise * torch.exp(0.5 * logvar))
        loss = functional.binary_cross_entropy(made, x, reduction="sum")
        loss = loss - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(parameters, 0.5)
        optimizer.step()
    return [loss, *parameters]


def packed_sequences(torch, device):
    nn, source = torch.nn, Source(torch, device)
    embedding = source.filled(nn.Embedding(10, 6, padding_idx=0))
    lstm = nn.LSTM(6, 5, num_layers=2, batch_first=True, bidirectional=True)
    lstm = source.filled(lstm)
    words = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0], [7, 8, 9, 0]], device=device)
    lengths = torch.tensor([4, 2, 3])
    rnn = nn.utils.rnn
    packed = rnn.pack_padded_sequence(
        embedding(words), lengths, batch_first=True, enforce_sorted=False
    )
    out, (h, c) = lstm(packed)
    out, lengths = rnn.pad_packed_sequence(out, batch_first=True)
    (out.sum() + h.pow(2).sum()).backward()
    return [out, h, c, lengths, embedding.weight.grad, *(p.grad for p in lstm.parameters())]


def adversarial_training(torch, device):
    nn, source = torch.nn, Source(torch, device)
    layers = [nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.BatchNorm1d(8), nn.Linear(8, 6), nn.Tanh()]
    maker = source.filled(nn.Sequential(*layers))
    layers = [nn.Linear(6, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1)]
    judge = source.filled(nn.Sequential(*layers))
    steps = [torch.optim.RMSprop(m.parameters(), 1e-3) for m in (maker, judge)]
    loss, yes, no = (
        nn.BCEWithLogitsLoss(),
        torch.ones(8, 1, device=device),
        torch.zeros(8, 1, device=device),
    )
    real, noise = source.normal(8, 6), source.normal(8, 4)
    for _ in range(3):
        judge.zero_grad()
        fake = maker(noise)
        judged = loss(judge(real), yes) + loss(judge(fake.detach()), no)
        judged.backward()
        steps[1].step()
        maker.zero_grad()
        made = loss(judge(fake), yes)
        made.backward()
        steps[0].step()
    between = (0.3 * real + 0.7 * fake.detach()).requires_grad_(True)
    (slope,) = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
    penalty = ((slope.norm(2, dim=1) - 1) ** 2).mean()
    penalty.backward()
    return [judged, made, penalty, *(p.grad for p in judge.parameters() if p.grad is not None)]


def transformer(torch, device):
    nn, source = torch.nn, Source(torch, device)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = source.filled(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    padding = source.on_device(np.array([[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]) > 0)
    padding = torch.zeros(3, 5, device=device).masked_fill(padding, float("-inf"))
    mask = nn.Transformer.generate_square_subsequent_mask(5, device=device)
    out = encoder(source.normal(3, 5, 8), mask=mask, src_key_padding_mask=padding)
    out.pow(2).mean().backward()
    optimizer = torch.optim.AdamW(
        encoder.parameters(), lr=1e-3, weight_decay=0.1, betas=(0.9, 0.98)
    )
    warm_up = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) ** -0.5, (step + 1) * 4**-1.5)
    )
    optimizer.step()
    warm_up.step()
    return [out, optimizer.param_groups[0]["lr"], *encoder.parameters()]


def differentiated_twice(torch, device):
    """A step of meta-learning, and the residual of a differential equation."""
    nn, functional, source = torch.nn, torch.nn.functional, Source(torch, device)
    net = source.filled(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)))
    parameters, call = dict(net.named_parameters()), torch.func.functional_call
    x = torch.linspace(-1, 1, 7, device=device).unsqueeze(1)
    y = torch.sin(3 * x)
    inner = functional.mse_loss(call(net, parameters, (x,)), y)
    slopes = torch.autograd.grad(inner, list(parameters.values()), create_graph=True)
    adapted = {name: p - 0.1 * g for (name, p), g in zip(parameters.items(), slopes, strict=True)}
    outer = functional.mse_loss(call(net, adapted, (x,)), y)
    outer.backward()
    found = [outer, *(p.grad.clone() for p in net.parameters())]
    at = torch.linspace(0, 1, 6, device=device, requires_grad=True).reshape(-1, 1)
    u = net(at)
    ones = torch.ones_like(u)
    (du,) = torch.autograd.grad(u, at, ones, create_graph=True)
    (d2u,) = torch.autograd.grad(du, at, ones, create_graph=True)
    net.zero_grad()
    (d2u + u).pow(2).mean().backward()
    return [*found, net[2].weight.grad]


def transforms(torch, device):
    """An ensemble, gradients of each sample, a Hessian."""
    nn, functional, source, func = torch.nn, torch.nn.functional, Source(torch, device), torch.func
    nets = [source.filled(nn.Linear(3, 2)) for _ in range(4)]
    parameters, buffers = func.stack_module_state(nets)
    base, x, t = copy.deepcopy(nets[0]), source.normal(5, 3), source.normal(5, 2)

    def of_one(params, buffers, x):
        return func.functional_call(base, (params, buffers), (x,))

    together = torch.vmap(of_one, in_dims=(0, 0, None))(parameters, buffers, x)

    def loss(params, x, t):
        return functional.mse_loss(func.functional_call(base, params, (x[None],)), t[None])

    own = {k: v.detach() for k, v in base.named_parameters()}
    each = torch.vmap(func.grad(loss), in_dims=(None, 0, 0))(own, x, t)
    curved = func.hessian(lambda w: (w.sin() * w).sum())(torch.arange(3.0, device=device))
    return [together, *each.values(), curved]


def averages_and_schedules(torch, device):
    nn, functional, source = torch.nn, torch.nn.functional, Source(torch, device)
    net = source.filled(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)))
    swa = torch.optim.swa_utils
    average = swa.AveragedModel(net, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9))

    def optimizer_of(net):
        groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 1e-2}]
        return torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)

    optimizer = optimizer_of(net)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[0.1, 0.01], total_steps=8)
    x = torch.linspace(-1, 1, 7, device=device).unsqueeze(1)

    def step(net, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss = functional.smooth_l1_loss(net(x), torch.sin(3 * x))
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step(net, optimizer)
        schedule.step()
        average.update_parameters(net)
    other = copy.deepcopy(net)
    resumed = optimizer_of(other)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return [step(net, optimizer), step(other, resumed), schedule.get_last_lr(), *net.parameters(),
            *other.parameters(), *average.module.parameters()]  # fmt: skip


def second_order_optimizer(torch, device):
    w = torch.nn.Parameter(torch.tensor([3.0, -2.0], device=device))
    optimizer = torch.optim.LBFGS([w], lr=0.5, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (w[0] - 1) ** 2 + 10 * (w[1] - w[0] ** 2) ** 2
        loss.backward()
        return loss

    return [*(optimizer.step(closure) for _ in range(5)), w]


PROGRAMS = [
    image_classifier, variational_autoencoder, packed_sequences, adversarial_training, transformer,
    differentiated_twice, transforms, averages_and_schedules, second_order_optimizer,
]  # fmt: skip


def numbers(results: list) -> list[np.ndarray]:
    """What a program returned, as arrays."""
    return [
        np.asarray(r.detach().cpu().numpy() if hasattr(r, "detach") else r, np.float64)
        for r in results
    ]


def assert_same(found: list, expected: list, rtol: float = 2e-4, atol: float = 2e-5) -> None:
    """The results of two runs are the same numbers."""
    for a, b in zip(numbers(found), numbers(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
