"""Indexing inside vmap, with every choice of what depends on the batch, against a loop over the entries."""

import itertools

import numpy as np
import pytest

import gradlib as gl
from gradlib.func import grad, jacfwd, jacrev, vmap

SIZE, LENGTH = 3, 4
READS = {
    "x[i]": lambda x, i, j: x[i],
    "x[:, i]": lambda x, i, j: x[:, i],
    "x[i, j]": lambda x, i, j: x[i, j],
    "x[i, :, j]": lambda x, i, j: x[i, :, j],
    "x[:, i, j]": lambda x, i, j: x[:, i, j],
    "x[..., j]": lambda x, i, j: x[..., j],
    "x[None, i]": lambda x, i, j: x[None, i],
    "x[0, :, j]": lambda x, i, j: x[0, :, j],
    "x[i[:, None], j[None]]": lambda x, i, j: x[i[:, None], j[None]],
    "x[:, i[:, None], j]": lambda x, i, j: x[:, i[:, None], j],
    "x[1:, i]": lambda x, i, j: x[1:, i],
    "x[mask, i[:1]]": lambda x, i, j: x[gl.tensor([True, False, True, True]), i[:1]],
    "x[i, :, j[0]]": lambda x, i, j: x[i, :, j[0]],
    "x[j[1], i]": lambda x, i, j: x[j[1], i],
    "x[:, i[0]]": lambda x, i, j: x[:, i[0]],
}
DIMS = [dims for dims in itertools.product([0, None], repeat=3) if dims != (None, None, None)]


def arguments(dims):
    numbers = np.random.default_rng(7)
    batch = [(SIZE,) if d == 0 else () for d in dims]
    x = gl.tensor(numbers.standard_normal((*batch[0], LENGTH, LENGTH, LENGTH)))
    i, j = (gl.tensor(numbers.integers(0, LENGTH, (*b, 2))) for b in batch[1:])
    return x, i, j


def loop(function, args, dims):
    entry = [
        [a if d is None else a[k] for a, d in zip(args, dims, strict=True)] for k in range(SIZE)
    ]
    return gl.stack([function(*e) for e in entry])


@pytest.mark.parametrize("dims", DIMS, ids=str)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
class TestReading:
    def test_values(self, read, dims):
        args = arguments(dims)
        assert gl.equal(vmap(read, dims)(*args), loop(read, args, dims))

    def test_gradient_of_each_entry(self, read, dims):
        args = arguments(dims)
        slope = grad(lambda x, i, j: (read(x, i, j) ** 2).sum())
        assert gl.allclose(vmap(slope, dims)(*args), loop(slope, args, dims))

    def test_gradient_of_the_batch(self, read, dims):
        x, i, j = args = arguments(dims)
        whole = grad(lambda x: (vmap(read, dims)(x, i, j) ** 2).sum())(x)
        wanted = grad(lambda x: (loop(read, (x, *args[1:]), dims) ** 2).sum())(x)
        assert gl.allclose(whole, wanted)

    def test_jacobians(self, read, dims):
        x, i, j = (a if d is None else a[0] for a, d in zip(arguments(dims), dims, strict=True))
        assert gl.allclose(*(jac(lambda x: read(x, i, j) * x.sum())(x) for jac in (jacfwd, jacrev)))


class Key:
    """``key[...]`` gives what stands between the brackets."""

    def __getitem__(self, key):
        return key


WRITES = {
    "tensor": lambda x, key, value: x.__setitem__(key, value),
    "number": lambda x, key, value: x.__setitem__(key, 5.0),
    "added": lambda x, key, value: x.__setitem__(key, x[key] + value),
    "index_put_": lambda x, key, value: x.__setitem__(key, value.sum()),
}


@pytest.mark.parametrize("dims", [d for d in DIMS if d[0] == 0], ids=str)
@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing(write, read, dims):
    def put(x, i, j):
        x = x.clone()
        write(x, read(Key(), i, j), read(x, i, j) * 2)
        return x

    args = arguments(dims)
    assert gl.allclose(vmap(put, dims)(*args), loop(put, args, dims))


def test_what_all_entries_share_is_not_written():
    shared = gl.zeros(4)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda i, v: shared.__setitem__(i, v))(gl.tensor([[0], [1]]), gl.ones(2, 1))
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda v: shared.add_(v))(gl.ones(2, 4))
    assert shared.tolist() == [0.0] * 4


def test_a_mask_of_the_batch_is_refused():
    for use in (lambda x: x[x > 0], lambda x: x.clone().__setitem__(x > 0, 1.0)):
        with pytest.raises(RuntimeError, match="batch over indexing with a boolean mask"):
            vmap(use)(gl.ones(2, 3))
