"""gradcheck: gradients computed by formulas against gradients computed by finite differences.

Jacobians are matrices with a row for each element of the input and a column for each element of the output. For a
real function L of a complex input the entry is dL/dx + j dL/dy, as backward computes it; a complex output counts as
two real ones, its real and its imaginary part.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.tensor import Tensor, to_host
from ._diagnosis import diagnose
from .differentiate import grad
from .function import Function

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

_POSITIONAL = "eps atol rtol raise_exception check_sparse_nnz nondet_tol check_undefined_grad check_grad_dtypes".split()
_POSITIONAL2 = (
    "eps atol rtol gen_non_contig_grad_outputs raise_exception nondet_tol check_undefined_grad check_grad_dtypes"
).split()
NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
    "values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}.\n\n"
    "If the difference is only rounding, because sums are computed in another order each time, set nondet_tol."
)
UNDEFINED = "Expected backward function to handle undefined output grads. An undefined gradient stands for zeros."
UNDEFINED_NONZERO = (
    "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
)
BATCHED = "gradcheck or gradgradcheck failed while testing batched gradient computation."


class GradcheckError(RuntimeError):
    """What :func:`gradcheck` and :func:`gradgradcheck` raise when gradients are wrong."""


class _Options:
    """The options of one check."""

    def __init__(self, **options: Any):
        self.eps, self.atol, self.rtol, self.nondet_tol = 1e-6, 1e-5, 1e-3, 0.0
        self.undefined, self.dtypes, self.batched, self.batched_forward = True, False, False, False
        self.forward, self.backward, self.fast = False, True, False
        self.__dict__.update(options)

    def close(self, a: np.ndarray, b: np.ndarray) -> bool:
        return np.allclose(a, b, rtol=self.rtol, atol=self.atol)


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
        masked: concerns sparse tensors, which there are none of.
        check_sparse_nnz: deprecated.

    `eps`, `atol`, `rtol` and `raise_exception` may be given by position.

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
    _refuse_sparse(given, check_sparse_nnz)
    options = _Options(
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
        grad_outputs: a Tensor or a tuple with one for each differentiable output; made at random if not given.
        gen_non_contig_grad_outputs: make them non-contiguous.
        check_fwd_over_rev, check_rev_over_rev: the modes for the second derivative.

    The other arguments are those of gradcheck.
    """
    if args:
        return gradgradcheck(
            func, inputs, grad_outputs, **_by_position(_POSITIONAL2, args, locals(), gradgradcheck)
        )
    given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    if grad_outputs is None:
        outputs = _differentiable(func(*given))
        vectors = tuple(_random_gradient(o, gen_non_contig_grad_outputs) for o in outputs)
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
            _differentiable(func(*values[:n])),
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


def _refuse_sparse(inputs: tuple, check_sparse_nnz: bool | None) -> None:
    if check_sparse_nnz is not None:
        warnings.warn("`check_sparse_nnz` is deprecated", FutureWarning, stacklevel=3)
    if any(isinstance(t, Tensor) and t.is_sparse for t in inputs):
        raise NotImplementedError("gradcheck: sparse tensors are not supported")


def _random_gradient(out: Tensor, scattered: bool) -> Tensor:
    """A random gradient for `out`, that requires grad."""
    from ..ops.create import empty_like

    values = np.random.default_rng(out.numel()).standard_normal((2, *out.shape, 2))
    array = values[0] + 1j * values[1] if out.is_complex() else values[0]
    made = empty_like(out)
    layout = made._array
    if scattered and out.dim():
        from ..backends import backend_of

        made = Tensor._make(backend_of(layout).zeros((*out.shape, 2), layout.dtype)[..., 0])
    made._array[...] = _to_device(array[..., 0].astype(layout.dtype), layout)
    return made.requires_grad_()


def _to_device(array: np.ndarray, like):
    from ..backends import backend_of

    return array if like.__class__ is np.ndarray else backend_of(like).to_backend(array)


# -- the check -------------------------------------------------------------------------------------------------------


def _check(func: Callable, inputs: tuple, options: _Options) -> None:
    _check_inputs(inputs)
    result = _as_tuple(func(*inputs))
    outputs = _differentiable(result)
    live = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not outputs:
        _check_constant(func, inputs, live, result, options)
        return

    def run() -> tuple:
        return _differentiable(func(*inputs), outputs)

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


