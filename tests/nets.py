"""Random networks as programs: lines on `torch`, `nn` and `F`, with the names of `tests.oracle.found_programs`.

A network is made of blocks that fit each other, found by running them. `training` writes how it is trained: loss,
optimizer, schedule, clipping, averages, checkpoints; `transformed` how a transform is taken of it.
"""

from __future__ import annotations

import random
from typing import Any

import gradlib
from tests.oracle.found_programs import names_for

MODULES = """
class Residual(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f
    def forward(self, x):
        return x + self.f(x)

class Twice(Residual):
    def forward(self, x):
        return self.f(torch.tanh(self.f(x)))

class Checkpointed(Residual):
    def forward(self, x):
        return torch.utils.checkpoint.checkpoint(self.f, x, use_reentrant=False)

class First(Residual):
    def forward(self, x):
        return self.f(x)[0]

class Swapped(Residual):
    def forward(self, x):
        return self.f(x.transpose(1, 2)).transpose(1, 2)

class Scaled(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))
        self.more = nn.ParameterList([nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(n))])
    def forward(self, x):
        return x * self.w * self.more[0] + self.more[1]

class Centred(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("times", torch.tensor(0), persistent=False)
    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.lerp_(x.reshape(-1, x.shape[-1]).mean(0), 0.1)
                self.times += 1
        return x - self.mean

class Each(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f
    def forward(self, x):
        return self.f(x)

class Attention(nn.Module):
    def __init__(self, n, heads, **settings):
        super().__init__()
        self.a = nn.MultiheadAttention(n, heads, batch_first=True, **settings)
    def forward(self, x):
        out, weights = self.a(x, x, x, average_attn_weights=False)
        return out + weights.mean()

class Causal(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.q = nn.Linear(n, 3 * n, bias=False)
    def forward(self, x):
        return F.scaled_dot_product_attention(*self.q(x).chunk(3, -1), is_causal=True)

class Cell(nn.Module):
    def __init__(self, n, o):
        super().__init__()
        self.c, self.o = nn.GRUCell(n, o), o
    def forward(self, x):
        h, out = x.new_zeros(x.shape[0], self.o), []
        for t in range(x.shape[1]):
            h = self.c(x[:, t], h)
            out.append(h)
        return torch.stack(out, 1)

class Scan(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.a = nn.Parameter(torch.ones(n))
    def forward(self, x):
        y = torch.empty_like(x)
        y[:, 0] = x[:, 0]
        for t in range(1, x.shape[1]):
            y[:, t] = y[:, t - 1].clone() * self.a.tanh() + x[:, t]
        return y

def hooked(f):
    f.register_forward_pre_hook(lambda m, a: (a[0] * 1.5,))
    f.register_forward_hook(lambda m, a, out: out - 0.25 * out.detach())
    f.register_full_backward_hook(lambda m, gi, go: tuple(None if g is None else g * 2 for g in gi))
    f.register_full_backward_pre_hook(lambda m, go: tuple(None if g is None else g + 0.1 for g in go))
    return f
"""

