"""How ops are split that work element by element, reduce or multiply, and those of layers; see `_split`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...operators import public as ops
from ...operators.nn.embedding import embedding as rows_of
from ...tape.pytree import flatten
from ._split import Arg, Cut, Label, Split
from ._tables import rule

# -- element by element ------------------------------------------------------------------------------------------------

UNARY = """
    abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh bitwise_not ceil
    celu cos cosh deg2rad digamma elu erf erfc erfinv exp exp2 expm1 fix floor frac gelu hardshrink hardsigmoid
    hardswish hardtanh heaviside i0 isfinite isinf isnan isneginf isposinf leaky_relu lgamma log log10 log1p log2
    logical_not logit logsigmoid mish nan_to_num polygamma rad2deg reciprocal relu relu6 round rsqrt selu sgn sigmoid
    sign signbit silu sin sinc sinh softplus softshrink softsign sqrt square tan tanh tanhshrink threshold trunc
    __invert__ clip clamp clamp_min clamp_max
""".split()
BINARY = """
    atan2 arctan2 bitwise_and bitwise_or bitwise_xor copysign eq floor_divide fmax fmin fmod ge greater greater_equal
    gt heaviside hypot le less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor lt maximum minimum ne
    not_equal pow remainder xlogy __and__ __or__ __xor__ __rpow__ __rdiv__ __rtruediv__ __floordiv__ __rfloordiv__
    __iand__ __ior__ __ixor__ __rand__ __ror__ __rxor__ __rmod__ float_power lerp addcmul addcdiv masked_fill
""".split()
# what a sum may go through: f(a + b) = f(a) + f(b)
LINEAR = """
    cpu cuda neg negative positive clone contiguous detach alias real imag conj double float half bfloat16 __pos__
    __neg__ conj_physical resolve_conj resolve_neg
