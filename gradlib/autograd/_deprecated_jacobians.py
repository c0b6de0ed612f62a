"""Jacobians as tensors: functions of :mod:`.gradcheck` that PyTorch deprecates."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..tape.tensor import Tensor
from ._jacobians import (
    Options,
    analytical_jacobians,
    as_gradient,
    as_tuple,
    differentiable_outputs,
    numerical_jacobians,
)

DEPRECATED = "`{}` is not part of the public API. It is deprecated and will be removed."
COMPLEX = "Expected output to be non-complex. {} no longer supports functions that return complex outputs."
GRAD_OUT = "Expected grad_out to be 1.0. {} no longer supports values of grad_out != 1.0."


def get_numerical_jacobian(
    fn: Callable, inputs: Any, target: Any = None, eps: float = 1e-3, grad_out: float = 1.0
) -> tuple[Tensor, ...]:
    """By finite differences, of the first output of ``fn(inputs)``: one matrix for each tensor that requires grad.

    Deprecated in PyTorch, so it warns (FutureWarning).

    Args:
        fn: takes `inputs` as they are.
        inputs: Tensors, also nested.
        target: the tensors to move in place of those of `inputs`.
        eps: step of the finite differences.
        grad_out: must be 1.

    Returns:
        Matrices with a row for each element of the input and a column for each of the output.

    Raises:
        ValueError: another `grad_out`, or a complex output.

    Example:
        >>> from gradlib.autograd.gradcheck import get_numerical_jacobian
        >>> a = gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True)
        >>> (jacobian,) = get_numerical_jacobian(lambda inputs: inputs[0] ** 2, (a,))
        >>> jacobian.round(decimals=3)
        tensor([[2., 0.],
                [0., 4.]], dtype=torch.float64)
    """
    _deprecated("get_numerical_jacobian")
    if grad_out != 1.0:
        raise ValueError(GRAD_OUT.format("get_numerical_jacobian"))
    outputs = as_tuple(fn(inputs))
    run = lambda: as_tuple(fn(inputs))
    moved = _tensors(inputs if target is None else target, True)
    return tuple(_numerical(run, t, outputs, eps)[0] for t in moved)


def get_numerical_jacobian_wrt_specific_input(
    fn: Callable, input_idx: int, inputs: Any, outputs: Any, eps: float,
    input: Tensor | None = None, is_forward_ad: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """By finite differences, with respect to ``inputs[input_idx]`` (or `input`): one matrix for each of `outputs`.

    Args:
        fn: takes ``*inputs``.
        input_idx: which input is moved.
        inputs: Tensors.
        outputs: what `fn` gave for them.
        eps: step of the finite differences.
        input: moved in place of ``inputs[input_idx]``.
        is_forward_ad: accepted.

    Raises:
        AssertionError: that input does not require grad.
        ValueError: a complex output.

    Example:
        >>> from gradlib.autograd.gradcheck import get_numerical_jacobian_wrt_specific_input
        >>> a = gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True)
        >>> square = lambda a: a**2
        >>> (jacobian,) = get_numerical_jacobian_wrt_specific_input(square, 0, (a,), square(a), 1e-3)
        >>> jacobian.diagonal().round(decimals=3)
        tensor([2., 4.], dtype=torch.float64)
    """
    tensor = inputs[input_idx] if input is None else input
    if not tensor.requires_grad:
        raise AssertionError("Expected input to have requires_grad=True")
    return _numerical(lambda: differentiable_outputs(fn(*inputs)), tensor, outputs, eps)


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """By backward, of one output: one matrix for each tensor that requires grad.

    Deprecated in PyTorch, so it warns (FutureWarning).

    Args:
        inputs: Tensors, also nested.
        output: a real Tensor computed from them.
        nondet_tol: how much two runs of backward may differ.
        grad_out: must be 1.

    Returns:
        (matrices, whether two runs agree, whether sizes are right, whether dtypes are).

    Raises:
        ValueError: another `grad_out`, or a complex output.

    Example:
        >>> from gradlib.autograd.gradcheck import get_analytical_jacobian
        >>> a = gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True)
        >>> (jacobian,), reentrant, *_ = get_analytical_jacobian((a,), a**2)
        >>> jacobian.diagonal(), reentrant
        (tensor([2., 4.], dtype=torch.float64), True)
    """
    _deprecated("get_analytical_jacobian")
    if grad_out != 1.0:
        raise ValueError(GRAD_OUT.format("get_analytical_jacobian"))
    if output.is_complex():
        raise ValueError(COMPLEX.format("get_analytical_jacobian"))
    wanted = list(_tensors(inputs, True))
    exact = Options(nondet_tol=np.inf)
    first, second = (analytical_jacobians(output, wanted, 1, exact) for _ in range(2))
    reentrant = all(
        not a.size or bool(np.abs(a - b).max() <= nondet_tol)
        for a, b in zip(first, second, strict=True)
    )
    return tuple(map(Tensor._make, first)), reentrant, True, True


def _numerical(run: Callable, tensor: Tensor, outputs: Any, eps: float) -> tuple[Tensor, ...]:
    if any(out.is_complex() for out in as_tuple(outputs)):
        raise ValueError(COMPLEX.format("get_numerical_jacobian"))
    found = numerical_jacobians(run, tensor, as_tuple(outputs), Options(eps=eps))
    return tuple(Tensor._make(as_gradient(jacobian)) for jacobian in found)


def _tensors(value: Any, only_requiring_grad: bool) -> Iterator[Tensor]:
    """The tensors in nested containers."""
    if isinstance(value, Tensor):
        if value.requires_grad or not only_requiring_grad:
            yield value
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for entry in value:
            yield from _tensors(entry, only_requiring_grad)


def _deprecated(name: str) -> None:
    warnings.warn(DEPRECATED.format(name), FutureWarning, stacklevel=3)
