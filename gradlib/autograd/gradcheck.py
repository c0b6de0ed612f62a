"""gradcheck: gradients computed by formulas against gradients computed by finite differences.

Jacobians are matrices with a row for each element of the input and a column for each element of the output. For a
real function L of a complex input the entry is dL/dx + j dL/dy, as backward computes it; a complex output counts as
two real ones, its real and its imaginary part.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..operators.create.filled import zeros_like
from ..operators.shape.join import stack
from ..tape.device import beside
from ..tape.tensor import Tensor, to_host
from ._diagnosis import diagnosis, mismatch, slowly
from ._jacobians import (
    NOT_REENTRANT,
    GradcheckError,
    Options,
    analytical_jacobians,
    as_gradient,
    as_tuple,
    backward_column,
    differentiable_outputs,
    directions_of,
    numerical_jacobians,
    part_of,
    random_gradient,
    slope_along,
    tangents_along,
    to_device,
    unit_vector,
)
from ._sparse_gradcheck import on_dense
from .differentiate import Rows, grad
from .function import Function

if TYPE_CHECKING:
    from ._deprecated_jacobians import (
        get_analytical_jacobian,
        get_numerical_jacobian,
        get_numerical_jacobian_wrt_specific_input,
    )

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "get_numerical_jacobian_wrt_specific_input",
    "gradcheck",
    "gradgradcheck",
]


def __getattr__(name: str) -> Any:
    """What is deprecated is imported when it is asked for."""
    if name in __all__:  # and not here: a deprecated one
        return getattr(importlib.import_module(f"{__package__}._deprecated_jacobians"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


_POSITIONAL = "eps atol rtol raise_exception check_sparse_nnz nondet_tol check_undefined_grad check_grad_dtypes".split()
_POSITIONAL2 = (
    "eps atol rtol gen_non_contig_grad_outputs raise_exception nondet_tol check_undefined_grad check_grad_dtypes"
).split()
UNDEFINED = "Expected backward function to handle undefined output grads. An undefined gradient stands for zeros."
UNDEFINED_NONZERO = (
    "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
)
BATCHED = "gradcheck or gradgradcheck failed while testing batched gradient computation."


def gradcheck(
    func: Callable,
    inputs: Any,
    *args: Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
    check_sparse_nnz: bool | None = None,
) -> bool:
    """Check the gradients of ``func(*inputs)`` for the inputs that require grad against finite differences.

    Args:
        func: takes tensors, returns a Tensor or a tuple of them; deterministic.
        inputs: a Tensor or a tuple; those that require grad should be float64 or complex128, without overlap.
        eps: step of the finite differences.
        atol, rtol: tolerances of the comparison.
        raise_exception: raise GradcheckError; otherwise return False.
        nondet_tol: how much two runs of the same backward may differ.
        check_undefined_grad: check that undefined gradients of outputs are taken for zeros.
        check_grad_dtypes: check that gradients have the dtype of the inputs.
        check_batched_grad, check_batched_forward_grad: check batches of vectors too.
        check_forward_ad, check_backward_ad: the modes to check.
        fast_mode: compare one random projection of the Jacobians, in a few runs, instead of all their entries.
        masked: of sparse inputs only the values that are there are varied; otherwise each element is.
        check_sparse_nnz: the old name of `masked`.

    `eps`, `atol`, `rtol` and `raise_exception` may be given by position.

    Raises:
        GradcheckError: the gradients differ, by `raise_exception`.
        ValueError: no input requires grad.
        AssertionError: neither mode is to be checked, or a batch in a mode that is not.

    Example:
        >>> x = gradlib.rand(3, dtype=gradlib.float64, requires_grad=True)
        >>> gradcheck(gradlib.sin, (x,))
        True
    """
    if args:
        return gradcheck(func, inputs, **_by_position(_POSITIONAL, args, locals(), gradcheck))
    assert check_forward_ad or check_backward_ad, (
        "Expected at least one of check_forward_ad or check_backward_ad to be True"
    )
    assert check_backward_ad or not check_batched_grad, (
        "Setting check_batched_grad=True requires check_backward_ad to be True"
    )
    assert check_forward_ad or not check_batched_forward_grad, (
        "Setting check_batched_forward_grad=True requires check_forward_ad to be True"
    )
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if check_sparse_nnz is not None:
        warnings.warn("`check_sparse_nnz` is deprecated", FutureWarning, stacklevel=2)
        masked = check_sparse_nnz if masked is None else masked
    func, given = on_dense(func, given, masked)
    options = Options(
        eps=eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol, undefined=check_undefined_grad, dtypes=check_grad_dtypes,
        batched=check_batched_grad, batched_forward=check_batched_forward_grad, forward=check_forward_ad,
        backward=check_backward_ad, fast=fast_mode,
    )  # fmt: skip
    try:
        _check(func, given, options)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *args: Any,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Check second derivatives: gradcheck of the gradient of `func`, with respect to `inputs` and `grad_outputs`.

    Args:
        func: as in gradcheck, like all arguments that are not named here.
        grad_outputs: a Tensor or a tuple with one for each differentiable output; made at random if not given.
        gen_non_contig_grad_outputs: make them non-contiguous.
        check_fwd_over_rev, check_rev_over_rev: the modes for the second derivative.

    Raises:
        GradcheckError: the derivatives differ, by `raise_exception`.

    Example:
        >>> x = gradlib.rand(3, dtype=gradlib.float64, requires_grad=True)
        >>> gradlib.autograd.gradgradcheck(gradlib.sin, (x,))
        True
    """
    if args:
        return gradgradcheck(
            func, inputs, grad_outputs, **_by_position(_POSITIONAL2, args, locals(), gradgradcheck)
        )
    assert check_fwd_over_rev or check_rev_over_rev, (
        "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True"
    )
    for name, asked in (
        ("check_undefined_grad", check_undefined_grad),
        ("check_batched_grad", check_batched_grad),
    ):
        assert check_rev_over_rev or not asked, (
            f"Setting {name}=True requires check_rev_over_rev to be True"
        )
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    func, given = on_dense(func, given, masked)
    if grad_outputs is None:
        outputs = differentiable_outputs(func(*given))
        vectors = tuple(random_gradient(o, gen_non_contig_grad_outputs) for o in outputs)
    else:
        vectors = (
            tuple(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else (grad_outputs,)
        )
    n = len(given)
    wanted = [
        i for i, t in enumerate((*given, *vectors)) if isinstance(t, Tensor) and t.requires_grad
    ]

    def gradient(*values):
        for i in wanted:
            values[i].requires_grad_()
        differentiated = [values[i] for i in wanted if i < n]
        found = grad(
            differentiable_outputs(func(*values[:n])),
            differentiated,
            values[n:],
            create_graph=True,
            allow_unused=True,
        )
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradient, (*given, *vectors), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad, fast_mode=fast_mode, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, masked=masked,
    )  # fmt: skip