ROWS = """
nn.Linear({n}, {o})|nn.Linear({n}, {o}, bias=False)|nn.Tanh()|nn.ReLU()|nn.ReLU(inplace=True)|nn.GELU()
|nn.Sigmoid()|nn.GELU(approximate='tanh')|nn.SiLU(inplace=True)|nn.Softplus(beta=2.0)|nn.ELU(inplace=True)
|nn.Hardswish()|nn.PReLU()|nn.LeakyReLU(0.2)|nn.PReLU({n})|nn.Mish()|nn.Softmax(-1)|nn.LogSoftmax(dim=1)
|nn.Softsign()|nn.Hardtanh(-0.5, 0.7)|nn.BatchNorm1d({n})|nn.BatchNorm1d({n}, affine=False, momentum=None)
|nn.BatchNorm1d({n}, track_running_stats=False)|nn.LayerNorm({n})|nn.LayerNorm({n}, elementwise_affine=False)
|nn.RMSNorm({n})|nn.GroupNorm(1, {n})|nn.Dropout(0.0)|Residual(nn.Linear({n}, {n}))
|Residual(nn.Sequential(nn.Linear({n}, {o}), nn.Tanh(), nn.Linear({o}, {n})))|Scaled({n})|Centred({n})
|Checkpointed(nn.Sequential(nn.Linear({n}, {o}), nn.Tanh()))|Twice(nn.Linear({n}, {n}))
|hooked(nn.Linear({n}, {o}))|nn.Unflatten(1, ({n}, 1))|nn.Linear({n}, {o})
"""
SEQUENCES = """
nn.Linear({n}, {o})|nn.Tanh()|nn.LayerNorm(({m}, {n}))|nn.LayerNorm({n})|nn.Flatten()|nn.ReLU()|Scan({n})
|Cell({n}, {o})|First(nn.LSTM({n}, {o}, num_layers=2, batch_first=True))
|First(nn.GRU({n}, {o}, batch_first=True, bidirectional=True))
|First(nn.RNN({n}, {o}, nonlinearity='relu', batch_first=True))
|First(nn.LSTM({n}, 3, proj_size=2, batch_first=True))|Attention({n}, 1)|Attention({n}, {n}, bias=False)
|Attention({n}, 1, add_zero_attn=True)|Attention({n}, 1, add_bias_kv=True)
|nn.TransformerEncoderLayer({n}, 1, {o}, dropout=0.0, activation=F.gelu, batch_first=True, norm_first=True)
|Causal({n})|Swapped(nn.Conv1d({n}, {o}, 2, padding=1))|Swapped(nn.BatchNorm1d({n}))
|Swapped(nn.InstanceNorm1d({n}, affine=True))|Swapped(nn.AvgPool1d(2))|Swapped(nn.MaxPool1d(2, ceil_mode=True))
|Swapped(nn.AdaptiveAvgPool1d(2))|Centred({n})|Swapped(nn.ConvTranspose1d({n}, {o}, 2))
|Swapped(nn.ReflectionPad1d(1))|Swapped(nn.Upsample(scale_factor=2))|Each(lambda x: x.mean(1))
|Each(lambda x: x.logsumexp(1))|Each(lambda x: x.cumsum(1) * 0.5)|Each(lambda x: x.amax(1))
"""
IMAGES = """
nn.Conv2d({c}, {o}, 2)|nn.Conv2d({c}, {o}, 3, padding=1, padding_mode='reflect')
|nn.Conv2d({c}, {o}, 2, stride=2)|nn.Conv2d({c}, {o}, 1, bias=False)
|nn.Conv2d({c}, {c}, 3, padding='same', groups={c})|nn.ConvTranspose2d({c}, {o}, 2, stride=2)
|nn.BatchNorm2d({c})|nn.GroupNorm(1, {c})|nn.InstanceNorm2d({c}, affine=True, track_running_stats=True)
|nn.ReLU(inplace=True)|nn.MaxPool2d(2)|nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False)
|nn.AdaptiveAvgPool2d((2, 3))|nn.AdaptiveMaxPool2d(2)|nn.Flatten()|nn.Flatten(2)
|nn.Upsample(scale_factor=2, mode='bilinear')|nn.Upsample(size=(3, 4), mode='bicubic')|nn.SiLU()
|nn.Upsample(scale_factor=2)|nn.ZeroPad2d((1, 0, 0, 1))|nn.Softmax2d()|nn.LocalResponseNorm(2)|nn.PReLU({c})
|nn.PixelUnshuffle(2)|nn.Unfold(2)|Residual(nn.Conv2d({c}, {c}, 1))|Checkpointed(nn.Conv2d({c}, {o}, 1))
|Each(lambda x: x.permute(0, 2, 3, 1).flatten(1, 2))
"""
BLOCKS = {2: ROWS, 3: SEQUENCES, 4: IMAGES}
SHAPES = [(3, 4), (4, 5), (2, 3, 4), (3, 2, 2), (2, 2, 4, 4), (3, 1, 5, 6)]
LOSSES = """
F.mse_loss(out, y)|F.smooth_l1_loss(out, y, beta=0.5)|F.huber_loss(out, y, delta=0.3)|(out * y).sum()|out.norm()
|F.binary_cross_entropy_with_logits(out, torch.sigmoid(y))|F.gaussian_nll_loss(out, y, torch.ones_like(y))
|out.exp().mean().log()|F.poisson_nll_loss(out, y.abs())|F.cosine_similarity(out, y, dim=-1).sum()
|out.pow(2).mean() + out.std()|F.kl_div(F.log_softmax(out, -1), F.softmax(y, -1), reduction='batchmean')
|torch.logsumexp(out, -1).mean()|F.cross_entropy(out, torch.softmax(y, 1), label_smoothing=0.1)
|F.cross_entropy(out, y.argmax(1), reduction='sum')
"""
OPTIMIZERS = """
SGD(P, lr=0.05)|SGD(P, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)|Adam(P, lr=0.01, amsgrad=True)
|SGD(P, lr=0.05, momentum=0.9, dampening=0.1, maximize=True)|AdamW(P, lr=0.01, weight_decay=0.1)
|NAdam(P, lr=0.01)|RAdam(P, lr=0.01)|Adam(P, lr=0.01, weight_decay=0.1, foreach=True)
|Adam(P, lr=0.01, foreach=False)|Adamax(P, lr=0.01)|Adadelta(P, rho=0.8)|ASGD(P, lr=0.05, t0=1)
"""
SCHEDULES = """
StepLR(opt, 2)|MultiStepLR(opt, [1, 3], gamma=0.3)|ExponentialLR(opt, 0.9)|CosineAnnealingLR(opt, 4)
|CosineAnnealingWarmRestarts(opt, 2, 2)|OneCycleLR(opt, max_lr=0.1, total_steps=10, cycle_momentum=False)
|LinearLR(opt, total_iters=3)|PolynomialLR(opt, total_iters=4, power=2.0)|LambdaLR(opt, lambda e: 0.95 ** e)
|ConstantLR(opt, 0.5, total_iters=2)
"""
CLIPS = """
nn.utils.clip_grad_norm_(P, 0.5)|nn.utils.clip_grad_value_(P, 0.05)
|nn.utils.clip_grad_norm_(P, 0.3, norm_type=float('inf'))
|nn.utils.clip_grad_norm_(P, 0.3, norm_type=1, foreach=False)
"""
AVERAGES = "|, use_buffers=True|, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)"

