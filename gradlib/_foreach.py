"""The functions on lists of tensors, ``torch._foreach_add`` and its like: an op on each tensor of a list.

They are made here from the ops of single tensors; on CUDA elementwise ones run in one kernel for many tensors. Names
that end in an underscore write to the tensors of the first list, and return it; the others return a tuple of new
tensors. Gradients are those of the ops.

Example:
    >>> gradlib._foreach_mul([gradlib.ones(2), gradlib.ones(1)], [2.0, 3.0])
    (tensor([2., 2.]), tensor([3.]))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .devices.cuda.fused.lists import each_tensor
from .linalg import vector_norm
from .op.expose import PUBLIC
from .op.plain_numbers import is_number
from .operators import public as ops
from .tape import dtypes
from .tape.tensor import Tensor

UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
BINARY = "add sub mul div pow clamp_min clamp_max maximum minimum".split()
_WITH_ALPHA = frozenset(("add", "sub"))
# what the second argument is called: a number, numbers, a tensor or tensors
_SECOND = ("scalar", "scalars", "other", "exponent")


def _tensors(name: str, given: Any) -> Sequence[Tensor]:
    """A list or tuple of tensors that is not empty."""
    if not isinstance(given, (list, tuple)):
        raise TypeError(
            f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {type(given).__name__}"
        )
    if not given:
        raise RuntimeError("Tensor list must have at least one tensor.")
    for i, t in enumerate(given):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"expected Tensor as element {i} in argument 0, but got {type(t).__name__}"
            )
    return given


def _of_length(tensors: Sequence[Tensor], given: Any) -> Sequence[Any]:
    """`given`, which must have an entry for each tensor."""
    if len(given) != len(tensors):
        if len(given) and is_number(given[0]):
            raise RuntimeError("Tensor list must have same number of elements as scalar list.")
        raise RuntimeError(
            f"Tensor lists must have the same number of tensors, got {len(tensors)} and {len(given)}"
        )
    return given


def _spread(name: str, tensors: Sequence[Tensor], value: Any) -> Sequence[Any]:
    """An argument for each tensor: those of a list, or one number or 0-dim tensor for all."""
    if isinstance(value, (list, tuple)):
        return _of_length(tensors, value)
    if isinstance(value, Tensor):
        if value.dim():
            raise RuntimeError(
                f"scalar tensor expected to be 0 dim but it has {value.dim()} dimensions and {value.numel()} elements."
            )
    elif not is_number(value):
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got ({type(value).__name__})"
        )
    return [value] * len(tensors)


def _named(made: Callable, name: str, text: str) -> Callable:
    made.__name__ = made.__qualname__ = name
    made.__doc__ = text
    return made


def _one(base: str, writes: bool) -> Callable:
    """The op on one tensor: the function, or the method that writes."""
    if not writes:
        return PUBLIC[base]
    return lambda t, *args, **kwargs: getattr(t, base + "_")(*args, **kwargs)


# under these names numbers are allowed, too
_SAME = {"maximum": "clamp_min", "minimum": "clamp_max"}
# what a kernel for lists computes, where that is an op of another name
_OPS = {"clamp_min": "maximum", "clamp_max": "minimum", "pow": "pow_tensors", "lerp": "lerp_tensor"}


def _formula(base: str) -> Callable:
    """The function of the formulas' ops and the values of one element; with `alpha` as the third."""
    name = _OPS.get(base, base)
    if base not in _WITH_ALPHA:
        return lambda F, *values: getattr(F, name)(*values)
    return lambda F, x, y, *alpha: getattr(F, name)(x, y * alpha[0] if alpha else y)


def _on_device(base: str, given: dict[str, Sequence[Any]], writes: bool) -> Any:
    """The result of one kernel for many tensors; None where the ops have to do it."""
    if not given["x"][0].is_cuda:
        return None
    return each_tensor(base, _formula(base), given, writes)


def _unary(base: str, name: str, writes: bool) -> Callable:
    run = _one(base, writes)

    def each(self: Sequence[Tensor]) -> Any:
        tensors = _tensors(name, self)
        made = _on_device(base, {"x": tensors}, writes)
        if made is None:
            made = tuple([run(t) for t in tensors])
        return self if writes else made

    return _named(each, name, f"``{base}`` of each tensor of a list.")


def _binary(base: str, name: str, writes: bool) -> Callable:
    run = _one(_SAME.get(base, base), writes)

    def each(self: Any, *args: Any, alpha: Any = 1, **kwargs: Any) -> Any:
        if not args:
            args = tuple([kwargs.pop(key) for key in _SECOND if key in kwargs])
        if len(args) != 1 or kwargs or (alpha != 1 and base not in _WITH_ALPHA):
            raise TypeError(f"{name}() received an invalid combination of arguments")
        (other,) = args
        scaled = {"alpha": alpha} if base in _WITH_ALPHA else {}
        if base == "pow" and is_number(self) and not writes:  # a number to the power of tensors
            return tuple([run(self, t) for t in _tensors(name, other)])
        tensors = _tensors(name, self)
        others = _spread(name, tensors, other)
        given = {"x": tensors, "y": others}
        if alpha.__class__ is not int or alpha != 1:
            given["alpha"] = [alpha] * len(tensors)
        made = _on_device(base, given, writes)
        if made is None:
            made = tuple([run(t, o, **scaled) for t, o in zip(tensors, others, strict=True)])
        return self if writes else made

    return _named(
        each,
        name,
        f"``{base}`` of each tensor of a list and a number, a tensor, or one of each in a list.",
    )


