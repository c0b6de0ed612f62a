"""Module: the base class of everything that has parameters and a forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tape import handed
from ...tape.tensor import Tensor
from ..parameter import Buffer, Parameter
from ._base import _EXTRA_STATE_KEY_SUFFIX, new_fields
from ._call import Calling
from ._conversion import Conversion
from ._global_hooks import (  # noqa: F401
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from ._state import StateDict, _IncompatibleKeys

__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX",
    "Module",
    "_IncompatibleKeys",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]


def _forward_unimplemented(self: Any, *input: Any) -> None:
    """Compute the module's result; every subclass overrides this.

    Call the module itself, not `forward`: only the call runs hooks. A layer's own docstring gives
    the shapes of arguments and results.

    Raises:
        NotImplementedError: here, as there is nothing to compute.
    """
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


handed.later("gradlib.compiler", "compile_module")


class Module(Calling, StateDict, Conversion):
    """Base class of all neural network modules.

    A module owns parameters, buffers and other modules: assigning one to an attribute registers it,
    and `parameters`, `state_dict`, `to` and `train` then find it. Calling the module runs `forward`
    and the hooks.

    Attributes:
        training: whether `train` or `eval` was called last; dropout and batch normalisation act by it.

    Raises:
        AttributeError: a parameter, buffer or module is assigned before `super().__init__()` has run.
        TypeError: the constructor is given arguments that the subclass does not take.

    Example:
        >>> class Scale(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = nn.Parameter(gradlib.ones(1))
        ...     def forward(self, x):
        ...         return self.factor * x
        >>> Scale()(gradlib.tensor([2.0])).tolist()
        [2.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        if not self.call_super_init:
            if kwargs:
                raise TypeError(
                    f"{name}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
                )
            if args:
                raise TypeError(
                    f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given"
                )
        self.__dict__.update(new_fields())
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward: Callable[..., Any] = _forward_unimplemented
    _shown: str = ""  # what is printed of a module's own settings, such as "dim={0.dim}"

    # --- attributes -----------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        registry = fields.get("_parameters")
        if registry is not None:
            if name in registry:
                return registry[name]
            registry = fields["_modules"]
            if name in registry:
                return registry[name]
            registry = fields["_buffers"]
            if name in registry:
                return registry[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        if isinstance(value, Parameter):
            self._forget(name, "_buffers", "_modules", needed_by="parameters")
            self.register_parameter(name, value)
        elif name in fields.get("_parameters", ()):
            if value is not None:
                raise _not_fitting(value, "parameter", name, "torch.nn.Parameter")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._forget(name, "_parameters", "_buffers", needed_by="module")
            self._set_module(name, value)
        elif name in fields.get("_modules", ()):
            if value is not None:
                raise _not_fitting(value, "child module", name, "torch.nn.Module")
            self._set_module(name, value)
        elif name in fields.get("_buffers", ()) or (
            isinstance(value, Tensor) and isinstance(value, Buffer)
        ):
            self._set_buffer(name, value)
        else:
            super().__setattr__(name, value)

    def _forget(self, name: str, *registries: str, needed_by: str) -> None:
        """Remove a name from everywhere, because another registry is about to take it."""
        fields = self.__dict__
        if "_parameters" not in fields:
            raise AttributeError(f"cannot assign {needed_by} before Module.__init__() call")
        fields.pop(name, None)
        for registry in registries:
            fields[registry].pop(name, None)
        fields["_non_persistent_buffers_set"].discard(name)

    def _set_module(self, name: str, module: Module | None) -> None:
        for hook in _global_module_registration_hooks.values():
            replaced = hook(self, name, module)
            module = module if replaced is None else replaced
        self._modules[name] = module

    def _set_buffer(self, name: str, value: Tensor | None) -> None:
        if value is not None and not isinstance(value, Tensor):
            raise _not_fitting(value, "buffer", name, "torch.nn.Buffer, torch.Tensor")
        if isinstance(value, Buffer) and name not in self._buffers:
            self._forget(name, "_parameters", "_modules", needed_by="buffer")
            self.register_buffer(name, value, value.persistent)  # type: ignore[attr-defined]
            return
        for hook in _global_buffer_registration_hooks.values():
            replaced = hook(self, name, value)
            value = value if replaced is None else replaced
        self._buffers[name] = value

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__}
        names |= {*self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(new_fields())
        self.__dict__.update(state)

    # --- registration ---------------------------------------------------------------------

    def _check_name(self, name: Any, kind: str, registry: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_full_type_name(name)}")
        if "." in name:
            extra = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{extra}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[registry]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but not a parameter.

        Args:
            name: the attribute under which it is found.
            tensor: None registers a name without a value, which `state_dict` leaves out.
            persistent: whether it is part of `state_dict`.

        Example:
            >>> layer = nn.Module()
            >>> layer.register_buffer("mean", gradlib.zeros(2))
            >>> layer.mean.tolist()
            [0.0, 0.0]
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_full_type_name(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        for hook in _global_buffer_registration_hooks.values():
            replaced = hook(self, name, tensor)
            tensor = tensor if replaced is None else replaced
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None registers a name without a value, which `state_dict` leaves out.

        Args:
            name: the attribute under which it is found.
            param: the parameter.

        Raises:
            TypeError: `param` is not a Parameter, or `name` no string.
            ValueError: `param` was computed from other tensors.
            KeyError: the name is empty, has a dot, or is that of another attribute.

        Example:
            >>> layer = nn.Module()
            >>> layer.register_parameter("bias", nn.Parameter(gradlib.zeros(2)))
            >>> layer.bias.tolist()
            [0.0, 0.0]
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name(name, "parameter", "_parameters")
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{_full_type_name(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                    f"be created explicitly. To express '{name}' as a function of another "
                    "Tensor, compute the value in the forward() method."
                )
            for hook in _global_parameter_registration_hooks.values():
                replaced = hook(self, name, param)
                param = param if replaced is None else replaced
        self._parameters[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, as an assignment does; for names that are computed.

        Args:
            name: the attribute under which it is found.
            module: the submodule; None registers a name without a value.

        Raises:
            TypeError: `module` is no Module, or `name` no string.
            KeyError: the name is empty, has a dot, or is that of another attribute.

        Example:
            >>> net = nn.Module()
            >>> net.add_module("first", nn.ReLU())
            >>> net.first
            ReLU()
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{_full_type_name(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._set_module(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a submodule: the same as `add_module`, with its arguments and errors.

        Example:
            >>> net = nn.Module()
            >>> net.register_module("first", nn.ReLU())
            >>> [name for name, _ in net.named_children()]
            ['first']
        """
        self.add_module(name, module)

    # --- printing and the rest ------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Give the module's settings as text; override it to have them printed.

        Returns:
            One line, printed between the parentheses, or several, printed above the submodules.

        Example:
            >>> class Scale(nn.Module):
            ...     def extra_repr(self):
            ...         return "factor=2"
            >>> Scale()
            Scale(factor=2)
        """
        return self._shown.format(self)

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({k}): {_addindent(repr(m), 2)}" for k, m in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({lines[0]})"
        if not lines and not children:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Capture `forward` in place, as `gradlib.compile` captures a function.

        Args:
            args, kwargs: of `gradlib.compile`.

        Example:
            >>> model = gradlib.nn.Linear(2, 1)
            >>> model.compile()
            >>> model(gradlib.zeros(3, 2)).shape
            torch.Size([3, 1])
        """
        handed.compile_module(self, *args, **kwargs)

    def _replicate_for_data_parallel(self) -> Module:
        """A shallow copy with its own, empty registries of tensors and modules."""
        replica = type(self).__new__(type(self))
        replica.__dict__.update(self.__dict__)
        replica.__dict__.update(
            _parameters={}, _buffers=dict(self._buffers), _modules=dict(self._modules)
        )
        replica.__dict__["_is_replica"] = True
        return replica


def _not_fitting(value: Any, kind: str, name: str, wanted: str) -> TypeError:
    found = _full_type_name(value)
    return TypeError(f"cannot assign '{found}' as {kind} '{name}' ({wanted} or None expected)")


def _full_type_name(value: Any) -> str:
    """A type as error messages spell it: 'torch.FloatTensor', 'builtins.int', ..."""
    if isinstance(value, Tensor):
        return value.type()
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def changed(module: Module, **usual: Any) -> str:
    """The settings of a module that are not as usual, in the form of extra_repr: ``, stride=2, bias=False``."""
    values = ((name, getattr(module, name), value) for name, value in usual.items())
    return "".join(
        f", {name}={now}"
        for name, now, value in values
        if now is not value and (isinstance(value, bool) or now != value)
    )


def _addindent(text: str, n: int) -> str:
    """Indent all lines but the first."""
    return text.replace("\n", "\n" + " " * n)
