"""Dimensions: views with other orders of dimensions, and with dimensions of length one put in or left out.

Dimensions are normalised (none negative) before an op is called, because views are made anew from these attributes
after in-place operations.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

from ...op.declare import Op, declare
from ...op.expose import function, method, prop
from ...op.inplace import become, check, refuse_inference
from ...op.tangents import own_tangent, tangent_of, turn_forgotten
from ...tape import errors, override
from ...tape.modes import FORWARD_AD, NO_GRAD, Flag, state
from ...tape.node import edge
from ...tape.sparse import is_sparse
from ...tape.storage import bump, share
from ...tape.tensor import Tensor, wrap_dim
from .reshape import alias_op, dims_once, given, size_of, view_op

# -- order of dimensions -----------------------------------------------------------------------------------------


def _inverse(dims: tuple) -> tuple:
    inverse = [0] * len(dims)
    for i, d in enumerate(dims):
        inverse[d] = i
    return tuple(inverse)


permute_op = declare(
    "permute", lambda xp, self, *, dims: self.transpose(dims), view=True, jvp="linear", complex=True,
    self=lambda F, g, dims: F.permute(g, _inverse(dims)),
    samples=lambda t: [(t(2, 3, 4), (2, 0, 1)), (t(), ()), (t(0, 2), (1, 0))],
    batch="permute",
)  # fmt: skip
transpose_op = declare(
    "transpose", lambda xp, self, *, dim0, dim1: self.swapaxes(dim0, dim1), view=True, jvp="linear", complex=True,
    self=lambda F, g, dim0, dim1: F.transpose(g, dim0, dim1),
    samples=lambda t: [(t(2, 3, 4), 2, 0), (t(2, 3), 0, 1), (t(0, 2), 1, 0)],
    batch="transpose",
)  # fmt: skip
t_op = declare(
    "t", lambda xp, self: self.T, view=True, jvp="linear", complex=True, self=lambda F, g: F.t(g),
    samples=lambda t: [(t(2, 3),), (t(2),), (t(),), (t(0, 2),)],
    batch="t",
)  # fmt: skip


@function("permute", method=True)
def permute(input, *dims, **kw):
    """A view with the dimensions in the order `dims`.

    Raises RuntimeError: `dims` does not name each dimension once.

    Example:
        >>> gradlib.permute(gradlib.zeros(2, 3, 4), (2, 0, 1)).shape
        torch.Size([4, 2, 3])
    """
    order = size_of(given("permute", "dims", dims, kw))
    n = input._array.ndim
    if len(order) != n:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {len(order)}"
        )
    order = tuple([wrap_dim(d, n) for d in order])
    if len(set(order)) != n:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return permute_op.call(input, order)


@function("transpose", "swapaxes", "swapdims", method=True)
def transpose(input, dim0: Any = None, dim1: Any = None, *, axis0: Any = None, axis1: Any = None):
    """A view with two dimensions exchanged; of a tensor without dimensions a view of it.

    Args:
        dim0, dim1: the dimensions, negative ones from the end; also under the names `axis0` and `axis1`.

    Returns:
        A view of the same memory.

    Raises:
        IndexError: no such dimension.

    Example:
        >>> gradlib.transpose(gradlib.tensor([[1, 2], [3, 4]]), 0, 1)
        tensor([[1, 3],
                [2, 4]])
    """
    try:
        n = input._array.ndim
    except AttributeError:
        return override.again(transpose, input, dim0, dim1)
    first = wrap_dim(axis0 if dim0 is None else dim0, n)
    second = wrap_dim(axis1 if dim1 is None else dim1, n)
    return transpose_op.call(input, first, second) if n else alias_op.call(input)


@function("t", method=True)
def t(input):
    """The transpose of a matrix; vectors and scalars as they are.

    Args:
        input: a tensor of at most two dimensions.

    Returns:
        A view of the same memory: (m, n) of (n, m).

    Raises:
        RuntimeError: more than two dimensions.

    Example:
        >>> gradlib.t(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[1, 3],
                [2, 4]])
    """
    if input._array.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {input._array.ndim}D"
        )
    return t_op.call(input)


@prop("T")
def reversed_dims(self):
    """A view with all dimensions in reverse order: of a matrix its transpose; for others it is deprecated and warns.

    Example:
        >>> gradlib.zeros(2, 3).T.shape
        torch.Size([3, 2])
    """
    if self._array.ndim != 2:
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
            if self._array.ndim
            else "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.",
            stacklevel=2,
        )
    return permute_op.call(self, tuple(range(self._array.ndim - 1, -1, -1)))


def _matrices_turned(name: str, x: Tensor) -> Tensor:
    """A view with the last two dimensions exchanged; RuntimeError for a vector."""
    n = x._array.ndim
    if n == 1:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    return transpose_op.call(x, n - 2, n - 1) if n else x


@prop("mT")
def matrix_transpose(self):
    """A view with the last two dimensions exchanged: the transposes of a stack of matrices (..., n, m).

    Raises:
        RuntimeError: the tensor is a vector.

    Example:
        >>> gradlib.zeros(4, 2, 3).mT.shape
        torch.Size([4, 3, 2])
    """
    return _matrices_turned("mT", self)


@function("adjoint", method=True)
def adjoint(input):
    """The conjugate transposes of matrices: the last two dimensions exchanged, complex elements conjugated.

    Args:
        input: a tensor (..., n, m).

    Returns:
        A tensor (..., m, n) on the same memory: of a complex one the conjugated view.

    Raises:
        RuntimeError: the tensor is a vector.

    Example:
        >>> gradlib.adjoint(gradlib.tensor([[1 + 2j, 3j]]))
        tensor([[1.-2.j],
                [0.-3.j]])
    """
    return _matrices_turned("adjoint()", input).conj()


@prop("mH")
def matrix_adjoint(self):
    """The conjugate transposes of matrices (..., n, m): the last two dimensions exchanged; see ``adjoint``.

    Raises:
        RuntimeError: the tensor is a vector.

    Example:
        >>> gradlib.zeros(4, 2, 3).mH.shape
        torch.Size([4, 3, 2])
    """
    return _matrices_turned("mH", self).conj()


@prop("H")
def conjugate_transpose(self):
    """The conjugate transpose of a matrix (n, m), on the same memory.

    Raises:
        RuntimeError: the tensor is a vector, or has more than two dimensions.

    Example:
        >>> gradlib.tensor([[1 + 2j, 3j]]).H
        tensor([[1.-2.j],
                [0.-3.j]])
    """
    if self._array.ndim not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self._array.ndim}-D tensor."
            + (" For batches of matrices, consider using tensor.mH" if self._array.ndim > 2 else "")
        )
    return adjoint(self)


@function("movedim", "moveaxis", method=True)
def movedim(input, source, destination):
    """A view with the dimension(s) `source` moved to the position(s) `destination`.

    Raises IndexError: no such dimension. RuntimeError: not as many destinations as sources.

    Example:
        >>> gradlib.movedim(gradlib.zeros(2, 3, 4), 0, 2).shape
        torch.Size([3, 4, 2])
    """
    n = input._array.ndim
    sources = (source,) if not isinstance(source, (tuple, list)) else source
    targets = (destination,) if not isinstance(destination, (tuple, list)) else destination
    if len(sources) != len(targets):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(sources)} dims) should contain the same "
            f"number of dims as destination ({list(targets)} dims)"
        )
    sources, targets = (tuple(wrap_dim(d, n) for d in dims) for dims in (sources, targets))
    for name, dims in (("source", sources), ("destination", targets)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(dims)})")
    if n == 0:
        return alias_op.call(input)
    order: list[int] = [-1] * n
    for s, d in zip(sources, targets):
        order[d] = s
    rest = iter([d for d in range(n) if d not in sources])
    return permute_op.call(input, tuple([next(rest) if d < 0 else d for d in order]))


# -- dimensions of length one ------------------------------------------------------------------------------------


def _declare_squeeze(name: str, node: str, aten: str = "") -> Op:
    return declare(
        name, lambda xp, self, *, dims: self.squeeze(dims), public="squeeze",
        view=True, jvp="linear", complex=True, node=node, batch="squeeze", aten=aten,
        self=lambda F, g, self_shape: F.reshape(g, self_shape),
        samples=lambda t: [(t(1, 3, 1), (0,)), (t(1, 3, 1), (0, 2)), (t(1, 0), (0,)), (t(), ())],
    )  # fmt: skip


squeeze_op = _declare_squeeze("squeeze", "SqueezeBackward2")
squeeze_dim_op = _declare_squeeze("squeeze_dim", "SqueezeBackward1")
squeeze_all_op = _declare_squeeze("squeeze_all", "SqueezeBackward0", aten="(self)")


def _unsqueeze(xp, self, *, dim):
    shape = self.shape
    return self.reshape((*shape[:dim], 1, *shape[dim:]))


unsqueeze_op = declare(
    "unsqueeze", _unsqueeze, view=True, jvp="linear", complex=True,
    self=lambda F, g, dim: F.squeeze(g, (dim,)),
    samples=lambda t: [(t(3, 4), 1), (t(3, 4), 2), (t(), 0), (t(0), 0)],
    batch="unsqueeze",
)  # fmt: skip


def _squeeze_plan(input, dim) -> tuple[Op, tuple]:
    shape = input._array.shape
    n = len(shape)
    if dim is None:
        return squeeze_all_op, (tuple([i for i in range(n) if shape[i] == 1]),)
    if isinstance(dim, (tuple, list)):
        dims = dims_once(dim, n)
        return squeeze_op, (tuple([d for d in dims if n and shape[d] == 1]),)
    d = wrap_dim(operator.index(dim), n)
    return squeeze_dim_op, ((d,) if n and shape[d] == 1 else (),)


def dimension(name: str, axis: Any) -> Any:
    """The dimension of a function that it was given to as `axis`; TypeError if it is None, too."""
    if axis is None:
        raise TypeError(f'{name}() missing 1 required positional arguments: "dim"')
    return axis


@function("squeeze", method=True)
def squeeze(input, dim=None, *, axis=None):
    """A view without dimensions of length one: all of them, or those among `dim` (an int or a tuple).

    Raises IndexError: no such dimension. Those that are longer stay.

    Example:
        >>> gradlib.squeeze(gradlib.zeros(1, 2, 1)).shape
        torch.Size([2])
    """
    try:
        op, attrs = _squeeze_plan(input, dim if axis is None else axis)
    except AttributeError:
        return override.again(squeeze, input, dim if axis is None else axis)
    return op.call(input, *attrs)


@function("unsqueeze", method=True)
def unsqueeze(input, dim: Any = None, *, axis: Any = None):
    """A view with a dimension of length one inserted at `dim`.

    Raises IndexError: `dim` is not in [-ndim - 1, ndim].

    Example:
        >>> gradlib.unsqueeze(gradlib.zeros(2), 0).shape
        torch.Size([1, 2])
    """
    if dim is None:
        dim = dimension("unsqueeze", axis)
    try:
        return unsqueeze_op.call(input, wrap_dim(dim, input._array.ndim + 1))
    except AttributeError:
        return override.again(unsqueeze, input, dim)


def relabel(op: Op, tensor: Tensor, attrs: tuple, undo: tuple[Op, tuple]) -> Tensor:
    """Make `tensor` itself the view that `op` gives of it; `undo` is the (op, attributes) that leads back."""
    records = tensor._rg and not state.bits & NO_GRAD
    refuse_inference(tensor)
    if is_sparse(tensor):
        if records and tensor.is_leaf:
            raise RuntimeError(errors.LEAF_INPLACE)
        return become(op, tensor, op.call(tensor, *attrs))
    if records:
        check(tensor, op, True)
    share(tensor)
    old = Tensor._make(tensor._array)
    old._rg, old._fn, old._nr, old._ver, old._view = (
        tensor._rg, tensor._fn, tensor._nr, tensor._ver, tensor._view,
    )  # fmt: skip
    tangent = tangent_of(tensor) if state.bits & FORWARD_AD else None
    with Flag(FORWARD_AD, False):
        out = op.call(old, *attrs)
        array = out._array
        if (array.shape, array.strides) != (old._array.shape, old._array.strides):
            tensor._refuse_metadata("set_sizes_and_strides")
        turned = None if tangent is None else op.call(tangent, *attrs)
        turn_forgotten(tensor, op, attrs)
    if tensor._view is not None:
        out._view.made_in = tensor._view.made_in  # no other view than it was
        tensor._view, tensor._fn, tensor._tangent_part = out._view, None, None
    else:  # views that were made before know the base as it was
        tensor._geometries = (*tensor._geometries, (tensor._array, *undo))
        if records:
            tensor._fn, tensor._nr = edge(out)
    tensor._array = out._array
    if turned is not None and tensor._view is None:
        own_tangent(tensor, turned)
    bump(tensor)
    return tensor


@method("transpose_", "swapaxes_", "swapdims_")
def transpose_(self, dim0, dim1):
    """In-place version of ``transpose``: the tensor itself gets the new order of dimensions, its memory stays.

    Args:
        dim0, dim1: the dimensions that are exchanged, negative ones from the end.

    Returns:
        This tensor. Views that were made of it before keep their shape.

    Raises:
        IndexError: no such dimension.
        RuntimeError: a leaf that requires grad, or a view of one.

    Example:
        >>> x = gradlib.zeros(2, 3)
        >>> x.transpose_(0, 1).shape, x.shape
        (torch.Size([3, 2]), torch.Size([3, 2]))
    """
    n = self._array.ndim
    dims = wrap_dim(dim0, n), wrap_dim(dim1, n)
    if not n:
        return relabel(alias_op, self, (), (alias_op, ()))
    return relabel(transpose_op, self, dims, (transpose_op, dims))


@method("t_")
def t_(self):
    """In-place version of ``t``: the matrix itself is transposed, its memory stays.

    Returns:
        This tensor. Views that were made of it before keep their shape.

    Raises:
        RuntimeError: more than two dimensions; a leaf that requires grad, or a view of one.

    Example:
        >>> gradlib.tensor([[1, 2], [3, 4]]).t_()
        tensor([[1, 3],
                [2, 4]])
    """
    if self._array.ndim > 2:
        raise RuntimeError(
            f"t_() expects a tensor with <= 2 dimensions, but self is {self._array.ndim}D"
        )
    return relabel(t_op, self, (), (t_op, ()))


@method("squeeze_")
def squeeze_(self, dim=None):
    """In-place version of ``squeeze``: the tensor itself loses dimensions of length one, its memory stays.

    Args:
        dim: an int or a tuple: the dimensions to look at; all if None.

    Returns:
        This tensor. Views that were made of it before keep their shape.

    Raises:
        IndexError: no such dimension.
        RuntimeError: a leaf that requires grad, or a view of one.

    Example:
        >>> gradlib.zeros(1, 2, 1).squeeze_().shape
        torch.Size([2])
    """
    op, attrs = _squeeze_plan(self, dim)
    return relabel(op, self, attrs, (view_op, (self._array.shape,)))


@method("unsqueeze_")
def unsqueeze_(self, dim):
    """In-place version of ``unsqueeze``: the tensor itself gets a dimension of length one, its memory stays.

    Args:
        dim: the place of the new dimension, in [-ndim - 1, ndim].

    Returns:
        This tensor. Views that were made of it before keep their shape.

    Raises:
        IndexError: no such place.
        RuntimeError: a leaf that requires grad, or a view of one.

    Example:
        >>> gradlib.zeros(2).unsqueeze_(0).shape
        torch.Size([1, 2])
    """
    place = wrap_dim(dim, self._array.ndim + 1)
    return relabel(unsqueeze_op, self, (place,), (squeeze_dim_op, ((place,),)))
