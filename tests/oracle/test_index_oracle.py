"""Indexing, gather and scatter, masks, sorting: the same as PyTorch's."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from expressions import check, check_error

KEYS = """
0 | -1 | 1, 2 | (0, -1, 1) | slice(1, 3) | slice(None, None, 2) | slice(-2, None) | slice(3, 1)
slice(None, 99) | slice(None) | None | (None, 0) | (0, None) | ... | (..., 0) | (0, ...)
(slice(1, 2), None, 0)
(slice(None), 1) | (slice(None), slice(1, 2)) | (..., slice(0, 3, 2)) | (..., None) | () | True | False
(True, 0) | (0, True) | (slice(None), None, True)
[0, 1] | [1] | [] | [True, False] | ([0, 1], [1, 2]) | ([0, 1], slice(None), [1, 2]) | (0, slice(None), [1, 2])
(slice(None), [0, 1], [1, 2]) | ([0, 1], 1) | (slice(0, 1), [2, 0, 0]) | (..., [1, 3]) | ([[0, 1], [1, 0]],)
[[0, 1], [1, 0]]
k | (k, k) | (slice(None), j) | (k[:, None], j) | (None, k) | (k, None, j[:2]) | (j[0] * 0, 1) | torch.tensor(1)
(slice(None), torch.tensor(-1)) | -k | i32.clamp(max=1) | range(2) | (slice(None), range(1, 3))
y > 0 | (slice(None), y[0, :, 0] > 0) | (y[:, 0, 0] > -9, 0)
(y[:, :, 0] > 0, [1] * int((y[:, :, 0] > 0).sum())) | torch.tensor(True) | torch.tensor(False)
(k, y[0, :, 0] > -9) if 0 else k | (..., mv) | (slice(None), slice(None), mv)
"""
GATHER = """
x.gather(0, i[:2]) | x.gather(1, i) | x.gather(-1, i[:, :2]) | s.gather(0, torch.tensor(0))
s.gather(0, torch.tensor([0, 0])) | x.gather(1, i32) | torch.gather(x, 0, i[:1]) | x.t().gather(0, i.t())
x.gather(0, torch.empty(0, dtype=torch.int64)).detach()
x.scatter(0, i[:1], x[:1]) | x.scatter(1, torch.tensor([[0, 3, 1], [2, 0, 3]]), y[0][:2, :3])
x.scatter(1, i[:, :1], 2.5) | x.scatter(0, i[:1], value=1) | s.scatter(0, torch.tensor(0), s * 2)
torch.scatter(x, 0, i[:1], y[0][1:2]) | n.scatter(0, i[:1], 7)
x.scatter_add(0, i, x) | x.scatter_add(1, i[:2], y[0][:2]) | torch.scatter_add(x, 1, i, p)
n.scatter_add(1, i, n) | f.scatter_add(0, i, f)
x.scatter_reduce(0, i, p, 'sum') | x.scatter_reduce(1, i, p, 'mean') | p.scatter_reduce(1, i, x, 'prod')
x.scatter_reduce(0, i, p, 'amax') | x.scatter_reduce(0, i[:2], p[:2], 'amin')
x.scatter_reduce(0, i, p, 'sum', include_self=False) | x.scatter_reduce(0, i, p, 'mean', include_self=False)
p.scatter_reduce(1, i, x, 'prod', include_self=False) | x.scatter_reduce(0, i, p, 'amax', include_self=False)
x.scatter_reduce(0, i, p, 'amin', include_self=False) | n.scatter_reduce(0, i, n, 'mean')
n.scatter_reduce(0, i, n, 'amax', include_self=False) | n.scatter_reduce(1, i, n, 'prod')
x.scatter_reduce(0, i * 0, torch.ones_like(x), 'amax') | (x * 0).scatter_reduce(0, i * 0, x * 0 + 1, 'amax')
x.index_select(0, j) | x.index_select(1, k) | s.index_select(0, torch.tensor([0]))
x.index_select(0, torch.tensor(1)) | torch.index_select(y, 2, j) | e.index_select(1, j) | f.index_select(0, j)
x.index_add(0, j, x) | x.index_add(1, k, x[:, :2], alpha=2) | n.index_add(0, j, n)
torch.index_add(x, 0, k, x[:2]) | f.index_add(0, j, f, alpha=0.5) | z.index_add(0, j, z)
x.index_copy(0, k, x[:2]) | x.index_copy(1, k, y[0, :, :2]) | x.index_fill(0, k, 2) | x.index_fill(1, j, s)
torch.index_fill(x, 0, k, 1.5) | n.index_fill(0, -k, 3)
x.take(torch.tensor([0, 5, 5, -1])) | x.take(i) | torch.take(x.t(), i) | x.put(torch.tensor([1, 3]), w[:2])
x.put(torch.tensor([1, 1, -1]), w, accumulate=True) | x.take_along_dim(i, 1) | x.take_along_dim(i[:, :1], 1)
x.take_along_dim(i[:1], 0) | x.take_along_dim(j)
x.index_put((k,), v) | x.index_put((k, k), w[:2]) | x.index_put((k,), v, accumulate=True)
x.index_put((j, j), w, True) | x.index_put((m,), s) | x.index_put((torch.tensor(1),), v)
torch.index_put(x, [k], s)
x.masked_fill(m, 2) | x.masked_fill(m, s) | x.masked_fill(mv, 1.5) | v.masked_fill(m, 0) | x.masked_select(m)
x.masked_select(mv) | v.masked_select(m) | torch.masked_select(x, m) | x.masked_scatter(m, p)
x.masked_scatter(mv, y) | n.masked_fill(m, -1)
torch.fill(x, 2) | torch.fill(x, s) | torch.where(m, x, p) | torch.where(m, x, 0.0) | torch.where(m)
x.where(m, v)
"""
SORTS = """
x.sort() | x.sort(0) | x.sort(descending=True) | x.sort(1, True) | x.sort(stable=True, dim=0) | s.sort()
torch.sort(n, dim=1, stable=True) | n.sort(descending=True, stable=True) | x.msort() | f.sort() | torch.sort(v)
torch.tensor([1., float('nan'), 0.]).sort() | torch.tensor([1., float('nan'), 0.]).sort(descending=True)
x.argsort() | x.argsort(0, True) | x.topk(2) | x.topk(2, 0, largest=False) | x.topk(3, dim=1) | s.topk(1)
torch.topk(v, 2) | x.topk(0) | x.kthvalue(2) | x.kthvalue(1, 0, keepdim=True) | s.kthvalue(1)
torch.kthvalue(x, 3)
n.unique() | n.unique(return_inverse=True) | n.unique(return_counts=True, return_inverse=True) | i.unique(dim=0)
i.unique(dim=1, return_inverse=True, return_counts=True) | torch.unique(j) | m.unique() | j.unique_consecutive()
i.unique_consecutive(return_inverse=True, return_counts=True) | i.unique_consecutive(dim=0)
torch.unique_consecutive(torch.empty(0))
torch.bincount(j) | j.bincount(minlength=6) | j.bincount(w.detach()) | j.bincount(f[0, :3].detach())
j.bincount(k[j * 0]) | torch.histc(f.detach(), 5) | torch.histc(f.detach(), 4, min=-1, max=1)
f.detach().histc(bins=3)
torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([[3, 6], [0, 1]]))
torch.searchsorted(torch.tensor([1, 3, 5]), 3, right=True)
torch.searchsorted(torch.tensor([[1, 3], [2, 4]]), torch.tensor([[3], [3]]), side='right', out_int32=True)
torch.bucketize(x.detach(), torch.tensor([-1., 0., 1.]))
torch.bucketize(torch.tensor([0, 1]), torch.tensor([0, 1]), right=True)
m.nonzero() | m.nonzero(as_tuple=True) | torch.argwhere(n) | s.detach().nonzero() | torch.nonzero(i)
s.detach().nonzero(as_tuple=True) | m.nonzero_static(size=3)
torch.unravel_index(torch.tensor([5, 11]), (3, 4)) | e.nonzero()
x.index_reduce(0, j, p, 'mean') | x.index_reduce(0, j, p, 'amax', include_self=False)
p.index_reduce(1, k, p[:, :2], 'prod')
"""
INPLACE = """
c = x * 1; c[0] = 2; out = c
c = x * 1; c[0] = v; out = c
c = x * 1; c[:, 1] = w; out = c * c
c = x * 1; c[1, 2] = s; out = c
c = x * 1; c[None, 0] = v; out = c
c = x * 1; c[...] = v; out = c
c = x * 1; c[:] = p; out = c
c = x * 1; c[k] = v; out = c
c = x * 1; c[k, k] = w[:2]; out = c * 1
c = x * 1; c[m] = 0; out = c
c = x * 1; c[m] = p[m]; out = c
c = x * 1; c[:, [0, 2]] = w[:, None]; out = c
c = x * 1; c[0] = v.view(1, 1, 4); out = c
c = x * 1; c[c > 0] *= 2; out = c
c = x * 1; c[1:, 1:][0] += v[1:]; out = c
c = x * 1; c[True] = v; out = c
c = x * 1; c[0] = f[0]; out = c
c = x * 1; c[0, 1] = torch.tensor(5); out = c
c = n.clone(); c[0] = 2.7; out = c
c = n.clone(); c[:, 0] = x.detach()[:, 0] * 10; out = c
c = m.clone(); c[0] = True; c[1, 2] = 0; out = c
c = torch.zeros(3, 4, dtype=torch.float64); c[1:] = x[1:]; c[0] = v; out = c * c
c = torch.zeros(3, 4, dtype=torch.float64); d = c[1]; c[:2] = x[:2]; out = (c * 1, d * 2)
c = x * 1; c.fill_(2); out = c
c = x * 1; c[0].fill_(s); out = c
c = x * 1; c.zero_(); out = c
c = x * 1; c.copy_(v); out = c
c = x * 1; c.copy_(f); out = c
c = f * 1; c.copy_(x); out = c
c = n.clone(); c.copy_(x.detach() * 9); out = c
c = x * 1; c.masked_fill_(m, s); out = c
c = x * 1; c.masked_fill_(mv, 2); out = c
c = x * 1; c.masked_scatter_(m, p); out = c
c = x * 1; c.index_put_((k,), v); out = c
c = x * 1; c.index_put_((j, j), w, accumulate=True); out = c
c = x * 1; c.scatter_(0, i[:1], p[:1]); out = c
c = x * 1; c.scatter_(0, i[:1], 3.0); out = c
c = x * 1; c.scatter_add_(1, i, p); out = c
c = x * 1; c.scatter_reduce_(1, i, p, 'amax'); out = c
c = n.clone(); c.scatter_(0, i, n, reduce='add'); out = c
c = n.clone(); c.scatter_(0, i[:1], 3, reduce='multiply'); out = c
c = x * 1; c.index_add_(0, j, p); out = c
c = x * 1; c.t().index_add_(1, j, p.t()); out = c
c = x * 1; c.index_copy_(1, k, p[:, :2]); out = c
c = x * 1; c.index_fill_(0, k, s); out = c
c = x * 1; c.index_fill_(1, k, -1); out = c
c = x * 1; c.put_(torch.tensor([1, 1]), w[:2], accumulate=True); out = c
c = x * 1; c.t()[1:].put_(torch.tensor([0, 5]), w[:2]); out = c
c = x * 1; c.t().scatter_(0, i[:1, :3], p[:1, :3]); out = c
c = z * 1; c[0] = x[0]; c[1] = 2; out = c
"""
ERRORS = """
x[5] | x[0, 9] | x[::-1] | x[1.5] | x[0, 0, 0] | x['a'] | s[0] | s[:] | x[[5]] | x[[0, 1], [0, 1, 2]]
x[torch.tensor([True, False])] | x[w > 0, w > 0] | x[x]
x.gather(1, torch.tensor([[5]])) | x.gather(1, j) | x.gather(0, torch.zeros(1, 9, dtype=torch.int64))
x.gather(1, torch.tensor([[0.0]])) | x.gather(1, torch.tensor([[-1]])) | x.gather(5, i)
x.scatter(1, torch.tensor([[5]]), 1.0) | x.scatter(1, i, f)
x.scatter_add(1, torch.tensor([[0, 1]]), x[:1, :1]) | x.scatter_reduce(1, i, x, 'foo') | x.scatter(0, j, w)
x.index_select(0, torch.tensor([5])) | x.index_select(0, i) | x.index_select(0, torch.tensor([-1]))
x.index_select(0, torch.tensor([0.0])) | x.index_add(0, k, x[:2, :3]) | x.index_add(0, torch.tensor([5]), x[:1])
x.index_add(0, k, x[:1]) | x.index_copy(0, k[:1], x[:1, :3]) | x.index_copy(0, torch.tensor([7]), x[:1])
x.index_fill(0, torch.tensor([7]), 1) | x.index_fill(0, torch.tensor([0.0]), 1)
x.take(torch.tensor([12])) | x.take(torch.tensor([0.0])) | x.put(torch.tensor([12]), w[:1])
x.put(torch.tensor([0]), w) | x.index_put((torch.tensor([5]),), s) | x.index_put((k,), w)
x.index_put((k,), f[0])
x.masked_fill(i, 1) | x.masked_fill(m, v) | (x * 1).masked_fill_(torch.ones(5, 4) > 0, 1) | x.masked_select(x)
x.masked_scatter(m, s.reshape(1)) | (x * 1).copy_(w) | (x * 1).copy_(y) | n.fill_(1e30) | u8.fill_(300)
(x * 1).fill_(v) | f.detach().fill_(1j)
x.sort(5) | x.topk(9) | x.kthvalue(0) | x.kthvalue(9) | torch.bincount(n[0]) | torch.bincount(f.detach())
z.sort() | torch.histc(f.detach(), 4, min=5, max=2) | torch.histc(n)
x[0].zero_() | x.zero_() | x.copy_(p) | v.detach().expand(3, 4).copy_(x.detach())
(x * 1)[0].__setitem__(0, [1]) | n.__setitem__(0, 1j) | (x * 1).__setitem__(9, 1)
(x * 1).__setitem__((0, k), f[0, :2]) | (x * 1).__setitem__(k, w)
c = x * 1; d = c.unbind(); d[0].zero_(); out = c
c = x * 1; c.split(2)[0].mul_(2); out = c
"""


def cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


@pytest.mark.parametrize("key", cases(KEYS))
def test_same_item(key):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a list with lists in it as an index is deprecated
        check(f"y[{key}]")


@pytest.mark.parametrize("key", cases(KEYS))
def test_same_assignment(key):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(f"c = y * 1; c[{key}] = s; d = c[{key}]; c[{key}] = d * 2; out = c", names=False)


@pytest.mark.parametrize("code", cases(GATHER) + cases(SORTS))
def test_same(code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(code, names="index_reduce" not in code and "stable" not in code)


@pytest.mark.parametrize("code", INPLACE.strip().splitlines())
def test_same_in_place(code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(code, names=False)


@pytest.mark.parametrize("code", cases(ERRORS))
def test_same_error(code):
    check_error(code)
