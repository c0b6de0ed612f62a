"""``gradlib.utils._python_dispatch``: modes that are asked in the place of kernels, below autograd.

A `TorchDispatchMode` sees the declared ops that run: the mode is given tensors without history and gives the result,
and the op is recorded with its own formula around that. What it is told is an `aten.Operator`. A backward pass runs
its formulas on Tensors while a mode is on, so that it sees their ops; of an op whose gradients one kernel computes it
sees that, as ``convolution_backward``.

Classes of tensors with a ``__torch_dispatch__`` are asked after the modes; see `ops.subclass`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Self

from ..op import interpret
from ..op.inplace import inplace
from ..op.tangents import any_tangent
from ..ops import aten
from ..tape.modes import DISPATCH, FORWARD_AD, NO_GRAD, Flag, set_flag, shared, state
from ..tape.tensor import Tensor
from ._watching import Watching, execute

__all__ = [
    "TorchDispatchMode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class _Called(aten.Operator):
    """The op of one call, which the mode can run.

    cost: its declared floating point operations, a function of attributes by name and shapes; None if there is none.
    """

    __slots__ = ("_attrs", "_cost", "_run", "_shapes")

    def __init__(self, operator: aten.Operator, run: Callable, cost: Any, attrs: dict, args: Any):
        super().__init__(operator._name, operator._also)
        self._run, self._cost, self._attrs = run, cost, attrs
        if cost is not None:
            self._shapes = [tuple(a._array.shape) for a in args if isinstance(a, Tensor)]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError(
                f"{self} takes operands and attributes by position, not {sorted(kwargs)}"
            )
        return self._run(args)


class _Asking(Watching):
    """The interposer of the modes that are on, the outermost first. Each is asked with those around it still on."""

    def __init__(self, modes: tuple[TorchDispatchMode, ...]):
        self.modes = modes

    def __enter__(self):
        set_flag(DISPATCH, True)
        return super().__enter__()

    def __exit__(self, *exc) -> None:
        super().__exit__(*exc)
        set_flag(DISPATCH, False)

    def call(self, op, args: tuple, attrs: tuple, proceed: Callable, compute: Any = None) -> Any:
        given = tuple(args[0]) if op.variadic else args
        if shared.subclasses is not None and shared.subclasses.among(given):
            return shared.subclasses.call(op, interpret.prepare(op, given), attrs, self.answer)
        n = len(args)
        dual = state.bits & FORWARD_AD and any_tangent(args[0] if op.variadic else args)
        if dual or shared.batches:  # told around what transforms do
            return self.ask(
                -1, op, args, attrs, lambda given: interpret.general(op, given[:n], given[n:])
            )
        for place in range(len(self.modes)):
            compute = self.computing(place, compute or interpret.compute_raw)
        return execute(op, args, attrs, compute)

    def call_inplace(self, op, tensor, others: tuple, attrs: tuple, proceed: Callable) -> Any:
        n = 1 + len(others)
        run = lambda given: inplace(op, given[0], given[1:n], given[n:])
        return self.ask(-1, op, (tensor, *others), attrs, run, writes=True)

    def answer(self, call: Any, tensors: tuple) -> Any:
        """What the innermost mode gives for a call with tensors whose classes are asked after the modes."""
        before, around = state.interposers, self.modes[:-1]
        if around:
            state.interposers = (*before, _Asking(around))
        try:
            return shared.subclasses.told(call, tensors, self.modes[-1])
        finally:
            state.interposers = before

    def ask(
        self, place: int, op, args: tuple, attrs: tuple, run: Callable, writes: bool = False
    ) -> Any:
        named = dict(zip(op.attrs, attrs, strict=False))
        operands = args[0] if op.variadic else args
        func = _Called(aten.of_call(op, args, writes), run, op.flops, named, operands)
        return self.answer_of(place, func, (*args, *attrs))

    def answer_of(self, place: int, func: Any, args: tuple) -> Any:
        """What the mode in a place gives for an op, with those around it on."""
        before, around = state.interposers, self.modes[:place]
        if around:
            state.interposers = (*before, _Asking(around))
        try:
            return self.modes[place].__torch_dispatch__(func, (), args, {})
        finally:
            state.interposers = before

    def whole(self, op, args: list, attrs: dict, outs: tuple) -> tuple:
        """The gradients `outs`, computed in one piece, by way of all modes, the innermost first."""

        def through(place: int) -> Callable:
            def run(given: tuple) -> Any:
                if len(given) != len(told) or any(
                    a is not b for a, b in zip(given, told, strict=True)
                ):
                    raise NotImplementedError(
                        f"{op.public}_backward is computed in one piece, from what was saved: a mode cannot give it "
                        "other arguments"
                    )
                return outs if place < 0 else self.answer_of(place, func(place - 1), told)

            return run

        def func(place: int) -> _Called:
            operator = aten.operator(op.public + "_backward")
            return _Called(operator, through(place), op.backward_flops, attrs, args)

        told = (*args, *attrs.values())
        last = len(self.modes) - 1
        return tuple(self.answer_of(last, func(last - 1), told))

    def computing(self, place: int, kernel: Callable) -> Callable:
        """What takes the place of `kernel`: a mode's answer, with the hidden values of the kernel that it ran."""

        def computed(op, args: tuple, attrs: tuple) -> tuple[Any, tuple]:
            hidden: list[tuple] = []

            def run(given: tuple) -> Any:
                n = 1 if op.variadic else len(args)
                operands = tuple(given[0]) if op.variadic else given[:n]
                raw, extra = kernel(op, interpret.prepare(op, operands), given[n:])
                hidden.append(extra)
                return tuple(map(Tensor._make, raw)) if _several(op) else Tensor._make(raw)

            plain = tuple(_plain(a) for a in args)
            with Flag(NO_GRAD, True):
                out = self.ask(place, op, (list(plain),) if op.variadic else plain, attrs, run)
            if op.hidden and not hidden:
                hidden.append(kernel(op, args, attrs)[1])
            raw = [o._array for o in out] if _several(op) else out._array
            return raw, hidden[0] if hidden else ()

        return computed


