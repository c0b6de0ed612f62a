"""Shape, slicing, splitting, rearranging and joining ops: the same as PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

from expressions import check, check_error

VIEWS = """
x.view(2, 6) | x.view((12,)) | x.view(-1, 3) | s.view(1, 1) | e.view(3, 0) | x.view(3, 4) | x.t().view(4, 3, 1)
x.reshape(2, 6) | x.t().reshape(12) | x.reshape(-1) | s.reshape(1) | x.reshape((4, 3))
y.transpose(0, 2).reshape(4, 6) | e.reshape(0) | torch.reshape(x, (2, 6))
x.view_as(x.t().contiguous()) | x.reshape_as(x.t()) | x.flatten() | y.flatten(1) | y.flatten(0, 1) | s.flatten()
y.transpose(0, 1).flatten(0, 1) | x.ravel() | x.t().ravel()
y.unflatten(2, (2, 2)) | y.unflatten(-1, (2, -1)) | torch.unflatten(x, 1, (4, 1))
y.permute(2, 0, 1) | y.permute((0, 2, 1)) | y.permute(-1, 0, 1) | s.permute(()) | torch.permute(y, (1, 0, 2))
x.transpose(0, 1) | y.transpose(-1, 0) | y.swapaxes(0, 1) | y.swapdims(0, 2) | torch.transpose(x, 0, 1)
v.transpose(0, 0) | x.t() | v.t() | s.t() | x.T | x.mT | y.mT | sq.H | y.mH | x.adjoint()
zz.mH | z.H | z.adjoint()
y.movedim(0, 2) | y.movedim((0, 1), (2, 0)) | y.moveaxis(-1, 0)
o.squeeze() | o.squeeze(0) | o.squeeze(1) | o.squeeze((0, 2)) | o.squeeze((0, 1)) | x.squeeze() | s.squeeze(0)
x.unsqueeze(0) | x.unsqueeze(-1) | s.unsqueeze(0) | x.unsqueeze(2)
o.expand(2, 3, 4) | o.expand(-1, -1, 5) | v.expand(3, 4) | s.expand(2, 2) | x.expand(3, 4) | o.expand(0, 3, 1)
v.expand_as(x) | v.broadcast_to((3, 4)) | torch.broadcast_to(s, (2,)) | torch.broadcast_tensors(x, v, s)
y.sum_to_size(3, 1) | y.sum_to_size(1, 3, 4) | x.sum_to_size(3, 4) | x.sum_to_size(()) | y.sum_to_size(4)
y.select(1, 0) | y.select(-1, -2) | x.narrow(1, 1, 2) | x.narrow(0, -2, 1) | x.narrow_copy(0, 1, 2)
x.diagonal() | x.diagonal(1) | x.diagonal(-2) | y.diagonal(0, 1, 2) | y.diagonal(1, 2, 0) | x.diagonal(9)
v.unfold(0, 2, 1) | x.unfold(1, 2, 2) | y.unfold(1, 3, 1) | s.unfold(0, 1, 1)
x.as_strided((2, 2), (1, 2)) | x.as_strided((2, 3), (1, 1), 2) | x[1:].as_strided((2,), (3,))
x[1:].as_strided((2,), (3,), 1) | x.t().as_strided((4, 2), (1, 4)) | v.expand(3, 4).as_strided((2, 2), (0, 1))
x.unbind() | x.unbind(1) | v.unbind() | x.split(2) | x.split(3, 1) | x.split([1, 3], dim=1) | x.chunk(2)
x.chunk(3, 1) | y.chunk(5, 2) | e.chunk(3) | x.split_with_sizes((3, 1), 1) | torch.split(x, 2, dim=-1)
x.tensor_split(2) | x.tensor_split(3, 1) | x.tensor_split((1, 2), dim=1) | x.hsplit(2) | v.hsplit([1])
x.vsplit(3) | y.dsplit(2) | x.unsafe_split(2) | x.unsafe_chunk(2) | list(x) | list(y[0])
z.real | z.imag | x.real | torch.view_as_real(z) | torch.view_as_complex(x.view(3, 2, 2)) | z.conj() | x.conj()
z.conj_physical() | torch.conj(z) | z.resolve_conj() | x.resolve_neg() | torch.real(z) | torch.imag(z)
x.view(torch.int64) | f.view(torch.int32) | i.view(torch.float64).isnan() | f.view(torch.float64).isnan()
u8.view(torch.int8)
"""
COPIES = """
x.flip(0) | x.flip(0, 1) | x.flip((-1,)) | s.flip(()) | x.fliplr() | x.flipud() | v.flipud() | x.roll(1)
x.roll(1, 0) | x.roll((1, -2), (0, 1)) | x.roll(-7) | e.roll(1, 0)
x.rot90() | x.rot90(2) | x.rot90(-1, (1, 0)) | y.rot90(1, (0, 2)) | x.repeat(2, 1) | x.repeat(2, 3, 1)
s.repeat(2) | v.repeat(0) | x.tile(2) | x.tile((2, 1, 1)) | v.tile((2, 2)) | torch.tile(x, (2,))
x.repeat_interleave(2) | x.repeat_interleave(2, 0) | x.repeat_interleave(2, dim=1) | x.repeat_interleave(j, 0)
torch.repeat_interleave(j) | s.repeat_interleave(3) | torch.repeat_interleave(v, 3)
x.tril() | x.triu() | x.tril(-1) | y.triu(1) | torch.tril(x, diagonal=1) | v.diag() | x.diag() | x.diag(1)
v.diag(-1) | torch.diag_embed(x) | v.diag_embed(1) | x.diag_embed(0, 0, 2) | torch.diagflat(x) | v.diagflat(1)
n.tril()
torch.atleast_1d(s) | torch.atleast_2d(v) | torch.atleast_3d(x) | torch.atleast_3d(v) | torch.atleast_2d(s, v)
torch.atleast_1d(x)
torch.cat([x, x]) | torch.cat((x, y[0]), 1) | torch.cat([x, f]) | torch.cat([x, i], dim=-1)
torch.concat([v, w]) | torch.concatenate([v, w], axis=0) | torch.cat([torch.empty(0), x.float()])
torch.cat([x]) | torch.cat([m, m])
torch.stack([x, x]) | torch.stack((x, y[0]), 1) | torch.stack([s, s]) | torch.stack([x, f], dim=-1)
torch.stack([v, v], 1) | torch.stack([e, e])
torch.hstack([x, x]) | torch.hstack([v, w]) | torch.hstack((s, s)) | torch.vstack([x, v]) | torch.dstack([x, x])
torch.dstack([v, v]) | torch.column_stack([v, v]) | torch.column_stack([x, w]) | torch.row_stack([v, v])
torch.block_diag(x, v, s) | torch.meshgrid(v, w, indexing='ij') | torch.meshgrid(v, w, s, indexing='xy')
torch.cartesian_prod(v, w) | torch.cartesian_prod(v) | torch.combinations(v, 3)
torch.combinations(v, with_replacement=True)
x.select_scatter(v, 0, 1) | x.slice_scatter(x[:2], 0, 1, 3) | x.slice_scatter(x[:, ::2], 1, 0, 4, 2)
sq.diagonal_scatter(w) | x.diagonal_scatter(w[:2], 2)
torch.complex(x, p) | torch.complex(x, v) | torch.polar(p, x) | z.angle() | x.angle() | f.angle() | n.angle()
torch.angle(z)
"""
INPLACE = """
c = x * 1; c.transpose_(0, 1); out = c * v[:, None]
c = x * 1; c.t_(); out = c
c = x * 1; c.unsqueeze_(0).squeeze_(); out = c * c
c = x * 1; d = c[0]; d.unsqueeze_(0); c.mul_(2); out = d * 1
c = x * 1; d = c.t(); d.mul_(v[:, None]); out = c
c = x * 1; d = c.view(2, 6)[0]; c.mul_(2); d.add_(1); out = (c * c, d * d)
c = x * 1; c.diagonal().mul_(w); out = c
c = x * 1; c.unfold(1, 2, 2)[:, 0].zero_(); out = c
c = x * 1; c.as_strided((3,), (5,), 0).mul_(w); out = c
c = z * 1; c.real.mul_(p); out = c
c = z * 1; c.imag = x; out = c
c = x * 1; c.tril_(); out = c
c = x * 1; c.triu_(1); out = c
c = x * 1; c[1:].T[0].fill_(s); out = c
c = y * 1; c.permute(2, 0, 1)[1].mul_(2); out = c
c = y * 1; c.movedim(0, 1).flatten(1)[0].copy_(torch.cat([v, v])); out = c
c = y * 1; c.squeeze(0)[:, 1].unsqueeze(0).expand(1, -1, -1).copy_(x[:2]); out = c
"""
ERRORS = """
x.view(5) | x.t().view(12) | x.view(-1, -1) | x.view(-2, 3) | e.view(-1, 0) | x.reshape(5, -1)
x.expand(2, 3, 3) | x.expand(-1, 3, 4) | x.squeeze(5) | x.permute(0) | x.permute(0, 0) | x.permute(0, 5)
x.movedim((0, 0), (0, 1)) | x.movedim((0, 1), (0,)) | x.unfold(0, 5, 1) | x.unfold(0, 2, 0) | x.select(0, 5)
s.select(0, 0) | x.narrow(0, 2, 3) | x.narrow(0, 5, 1) | x.as_strided((5, 5), (3, 3))
x.as_strided((5,), (3, 3))
x.split([1, 1]) | x.split(-1) | x.split(0) | x.chunk(0) | s.chunk(2) | s.split(1) | x.unflatten(1, (3, 2))
x.repeat(2) | x.sum_to_size(5) | torch.broadcast_tensors(x, w) | x.diagonal(0, 0, 0) | x.flip(5) | x.flip(0, 0)
x.rot90(1, (0, 0)) | v.rot90() | f[:, :3].view(torch.float64) | y.t() | v.mT | y.H | x.roll((1, 2), 0)
x.transpose(0, 5) | x.unsqueeze(5) | s.unbind() | list(s) | v.tril()
torch.cat([]) | torch.cat([x, v]) | torch.cat([x, x[:, :2]]) | torch.cat([s]) | torch.stack([x, v])
torch.stack([]) | torch.cat(x) | torch.cat([x, 1]) | torch.cat([x, x], 5) | x.hsplit(3) | s.hsplit(1)
x.dsplit(1)
x.imag | torch.view_as_real(x) | torch.view_as_complex(x) | torch.view_as_complex(s) | torch.complex(x, f)
torch.complex(i, i) | x.flatten(1, 0) | torch.cartesian_prod(x) | torch.combinations(x)
x.select_scatter(w, 0, 1) | x.tensor_split(0) | s.tensor_split(1) | torch.diag(y) | torch.diag_embed(x, 0, 0, 0)
x.repeat_interleave(j, 1) | torch.block_diag(y)
"""


def cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


@pytest.mark.parametrize("code", cases(VIEWS) + cases(COPIES))
def test_same(code):
    check(code)


@pytest.mark.parametrize("code", INPLACE.strip().splitlines())
def test_same_in_place(code):
    check(code, names=False)


@pytest.mark.parametrize("code", cases(ERRORS))
def test_same_error(code):
    check_error(code)