def _as_tuple(value: Any) -> tuple:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _differentiable(result: Any, like: tuple | None = None) -> tuple[Tensor, ...]:
    """The outputs that require grad; for another run of the same function, those in the same places."""
    outs = tuple(o for o in _as_tuple(result) if isinstance(o, Tensor) and o.requires_grad)
    if like is not None and len(outs) == len(like):
        for a, b in zip(outs, like, strict=True):
            for what in ("shape", "dtype"):
                assert getattr(a, what) == getattr(b, what), (
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed, but got: "
                    f"{what}s {getattr(a, what)} and {getattr(b, what)}."
                )
    return outs


def _values(outs: tuple) -> list[np.ndarray]:
    """Copies on the host, since outputs may alias inputs."""
    return [np.array(to_host(o._array), dtype=_wide(o)) for o in outs]


def _wide(tensor: Tensor):
    return np.complex128 if tensor.is_complex() else np.float64


# -- numerical -------------------------------------------------------------------------------------------------------


def _slopes(
    run: Callable, tensor: Tensor, options: _Options
) -> Iterator[tuple[int, complex, list[np.ndarray]]]:
    """For each element of an input (times 1, and for complex ones 1j): the derivatives of all outputs along it."""
    array, eps = tensor._array, options.eps
    for k, index in enumerate(np.ndindex(*array.shape)):
        for unit in (1, 1j) if tensor.is_complex() else (1,):
            yield k, unit, _slope(run, array, index, unit * eps, eps)


def _slope(run: Callable, array, where, step, eps: float) -> list[np.ndarray]:
    """Derivatives of the outputs when ``array[where]`` moves along `step`."""
    old = array[where].copy()
    try:
        array[where] = old + step
        ahead = _values(run())
        array[where] = old - step
        behind = _values(run())
    finally:
        array[where] = old
    return [(a - b) / (2 * eps) for a, b in zip(ahead, behind, strict=True)]


def _numerical(
    run: Callable, tensor: Tensor, outputs: tuple, options: _Options
) -> list[np.ndarray]:
    """For each output the derivatives, with shape (elements of the input, units, elements of the output)."""
    units = 2 if tensor.is_complex() else 1
    found = [np.zeros((tensor.numel(), units, o.numel()), _wide(o)) for o in outputs]
    for k, unit, slopes in _slopes(run, tensor, options):
        for jacobian, slope in zip(found, slopes, strict=True):
            jacobian[k, int(unit == 1j)] = slope.reshape(-1)
    return found


def _as_gradient(slopes: np.ndarray) -> np.ndarray:
    """dL/dx + j dL/dy for the real function that `slopes` belongs to."""
    return slopes[:, 0] + 1j * slopes[:, 1] if slopes.shape[1] == 2 else slopes[:, 0]


# -- backward --------------------------------------------------------------------------------------------------------


def _one_hot(out: Tensor, index: int, value) -> Tensor:
    from ..ops.create import zeros_like

    vector = zeros_like(out)
    vector._array[np.unravel_index(index, out.shape)] = value
    return vector


def _backward(
    out: Tensor, inputs: list[Tensor], vector: Tensor, options: _Options
) -> list[np.ndarray]:
    """The vector-Jacobian products for one output, flattened."""
    found = grad((out,), inputs, (vector,), retain_graph=True, allow_unused=True)
    result = []
    for t, g in zip(inputs, found, strict=True):
        if g is None:
            result.append(np.zeros(t.numel(), _wide(t)))
            continue
        if options.dtypes and g.dtype != t.dtype:
            raise GradcheckError("Gradient has dtype mismatch")
        if g.shape != t.shape:
            raise GradcheckError("Analytical gradient has incorrect size")
        result.append(np.array(to_host(g._array), _wide(t)).reshape(-1))
    return result


def _analytical(out: Tensor, inputs: list[Tensor], unit, options: _Options) -> list[np.ndarray]:
    """For each input the Jacobian of ``Re(conj(unit) * out)``; backward runs twice, and must give the same."""
    found = [np.zeros((t.numel(), out.numel()), _wide(t)) for t in inputs]
    worst = 0.0
    for j in range(out.numel()):
        vector = _one_hot(out, j, unit)
        columns = _backward(out, inputs, vector, options)
        for jacobian, column, again in zip(
            found, columns, _backward(out, inputs, vector, options), strict=True
        ):
            jacobian[:, j] = column
            if column.size:
                worst = max(worst, float(np.abs(column - again).max()))
    if worst > options.nondet_tol:
        raise GradcheckError(NOT_REENTRANT.format(options.nondet_tol))
    return found


def _units(out: Tensor) -> tuple:
    """1 for the real part of an output, 1j for its imaginary part."""
    return (1, 1j) if out.is_complex() else (1,)


def _part(slopes: np.ndarray, unit) -> np.ndarray:
    return slopes.imag if unit == 1j else slopes.real


