"""Models and losses as people write them: ``make() -> (model, batch() -> (x, y), loss(model, x, y))``."""

from __future__ import annotations

from collections.abc import Callable

import gradlib as torch
import gradlib.nn.functional as F
from gradlib import nn

MODELS: dict[str, Callable] = {}


def model(make: Callable) -> Callable:
    MODELS[make.__name__] = make
    return make


@model
def resnet():
    class B(nn.Module):
        def __init__(self, i, o, st):
            super().__init__()
            self.c1 = nn.Conv2d(i, o, 3, st, 1, bias=False)
            self.b1 = nn.BatchNorm2d(o)
            self.c2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
            self.b2 = nn.BatchNorm2d(o)
            self.sc = (
                nn.Sequential()
                if st == 1 and i == o
                else nn.Sequential(nn.Conv2d(i, o, 1, st, bias=False), nn.BatchNorm2d(o))
            )

        def forward(self, x):
            out = F.relu(self.b1(self.c1(x)), inplace=True)
            out = self.b2(self.c2(out))
            out += self.sc(x)
            return F.relu(out, inplace=True)

    m = nn.Sequential(
        nn.Conv2d(3, 4, 3, 1, 1),
        B(4, 4, 1),
        B(4, 8, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    return (
        m,
        lambda: (torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))),
        lambda m, x, y: F.cross_entropy(m(x), y),
    )


@model
def unet():
    class U(nn.Module):
        def __init__(self):
            super().__init__()
            self.d = nn.Conv2d(1, 4, 3, padding=1)
            self.e = nn.Conv2d(4, 8, 3, padding=1)
            self.u = nn.ConvTranspose2d(8, 4, 2, 2)
            self.o = nn.Conv2d(8, 1, 1)
            self.n = nn.GroupNorm(2, 4)

        def forward(self, x):
            a = F.silu(self.n(self.d(x)))
            b = F.silu(self.e(F.max_pool2d(a, 2)))
            c = self.u(b)
            return self.o(torch.cat([a, c], 1))

    return (
        U(),
        lambda: (torch.randn(2, 1, 8, 8), torch.rand(2, 1, 8, 8)),
        lambda m, x, y: (
            F.binary_cross_entropy_with_logits(m(x), y) + F.mse_loss(torch.sigmoid(m(x)), y)
        ),
    )


@model
def vae():
    class V(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Linear(10, 8)
            self.mu = nn.Linear(8, 3)
            self.lv = nn.Linear(8, 3)
            self.d = nn.Linear(3, 10)

        def forward(self, x):
            h = F.relu(self.e(x))
            mu, lv = self.mu(h), self.lv(h)
            z = mu + torch.exp(0.5 * lv) * torch.randn_like(lv)
            return self.d(z), mu, lv

    def loss(m, x, y):
        r, mu, lv = m(x)
        return F.mse_loss(r, x, reduction="sum") - 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())

    return V(), lambda: (torch.randn(6, 10), torch.zeros(1)), loss


@model
def gru():
    class G(nn.Module):
        def __init__(self):
            super().__init__()
            self.e = nn.Embedding(20, 8)
            self.g = nn.GRU(8, 6, 2, batch_first=True, dropout=0.2, bidirectional=True)
            self.o = nn.Linear(12, 20)

        def forward(self, x):
            o, _ = self.g(self.e(x))
            return self.o(o)

    return (
        G(),
        lambda: (torch.randint(0, 20, (3, 7)), torch.randint(0, 20, (3, 7))),
        lambda m, x, y: F.cross_entropy(m(x).flatten(0, 1), y.flatten(), ignore_index=3),
    )


