"""Forward-mode automatic differentiation: dual tensors carry a tangent through every op.

Example:
    >>> import gradlib.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     dual = fwAD.make_dual(x, direction)
    ...     y = fwAD.unpack_dual(f(dual))
    >>> y.primal, y.tangent  # f(x), and the Jacobian of f times direction
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy import ndarray

from ..op import tangents
from ..operators.shape.reshape import alias_op as alias
from ..tape import errors, modes
from ..tape.modes import FORWARD_AD, INFERENCE, VMAP, state
from ..tape.strided import Layout, is_dense
from ..tape.tensor import Tensor
from .grad_mode import _ModeDecorator

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A dual tensor taken apart: what `unpack_dual` returns.

    Attributes:
        primal: the value.
        tangent: in its shape, or None.

    Example:
        >>> with dual_level():
        ...     primal, tangent = unpack_dual(make_dual(gradlib.ones(2), gradlib.zeros(2)))
        >>> tangent
        tensor([0., 0.])
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Open the level in which dual tensors live; `dual_level` does it for a block.

    Returns:
        The number of the level, 0.

    Raises:
        RuntimeError: one is open already.

    Example:
        >>> level = enter_dual_level()
        >>> dual = make_dual(gradlib.tensor(3.0), gradlib.tensor(1.0))
        >>> unpack_dual(dual * dual).tangent
        tensor(6.)
        >>> exit_dual_level()
    """
    return tangents.enter_level()


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level; all tangents made in it are gone.

    Args:
        level: its number; the one that is open, if None.

    Raises:
        RuntimeError: it is not open.

    Example:
        >>> level = enter_dual_level()
        >>> exit_dual_level(level=level)
    """
    tangents.exit_level(state.dual_level if level is None else level)


class dual_level(_ModeDecorator):
    """The level in which dual tensors live, as a context manager that gives its number; also a decorator.

    Raises:
        RuntimeError: one is open already.

    Example:
        >>> with dual_level():
        ...     dual = make_dual(gradlib.tensor(3.0), gradlib.tensor(1.0))
        ...     print(unpack_dual(dual**2).tangent)
        tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        exit_dual_level()


def _is_fwd_grad_enabled() -> bool:
    """Whether tangents are carried along in this thread, once a level is open."""
    if state.dual_level >= 0:
        return bool(state.bits & FORWARD_AD)
    return state.forward_enabled and not state.bits & INFERENCE


class _set_fwd_grad_enabled(_ModeDecorator):
    """Carry tangents along if `mode`: as a function from now on, as a context manager inside its block."""

    def __init__(self, mode: bool):
        self.mode, self.prev = mode, _is_fwd_grad_enabled()
        _enable(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        _enable(self.prev)


def _enable(mode: bool) -> None:
    state.forward_enabled = mode
    modes.set_flag(FORWARD_AD, mode and state.dual_level >= 0)


def __getattr__(name: str) -> Any:
    if name == "_current_level":  # of this thread; -1 where none is open
        return state.dual_level
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` with a tangent: derivatives along it are computed with every op.

    Args:
        tensor: Tensor [...], floating or complex.
        tangent: of its shape; not copied if its memory has the same layout.
        level: the number of the level; the one that is open, if None.

    Raises:
        RuntimeError: outside of a level, for different sizes, or where there is a tangent already.
        ValueError: for integer tensors.

    Example:
        >>> with dual_level():
        ...     dual = make_dual(gradlib.tensor([0.0, 1.0]), gradlib.tensor([1.0, 2.0]))
        ...     unpack_dual(dual * 3).tangent.tolist()
        [3.0, 6.0]
    """
    level = _checked_level(level)
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {value.dtype}"
            )
    if tensor._array.shape != tangent._array.shape:
        raise RuntimeError(errors.tangent_size(tensor._array.shape, tangent._array.shape))
    if tangents.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
            f"{level} is not supported."
        )
    if tangents.tangent_of(tangent) is not None:
        raise RuntimeError(
            f"Setting a forward grad that itself has a forward gradient at the same level {level} is not supported."
        )
    dual = _own_view(tensor)
    if state.bits & (FORWARD_AD | INFERENCE) != INFERENCE:
        tangents.own_tangent(dual, _laid_out_as(tensor, tangent))
    return dual


def _laid_out_as(tensor: Tensor, tangent: Tensor) -> Tensor:
    """`tangent`, as a copy if its memory is laid out otherwise than that of `tensor`.

    So views of the dual have tangents that are views of its tangent, and an in-place change of the dual writes into a
    tangent that is a part of something else only if the dual is such a part, too.
    """
    if state.bits & VMAP or _plain(tensor, tangent) or _layout(tensor) == _layout(tangent):
        return tangent
    size, strides = tensor.shape, tensor.stride()
    if any(s == 0 and n > 1 for n, s in zip(size, strides, strict=True)):
        raise RuntimeError(errors.OVERLAP)
    if not is_dense(tensor._array):  # between the elements there are zeros, for views by place
        return Layout.in_memory(tensor._array).copy(tangent)
    made = tangent.new_empty_strided(size, strides)
    return made.copy_(tangent)


def _plain(*given: Tensor) -> bool:
    """Whether all are row-major arrays with memory of their own: the usual case, which is known at once."""
    arrays = [t._array for t in given]
    return all([a.__class__ is ndarray and a.base is None and a.flags.c_contiguous for a in arrays])


def _layout(tensor: Tensor) -> tuple:
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    storage = tensor.untyped_storage().nbytes() // tensor._array.itemsize
    return storage, tensor.storage_offset(), [s for n, s in sizes if n != 1]


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual tensor (a view without tangent) and its tangent; the tangent of any other tensor is None.

    Args:
        tensor: the tensor.
        level: the number of the level; the one that is open, if None.

    Raises:
        TypeError: it is no tensor.
        RuntimeError: another level.

    Example:
        >>> with dual_level():
        ...     value, tangent = unpack_dual(make_dual(gradlib.tensor(3.0), gradlib.tensor(1.0)).exp())
        >>> gradlib.equal(value, tangent)
        True
    """
    if state.dual_level < 0 or (level is not None and level < 0):
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}"
        )
    tangent = tangents.tangent_of(tensor) if state.bits & FORWARD_AD else None
    if tangent is not None and level is not None and level != state.dual_level:
        raise RuntimeError("Invalid level given to _fw_primal")
    return UnpackedDualTensor(_own_view(tensor), tangent)


def _checked_level(level: int | None) -> int:
    if level is None or state.dual_level < 0:
        return state.dual_level
    if level > state.dual_level:
        raise RuntimeError("Invalid level given to _make_dual")
    return level


def _own_view(tensor: Tensor) -> Tensor:
    """A view whose tangent has nothing to do with that of `tensor`."""
    with modes.Flag(FORWARD_AD, False):
        return tangents.split_off(alias.call(tensor))