# transforms of `f`, the loss as a function of x, of `f1`, that of one sample, or of `net`; and the same by passes
TRANSFORMS = {
    "func.grad(f)(x)": "G(f, x)",
    "func.vjp(f, x)[1](torch.ones_like(f(x)) * 2)[0]": "2 * G(f, x)",
    "func.jvp(f, (x,), (u,))[1]": "(G(f, x) * u).sum()",
    "func.jvp(net, (x,), (u,))[1]": "J(net, x, u)",
    "func.vmap(f1)(x, y)": "torch.stack([f1(a, b) for a, b in zip(x, y)])",
    "func.vmap(func.grad(f1))(x, y)": "torch.stack([G(lambda a: f1(a, b), a) for a, b in zip(x, y)])",
    "func.vmap(lambda a, b, v: func.jvp(lambda a: f1(a, b), (a,), (v,))[1])(x, y, u)":
        "torch.stack([(G(lambda a: f1(a, b), a) * v).sum() for a, b, v in zip(x, y, u)])",
    "func.jvp(func.grad(f), (x,), (u,))[1]": "H(f, x, u)",
    "func.grad(lambda x: func.jvp(f, (x,), (u,))[1])(x)": "H(f, x, u)",
    "func.grad(lambda x: (func.grad(f)(x) * u).sum())(x)": "H(f, x, u)",
    "func.jvp(lambda x: func.jvp(f, (x,), (u,))[1], (x,), (u,))[1]": "(H(f, x, u) * u).sum()",
    "func.vmap(lambda a, b, v: func.jvp(func.grad(lambda a: f1(a, b)), (a,), (v,))[1])(x, y, u)":
        "torch.stack([H(lambda a: f1(a, b), a, v) for a, b, v in zip(x, y, u)])",
}  # fmt: skip
PASSES = """
def G(f, x):
    x = x.detach().clone().requires_grad_()
    return torch.autograd.grad(f(x), x, create_graph=True)[0]
def H(f, x, u):
    x = x.detach().clone().requires_grad_()
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    if not g.requires_grad:
        return torch.zeros_like(x)
    (h,) = torch.autograd.grad((g * u).sum(), x, create_graph=True, allow_unused=True)
    return torch.zeros_like(x) if h is None else h
def J(f, x, u):
    x = x.detach().clone().requires_grad_()
    y = f(x)
    c = torch.zeros_like(y).requires_grad_()
    (g,) = torch.autograd.grad(y, x, c, create_graph=True)
    return torch.autograd.grad((g * u).sum(), c, create_graph=True)[0]
"""