def _compare(
    run: Callable, inputs: tuple, live: list[int], outputs: tuple, options: _Options
) -> None:
    """Compare all entries of all Jacobians."""
    tensors = [inputs[i] for i in live]
    numerical = [_numerical(run, t, outputs, options) for t in tensors]
    for o, out in enumerate(outputs):
        for unit in _units(out):
            for i, have in enumerate(_analytical(out, tensors, unit, options)):
                want = _as_gradient(_part(numerical[i][o], unit))
                if not options.close(have, want):
                    raise GradcheckError(
                        _mismatch(have, want, i, o, tensors[i], out, unit, options)
                    )


def _mismatch(
    have, want, i: int, o: int, tensor: Tensor, out: Tensor, unit, options: _Options, forward=False
) -> str:
    """Both Jacobians, and what may be the matter."""
    prefix = ""
    if (tensor if forward else out).is_complex():
        part, element = "imaginary" if unit == 1j else "real", "inputs" if forward else "outputs"
        prefix = f"While considering the {part} part of complex {element} only, "
    mode = "computed with forward mode " if forward else ""
    text = (
        f"{prefix}Jacobian {mode}mismatch for output {o} with respect to input {i},\n"
        f"numerical:{_show(want)}\nanalytical:{_show(have)}\n"
    )
    values = [to_host(t._array) for t in (tensor, out)]
    return text + diagnose(want, have, *values, options.close)


def _show(jacobian: np.ndarray) -> str:
    from ..core.printing import tensor_repr

    return tensor_repr(Tensor._make(jacobian))


def _compare_fast(
    run: Callable, inputs: tuple, live: list[int], outputs: tuple, options: _Options
) -> None:
    """Compare v^T J u for random u and v; where that fails, all entries, for the message."""
    tensors = [inputs[i] for i in live]
    draw = np.random.default_rng(0)
    for i, tensor in enumerate(tensors):
        array = tensor._array
        direction = _unit_vector(draw, tensor)
        moved = _to_device(direction.astype(array.dtype), array)
        slopes = _slope(run, array, ..., moved * options.eps, options.eps)
        for o, (out, slope) in enumerate(zip(outputs, slopes, strict=True)):
            vector = _unit_vector(draw, out)
            want = np.vdot(vector, slope).real
            given = Tensor._make(_to_device(vector.astype(out._array.dtype), array))
            have = [
                np.vdot(direction.reshape(-1), _backward(out, [tensor], given, options)[0]).real
                for _ in range(2)
            ]
            if abs(have[0] - have[1]) > options.nondet_tol:
                raise GradcheckError(NOT_REENTRANT.format(options.nondet_tol))
            scale = max(np.sqrt(max(tensor.numel(), 1) * max(out.numel(), 1)) ** 0.5, 1.0)
            if not abs(have[0] - want) <= options.atol * scale + options.rtol * abs(
                want
            ):  # nan too
                _compare(run, inputs, live, outputs, options)
                raise GradcheckError(
                    f"Jacobian mismatch for output {o} with respect to input {i},\nnumerical:{want}\n"
                    f"analytical:{have[0]}\n(projections on random vectors, fast mode; the entries agree within the "
                    "tolerances)"
                )


def _unit_vector(draw: np.random.Generator, tensor: Tensor) -> np.ndarray:
    vector = draw.standard_normal(tensor.shape)
    if tensor.is_complex():
        vector = vector + 1j * draw.standard_normal(tensor.shape)
    norm = np.linalg.norm(vector)
    return vector / norm if norm else vector


def _check_constant(func, inputs: tuple, live: list[int], result: tuple, options: _Options) -> None:
    """Outputs that require no grad must not depend on inputs that do."""
    kept = [isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex()) for o in result]
    outs = tuple(o for o, keep in zip(result, kept, strict=True) if keep)

    def run():
        return tuple(o for o, keep in zip(_as_tuple(func(*inputs)), kept, strict=True) if keep)

    for i in live if outs else ():
        for jacobian in _numerical(run, inputs[i], outs, options):
            if not np.allclose(jacobian, 0, rtol=0, atol=options.atol):
                raise GradcheckError("Numerical gradient for function expected to be zero")


# -- forward mode ----------------------------------------------------------------------------------------------------


def _compare_forward(
    func: Callable, inputs: tuple, live: list[int], run: Callable, options: _Options
) -> None:
    """Compare tangents in the direction of each element (or, in fast mode, one random direction) with slopes."""
    draw = np.random.default_rng(0)
    for i, position in enumerate(live):
        tensor = inputs[position]
        for unit in _units(tensor):
            directions = _directions(tensor, unit, draw, options)
            want, have = [], []
            for step in directions:
                array = tensor._array
                moved = _to_device(step.astype(array.dtype), array)
                want.append(_slope(run, array, ..., moved * options.eps, options.eps))
                have.append(_tangents(func, inputs, position, moved, options))
            _compare_tangents(have, want, i, tensor, run(), unit, options)
        if options.batched_forward and tensor.numel():
            _check_forward_linear(func, inputs, position, draw, options)


