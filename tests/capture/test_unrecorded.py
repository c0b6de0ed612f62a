"""What happens outside of ops: checks of values that raise, memory without content, draws, writes to what they gave."""

from __future__ import annotations

import warnings

import pytest

import gradlib as torch
from gradlib import nn
from gradlib.nn import functional as F
from tests.capture.as_steps import facts

GOOD, BAD = torch.tensor([0, 2, 1]), torch.tensor([0, 3, 1])
INDEXED = {
    "gather": lambda x, i: x.gather(0, i[None]),
    "scatter": lambda x, i: torch.zeros(3, 3).scatter(0, i[None], x),
    "scatter_add_": lambda x, i: torch.zeros(3, 3).scatter_add_(1, i[None], x),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: torch.zeros(3, 3).index_add(0, i, x),
    "index_copy_": lambda x, i: torch.zeros(3, 3).index_copy_(0, i, x),
    "index_fill": lambda x, i: x.index_fill(1, i, 7.0),
    "take": lambda x, i: x[0].take(i),
    "index": lambda x, i: x[i],
    "index_put_": lambda x, i: torch.zeros(3, 3).index_put_((i,), x),
    "too few values": lambda x, i: torch.zeros(3).index_put_((i < 3,), x[0]),
    "embedding": lambda x, i: F.embedding(i, x),
    "one_hot": lambda x, i: F.one_hot(i, 3) * x,
    "nll_loss": lambda x, i: F.nll_loss(x, i),
    "cross_entropy": lambda x, i: F.cross_entropy(x, i),
    "bernoulli": lambda x, i: torch.bernoulli(i / 2.0),
    "multinomial": lambda x, i: torch.multinomial(2.0 - i, 2, replacement=True),
    "normal": lambda x, i: torch.normal(x[0], 2.0 - i),
    "poisson": lambda x, i: torch.poisson(2.0 - i),
    "masked_scatter": lambda x, i: x[0].masked_scatter((i != 1) & (i != 2), x[0, :1]),
    "multi_margin_loss": lambda x, i: F.multi_margin_loss(x, i),
    "quantile": lambda x, i: x.quantile(i / 2.0, 0) * 1,
    "categorical": lambda x, i: torch.distributions.Categorical(logits=x).log_prob(i) * 1,
}


def outcome(f, *args):
    try:
        return facts(f(*args))
    except Exception as exc:
        return type(exc).__name__, str(exc).split("\n")[0]


@pytest.mark.parametrize("name", INDEXED)
def test_checks_raise_in_replays(name):
    f, runs = INDEXED[name], []
    for wrap in (lambda f: f, torch.capture):
        torch.manual_seed(0)
        step, found = wrap(lambda x, i: f(x * 2, i)), []
        for k in range(8):
            index = BAD if k in (5, 7) else GOOD + 0
            found += [outcome(step, torch.ones(3, 3) * k, index), facts(torch.get_rng_state())]
        runs.append(found)
    assert runs[0] == runs[1]
    assert len(runs[0][10]) == 2, "it is an exception"
    assert step.replays == 1, torch.explain(step)


MADE = {
    "empty": "torch.empty(3)",
    "new_empty": "x.new_empty(3)",
    "empty_like": "torch.empty_like(x)",
    "rand": "torch.rand(3)",
    "bernoulli": "torch.bernoulli(x.sigmoid())",
    "bucketize": "torch.bucketize(x, torch.tensor([0.0, 1.0]))",
    "one_hot": "F.one_hot(x.long().clamp(0, 2), 3)[:, 0]",
    "zeros": "torch.zeros(3)",
    "tensor": "torch.tensor([1, 2, 3])",
}
WRITTEN = {
    "random_": "r.random_(5)",
    "bernoulli_": "r.bernoulli_(0.5)",
    "zero_": "r.zero_()",
    "copy_": "r.copy_(x)",
    "data": "r.data.copy_(x)",
    "detach": "r.detach().copy_(x)",
    "view": "r.view(3).copy_(x).add_(1)",
    "out of draws": "torch.randint(0, 9, (3,), out=r)",
    "out of an op": "torch.add(x, 1, out=r) if r.is_floating_point() else r.zero_()",
    "slices": "r[0] = x[1]\n    r[1:] = x[:2]",
    "init": "nn.init.constant_(r, 3.0)",
    "set_": "r.set_(x.to(r.dtype, copy=True))",
    "resize_": "r.resize_(2).fill_(4)\n    x = x[:2]",
    "nothing": "r = r if r.is_floating_point() and not DEFINED else r * 0",
}


@pytest.mark.parametrize("written", WRITTEN)
@pytest.mark.parametrize("made", MADE)
def test_writes_to_what_no_op_gave(made, written):
    """However a tensor is written to that a draw, a look-up or new memory gave: a plan does it, or there is none."""
    use = "r * x" if written != "nothing" else "r[:0]"
    for returned in ("r.detach()", use):
        source = f"def f(x):\n    r = {MADE[made]}\n    {WRITTEN[written]}\n    return {returned}\n"
        if written == "nothing" and returned != use:
            continue
        space = {"torch": torch, "nn": nn, "F": F, "DEFINED": "empty" not in made}
        exec(source, space)
        runs = []
        for wrap in (lambda f: f, torch.capture):
            torch.manual_seed(0)
            step, found = wrap(space["f"]), []
            for k in range(6):
                x = torch.arange(3.0) * k
                with warnings.catch_warnings(action="ignore"):
                    found += [outcome(step, x), facts(x), facts(torch.get_rng_state())]
            runs.append(found)
        assert runs[0] == runs[1], source
        assert step.replays == 1 or torch.explain(step), source