class Net(random.Random):
    """The network of a seed; a plain one has no hooks and no checkpoints.

    blocks: as text. shapes: of what goes in and comes out. lines: of a program, so far.
    """

    def __init__(self, seed: int, plain: bool = False):
        super().__init__(seed)
        self.names: Any = names_for("gradlib")
        exec(MODULES, self.names)
        self.blocks: list[str] = []
        while not self.blocks:
            x = self.names["D"](1, *self.choice(SHAPES))
            self.shapes = tuple(x.shape), ()
            for _ in range(self.randint(2, 6)):
                x = self._one_more(x, plain)
        self.shapes = self.shapes[0], tuple(x.shape)
        inside = ",\n    ".join(self.blocks)
        self.lines = [MODULES, f"net = fill(nn.Sequential({inside}).double())"]
        self.lines.append(f"x, y = D(1, *{self.shapes[0]}), D(2, *{self.shapes[1]})")
        self.lines.append(f"def criterion(out, y):\n    return {self.one(LOSSES)}")

    def one(self, texts: str) -> str:
        return self.choice(texts.replace("\n", "").split("|"))

    def chance(self, p: float) -> bool:
        return self.random() < p

    def _one_more(self, x: gradlib.Tensor, plain: bool) -> gradlib.Tensor:
        """What the next block makes of x; x where none of a few fits."""
        for _ in range(5):
            text = self.one(BLOCKS.get(x.ndim, "nn.Flatten()"))
            c, m, n = (x.shape[min(1, x.ndim - 1)], x.shape[-2], x.shape[-1])
            text = text.format(n=n, m=m, c=c, o=self.randint(2, 5))
            if plain and text.startswith(("hooked", "Checkpointed")):
                continue
            try:
                out = self.names["fill"](eval(text, self.names).double())(x).detach()
            except (RuntimeError, ValueError, AssertionError, NotImplementedError):
                continue
            if out.numel() and out.ndim in BLOCKS and out.isfinite().all():
                self.blocks.append(text)
                return out
        return x


def training(seed: int, steps: int = 4) -> str:
    """A program that trains the network of a seed; each step is ``one()``, made by ``step(one)``."""
    net = Net(seed)
    lines = net.lines
    if net.chance(0.2):
        lines.append("net = copy.deepcopy(net)")
    if net.chance(0.3):
        lines.append("x.requires_grad_()")
    lines += ["P = list(net.parameters()) or [nn.Parameter(D(3, 2))]"]
    lines.append(f"opt = torch.optim.{net.one(OPTIMIZERS)}")
    schedule, average = net.chance(0.5), net.chance(0.2)
    if schedule:
        lines.append(f"schedule = torch.optim.lr_scheduler.{net.one(SCHEDULES)}")
    if average:
        lines.append(f"mean = torch.optim.swa_utils.AveragedModel(net{net.one(AVERAGES)})")
    body = [net.one("opt.zero_grad()|opt.zero_grad(set_to_none=False)|net.zero_grad()")]
    if net.chance(0.2):
        body += [
            "for k in range(2):",
            "    loss = criterion(net(x * (1 + 0.1 * k)), y) / 2",
            "    loss.backward()",
        ]
    else:
        body += ["loss = criterion(net(x), y)", "loss.backward()"]
    if net.chance(0.5):
        body.append(net.one(CLIPS))
    body += ["opt.step()", "return loss.detach()"]
    lines += [
        "def one():",
        *[f"    {x}" for x in body],
        "one = step(one)",
        f"for k in range({steps}):",
        "    log(one())",
    ]
    if schedule:
        lines += ["    schedule.step()", "    log([float(g['lr']) for g in opt.param_groups])"]
    if average:
        lines.append("    mean.update_parameters(net)")
    if net.chance(0.2):
        lines += ["    if k == 1:", "        opt.load_state_dict(copy.deepcopy(opt.state_dict()))"]
    if average:
        lines.append("log(list(mean.parameters()))")
    lines += [
        "log([p.grad for p in P], x.grad)",
        "log(sorted(net.state_dict().items()))",
        "log(net.eval()(x))",
    ]
    return "\n".join(lines)


def transformed(seed: int) -> tuple[str, str]:
    """A program with a transform of the network of a seed, and one with the same by backward passes."""
    net = Net(seed, plain=True)
    transform = net.choice([*TRANSFORMS])
    lines = [*net.lines, "net.eval()"]  # a pass more or less changes nothing
    lines += [f"u = D(4, *{net.shapes[0]})", "f = lambda x: criterion(net(x), y)"]
    lines += ["f1 = lambda a, b: criterion(net(a[None]), b[None])", PASSES]
    end = ["log(out.detach())", "(out**2).sum().backward() if out.requires_grad else None"]
    end.append("log([torch.zeros_like(p) if p.grad is None else p.grad for p in net.parameters()])")
    made = [[*lines, f"out = {text}", *end] for text in (transform, TRANSFORMS[transform])]
    return "\n".join(made[0]), "\n".join(made[1])


def shaken(program: str) -> str:
    """The program with numbers that are a little off: what then differs says nothing."""
    others = "[p.data.mul_(1 + 1e-13 * k) for k, p in enumerate(net.parameters(), 1)]"
    start = f"{others}\nx, y = (lambda *s: D(1, *s) + 1e-13 * D(9, *s))(*"
    return program.replace("x, y = D(1, *", start, 1)
