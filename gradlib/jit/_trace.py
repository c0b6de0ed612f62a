"""`trace`: a module or function that is checked on an example, and runs as it ran there."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from .. import _C
from ..nn import Module
from ..tape.tensor import Tensor
from ..testing import assert_close
from ..utils import _pytree as pytree
from ._script import ScriptModule

__all__ = ["TracerWarning", "is_tracing", "script_if_tracing", "trace", "trace_module"]


class TracerWarning(Warning):
    """A warning of `trace`: the function gives another result on the same example.

    Filters of warnings name it.
    """

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Do nothing: the library's own code gives none.

        Accepted for programs that call it.
        """


class TracingCheckError(Exception):
    """The check of `trace` failed; there the function itself raised.

    It is there for ``except``.
    """


def is_tracing() -> bool:
    """Whether `trace` runs its example, or what it gave is called.

    Example:
        >>> gradlib.jit.is_tracing()
        False
    """
    return _C._get_tracing_state() is not None


@contextlib.contextmanager
def _as_traced(modes: list[tuple[Module, bool]]) -> Iterator[None]:
    """Run as in the example: `is_tracing`, and modules in the training modes that they had."""
    changed = [(m, m.training) for m, mode in modes if m.training is not mode]
    for module, mode in modes:
        module.training = mode
    before = _C._set_tracing_state(True)
    try:
        yield
    finally:
        _C._set_tracing_state(before)
        for module, mode in changed:
            module.training = mode


class TracedModule(ScriptModule):
    """The type of what `trace` gives for a Module; see `TopLevelTracedModule`.

    Programs ask for it with ``isinstance``.
    """


class TopLevelTracedModule(TracedModule):
    """What `trace` gives for a Module: calls of it run the original, whose parameters, buffers and modules it has.

    They run in the training modes of the example, as recorded code does: `train` and `eval` of this module change its
    own flag alone.
    """

    def __init__(self, original: Module) -> None:
        super().__init__()
        fields = vars(original)
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[name] = fields[name]
        self.training = original.training
        self.__dict__["_original"] = original
        self.__dict__["_modes"] = [(m, m.training) for m in original.modules()]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the original, as it ran on the example.

        Args:
            args: as in the example.
            kwargs: the same by name.
        """
        with _as_traced(self._modes):
            return self._original(*args, **kwargs)

    def train(self, mode: bool = True) -> TopLevelTracedModule:
        """Set the flag `training` of this module alone.

        Args:
            mode: the flag. What runs keeps the modes of the example.
        """
        self.training = mode
        return self

    @property
    def original_name(self) -> str:
        """The name of the class of the original.

        Example:
            >>> gradlib.jit.trace(nn.ReLU(), gradlib.ones(2)).original_name
            'ReLU'
        """
        return type(self._original).__name__


def _check_output(value: Any, strict: bool) -> None:
    """RuntimeError if `value` is nothing that recorded code could give."""
    if isinstance(value, Tensor):
        return
    if isinstance(value, dict):
        if strict:
            raise RuntimeError(
                "Encountering a dict at the output of the tracer might cause the trace to be incorrect, this is only "
                "valid if the container structure does not change based on the module's inputs. Consider using a "
                "constant container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` "
                "instead). If you absolutely need this and know the side effects, pass strict=False to trace() to "
                "allow this behavior."
            )
        value = list(value.values())
    if not isinstance(value, tuple | list):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions"
        )
    for entry in value:
        _check_output(entry, strict)


def _tensors(value: Any) -> list[Tensor]:
    return [t.detach() for t in pytree.tree_leaves(value) if isinstance(t, Tensor)]


def trace(
    func: Callable[..., Any],
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: dict[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """A module or function that calls `func`, after a check on an example.

    Nothing is recorded: where PyTorch's trace keeps the branch and the sizes of the example for ever, what this gives
    does what `func` does with the arguments at hand. As in a trace, `is_tracing` is true in it, and its modules are in
    the training modes of the example.

    Args:
        func: a Module or a function.
        example_inputs: a tuple of arguments, or one tensor.
        optimize: accepted.
        check_trace: run the example twice, and warn if the results differ.
        check_inputs: a list of tuples of arguments that are run, too.
        check_tolerance: how far results may differ.
        strict: refuse dicts as results.
        example_kwarg_inputs: arguments by name, instead of `example_inputs`.

    Returns:
        A `TopLevelTracedModule` for a Module, a function for a function.

    Raises:
        TypeError: there is no example.
        RuntimeError: the result of `func` is nothing that consists of tensors.

    Example:
        >>> double = gradlib.jit.trace(lambda x: x * 2, gradlib.ones(2))
        >>> double(gradlib.ones(3))
        tensor([2., 2., 2.])
    """
    if example_inputs is not None and example_kwarg_inputs is not None:
        raise RuntimeError("example_inputs and example_kwarg_inputs should not be both given")
    if example_inputs is None and not isinstance(example_kwarg_inputs, dict):
        raise TypeError("trace() needs example_inputs, or a dict example_kwarg_inputs")
    kwargs = example_kwarg_inputs or {}
    args = () if example_inputs is None else _tuple(example_inputs)
    if isinstance(func, Module):
        run: Any = TopLevelTracedModule(func)
    else:

        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            with _as_traced([]):
                return func(*args, **kwargs)

        run = called

    result = run(*args, **kwargs)
    _check_output(result, strict)
    if check_trace:
        again = run(*args, **kwargs)
        try:
            assert_close(
                _tensors(again),
                _tensors(result),
                rtol=check_tolerance,
                atol=check_tolerance,
                equal_nan=True,
            )
        except AssertionError as error:
            warnings.warn(
                f"Output of the traced function does not match itself on the same example: {error}. This may be "
                "caused by randomness, as of dropout in training mode",
                TracerWarning,
                stacklevel=2,
            )
    for more in check_inputs or ():
        run(*_tuple(more))
    return run


def _tuple(inputs: Any) -> tuple[Any, ...]:
    return (inputs,) if isinstance(inputs, Tensor | dict) else tuple(inputs)


def trace_module(
    mod: Module,
    inputs: dict[str, Any],
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    **accepted: Any,
) -> TopLevelTracedModule:
    """`trace` for several methods of a Module.

    Args:
        mod: the Module.
        inputs: the name of a method -> an example of its arguments.
        optimize: accepted.
        check_trace: run the examples twice, and warn if the results differ.
        check_inputs: accepted.
        check_tolerance: how far results may differ.
        strict: refuse dicts as results.
        accepted: further settings of PyTorch.

    Returns:
        A module with these methods.

    Raises:
        AttributeError: `inputs` is no dict.
    """
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    made = TopLevelTracedModule(mod)
    for name, example in inputs.items():
        method = mod if name == "forward" else getattr(mod, name)

        def called(*args: Any, _method: Any = method, **kwargs: Any) -> Any:
            with _as_traced(made._modes):
                return _method(*args, **kwargs)

        if name != "forward":
            made.__dict__[name] = called
        trace(
            called, example, check_trace=check_trace, check_tolerance=check_tolerance, strict=strict
        )
    return made


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` itself: what PyTorch compiles the first time that a trace calls it.

    Used as a decorator.
    """
    return fn