""".split()


def pointwise(args: Iterable[Any]) -> tuple[list[Arg], tuple[int, ...], list[Label]]:
    """Label the dimensions of tensors that are broadcast together.

    Args:
        args: arguments of an op, nested; what is no `Arg` is left out.

    Returns:
        The tensors, the shape of the result, and its labels.
    """
    found = [v for v in flatten(list(args))[0] if isinstance(v, Arg)]
    shape = tuple(ops.broadcast_shapes(*[arg.shape for arg in found]))
    for arg in found:
        ahead = len(shape) - arg.ndim
        arg.labels = tuple(
            [ahead + k if n == shape[ahead + k] else None for k, n in enumerate(arg.shape)]
        )
    return found, shape, list(range(len(shape)))


@rule(*UNARY, *BINARY)
def _any_pointwise(*args: Any, **kwargs: Any) -> Split:
    _, shape, labels = pointwise((*args, *kwargs.values()))
    return Split((labels, shape))


@rule(*LINEAR, "fill_diagonal_")
def _linear_pointwise(x: Arg, *args: Any, **kwargs: Any) -> Split:
    _, shape, labels = pointwise([x])
    return Split((labels, shape), linear=[[x]])


@rule("to", "type", "type_as")
def _to(x: Arg, *args: Any, **kwargs: Any) -> Split:
    found, shape, labels = pointwise([x])
    args_, _ = flatten([args, kwargs])
    dtypes = [v for v in args_ if hasattr(v, "is_floating_point") and not isinstance(v, Arg)]
    keeps = all(d.is_floating_point or d.is_complex for d in dtypes)
    others = [v for v in args_ if isinstance(v, Arg)]
    for other in others:  # its dtype is all that is asked
        other.labels = (None,) * other.ndim
    return Split((labels, shape), linear=[found] if keeps and not others else [])


@rule("add", "sub", "subtract", "__rsub__", "rsub")
def _add(x: Any, other: Any, **kwargs: Any) -> Split:
    found, shape, labels = pointwise([x, other])
    return Split((labels, shape), linear=[found] if len(found) == 2 else [])


@rule("mul", "multiply")
def _mul(x: Any, other: Any, **kwargs: Any) -> Split:
    found, shape, labels = pointwise([x, other])
    return Split((labels, shape), linear=[[arg] for arg in found])


@rule("div", "divide", "true_divide")
def _div(x: Any, other: Any, *, rounding_mode: str | None = None) -> Split:
    _, shape, labels = pointwise([x, other])
    linear = [[x]] if isinstance(x, Arg) and rounding_mode is None else []
    return Split((labels, shape), linear=linear)


@rule("where")
def _where(condition: Any, x: Any = None, y: Any = None) -> Split:
    _, shape, labels = pointwise([condition, x, y])
    values = [v for v in (x, y) if isinstance(v, Arg)]
    if x is None or not isinstance(condition, Arg):
        raise NotImplementedError("where of a DTensor needs the condition as DTensor, and x and y")
    return Split((labels, shape), linear=[values] if len(values) == 2 else [])


@rule("copy_")
def _copy(x: Arg, src: Any, non_blocking: bool = False) -> Split:
    found, _, labels = pointwise([x, src])
    return Split((labels, x.shape), linear=[found] if len(found) == 2 else [])


@rule("zero_")
def _zero(x: Arg) -> Split:
    _, shape, labels = pointwise([x])
    return Split((labels, shape), linear=[[x]])


@rule("fill_")
def _fill(x: Arg, value: Any) -> Split:
    _, shape, labels = pointwise([x])
    return Split((labels, shape))


# -- reductions --------------------------------------------------------------------------------------------------------


def dims_of(x: Arg, dim: Any) -> list[int]:
    """The dimensions that a reduction names; all for None and ()."""
    if dim is None or dim == ():
        return list(range(x.ndim))
    return [x.dim(d) for d in (dim if isinstance(dim, tuple | list) else (dim,))]


def without(x: Arg, dims: Sequence[int], keepdim: bool) -> tuple[list[Label], list[int]]:
    """The labels and shape of what a reduction leaves."""
    if keepdim:
        return (
            [None if d in dims else k for d, k in enumerate(x.labels)],
            [1 if d in dims else n for d, n in enumerate(x.shape)],
        )
    kept = [d for d in range(x.ndim) if d not in dims]
    return [x.labels[d] for d in kept], [x.shape[d] for d in kept]


@rule("sum")
def _sum(x: Arg, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Split:
    x.labels = tuple(range(x.ndim))
    dims = dims_of(x, dim)
    floats = x.dtype.is_floating_point or x.dtype.is_complex
    return Split(without(x, dims, keepdim), sums=dims, linear=[[x]] if floats else [])


@rule("amax", "amin")
def _extreme(x: Arg, dim: Any = (), keepdim: bool = False) -> Split:
    x.labels = tuple(range(x.ndim))
    return Split(without(x, dims_of(x, dim), keepdim), fixed=dims_of(x, dim))


@rule(
    "any", "all", "prod", "argmax", "argmin", "logsumexp", "count_nonzero", "nansum", "var", "std"
)
def _whole_dims(x: Arg, dim: Any = None, *args: Any, keepdim: bool = False, **kwargs: Any) -> Split:
    x.labels = tuple(range(x.ndim))
    if args and args[0] in (True, False) and len(args) == 1:
        keepdim = args[0]
    return Split(without(x, dims_of(x, dim), keepdim), fixed=dims_of(x, dim))


@rule("max", "min", "median", "mode")
def _pairs(x: Arg, dim: Any = None, keepdim: bool = False) -> Split:
    if isinstance(dim, Arg):
        return _any_pointwise(x, dim)
    x.labels = tuple(range(x.ndim))
    left = without(x, dims_of(x, dim), keepdim)
    return Split(*([left] if dim is None else [left, left]), fixed=dims_of(x, dim))


@rule("softmax", "log_softmax", "cumsum", "cumprod", "softmin", "flip", "roll", "sort", "argsort")
def _along(x: Arg, *args: Any, dim: Any = None, **kwargs: Any) -> Split:
    dim = args[0] if dim is None and args else dim
    x.labels = tuple(range(x.ndim))
    fixed = dims_of(x, dim)
    return Split((x.labels, x.shape), (x.labels, x.shape), fixed=fixed)


@rule("topk")
def _topk(x: Arg, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Split:
    x.labels = tuple(range(x.ndim))
    at = x.dim(dim)
    shape = [k if d == at else n for d, n in enumerate(x.shape)]
    labels = [None if d == at else d for d in range(x.ndim)]
    return Split((labels, shape), (labels, shape), fixed=[at])


@rule("tril", "triu")
def _triangle(x: Arg, diagonal: int = 0) -> Split:
    x.labels = tuple(range(x.ndim))
    return Split((x.labels, x.shape), fixed=[x.ndim - 2, x.ndim - 1], linear=[[x]])


# -- products ----------------------------------------------------------------------------------------------------------


@rule("matmul", "mm", "bmm", "mv", "dot", "__matmul__", "__rmatmul__")
def _matmul(a: Arg, b: Arg, **kwargs: Any) -> Split:
    return _product(a, b)


def _product(a: Arg, b: Arg, added: Sequence[Arg] = ()) -> Split:
    if not (isinstance(a, Arg) and isinstance(b, Arg)):
        raise RuntimeError("a product of a DTensor with a plain tensor: distribute the other, too")
    batch = tuple(ops.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    row = [] if a.ndim == 1 else ["m"]
    column = [] if b.ndim == 1 else ["n"]
    a.labels = (*_batch_labels(a.shape[:-2], batch), *row, "k")
    b.labels = (*_batch_labels(b.shape[:-2], batch), "k", *column)
    labels = [*range(len(batch)), *row, *column]
    shape = [*batch, *(a.shape[-2:-1] if row else ()), *(b.shape[-1:] if column else ())]
    for arg in added:
        ahead = len(shape) - arg.ndim
        arg.labels = tuple(
            [labels[ahead + k] if n == shape[ahead + k] else None for k, n in enumerate(arg.shape)]
        )
    linear = [[a, *added], [b, *added]]
    return Split((labels, shape), sums=["k"], linear=linear, added=added)


def _batch_labels(shape: Sequence[int], batch: Sequence[int]) -> list[Label]:
    ahead = len(batch) - len(shape)
    return [ahead + k if n == batch[ahead + k] else None for k, n in enumerate(shape)]


@rule("addmm", "baddbmm")
def _addmm(x: Arg, a: Arg, b: Arg, **kwargs: Any) -> Split:
    return _product(a, b, [x])


@rule("linear")
def _linear(x: Arg, weight: Arg, bias: Arg | None = None) -> Split:
    x.labels = (*range(x.ndim - 1), "k")
    weight.labels = ("n", "k") if weight.ndim == 2 else ("k",)
    ends = ["n"] if weight.ndim == 2 else []
    added = [] if bias is None else [bias]
    for arg in added:
        arg.labels = tuple(ends)
    shape = (*x.shape[:-1], *weight.shape[:-1])
    linear = [[x, *added], [weight, *added]]
    labels = [*range(x.ndim - 1), *ends]
    return Split((labels, shape), sums=["k"], linear=linear, added=added)


# -- layers ------------------------------------------------------------------------------------------------------------


@rule("embedding")
def _embedding(
    input: Arg,
    weight: Arg,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Split:
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise NotImplementedError(
            "embedding of a DTensor with max_norm, scale_grad_by_freq or sparse: they need the whole weight, "
            "call it on full_tensor()"
        )
    if not isinstance(weight, Arg) or input.dtype.is_floating_point:
        raise NotImplementedError("torch.embedding of DTensors: use nn.functional.embedding")
    input.labels = tuple(range(input.ndim))
    weight.labels = ("v", "d")
    shape = (*input.shape, weight.shape[1])

    def local(args: tuple, kwargs: dict, cut: Cut) -> tuple:
        if "v" not in cut.by:
            return args, kwargs
        begin, end = cut.part("v")
        return (_Lookup(begin, end, padding_idx), input, weight), {}

    out = ((*input.labels, "d"), shape)
    return Split(out, sums=["v"], linear=[[weight]], local=local, calls=lookup)


class _Lookup:
    """Which rows of an embedding this rank has."""

    def __init__(self, begin: int, end: int, padding_idx: int | None) -> None:
        self.begin, self.end, self.padding_idx = begin, end, padding_idx


def lookup(rows: Any, *args: Any, **kwargs: Any) -> Any:
    """The rows of an embedding that this rank has, zeros in the place of others; or all of them."""
    if not isinstance(rows, _Lookup):
        return rows_of(rows, *args, **kwargs)
    indices, weight = args
    outside = (indices < rows.begin) | (indices >= rows.end)
    if rows.begin == rows.end:  # this rank has none
        empty = weight.sum() * 0
        return (
            ops.zeros((*indices.shape, weight.shape[1]), dtype=weight.dtype, device=weight.device)
            + empty
        )
    pad = rows.padding_idx
    if pad is not None:
        pad = pad - rows.begin if rows.begin <= pad < rows.end else None
    found = rows_of((indices - rows.begin).masked_fill(outside, 0), weight, pad)
    return found.masked_fill(outside.unsqueeze(-1), 0)


@rule("layer_norm", "rms_norm")
def _layer_norm(x: Arg, normalized_shape: Any, *args: Any, **kwargs: Any) -> Split:
    n = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    x.labels = (*range(x.ndim - n), *[None] * n)
    return Split((x.labels, x.shape))


@rule("conv1d", "conv2d", "conv3d")
def _conv(x: Arg, weight: Any, bias: Any = None, *args: Any, **kwargs: Any) -> Split:
    raise NotImplementedError(
        "a convolution of DTensors is not split over the ranks: use fully_shard or DistributedDataParallel, whose "
        "parameters are whole while they compute; or call it on to_local() of a batch"
    )


@rule("scaled_dot_product_attention")
def _attention(query: Arg, key: Arg, value: Arg, *args: Any, **kwargs: Any) -> Split:
    mask = kwargs.get("attn_mask", args[0] if args else None)
    dropout = kwargs.get("dropout_p", args[1] if len(args) > 1 else 0.0)
    if mask is not None or dropout or kwargs.get("enable_gqa"):
        raise NotImplementedError(
            "scaled_dot_product_attention of DTensors with attn_mask, dropout_p or enable_gqa: call it on to_local() "
            "of the heads that this rank has"
        )
    batch = query.ndim - 2
    for arg in (query, key, value):
        same = arg.shape[:batch] == query.shape[:batch]
        arg.labels = (*(range(batch) if same else [None] * batch), None, None)
    return Split((query.labels, (*query.shape[:-1], value.shape[-1])))


# -- losses ------------------------------------------------------------------------------------------------------------

POINTWISE_LOSSES = """
    mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div
""".split()
CLASS_LOSSES = ("cross_entropy", "nll_loss")


@rule(*POINTWISE_LOSSES)
def _pointwise_loss(*args: Any, reduction: str = "mean", **kwargs: Any) -> Split:
    _, shape, labels = pointwise((*args, *kwargs.values()))
    if reduction == "none":
        return Split((labels, shape))
    return Split(((), ()), sums=labels)


@rule(*CLASS_LOSSES)
def _class_loss(
    input: Arg,
    target: Arg,
    weight: Arg | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Split:
    input.labels = (None,) if input.ndim == 1 else (0, None, *range(1, input.ndim - 1))
    shares = target.dtype.is_floating_point
    target.labels = input.labels if shares else tuple([k for k in input.labels if k is not None])
    labels = [k for k in input.labels if k is not None]
    if reduction == "none":
        shape = [n for k, n in zip(input.labels, input.shape) if k is not None]
        return Split((labels, shape))
    return Split(((), ()), sums=labels)
