"""Reductions, scans, products, norms and order statistics: the same as PyTorch's."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from expressions import check, check_error

REDUCTIONS = """
x.sum() | x.sum(0) | x.sum(-1, True) | y.sum((0, 2)) | y.sum((0, 2), keepdim=True) | x.sum(dim=[])
s.sum() | s.sum(0) | e.sum() | e.sum(0) | x.sum(axis=1) | x.sum(dim=(0, 1))
z.sum((0, 1), keepdim=True) | z.sum(1) | n.sum() | i32.sum(0) | m.sum() | u8.sum(1) | f.sum()
f.sum(dtype=torch.float64) | torch.sum(x, 1) | n.sum(dtype=torch.int32) | m.sum(dtype=torch.float32)
x.mean() | x.mean(0) | x.mean((0, 1), True) | y.mean((0, 2)) | s.mean() | z.mean(1) | f.mean(1)
n.mean(dtype=torch.float32) | x.mean(dim=-1, dtype=torch.float32) | torch.mean(x, 1, keepdim=True)
x.nansum() | x.nansum(1, True) | torch.tensor([1., float('nan')]).nansum() | x.nanmean()
y.nanmean((0, 1)) | n.nansum()
p.prod() | p.prod(1) | x.prod(0, keepdim=True) | (x * m).prod(1) | (x * m).prod() | z.prod(1)
s.prod() | s.prod(0) | e.prod() | n.prod() | m.prod() | f.detach().prod(1)
n.prod(1, dtype=torch.float64)
x.var() | x.var(1) | x.var(1, unbiased=False) | x.var(False) | y.var((0, 2), keepdim=True)
x.var(dim=1, correction=2) | z.var() | z.var(1) | f.var(0) | x.std() | x.std(1)
x.std(-1, True, True) | z.std(0) | x.std(correction=0) | torch.var_mean(x) | torch.var_mean(x, 1)
torch.std_mean(y, (0, 1), keepdim=True) | torch.std_mean(x, dim=1, correction=0)
torch.var_mean(z, 1)
x.max() | x.min() | s.max() | n.max() | n.min() | m.max() | x.max(1) | x.min(0) | x.max(1, True)
x.max(dim=-1, keepdim=True) | s.max(0) | n.max(1) | x.max(p) | torch.max(x, v) | torch.min(x, p)
torch.max(x, dim=0)[0] | (x > 0).double().max() | torch.max(x * 0, 1)[0].detach()
torch.round(x).max() | torch.round(x).min()
x.amax() | x.amax(1) | y.amax((0, 2), True) | torch.round(x).amax(1) | s.amax() | x.amin(0)
y.amin((1, 2)) | n.amax(1) | torch.aminmax(x) | torch.aminmax(y, dim=1, keepdim=True) | f.amax(0)
x.argmax() | x.argmax(1) | x.argmin(0, True) | s.argmax() | n.argmin() | x.argmax(keepdim=True)
n.argmax(dim=-1) | torch.argmax(f, 0)
m.all() | m.any() | m.all(1) | m.any(0, True) | x.all() | u8.all(1) | u8.any() | n.any((0, 1))
n.count_nonzero() | n.count_nonzero(1) | m.count_nonzero((0, 1)) | e.all() | e.any(0)
x.logsumexp(1) | y.logsumexp((0, 2), True) | s.logsumexp(0) | n.logsumexp(0)
f.detach().logsumexp(1) | z.logsumexp(1) | torch.logsumexp(x, -1)
x.median() | x.median(1) | s.median() | n.median() | n.median(0, True)
torch.tensor([1., float('nan'), 0.]).median() | torch.tensor([1., float('nan'), 0.]).nanmedian()
x.nanmedian(1) | i.mode(1) | x.mode(0, True) | n.mode()
x.quantile(0.3) | x.quantile(0.3, 1)
x.quantile(torch.tensor([0.1, 0.6], dtype=torch.float64), 0, keepdim=True) | x.nanquantile(0.5, 1)
x.quantile(0.4, interpolation='nearest') | f.quantile(0.5, dim=1, interpolation='midpoint')
x.quantile(0.7, 1, interpolation='lower') | x.quantile(0.7, 1, interpolation='higher')
torch.cov(x) | torch.cov(v) | x.cov(correction=0) | torch.corrcoef(x) | torch.cov(z)
torch.cov(x, aweights=v.abs()) | torch.cov(x, fweights=torch.tensor([1, 2, 0, 3]))
"""
SCANS = """
x.cumsum(0) | x.cumsum(-1) | s.cumsum(0) | e.cumsum(0) | n.cumsum(1) | m.cumsum(0) | z.cumsum(1)
f.detach().cumsum(1) | x.detach().cumsum(1, dtype=torch.float32) | torch.cumsum(y, 1)
p.cumprod(1) | (x * m).cumprod(1) | (x * m).cumprod(0) | z.cumprod(1) | s.cumprod(0) | n.cumprod(1)
f.detach().cumprod(0)
x.logcumsumexp(1) | y.logcumsumexp(1) | s.logcumsumexp(0) | x.cummax(1) | torch.cummin(x, 0)
n.cummax(0) | s.cummax(0)
torch.gradient(x) | torch.gradient(y, spacing=0.5, dim=(0, 2))
torch.gradient(x, spacing=(v.cumsum(0).abs() * 9,), dim=1)
torch.gradient(x, edge_order=2) | torch.gradient(x, dim=1, edge_order=2, spacing=[2.0])
torch.gradient(v, spacing=(p[0].cumsum(0),), edge_order=2)
x.diff() | x.diff(n=2, dim=0) | x.diff(prepend=p, dim=1) | n.diff() | m.diff() | torch.trapezoid(x)
torch.trapezoid(x, v) | torch.trapezoid(x, dx=0.5, dim=0) | torch.cumulative_trapezoid(x, dim=0)
torch.trapz(x, p)
"""
PRODUCTS = """
sq @ x | x @ v | v @ x.t() | v @ v | y @ v | y @ x.t() | x @ y.mT | y @ y.mT | torch.matmul(w, y)
sq.matmul(x) | sq.mm(x) | y.bmm(y.mT) | x.mv(v) | v.dot(v) | zz @ z | zz @ zz | zz.mH @ z
n @ n.t() | f.detach() @ f.detach().t() | e.t() @ e | e @ sq | sq.__rmatmul__(x.t())
torch.outer(v, w) | v.ger(w) | x.inner(p) | x.inner(v) | x.inner(y) | s.inner(v) | torch.kron(x, sq)
torch.kron(v, x) | torch.tensordot(x, y, dims=([0, 1], [1, 2])) | torch.tensordot(y, x.t(), 1)
torch.tensordot(x, p, 0) | torch.chain_matmul(x.t(), sq, x) | x.trace() | n.trace()
torch.addmm(x, sq, p) | torch.addmm(v, sq, p, beta=0.5, alpha=2) | w.addmv(x, v)
torch.addr(x, w, v, alpha=3) | torch.addbmm(sq, y, y.mT) | torch.baddbmm(w, y, y.mT, beta=2)
torch.addmm(z, sq * 1j, p * (1 + 0j)) | torch.addmm(x * float('nan'), sq, p, beta=0)
torch.addmm(n, n[:, :3], n, beta=2.5)
torch.cross(sq, sq.t(), dim=1) | torch.linalg.cross(x, p, dim=0)
torch.linalg.cross(sq, w.expand(1, 3)) | torch.dist(x, p) | torch.cosine_similarity(x, p)
torch.cosine_similarity(x, v, dim=-1) | torch.pairwise_distance(x, p) | torch.renorm(x, 2, 0, 1.0)
"""
EINSUM = """
ij,jk->ik; sq, x | ij,jk; sq, x | ij,jk->ki; sq, x | bij,kj->bik; y, p | bij,bkj->bik; y, y
i,j->ji; v, w | ij,ij->; x, p | ij,ij->j; x, p | ij,kl->; x, p | ...ij,jk->...ik; y, p.t()
...i,...i->...; x, p | ii; sq | ii->i; sq | ij->ji; x | ij->j; x | ij->; x
iij->j; sq[:, None].expand(3, 3, 3) | ...; x | ij,j->; x, o[0, 0] | ij,jk,kl->il; sq, x, p.t()
bik,bjk,b->ij; y, y, v[:2] | ij,ij->ij; z, z | bij,jk->bki; zz, z | i,i->; v, v | i,ij,j; w, x, v
ab, cd -> dbca; x, sq
"""
NORMS = """
x.norm() | x.norm(3, 1) | x.norm(dim=(0, 1)) | z.norm() | z.norm(1, 0) | s.norm() | e.norm()
f.detach().norm(2, 1) | torch.norm(x, 'nuc') | x.norm(0.5) | x.norm(-1) | (x * m).norm(2, 1)
torch.norm(x, p=0)
torch.linalg.vector_norm(y, 3, (0, 2), True) | torch.linalg.norm(x) | torch.linalg.norm(x, 2)
torch.linalg.norm(x, 'fro') | torch.linalg.norm(y, 'nuc', (1, 2)) | torch.linalg.matrix_norm(y, -2)
torch.linalg.matrix_norm(zz, 'nuc', keepdim=True)
"""
# PyTorch's second derivatives of these are tensors that NumPy cannot read
FIRST_ORDER = """
x.norm(1) | x.norm(float('inf'), 1, True) | (x * m).norm(1, 1) | torch.linalg.norm(x, 1)
torch.linalg.norm(x, float('inf')) | torch.linalg.norm(v, 1) | torch.dist(x, v, 1)
torch.linalg.vector_norm(torch.round(x), float('inf'), 1)
"""
ERRORS = """
x.sum(5) | x.sum((0, 0)) | n.mean() | x.mean(3) | e.max() | e.max(0) | e.argmax() | e.amax(0)
n.var() | x.argmax(9) | m.argmax() | x.nansum(4) | z.nansum() | n.nanmean() | x.quantile(2.0)
n.quantile(0.5) | x.cumsum(5) | n.logcumsumexp(0) | s.diff() | x.diff(n=-1)
x @ p | x @ w | v @ x | y @ w | y @ sq[:, :2] | s @ x | x @ f.t() | x.mm(p) | x.mm(v) | y.bmm(y)
x.bmm(y) | x.mv(w) | v.dot(w) | x.dot(v) | v.dot(f[0]) | x.outer(v) | x.inner(w)
torch.addmm(x, x, p) | torch.addmm(sq, sq, p) | (x * 1).addmm_(sq, sq)
torch.addr(n, n[:, 0], n[0], beta=0.5) | torch.addmv(w, x, w) | y.trace() | torch.linalg.cross(x, x)
torch.tensordot(x, p, 1)
torch.einsum('ij,jk->ik', x, x) | torch.einsum('ij->ik', x) | torch.einsum('ij', y)
torch.einsum('ijk', x) | torch.einsum('ij,jk', x) | torch.einsum('i.j', x) | torch.einsum('i1', x)
torch.einsum('ij->ii', x) | torch.einsum('ii', x) | torch.einsum('...i...', x)
n.norm() | torch.linalg.vector_norm(n) | torch.linalg.norm(y, 2) | torch.linalg.matrix_norm(v)
torch.cdist(x, w) | torch.cdist(x, sq) | torch.renorm(v, 2, 0, 1.0) | x.kthvalue(0)
torch.linalg.vector_norm(e, float('inf'))
"""


def cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split(" | ")]


@pytest.mark.parametrize("code", cases(REDUCTIONS) + cases(SCANS) + cases(NORMS))
def test_same(code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(
            code, names=not any(k in code for k in ("quantile", "co", "norm(", "trap", "gradient"))
        )


@pytest.mark.parametrize("code", cases(FIRST_ORDER))
def test_same_first_derivative(code):
    check(code, second=False, names=False)


@pytest.mark.parametrize("code", cases(PRODUCTS))
def test_same_product(code):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(code, names=False)


@pytest.mark.parametrize("code", cases(EINSUM))
def test_same_einsum(code):
    equation, operands = code.split("; ")
    check(f"torch.einsum('{equation}', {operands})", names=False)


@pytest.mark.parametrize(
    "code",
    ["x.cumsum_(1)", "x.cumprod_(0)", "x.renorm_(2, 0, 1.0)", "x.addmm_(sq, p)", "x.addr_(w, v)"],
)
def test_same_in_place(code):
    check(f"c = x * 1; c{code[1:]}; out = c * c", names=False)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, float("inf")])
def test_same_cdist(p):
    check(f"torch.cdist(x, y, float('{p}'))", second=False, names=False)
    check(f"torch.cdist(x.repeat(9, 1), p, float('{p}'))", second=False, names=False)


@pytest.mark.parametrize("code", cases(ERRORS))
def test_same_error(code):
    check_error(code)