def _several(op) -> bool:
    return op.n_out != 1


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return Tensor._make(value._array)
    return value.value if isinstance(value, interpret.Number) else value


class TorchDispatchMode:
    """A block in which this object is asked for the result of each op that runs, below autograd.

    A subclass defines ``__torch_dispatch__(self, func, types, args=(), kwargs=None)``; inside of it the mode is off, so
    that it may call `func`, or compute something else. `func` is equal to the op of its name in ``gradlib.ops.aten``,
    ``str(func)`` is ``aten.mm.default``; `args` are the op's operands and attributes as gradlib declares them.

    Example:
        >>> class Names(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> with Names():
        ...     y = (x * x).sum()
        aten.mul.default
        aten.sum.default
        >>> y.backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self, _dispatch_key: Any = None) -> None:
        """There are no dispatch keys here; the argument is taken for the sake of subclasses that hand one on."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """The result of `func` for these arguments; subclasses define it.

        Raises:
            NotImplementedError: the subclass does not.
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        _set_modes((*_modes(), self))
        return self

    def __exit__(self, *exc: Any) -> None:
        _set_modes(_modes()[:-1])

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode is a tracer's own.

        Returns:
            False: a program's are not, and tracers of gradlib are no modes.
        """
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that lets each op do what it does."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """The result of `func`.

        Args:
            func: the op.
            types: not used.
            args, kwargs: its operands and attributes.
        """
        return func(*args, **(kwargs or {}))


def _modes() -> tuple[TorchDispatchMode, ...]:
    """The modes that are on, the outermost first."""
    return next((i.modes for i in state.interposers if isinstance(i, _Asking)), ())


def _set_modes(modes: tuple[TorchDispatchMode, ...]) -> None:
    block = next((i for i in state.interposers if isinstance(i, _Asking)), None)
    if block is None and modes:
        _Asking(modes).__enter__()
    elif block is not None and modes:
        block.modes = modes
    elif block is not None:
        block.__exit__()


def _get_current_dispatch_mode_stack() -> list[TorchDispatchMode]:
    return list(_modes())


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


def _len_torch_dispatch_stack() -> int:
    return len(_get_current_dispatch_mode_stack())


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether a mode is on in this thread.

    Example:
        >>> gradlib.utils._python_dispatch.is_in_torch_dispatch_mode()
        False
    """
    return _get_current_dispatch_mode() is not None


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list[TorchDispatchMode]]:
    """A block in which the modes that are on are not asked."""
    modes = _modes()
    _set_modes(())
    try:
        yield list(modes)
    finally:
        _set_modes(modes)


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """Whether it is a tensor made of inner tensors that it can be taken apart into.

    Example:
        >>> gradlib.utils._python_dispatch.is_traceable_wrapper_subclass(gradlib.ones(1))
        False
    """
    return isinstance(t, Tensor) and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Whether a class of tensors has ``__tensor_flatten__`` and ``__tensor_unflatten__``.

    Example:
        >>> gradlib.utils._python_dispatch.is_traceable_wrapper_subclass_type(gradlib.Tensor)
        False
    """
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def transform_subclass(
    t: Any, callback: Callable, outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """The subclass of tensors `t` with each of its inner tensors replaced by ``callback(name, inner)``.

    Args:
        t: an object with ``__tensor_flatten__`` and ``__tensor_unflatten__``.
        callback: gives the new inner tensor.
        outer_size, outer_stride: of the result; those of `t`, if None.

    Returns:
        What ``__tensor_unflatten__`` makes of the new tensors.
    """
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(inner, context, size, stride)


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """`out`; views of gradlib are views of their base however they were made.

    Args:
        func: the op.
        args, kwargs: what it was given.
        out: its result.

    Returns:
        `out`, or the first argument where the op writes into it.
    """
    name = str(func).split(".")[1] if str(func).startswith("aten.") else ""
    return args[0] if name.endswith("_") and not name.endswith("__") and args else out
