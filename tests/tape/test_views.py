"""Which ops give views, what views share, and modified outputs of other functions."""

from __future__ import annotations

import pytest

import gradlib as torch

VIEWS = {
    "slicing": lambda x: x[:1, 1:],
    "index": lambda x: x[1],
    "ellipsis": lambda x: x[..., None],
    "view": lambda x: x.view(3, 2),
    "view_as": lambda x: x.view_as(torch.ones(6)),
    "reshape": lambda x: x.reshape(-1),
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "expand": lambda x: x.expand(4, 2, 3),
    "squeeze": lambda x: x[:, None].squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "diagonal": lambda x: x.diagonal(),
    "select": lambda x: x.select(0, 1),
    "narrow": lambda x: x.narrow(1, 1, 2),
    "unbind": lambda x: x.unbind(0)[1],
    "split": lambda x: x.split(2, dim=1)[0],
    "chunk": lambda x: x.chunk(2)[1],
}


@pytest.mark.parametrize("name", sorted(VIEWS))
@pytest.mark.parametrize("requires_grad", [False, True])
def test_views_share_storage_and_counter(name, requires_grad):
    # rows: VIEW-01
    x = torch.arange(6.0).reshape(2, 3).clone().requires_grad_(requires_grad)
    v = VIEWS[name](x)
    assert v._is_view() and v._base is x and not x._is_view() and x._base is None
    assert v.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert v.data_ptr() == x.data_ptr() + 4 * v.storage_offset()
    assert v.requires_grad is requires_grad
    with torch.no_grad():
        x.add_(10)
        assert v._version == x._version == 1
        assert torch.equal(v, VIEWS[name](x))
        first = v[(0,) * v.dim()].item()
        if name != "expand":
            v.add_(1)
            assert v._version == x._version == 2
            assert v[(0,) * v.dim()].item() == first + 1 and (first + 1) in x.flatten().tolist()


def test_a_view_of_a_view_has_the_first_base():
    x = torch.arange(6.0)
    v = x.view(2, 3)[1][1:]
    assert v._base is x and v.data_ptr() == x.data_ptr() + 16


def test_reshape_copies_where_no_view_exists():
    x = torch.arange(6.0).reshape(2, 3).clone()
    flat = x.t().reshape(-1)
    assert not flat._is_view() and flat.data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size"):
        x.t().view(-1)
    for other in (x.clone(), x.contiguous().exp(), x + 0, x[[0, 1]]):
        assert other._base is None and not other._is_view()
    assert x.contiguous() is x


def test_an_output_saved_elsewhere_raises_in_backward():
    # rows: INPLACE-11
    a = torch.ones(2, requires_grad=True)
    out = a.exp()
    other = out.sigmoid() * out  # saves `out` in a node of its own
    assert out.mul_(2) is out  # the write itself succeeds
    with pytest.raises(
        RuntimeError,
        match="one of the variables needed for gradient computation has been modified",
    ):
        other.sum().backward()
    assert a.grad is None