def _ternary(base: str, name: str, writes: bool) -> Callable:
    run = _one(base, writes)

    def each(
        self: Sequence[Tensor],
        tensor1: Sequence[Tensor],
        tensor2: Sequence[Tensor],
        value: Any = 1,
        *,
        scalars: Any = None,
    ) -> Any:
        tensors = _tensors(name, self)
        first, second = _of_length(tensors, tensor1), _of_length(tensors, tensor2)
        factors = value if scalars is None else scalars
        if isinstance(factors, Tensor) and factors.dim():
            factors = factors.tolist()
            if len(factors) != len(tensors):
                raise RuntimeError(
                    f"Expected length of scalars to match input of length {len(tensors)} but got {len(factors)} "
                    "instead."
                )
        values = _spread(name, tensors, factors)
        given = {"x": tensors, "a": first, "b": second, "value": values}
        made = _on_device(base, given, writes)
        if made is None:
            every = zip(tensors, first, second, values, strict=True)
            made = tuple([run(t, a, b, value=v) for t, a, b, v in every])
        return self if writes else made

    return _named(
        each, name, f"``{base}`` of each tensor of three lists; `value` may be a list, too."
    )


def _lerp(base: str, name: str, writes: bool) -> Callable:
    run = _one(base, writes)

    def each(
        self: Sequence[Tensor],
        tensors1: Sequence[Tensor],
        weight: Any = None,
        *,
        weights: Any = None,
    ) -> Any:
        tensors = _tensors(name, self)
        ends = _of_length(tensors, tensors1)
        parts = _spread(name, tensors, weights if weight is None else weight)
        made = _on_device(base, {"x": tensors, "end": ends, "weight": parts}, writes)
        if made is None:
            made = tuple([run(t, e, w) for t, e, w in zip(tensors, ends, parts, strict=True)])
        return self if writes else made

    return _named(each, name, "``lerp`` of each tensor of two lists; `weight` may be a list, too.")


def _foreach_clone(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """A copy of each tensor of a list."""
    return tuple([t.clone() for t in _tensors("_foreach_clone", self)])


def _foreach_mm(self: Sequence[Tensor], mat2: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The matrix product of each pair of two lists."""
    tensors = _tensors("_foreach_mm", self)
    return tuple([ops.mm(a, b) for a, b in zip(tensors, _of_length(tensors, mat2), strict=True)])


def _foreach_max(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The greatest element of each tensor of a list; RuntimeError for a tensor without elements."""
    tensors = _tensors("_foreach_max", self)
    if not all([t.numel() for t in tensors]):
        raise RuntimeError(
            "_foreach_max cannot compute the maximum of an empty tensor; max over zero elements is undefined."
        )
    return tuple([t.max() for t in tensors])


def _foreach_norm(
    self: Sequence[Tensor], ord: float = 2, dtype: dtypes.dtype | None = None
) -> tuple[Tensor, ...]:
    """The vector norm of each tensor of a list; RuntimeError for that of infinite order without elements."""
    tensors = _tensors("_foreach_norm", self)
    if ord == float("inf") and not all([t.numel() for t in tensors]):
        raise RuntimeError(
            "_foreach_norm cannot compute the infinity norm on an empty tensor because the operation does not have an "
            "identity"
        )
    return tuple([vector_norm(t, ord, dtype=dtype) for t in tensors])


def _foreach_powsum(
    self: Sequence[Tensor], ord: float = 2, dtype: dtypes.dtype | None = None
) -> tuple[Tensor, ...]:
    """The sum of the absolute values of each tensor of a list to the power of `ord`."""
    tensors = _tensors("_foreach_powsum", self)
    return tuple([(t.to(dtype or t.dtype).abs() ** ord).sum() for t in tensors])


def _foreach_zero_(self: Sequence[Tensor]) -> Sequence[Tensor]:
    """Write 0 to all tensors of a list; returns the list."""
    for t in _tensors("_foreach_zero_", self):
        t.zero_()
    return self


def _foreach_copy_(
    self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False
) -> Sequence[Tensor]:
    """Write each tensor of one list into that of another one; returns the list."""
    tensors = _tensors("_foreach_copy_", self)
    for t, s in zip(tensors, _of_length(tensors, src), strict=True):
        t.copy_(s, non_blocking)
    return self


def _amp_foreach_non_finite_check_and_unscale_(
    self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> None:
    """Multiply each tensor by `inv_scale`; `found_inf` becomes 1 if an element is infinite or nan."""
    for t in self:
        found_inf.masked_fill_(t.isfinite().all().logical_not(), 1.0)
        t.mul_(inv_scale)


def _amp_update_scale_(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    """Make a scale smaller after a step that found infinities, greater after so many without; returns it."""
    found = found_inf != 0
    steps = ops.where(found, 0, growth_tracker + 1)
    grows = (steps == growth_interval) & found.logical_not()
    larger = self * scale_growth_factor
    grown = ops.where(grows & larger.isfinite(), larger, self)
    self.copy_(ops.where(found, self * scale_backoff_factor, grown))
    growth_tracker.copy_(ops.where(grows, 0, steps))
    return self


def _make() -> None:
    """Enter the functions that follow from an op's name."""
    made: dict[str, Callable] = {}
    for bases, maker in (
        (UNARY, _unary),
        (BINARY, _binary),
        (("addcmul", "addcdiv"), _ternary),
        (("lerp",), _lerp),
    ):
        for base in bases:
            for writes in (False, True):
                name = f"_foreach_{base}{'_' * writes}"
                made[name] = maker(base, name, writes)
    globals().update(made)


_make()