def _directions(tensor: Tensor, unit, draw, options: _Options) -> Iterator[np.ndarray]:
    if options.fast:
        yield _unit_vector(draw, tensor)
        return
    for index in np.ndindex(*tensor.shape):
        step = np.zeros(tensor.shape, _wide(tensor))
        step[index] = unit
        yield step


def _tangents(
    func: Callable, inputs: tuple, position: int, direction, options: _Options
) -> list[np.ndarray]:
    """The tangents of the outputs for one input moving along `direction`."""
    from . import forward_ad

    with forward_ad.dual_level():
        given = [t.detach() if isinstance(t, Tensor) and t.requires_grad else t for t in inputs]
        kept = [isinstance(t, Tensor) and t.requires_grad for t in inputs]
        given[position] = forward_ad.make_dual(given[position], Tensor._make(direction))
        for t, flag in zip(given, kept, strict=True):
            if flag:
                t.requires_grad_()
        found = []
        for out in _differentiable(func(*given)):
            tangent = forward_ad.unpack_dual(out).tangent
            if tangent is None:
                found.append(np.zeros(out.shape, _wide(out)))
                continue
            if tangent.dtype != out.dtype and options.dtypes:
                raise GradcheckError("Forward AD gradient has dtype mismatch.")
            found.append(np.array(to_host(tangent._array), _wide(out)))
    return found


def _compare_tangents(
    have: list, want: list, i: int, tensor: Tensor, outputs: tuple, unit, options: _Options
) -> None:
    for o, out in enumerate(outputs):
        if not have:
            return
        rows, wanted = (np.stack([r[o].reshape(-1) for r in rows]) for rows in (have, want))
        if not options.close(rows, wanted):
            raise GradcheckError(
                _mismatch(rows, wanted, i, o, tensor, out, unit, options, forward=True)
            )


def _check_forward_linear(
    func: Callable, inputs: tuple, position: int, draw, options: _Options
) -> None:
    """Tangents of a batch of directions: the tangent of a sum must be the sum of the tangents."""
    array = inputs[position]._array
    a, b = (_unit_vector(draw, inputs[position]).astype(array.dtype) for _ in range(2))
    parts = [
        _tangents(func, inputs, position, _to_device(v, array), options) for v in (a, b, a + b)
    ]
    for x, y, total in zip(*parts, strict=True):
        if not options.close(x + y, total):
            raise GradcheckError(f"{BATCHED} The jvp is not linear in the tangent.")


# -- further checks --------------------------------------------------------------------------------------------------


def _check_batched(outputs: tuple, inputs: list[Tensor]) -> None:
    """Gradients of a batch of vectors must be those of the vectors one by one."""
    from ..ops.join import stack

    for out in outputs:
        vectors = [_random_gradient(out, False).detach() for _ in range(2)]
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
                if not np.allclose(to_host(batch._array[row]), to_host(single[k]._array)):
                    raise GradcheckError(
                        f"For output gradient {row} of a batch and input {k}: {BATCHED}"
                    )


def _check_linear(outputs: tuple, inputs: list[Tensor]) -> None:
    """Zero gradients of the outputs must give zero gradients of the inputs."""
    from ..ops.create import zeros_like

    vectors = [zeros_like(o) for o in outputs]
    found = grad(outputs, inputs, vectors, retain_graph=True, allow_unused=True)
    for t, g in zip(inputs, found, strict=True):
        if g is None:
            continue
        if bool((g._array != 0).any()):
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
    from ..ops.create import zeros_like

    tensors = [inputs[i] for i in live]
    n = len(_differentiable(func(*inputs)))
    for cut in [range(n), *([[k] for k in range(n)] if n > 1 else [])]:
        outs = list(_differentiable(func(*inputs)))
        undefined = _Undefined.apply(*(outs[k] for k in cut))
        for k, out in zip(cut, undefined, strict=True):
            outs[k] = out
        try:
            found = grad(outs, tensors, [zeros_like(o) for o in outs], allow_unused=True)
        except (RuntimeError, TypeError, AttributeError) as exc:
            raise GradcheckError(UNDEFINED) from exc
        for g in found:
            if g is not None and bool((g._array != 0).any()):
                raise GradcheckError(UNDEFINED_NONZERO)