def _by_position(names: Sequence[str], args: tuple, given: dict, function: Callable) -> dict:
    if len(args) > len(names):
        raise TypeError(
            f"{function.__name__}() takes at most {len(names)} options by position ({len(args)} given)"
        )
    defaults = function.__kwdefaults__ or {}
    return {name: given[name] for name in defaults} | dict(zip(names, args, strict=False))


# -- the check -------------------------------------------------------------------------------------------------------


def _check(func: Callable, inputs: tuple, options: Options) -> None:
    _check_inputs(inputs)
    result = as_tuple(func(*inputs))
    outputs = differentiable_outputs(result)
    live = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not outputs:
        _check_constant(func, inputs, live, result, options)
        return

    def run() -> tuple:
        return differentiable_outputs(func(*inputs), outputs)

    compare = _compare_fast if options.fast else _compare
    if options.backward:
        compare(run, inputs, live, outputs, options)
    if options.forward:
        _compare_forward(func, inputs, live, run, options)
    if not options.backward:
        return
    if options.batched:
        _check_batched(outputs, [inputs[i] for i in live])
    _check_linear(outputs, [inputs[i] for i in live])
    if options.undefined:
        _check_undefined(func, inputs, live)


def _check_inputs(inputs: tuple) -> None:
    some = False
    for i, t in enumerate(inputs):
        if not isinstance(t, Tensor) or not t.requires_grad:
            continue
        some = True
        if t._array.dtype not in (np.float64, np.complex128):
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point or complex. This check "
                "will likely fail if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                "non-overlapping to be able to compute the numerical gradients correctly. You should call .contiguous "
                "on the input before passing it to gradcheck."
            )
    if not some:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have "
            "requires_grad=True."
        )


def _parts(tensors: Sequence[Tensor]) -> list[tuple[int, Any]]:
    """What is compared, in order: (position, 1j for the imaginary part or 1), imaginary parts first."""
    first = [(i, 1j if t.is_complex() else 1) for i, t in enumerate(tensors)]
    return first + [(i, 1) for i, unit in first if unit == 1j]


