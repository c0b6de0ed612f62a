"""``torch.compile`` and ``torch.compiler``: no code is compiled, but functions and modules are captured.

An op costs little here without a compiler, and elementwise formulas are single kernels on CUDA already. What Python
costs between them, `gradlib.capture` takes away.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import types
import weakref
from collections.abc import Callable, Sized
from typing import Any

import numpy as np

from ._capture import Captured
from ._refused import refuse
from ._unsupported import InvalidBackend, Unsupported
from .devices.numpy import chains
from .nn import Module
from .op.expose import PUBLIC
from .tape.modes import state
from .tape.tensor import Tensor
from .utils import _pytree as pytree

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "set_enable_guard_collectives",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]

__getattr__ = refuse(
    __name__,
    why="There is no compiler, and nothing that it would keep.",
)


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function or Module as a plan that is replayed where that gives the same (see `gradlib.capture`).

    Backward may be called on what it returns: passes through it are replayed, too, with the bits of eager mode. What
    does things that no plan can repeat (reads values, prints, changes what outlives it) runs as it is, with all its
    effects, but for the modules in it; `gradlib.explain` says why. So it does on CUDA: CUDA graphs are for whole steps,
    see `gradlib.capture`.

    Args:
        model: a function or Module; without one, a decorator is returned.
        fullgraph: True demands that it is replayed as one: where it cannot be, the call that finds that out raises,
            after it ran, and so do the next ones. On CUDA nothing is demanded.
        dynamic: True, False or None; accepted. A combination of shapes has a plan of its own.
        mode: "max-autotune" fuses elementwise ops where numba is installed, as ``capture(..., mode="max")``; others of
            PyTorch's names are accepted.
        options: names and values. ``{"max_autotune": True}`` is `mode` "max-autotune"; others are accepted.
        backend: "inductor"; one of PyTorch's others, or a function, leaves it as it is, if fullgraph is not demanded.
        disable: leave it as it is.

    Returns:
        Of a Module an `OptimizedModule`, which has its parameters, under ``_orig_mod``.

    Raises:
        RuntimeError: `mode` and `options` are both given; or one of them is not known.
        InvalidBackend: there is no such `backend`; `torch._dynamo.exc` has this error.
        Unsupported: of calls, with `fullgraph`: why it cannot be replayed as one, and the line; from there, too.
        AssertionError: `model` cannot be called.
        TypeError: `dynamic` or `options` is of another type.

    Example:
        >>> step = gradlib.compile(lambda x: x * 2)
        >>> step(gradlib.ones(2))
        tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    fuses = _asks_to_fuse(backend, mode, options)
    if dynamic not in (None, True, False):
        raise TypeError(f"dynamic must be True, False or None, but got {type(dynamic).__name__}")

    def compiled(function: Any) -> Any:
        if not callable(function):
            raise AssertionError(
                f"A callable function is expected, but {type(function)} is provided."
            )
        module = isinstance(function, Module)
        if disable or not (module or isinstance(function, (types.FunctionType, types.MethodType))):
            return function
        if backend != "inductor" and not (fullgraph and isinstance(backend, str)):
            return OptimizedModule(function, function) if module else function
        demanded = Unsupported if fullgraph else None
        made = Captured(function, None, fuses and chains.works(), demanded)  # on CUDA as it is
        _compiled.add(made)
        return OptimizedModule(function, made) if module else made

    return compiled(model) if model is not None else compiled


_BACKENDS = {  # and what PyTorch lists them as
    "inductor": "",
    "cudagraphs": "",
    "eager": "debug",
    "aot_eager": "debug",
    "aot_eager_decomp_partition": "debug",
}
_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


def _asks_to_fuse(backend: Any, mode: Any, options: Any) -> bool:
    """Whether elementwise ops are to be fused; raises for settings that are none."""
    if isinstance(backend, str):
        if backend not in _BACKENDS:
            names = ", ".join(map(repr, _BACKENDS))
            raise InvalidBackend(
                f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available backends: {names}."
            )
    elif not callable(backend):
        raise TypeError(f"backend must be a name or a function, but got {type(backend).__name__}")
    if backend != "inductor":
        return False
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if options is None:
        return mode is not None and mode.startswith("max-autotune")
    if not isinstance(options, dict) or not all([isinstance(name, str) for name in options]):
        raise TypeError("options must be a dict of names and values")
    asks = {name.replace("-", "_"): value for name, value in options.items()}.get("max_autotune")
    if asks not in (None, True, False):
        raise RuntimeError(
            f"Unexpected type of attr max_autotune, got {type(asks).__name__} should be bool"
        )
    return bool(asks)


_compiled: weakref.WeakSet[Captured] = weakref.WeakSet()


class OptimizedModule(Module):
    """A Module that `compile` was called on: the same parameters and attributes; calls replay what they computed.

    It hands on attributes, also those that are set, and has the Module as ``_orig_mod``, so that names in `state_dict`
    begin with that.

    Args:
        mod: the Module.
        call: what is called in its place.

    Example:
        >>> model = gradlib.compile(gradlib.nn.Linear(2, 1))
        >>> list(model.state_dict())
        ['_orig_mod.weight', '_orig_mod.bias']
        >>> model.in_features
        2
    """

    _orig_mod: Module

    def __init__(self, mod: Module, call: Callable[..., Any]):
        super().__init__()
        super().__setattr__("_orig_mod", mod)
        self.__dict__["_call"] = call
        del self.__dict__["training"]  # that of the module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the Module, or replay what it computed."""
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __len__(self) -> int:
        if isinstance(self._orig_mod, Sized):
            return len(self._orig_mod)
        raise TypeError(f"{type(self._orig_mod).__name__} does not support len()")

    def __bool__(self) -> bool:
        return True

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        return compile, (self._orig_mod,)

    def __deepcopy__(self, memo: dict[int, Any]) -> OptimizedModule:
        mod = copy.deepcopy(self._orig_mod, memo)
        call = self._call
        if not isinstance(call, Captured):
            return OptimizedModule(mod, mod)
        _compiled.add(again := call.like(mod))
        return OptimizedModule(mod, again)


