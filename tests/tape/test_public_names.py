"""Messages and profiles call an op as people do, also where several ops stand for one function."""

from __future__ import annotations

import pytest

import gradlib as torch
import gradlib.nn.functional as F
from gradlib.autograd import profiler


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("pow_", lambda y: y.pow_(2)),
        ("fill_", lambda y: y.fill_(torch.tensor(1.0))),
        ("clamp_", lambda y: y.clamp_(0, 1)),
        ("lerp_", lambda y: y.lerp_(torch.ones(3), 0.5)),
        ("masked_fill_", lambda y: y.masked_fill_(y > 0, torch.tensor(2.0))),
        ("scatter_", lambda y: y.scatter_(0, torch.tensor([0]), 2.0)),
        ("index_fill_", lambda y: y.index_fill_(0, torch.tensor([0]), torch.tensor(2.0))),
        ("uniform_", lambda y: y.uniform_()),
    ],
)
def test_who_changed_a_saved_tensor(name, write):
    y = torch.ones(3, requires_grad=True) * 2.0
    z = y * y
    write(y)
    with pytest.raises(RuntimeError, match=f"changed by {name} at"):
        z.sum().backward()


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("avg_pool2d", lambda x: F.avg_pool2d(x, 2)),
        ("_adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 2))),
        ("upsample_bilinear2d", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        (
            "_upsample_bicubic2d_aa",
            lambda x: F.interpolate(x, scale_factor=2, mode="bicubic", antialias=True),
        ),
    ],
)
def test_gradients_of_planes_have_names_of_their_own(name, call):
    x = torch.ones(1, 2, 4, 4, requires_grad=True)
    with profiler.profile() as prof:
        call(x).sum().backward()
    assert name + "_backward" in [event.name for event in prof.function_events]