def _compare(
    run: Callable, inputs: tuple, live: list[int], outputs: tuple, options: Options
) -> None:
    """Compare all entries of all Jacobians."""
    tensors = [inputs[i] for i in live]
    numerical = [numerical_jacobians(run, t, outputs, options) for t in tensors]
    for o, unit in _parts(outputs):
        for i, have in enumerate(analytical_jacobians(outputs[o], tensors, unit, options)):
            want = as_gradient(part_of(numerical[i][o], unit))
            if not options.close(have, want):
                text = mismatch(have, want, i, o, tensors[i], outputs[o], unit)
                raise GradcheckError(
                    text + diagnosis(have, want, tensors[i], outputs[o], unit, options)
                )


def _compare_fast(
    run: Callable, inputs: tuple, live: list[int], outputs: tuple, options: Options
) -> None:
    """Compare v^T J u for random u and v; where that fails, all entries, for the message."""
    tensors = [inputs[i] for i in live]
    draw = np.random.default_rng(0)
    directions = [unit_vector(draw, t) for t in tensors]
    slopes = []
    for tensor, direction in zip(tensors, directions, strict=True):
        array = tensor._array
        with beside(array):
            step = to_device(direction.astype(array.dtype), array) * options.eps
        slopes.append(slope_along(run, array, ..., step, options.eps))
    for o, unit in _parts(outputs):
        out = outputs[o]
        vector = unit_vector(draw, out, of_part=True)
        given = Tensor._make(to_device((vector * unit).astype(out._array.dtype), out._array))
        for i, (tensor, direction) in enumerate(zip(tensors, directions, strict=True)):
            want = float(np.vdot(vector, part_of(slopes[i][o], unit)).real)
            row = Rows(out, [tensor], False)
            have = [
                float(np.vdot(direction, backward_column(row, [tensor], given, options)[0]).real)
                for _ in range(2)
            ]
            if abs(have[0] - have[1]) > options.nondet_tol:
                raise GradcheckError(NOT_REENTRANT.format(options.nondet_tol))
            scale = max(np.sqrt(max(tensor.numel(), 1) * max(out.numel(), 1)) ** 0.5, 1.0)
            tolerance = options.atol * scale + options.rtol * abs(want)
            if not abs(have[0] - want) <= tolerance:  # nan too
                text = mismatch(have[0], want, i, o, tensor, out, unit)
                slopes_of = numerical_jacobians(run, tensor, outputs, options)[o]
                all_want = as_gradient(part_of(slopes_of, unit))
                all_have = analytical_jacobians(out, [tensor], unit, options)[0]
                text += slowly(all_have, all_want, options)
                raise GradcheckError(
                    text + diagnosis(all_have, all_want, tensor, out, unit, options)
                )


def _check_constant(func, inputs: tuple, live: list[int], result: tuple, options: Options) -> None:
    """Outputs that require no grad must not depend on inputs that do."""
    kept = [isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex()) for o in result]
    outs = tuple(o for o, keep in zip(result, kept, strict=True) if keep)

    def run():
        return tuple(o for o, keep in zip(as_tuple(func(*inputs)), kept, strict=True) if keep)

    for i in live if outs else ():
        for jacobian in numerical_jacobians(run, inputs[i], outs, options):
            if not np.allclose(jacobian, 0, rtol=0, atol=options.atol):
                raise GradcheckError("Numerical gradient for function expected to be zero")


# -- forward mode ----------------------------------------------------------------------------------------------------


def _compare_forward(
    func: Callable, inputs: tuple, live: list[int], run: Callable, options: Options
) -> None:
    """Compare tangents in the direction of each element (or, in fast mode, one random direction) with slopes."""
    draw = np.random.default_rng(0)
    tensors = [inputs[i] for i in live]
    for i, unit in _parts(tensors):
        tensor = tensors[i]

        def rows(directions, position=live[i], array=tensor._array) -> tuple[list, list]:
            want, have = [], []
            for step in directions:
                with beside(array):
                    moved = to_device(step.astype(array.dtype), array)
                    want.append(slope_along(run, array, ..., moved * options.eps, options.eps))
                have.append(tangents_along(func, inputs, position, moved, options))
            return have, want

        have, want = rows(directions_of(tensor, unit, draw, options.fast))
        for o, out in enumerate(run() if have else ()):
            if options.close(*_stacked(have, want, o)):
                continue
            if not options.fast:
                both = _stacked(have, want, o)
                text = mismatch(*both, i, o, tensor, out, unit, forward=True)
            else:
                both = have[0][o].reshape(-1), want[0][o].reshape(-1)
                text = mismatch(*both, i, o, tensor, out, unit, forward=True)
                both = _stacked(*rows(directions_of(tensor, unit, draw, False)), o)
                text += slowly(*both, options)
            raise GradcheckError(text + diagnosis(*both, tensor, out, unit, options))
    for position in live if options.batched_forward else ():
        if inputs[position].numel():
            _check_forward_linear(func, inputs, position, draw, options)