@model
def lstmcell():
    class L(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.LSTMCell(4, 6)
            self.o = nn.Linear(6, 4)

        def forward(self, x):
            h = torch.zeros(x.size(0), 6)
            c = torch.zeros(x.size(0), 6)
            out = []
            for t in range(x.size(1)):
                h, c = self.c(x[:, t], (h, c))
                out.append(self.o(h))
            return torch.stack(out, 1)

    return (
        L(),
        lambda: (torch.randn(3, 5, 4), torch.randn(3, 5, 4)),
        lambda m, x, y: F.l1_loss(m(x), y),
    )


@model
def transformer():
    m = nn.Transformer(8, 2, 1, 1, 16, dropout=0.1, batch_first=True)
    return (
        m,
        lambda: (torch.randn(2, 5, 8), torch.randn(2, 4, 8)),
        lambda m, x, y: (
            m(x, y, tgt_mask=nn.Transformer.generate_square_subsequent_mask(4)).pow(2).mean()
        ),
    )


@model
def vit():
    class V(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Conv2d(1, 8, 4, 4)
            self.cls = nn.Parameter(torch.zeros(1, 1, 8))
            self.pos = nn.Parameter(torch.randn(1, 5, 8) * 0.02)
            self.b = nn.TransformerEncoderLayer(
                8, 2, 16, 0.0, activation="gelu", batch_first=True, norm_first=True
            )
            self.h = nn.Linear(8, 3)

        def forward(self, x):
            x = self.p(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1) + self.pos
            return self.h(self.b(x)[:, 0])

    return (
        V(),
        lambda: (torch.randn(2, 1, 8, 8), torch.randint(0, 3, (2,))),
        lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1),
    )


@model
def gcn():
    E = torch.randint(0, 6, (2, 14))

    class G(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1 = nn.Linear(4, 8)
            self.l2 = nn.Linear(8, 3)
            self.register_buffer("e", E)

        def prop(self, h):
            src, dst = self.e
            out = torch.zeros_like(h).index_add_(0, dst, h[src])
            deg = torch.zeros(h.size(0)).scatter_add_(0, dst, torch.ones(dst.numel()))
            return out / deg.clamp(min=1)[:, None]

        def forward(self, x):
            return self.l2(self.prop(F.relu(self.l1(self.prop(x)))))

    return (
        G(),
        lambda: (torch.randn(6, 4), torch.randint(0, 3, (6,))),
        lambda m, x, y: F.nll_loss(F.log_softmax(m(x), 1), y),
    )


@model
def gat():
    E = torch.randint(0, 6, (2, 14))

    class G(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Linear(4, 8)
            self.a = nn.Parameter(torch.randn(16) * 0.1)
            self.o = nn.Linear(8, 3)

        def forward(self, x):
            h = self.w(x)
            src, dst = E
            e = F.leaky_relu((torch.cat([h[src], h[dst]], 1) * self.a).sum(1), 0.2)
            mx = torch.full((6,), -1e9).scatter_reduce(0, dst, e, "amax")
            ex = (e - mx[dst]).exp()
            den = torch.zeros(6).index_add(0, dst, ex)
            al = ex / (den[dst] + 1e-9)
            return self.o(F.elu(torch.zeros(6, 8).index_add(0, dst, al[:, None] * h[src])))

    return (
        G(),
        lambda: (torch.randn(6, 4), torch.randint(0, 3, (6,))),
        lambda m, x, y: F.cross_entropy(m(x), y),
    )


@model
def dqn():
    m = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    tgt = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    tgt.load_state_dict(m.state_dict())

    def loss(m, x, y):
        s, a, r, s2 = x[:, :4], y[:, 0].long().clamp(0, 2), y[:, 1], x[:, 4:]
        q = m(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            t = r + 0.9 * tgt(s2).max(1)[0]
        found = F.smooth_l1_loss(q, t)
        with torch.no_grad():
            for p, q_ in zip(m.parameters(), tgt.parameters()):
                q_.mul_(0.99).add_(p, alpha=0.01)
        return found

    return m, lambda: (torch.randn(5, 8), torch.randn(5, 2)), loss


@model
def ppo():
    class P(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = nn.Linear(4, 8)
            self.pi = nn.Linear(8, 3)
            self.v = nn.Linear(8, 1)

        def forward(self, x):
            h = torch.tanh(self.b(x))
            return torch.distributions.Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)

    def loss(m, x, y):
        d, v = m(x)
        a = y[:, 0].long().clamp(0, 2)
        lp = d.log_prob(a)
        ratio = (lp - y[:, 1]).exp()
        adv = y[:, 2]
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        return pg + 0.5 * F.mse_loss(v, y[:, 3]) - 0.01 * d.entropy().mean()

    return P(), lambda: (torch.randn(6, 4), torch.randn(6, 4)), loss


@model
def sac():
    class P(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = nn.Linear(4, 8)
            self.mu = nn.Linear(8, 2)
            self.ls = nn.Linear(8, 2)

        def forward(self, x):
            h = F.relu(self.b(x))
            return torch.distributions.Normal(self.mu(h), self.ls(h).clamp(-5, 2).exp())

    def loss(m, x, y):
        d = m(x)
        u = d.rsample()
        a = torch.tanh(u)
        lp = (d.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(1)
        return (0.2 * lp - (a * y).sum(1)).mean()

    return P(), lambda: (torch.randn(6, 4), torch.randn(6, 2)), loss


@model
def diffusion():
    betas = torch.linspace(1e-4, 0.02, 10)
    ac = torch.cumprod(1 - betas, 0)

    class N(nn.Module):
        def __init__(self):
            super().__init__()
            self.t = nn.Embedding(10, 6)
            self.l = nn.Linear(4 + 6, 16)
            self.o = nn.Linear(16, 4)

        def forward(self, x, t):
            return self.o(F.silu(self.l(torch.cat([x, self.t(t)], 1))))

    def loss(m, x, y):
        t = torch.randint(0, 10, (x.size(0),))
        n = torch.randn_like(x)
        xt = ac[t].sqrt()[:, None] * x + (1 - ac[t]).sqrt()[:, None] * n
        return F.mse_loss(m(xt, t), n)

    return N(), lambda: (torch.randn(5, 4), torch.zeros(1)), loss


@model
def contrastive():
    m = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))

    def loss(m, x, y):
        a, b = F.normalize(m(x), dim=1), F.normalize(m(y), dim=1)
        z = torch.cat([a, b])
        s = z @ z.t() / 0.5
        s.fill_diagonal_(-1e9)
        n = x.size(0)
        t = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
        return F.cross_entropy(s, t)

    return m, lambda: (torch.randn(5, 6), torch.randn(5, 6)), loss


@model
def mixup():
    m = nn.Sequential(
        nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 3)
    )

    def loss(m, x, y):
        lam = torch.rand(())
        p = torch.randperm(x.size(0))
        xm = lam * x + (1 - lam) * x[p]
        o = m(xm)
        return lam * F.cross_entropy(o, y) + (1 - lam) * F.cross_entropy(o, y[p])

    return m, lambda: (torch.randn(5, 6), torch.randint(0, 3, (5,))), loss


@model
def maml_inner():
    m = nn.Linear(3, 1)

    def loss(m, x, y):
        ps = dict(m.named_parameters())
        found = F.mse_loss(torch.func.functional_call(m, ps, (x,)), y)
        g = torch.autograd.grad(found, list(ps.values()), create_graph=True)
        q = {k: p - 0.1 * gg for (k, p), gg in zip(ps.items(), g)}
        return F.mse_loss(torch.func.functional_call(m, q, (x + 0.1,)), y)

    return m, lambda: (torch.randn(5, 3), torch.randn(5, 1)), loss


@model
def pinn():
    m = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))

    def loss(m, x, y):
        x = x.clone().requires_grad_()
        u = m(x)
        (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        (d2,) = torch.autograd.grad(du.sum(), x, create_graph=True)
        return (d2 + u).pow(2).mean() + (m(torch.zeros(1, 1)) - 1).pow(2).sum()

    return m, lambda: (torch.randn(5, 1), torch.zeros(1)), loss


@model
def moe():
    class MoE(nn.Module):
        def __init__(self):
            super().__init__()
            self.g = nn.Linear(6, 3)
            self.e = nn.ModuleList([nn.Linear(6, 4) for _ in range(3)])

        def forward(self, x):
            w, i = self.g(x).softmax(1).topk(2, 1)
            out = 0
            for k, e in enumerate(self.e):
                out = out + e(x) * ((i == k).float() * w).sum(1, keepdim=True)
            return out

    return (
        MoE(),
        lambda: (torch.randn(5, 6), torch.randn(5, 4)),
        lambda m, x, y: F.huber_loss(m(x), y),
    )


@model
def weightnorm():
    m = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)),
        nn.ReLU(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(8, 4)),
    )
    return m, lambda: (torch.randn(5, 6), torch.randn(5, 4)), lambda m, x, y: F.mse_loss(m(x), y)


@model
def inplace_acts():
    m = nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.LeakyReLU(0.1, True),
        nn.Conv2d(4, 4, 3),
        nn.ELU(inplace=True),
        nn.Conv2d(4, 2, 1),
        nn.SiLU(True),
        nn.Hardswish(True),
        nn.ReLU6(True),
        nn.Flatten(),
        nn.Linear(2 * 4 * 4, 3),
        nn.Hardtanh(inplace=True),
        nn.CELU(inplace=True),
        nn.Mish(True),
    )
    return (
        m,
        lambda: (torch.randn(3, 2, 8, 8), torch.randn(3, 3)),
        lambda m, x, y: F.mse_loss(m(x), y),
    )
