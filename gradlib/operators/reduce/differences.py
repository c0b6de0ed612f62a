"""Differences of neighbours along a dimension, and what follows from them: diff, trapezoid rules, gradient."""

from __future__ import annotations

from ...op.expose import PUBLIC, function, write_out, write_same
from ...op.plain_numbers import python_number
from ...tape import dtypes
from ...tape.tensor import Tensor, wrap_dim
from .scan import SCALAR


def _check_end(input: Tensor, part: Tensor, d: int) -> None:
    """RuntimeError unless `part` can be put at an end of `input` along `d`."""
    if part.ndim != input.ndim:
        raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    for i, (n, m) in enumerate(zip(input.shape, part.shape)):
        if i != d and n != m:
            raise RuntimeError(
                "diff expects the shape of tensor to prepend or append to match that of input except along the "
                f"differencing dimension; input.size({i}) = {n}, but got tensor.size({i}) = {m}"
            )


@function("diff", method=True)
def diff(input, n=1, dim=-1, prepend=None, append=None, *, axis=None, out=None):
    """The n-th differences of neighbours along `dim`, after `prepend` and `append` are put at the ends.

    Raises RuntimeError: a tensor without dimensions, a negative n.

    Example:
        >>> gradlib.diff(gradlib.tensor([1, 4, 9]))
        tensor([3, 5])
    """
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    d = wrap_dim(dim if axis is None else axis, input.ndim)
    for part in (prepend, append):
        if part is not None:
            _check_end(input, part, d)
    if n and (prepend is not None or append is not None):
        input = PUBLIC["cat"]([t for t in (prepend, input, append) if t is not None], d)
    for _ in range(min(n, input.shape[d])):
        late, early = input.narrow(d, 1, input.shape[d] - 1), input.narrow(d, 0, input.shape[d] - 1)
        input = late.logical_xor(early) if input.dtype is dtypes.bool_ else late - early
    return write_out(out, input) if n else write_same(out, input.clone(), SCALAR)


def _widths(y: Tensor, x, dx, dim: int):
    """What sums of neighbours along `dim` are multiplied by: half of `dx`, or the widths of the intervals."""
    if x is None:
        return dx / 2.0
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError("There must be one `x` value for each sample point")
        return diff(x).reshape((-1, *(1,) * (y.ndim - dim - 1)))
    return diff(x, dim=dim - y.ndim)


def _areas(name: str, y: Tensor, x, dx, dim: int):
    dx = python_number(dx)
    if (x is None and not isinstance(dx, (int, float))) or isinstance(dx, bool):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    if y.dtype is dtypes.bool_ or (x is not None and x.dtype is dtypes.bool_):
        which = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(f"{name}: received a bool input for {which}, but bool is not supported")
    n = y.shape[dim]
    areas = (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) * _widths(y, x, dx, dim)
    return areas if x is None else areas / 2.0


@function("trapezoid", "trapz")
def trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The integral along `dim` by the trapezoid rule, over the places `x` or with the spacing `dx`.

    Raises RuntimeError: `x` does not fit. Integers become floating.

    Example:
        >>> gradlib.trapezoid(gradlib.tensor([1.0, 2.0, 3.0]))
        tensor(4.)
    """
    d = wrap_dim(dim, y.ndim)
    if not y.shape[d]:
        return y.sum(d).to(y.dtype)
    if x is None and y.dtype.category == dtypes.INTEGER:
        y = y.long()  # whose sums of neighbours do not wrap around
    return _areas("trapezoid", y, x, dx, d).sum(d)


@function("cumulative_trapezoid")
def cumulative_trapezoid(y, x=None, *, dx=1.0, dim=-1):
    """The running integral along a dimension by the trapezoid rule.

    Args:
        y: the values of the function.
        x: the places of the values, a tensor that broadcasts with `y` or a vector; `dx` counts if None.
        dx: the distance of two neighbouring values.
        dim: the dimension, of length n.

    Returns:
        A tensor with n - 1 entries there.

    Raises:
        IndexError: no such dimension.
        RuntimeError: `x` and `y` do not fit.

    Example:
        >>> gradlib.cumulative_trapezoid(gradlib.tensor([1.0, 2.0, 3.0]))
        tensor([1.5000, 4.0000])
    """
    d = wrap_dim(dim, y.ndim)
    return _areas("cumulative_trapezoid", y, x, dx, d).cumsum(d)


def _derivative(y: Tensor, d: int, h, edge_order: int) -> Tensor:
    """Central differences along `d`, one-sided at the ends; `h` is one spacing or the spacings between neighbours."""
    n = y.shape[d]

    def at(first, count):
        return y.narrow(d, first, count)

    if isinstance(h, Tensor):
        shape = (-1, *(1,) * (y.ndim - d - 1))
        before, after = h[:-1].reshape(shape), h[1:].reshape(shape)
        middle = (
            -after / (before * (before + after)) * at(0, n - 2)
            + (after - before) / (before * after) * at(1, n - 2)
            + before / (after * (before + after)) * at(2, n - 2)
        )
        ends = (h[0], h[1 % (n - 1)]), (h[-1], h[-2 % (n - 1)])
    else:
        middle = (at(2, n - 2) - at(0, n - 2)) / (2 * h)
        ends = ((h, h), (h, h))
    edges = []
    for (near, far), sign, corners in zip(ends, (1, -1), ((0, 1, 2), (n - 1, n - 2, n - 3))):
        a, b = at(corners[0], 1), at(corners[1], 1)
        if edge_order == 1:
            edges.append((b - a) / near * sign)
            continue
        whole = near + far
        c = at(corners[2], 1)
        slope = (
            -(near + whole) / (near * whole) * a
            + whole / (near * far) * b
            - near / (far * whole) * c
        )
        edges.append(slope * sign)
    return PUBLIC["cat"]([edges[0], middle, edges[1]], d)


@function("gradient")
def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Estimated derivatives along dimensions, from the differences of neighbours.

    Args:
        input: the values of a function on a grid.
        spacing: one distance for all, or a sequence: for each dimension a distance, or a tensor of coordinates.
        dim: a dimension or a tuple of them; all if None.
        edge_order: 1 or 2, the order of accuracy at the ends.

    Returns:
        A tuple with a tensor of the shape of `input` for each dimension.

    Raises:
        RuntimeError: a dimension that is too short, or another `edge_order`.

    Example:
        >>> gradlib.gradient(gradlib.tensor([1.0, 4.0, 9.0]))
        (tensor([3., 4., 5.]),)
    """
    if input.dtype is dtypes.uint8:  # whose differences wrap around
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [wrap_dim(d, input.ndim) for d in dims]
    if len(set(dims)) != len(dims):
        twice = next(d for d in dims if dims.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    spacing = 1 if spacing is None else spacing
    spacings = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar or a list of length {len(dims)}, but got a "
            f"list of length {len(spacings)}"
        )
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                "torch.gradient expected each dimension size to be at least edge_order+1"
            )
    steps = [diff(h) if isinstance(h, Tensor) and h.ndim else h for h in spacings]
    return tuple(_derivative(input, d, h, edge_order) for d, h in zip(dims, steps))