def _stacked(have: list, want: list, o: int) -> tuple[np.ndarray, np.ndarray]:
    """The tangents and slopes of output `o`, with a row for each direction."""
    return tuple(np.stack([r[o].reshape(-1) for r in rows]) for rows in (have, want))  # type: ignore[return-value]


def _check_forward_linear(
    func: Callable, inputs: tuple, position: int, draw, options: Options
) -> None:
    """Tangents of a batch of directions: the tangent of a sum must be the sum of the tangents."""
    array = inputs[position]._array
    a, b = (unit_vector(draw, inputs[position]).astype(array.dtype) for _ in range(2))
    parts = [
        tangents_along(func, inputs, position, to_device(v, array), options) for v in (a, b, a + b)
    ]
    for x, y, total in zip(*parts, strict=True):
        if not options.close(x + y, total):
            raise GradcheckError(f"{BATCHED} The jvp is not linear in the tangent.")


# -- further checks --------------------------------------------------------------------------------------------------


def _check_batched(outputs: tuple, inputs: list[Tensor]) -> None:
    """Gradients of a batch of vectors must be those of the vectors one by one."""

    for out in outputs:
        vectors = [random_gradient(out, False).detach() for _ in range(2)]
        one_by_one = [grad(out, inputs, v, retain_graph=True, allow_unused=True) for v in vectors]
        try:
            together = grad(
                out,
                inputs,
                stack(vectors),
                retain_graph=True,
                allow_unused=True,
                is_grads_batched=True,
            )
        except RuntimeError as exc:
            raise GradcheckError(
                f"While computing batched gradients, got: {exc}\n\n{BATCHED}"
            ) from exc
        for k, batch in enumerate(together):
            for row, single in enumerate(one_by_one):
                if batch is None:
                    continue
                if not np.allclose(to_host(batch._array)[row], to_host(single[k]._array)):
                    raise GradcheckError(
                        f"For output gradient {row} of a batch and input {k}: {BATCHED}"
                    )


def _check_linear(outputs: tuple, inputs: list[Tensor]) -> None:
    """Zero gradients of the outputs must give zero gradients of the inputs."""

    vectors = [zeros_like(o) for o in outputs]
    found = grad(outputs, inputs, vectors, retain_graph=True, allow_unused=True)
    for t, g in zip(inputs, found, strict=True):
        if g is None:
            continue
        if bool((to_host(g.to_dense()._array) != 0).any()):
            raise GradcheckError("backward not multiplied by grad_output")
        for what in ("dtype", "device"):
            if getattr(g, what) != getattr(t, what):
                raise GradcheckError(f"grad is incorrect {what.replace('dtype', 'type')}")
        if g.shape != t.shape:
            raise GradcheckError("grad is incorrect size")


class _Undefined(Function):
    """The identity, whose backward gives no gradient at all."""

    @staticmethod
    def forward(ctx, *tensors):
        return tuple(t.clone() for t in tensors)

    @staticmethod
    def backward(ctx, *grads):
        return tuple(None for _ in grads)


def _check_undefined(func: Callable, inputs: tuple, live: list[int]) -> None:
    """Backward must take undefined gradients of all outputs, and of each, for zeros."""

    tensors = [inputs[i] for i in live]
    n = len(differentiable_outputs(func(*inputs)))
    for cut in [range(n), *([[k] for k in range(n)] if n > 1 else [])]:
        outs = list(differentiable_outputs(func(*inputs)))
        undefined = _Undefined.apply(*(outs[k] for k in cut))
        for k, out in zip(cut, undefined, strict=True):
            outs[k] = out
        try:
            found = grad(outs, tensors, [zeros_like(o) for o in outs], allow_unused=True)
        except RuntimeError as exc:
            raise GradcheckError(UNDEFINED) from exc
        for g in found:
            if g is not None and bool((to_host(g.to_dense()._array) != 0).any()):
                raise GradcheckError(UNDEFINED_NONZERO)
