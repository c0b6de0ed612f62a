"""``distributed.fsdp.wrap``: which submodules of a model become groups of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...nn.modules.activation import MultiheadAttention
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]

Wrap = Callable[..., Any]


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Wrap every submodule: True."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Wrap the submodules for which a function says so.

    Args:
        module: a submodule.
        recurse: whether the question is if those below it are to be asked about.
        nonwrapped_numel: the elements of its parameters that are in no wrapped module.
        lambda_fn: says whether to wrap a module.
    """
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[Module]],
) -> bool:
    """Wrap the submodules of some classes, such as the blocks of a transformer.

    Args:
        module, recurse, nonwrapped_numel: as for `lambda_auto_wrap_policy`.
        transformer_layer_cls: the classes.

    Example::

        policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
        model = FullyShardedDataParallel(model, auto_wrap_policy=policy)
    """
    return True if recurse else isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Wrap submodules that have many parameters of their own.

    Args:
        module, recurse, nonwrapped_numel: as for `lambda_auto_wrap_policy`.
        min_num_params: the number of elements from which a module is wrapped.
        force_leaf_modules: classes whose submodules are not asked about; by default MultiheadAttention.
        exclude_wrap_modules: classes that are not wrapped; by default ModuleList and ModuleDict.
    """
    leaves = {MultiheadAttention} if force_leaf_modules is None else force_leaf_modules
    excluded = {ModuleList, ModuleDict} if exclude_wrap_modules is None else exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    if recurse:
        return large and not isinstance(module, tuple(leaves))
    return large and not isinstance(module, tuple(excluded))


class ModuleWrapPolicy:
    """Wrap the submodules of some classes.

    Args:
        module_classes: the classes.
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Whether to wrap it, or with `recurse`, to ask about those below it."""
        return True if recurse else isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._module_classes})"


class CustomPolicy:
    """Wrap the submodules for which a function says so, with arguments of their own.

    Args:
        lambda_fn: gives True, False, or a dict of arguments for `FullyShardedDataParallel`.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> Any:
        """What the function says of a module; True with `recurse`."""
        return True if recurse else self._lambda_fn(module)


def wrap_below(module: Module, policy: Any, wrap_one: Wrap, ignored: set[int]) -> int:
    """Wrap the submodules of a module by a policy, the innermost first.

    Args:
        module: it stays as it is.
        policy: one of this module, or a function like them.
        wrap_one: ``wrap_one(child, **kwargs)`` gives what takes its place.
        ignored: ids of modules that are left alone.

    Returns:
        The number of elements of parameters that are wrapped now.
    """
    policy = ModuleWrapPolicy(policy) if isinstance(policy, set) else policy
    wrapped = 0
    for name, child in list(module.named_children()):
        if id(child) in ignored:
            continue
        total = sum(p.numel() for p in child.parameters())
        inside = 0
        if policy(module=child, recurse=True, nonwrapped_numel=total):
            inside = wrap_below(child, policy, wrap_one, ignored)
        answer = policy(module=child, recurse=False, nonwrapped_numel=total - inside)
        if answer or isinstance(answer, dict):
            setattr(module, name, wrap_one(child, **(answer if isinstance(answer, dict) else {})))
            inside = total
        wrapped += inside
    return wrapped


_wrappers: list[tuple[type, dict[str, Any]]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A block in which `wrap` wraps.

    Args:
        wrapper_cls: `FullyShardedDataParallel`.
        wrapper_kwargs: its arguments.

    Example::

        with enable_wrap(wrapper_cls=FullyShardedDataParallel):
            layer = wrap(nn.Linear(5, 5))
    """
    _wrappers.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _wrappers.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """The module wrapped, in a block of `enable_wrap`; else the module itself.

    Args:
        module: a module.
        wrap_overrides: arguments in place of those of the block.
    """
    if not _wrappers:
        return module
    kind, kwargs = _wrappers[-1]
    return kind(module, **{**kwargs, **wrap_overrides})
