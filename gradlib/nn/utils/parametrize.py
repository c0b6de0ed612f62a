"""Parametrisations: a parameter computed from other parameters by modules.

A parametrised module gets a class of its own, where the parameter is a property that runs the
modules on the original tensors; those are in `module.parametrizations`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...tape.tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within the block every parametrised tensor is computed once only.

    For models that use one several times; do not change originals inside.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> with nn.utils.parametrize.cached():
        ...     layer.weight is layer.weight
        True
    """
    global _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache.clear()


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _maybe_set(dest: Tensor, src: Tensor) -> None:
    with no_grad():
        dest.data = src.data


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, and its original value(s); what `module.parametrizations` holds.

    Args:
        modules: applied in order.
        original: the tensor they are put on.
        unsafe: skip the checks of shape and dtype.

    Attributes:
        original: what the first one starts from; original0, original1... where it takes several.

    Raises:
        ValueError: there are no modules, or they change shape or dtype.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> type(layer.parametrizations.weight).__name__
        'ParametrizationList'
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if original.dtype != new.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            with no_grad():
                _maybe_set(original, new)
            _register(self, "original", original)
        else:
            for i, value in enumerate(new):
                if isinstance(original, Parameter):
                    value = Parameter(value, original.requires_grad)
                _register(self, f"original{i}", value)
        if not unsafe:
            of = "unparametrized {}", "parametrized {}"
            _check_same(shape, dtype, self(), "`unsafe`", *of)

    def originals(self) -> list[Tensor]:
        """The tensors that the parametrisations start from, as a list.

        Example:
            >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
            >>> [tuple(t.shape) for t in layer.parametrizations.weight.originals()]
            [(3, 1), (3, 2)]
        """
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrised tensor becomes `value`, as far as it can.

        It is what an assignment to the tensor does.

        Args:
            value: of the shape of the tensor.

        Raises:
            RuntimeError: a parametrisation has no method `right_inverse`.
            ValueError: it gives another number of tensors, or another dtype.

        Example:
            >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 1))
            >>> layer.weight = gradlib.tensor([[3.0, 4.0]])
            >>> layer.parametrizations.weight.original0.tolist()
            [[5.0]]
        """
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse."
                    )
                new = module.right_inverse(new)
            values = [new] if self.is_tensor else new
            if len(values) != self.ntensors:
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors of length "
                    f"{self.ntensors}. Got {len(values)}."
                )
            for original, tensor in zip(self.originals(), values):
                if original.dtype != tensor.dtype:
                    raise ValueError(
                        "The tensor returned by `right_inverse` has dtype "
                        f"{tensor.dtype} while `original` has dtype {original.dtype}"
                    )
                _maybe_set(original, tensor)

    def forward(self) -> Tensor:
        """The parametrised tensor: the modules one after another, the first on the originals.

        Example:
            >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
            >>> gradlib.equal(layer.parametrizations.weight(), layer.weight)
            True
        """
        modules = iter(self)
        out = next(modules)(*self.originals())
        for module in modules:
            out = module(out)
        return out


def _parametrized_property(name: str) -> property:
    def get(self: Module) -> Tensor:
        if not _cache_enabled:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = self.parametrizations[name]()
        return _cache[key]

    def put(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _inject_new_class(module: Module) -> None:
    cls = type(module)

    def deepcopied(self: Any, memo: dict) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return replica

    def no_pickle(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict()."
        )

    fields = {"__deepcopy__": deepcopied, "__getstate__": no_pickle}
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), fields)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `module.tensor_name` be `parametrization(original)`; returns the module.

    Args:
        module: owns the tensor.
        tensor_name: of the parameter or buffer.
        parametrization: a module; with a method `right_inverse` it allows assignment.
        unsafe: skip the checks of shape and dtype.

    Raises:
        ValueError: there is no such tensor, or its shape or dtype would change.

    Example:
        >>> class Symmetric(nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = nn.utils.parametrize.register_parametrization(
        ...     nn.Linear(3, 3), "weight", Symmetric())
        >>> bool((layer.weight == layer.weight.T).all())
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        known = module.parametrizations[tensor_name]
        if not unsafe:
            _check_appended(module, tensor_name, parametrization)
        known.append(parametrization)
        known.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.__dict__["_modules"]["parametrizations"] = ModuleDict()
        setattr(type(module), tensor_name, _parametrized_property(tensor_name))
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_appended(module: Module, tensor_name: str, parametrization: Module) -> None:
    before = getattr(module, tensor_name)
    of = f"module.{tensor_name}.{{}}", f"parametrization(module.{tensor_name}).{{}}"
    _check_same(before.shape, before.dtype, parametrization(before), "the `unsafe`", *of)


def _check_same(shape: Any, dtype: Any, after: Any, unless: str, was: str, now: str) -> None:
    """What a parametrisation makes is a tensor of the same dtype and shape."""
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for what, wanted in (("dtype", dtype), ("shape", shape)):
        found = getattr(after, what)
        if found != wanted:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless {unless} flag is "
                f"enabled.\n{was.format(what)}: {wanted}\n{now.format(what)}: {found}"
            )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether the module, or one of its tensors, is parametrised.

    Args:
        module: the module; not those inside of it.
        tensor_name: of a tensor; None is any.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> is_parametrized(layer), is_parametrized(layer, "bias")
        (True, False)
    """
    parametrizations = module._modules.get("parametrizations")
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Undo `register_parametrization`; returns the module.

    Args:
        module: owns the tensor.
        tensor_name: of the parameter or buffer.
        leave_parametrized: keep the computed value; False goes back to the original one.

    Raises:
        ValueError: the tensor is not parametrised, or it has several originals to go back to.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> sorted(name for name, _ in remove_parametrizations(layer, "weight").named_parameters())
        ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                _maybe_set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if len(module.parametrizations) == 0:
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module had before it was parametrised.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> type(layer).__name__, type_before_parametrizations(layer).__name__
        ('ParametrizedLinear', 'Linear')
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Put the parametrisations of a module, and their originals, on another one; returns that.

    Args:
        from_module: where they are.
        to_module: where they go; the parametrising modules are shared, the originals copied.
        tensor_name: of one tensor; None is all that are parametrised.

    Example:
        >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
        >>> other = transfer_parametrizations_and_params(layer, nn.Linear(2, 3))
        >>> gradlib.equal(other.weight, layer.weight)
        True
    """
    if not is_parametrized(from_module):
        return to_module
    names = [tensor_name] if tensor_name is not None else list(from_module.parametrizations)
    for name in names:
        if not hasattr(to_module, name):
            value = getattr(from_module, name)
            setattr(to_module, name, Parameter(value.detach().clone()))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(to_module, name, parametrization)
        source = from_module.parametrizations[name].originals()
        for dest, src in zip(to_module.parametrizations[name].originals(), source):
            _maybe_set(dest, src.detach().clone())
    return to_module