def compile_module(module: Module, *args: Any, **kwargs: Any) -> None:
    """`Module.compile`: its `forward` is captured."""
    forward = vars(module).get("forward")
    made = compile(
        forward.step if isinstance(forward, Captured) else module.forward, *args, **kwargs
    )
    if isinstance(made, Captured):
        vars(module)["forward"] = made


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """`fn` as a function that no plan holds: what calls it runs as it is, but for the modules in that.

    Args:
        fn: a function or Module; without one, a decorator is returned. Of a Module an `OptimizedModule` is returned.
        recursive: accepted.
        reason: is told by `gradlib.explain`.

    Example:
        >>> @disable
        ... def double(value):
        ...     return value * 2
        >>> double(3)
        6
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if not callable(fn):
        raise AssertionError("fn must be callable")
    if isinstance(fn, type):
        return fn
    name = getattr(fn, "__name__", type(fn).__name__)
    why = f"{name} is called, which torch.compiler.disable keeps out of plans"
    why += "" if reason is None else f": {reason}"

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        if state.capture is not None:
            state.capture.refuse(why)
        return fn(*args, **kwargs)

    return OptimizedModule(fn, disabled) if isinstance(fn, Module) else disabled


def allow_in_graph(fn: Any) -> Any:
    """`fn` itself: there is no tracer that would stop at it.

    Raises:
        AssertionError: it cannot be called.

    Example:
        >>> gradlib.compiler.allow_in_graph(abs) is abs
        True
    """
    if not isinstance(fn, (list, tuple)) and not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: Any) -> Any:
    """`fn` itself: nothing is compiled into which its result could be put.

    Used as a decorator.
    """
    return fn


nested_compile_region = assume_constant_result


def substitute_in_graph(original_fn: Any, **accepted: Any) -> Callable[[Any], Any]:
    """A decorator that changes nothing: what it decorates would stand for `original_fn` in compiled code.

    Args:
        original_fn: accepted.
        accepted: accepted.
    """
    return lambda function: function


class set_stance(contextlib.ContextDecorator):
    """What to do about compiled code: a call, a context manager or a decorator that changes nothing.

    Args:
        stance: accepted.
        settings: accepted.

    Example:
        >>> with gradlib.compiler.set_stance("force_eager"):
        ...     print(gradlib.ones(1))
        tensor([1.])
    """

    def __init__(self, stance: str = "default", **settings: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        pass


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Accept a setting of compiled code; there is none.

    Returns:
        What it was before: False.
    """
    return False


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors that calls `fn` on NumPy arrays, and gives tensors.

    Args:
        fn: a function of arrays. Tensors that require grad are refused: nothing is recorded in it.

    Example:
        >>> import numpy as np
        >>> gradlib.compiler.wrap_numpy(np.cumsum)(gradlib.tensor([1, 2, 3]))
        tensor([1, 3, 6])
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        def array(value: Any) -> Any:
            return value.numpy() if isinstance(value, Tensor) else value

        def tensor(value: Any) -> Any:
            return PUBLIC["from_numpy"](value) if isinstance(value, np.ndarray) else value

        args, kwargs = pytree.tree_map(array, (args, kwargs))
        return pytree.tree_map(tensor, fn(*args, **kwargs))

    return call


def is_compiling() -> bool:
    """False, also while a plan is written down: code always runs as it is written.

    Example:
        >>> gradlib.compiler.is_compiling()
        False
    """
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Forget all plans of compiled functions.

    They are written down anew when the functions are called again.

    Example:
        >>> reset()
    """
    for function in list(_compiled):
        function.reset()


def cudagraph_mark_step_begin() -> None:
    """Do nothing: graphs are captured by `gradlib.cuda.capture` and `gradlib.cuda.graph` only.

    Accepted for programs that call it.

    Example:
        >>> cudagraph_mark_step_begin()
    """


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `compile` takes as `backend`; those of others than "inductor" leave functions as they are.

    Args:
        exclude_tags: what PyTorch calls the kinds of names that are left out; None for none.

    Example:
        >>> gradlib.compiler.list_backends()
        ['cudagraphs', 'inductor']
    """
    out = exclude_tags or ()
    return sorted(name for name, tag in _BACKENDS.items() if not tag or tag not in out)
