"""Walking the tree of modules: iterators over submodules, parameters and buffers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from ...tape.tensor import Tensor
from ..parameter import Parameter
from ._base import ModuleFields

if TYPE_CHECKING:
    from .module import Module


class Traversal(ModuleFields):
    """The part of `Module` that finds things in the tree."""

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, each one once.

        Args:
            recurse: include those of all submodules.

        Example:
            >>> sum(p.numel() for p in nn.Linear(3, 2).parameters())
            8
        """
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over (name, parameter), names joined by dots.

        Args:
            prefix: put before every name, with a dot.
            recurse: include those of all submodules.
            remove_duplicate: yield a shared parameter under its first name only.

        Example:
            >>> [name for name, _ in nn.Linear(3, 2).named_parameters()]
            ['weight', 'bias']
        """
        return self._named_members(
            lambda module: module._parameters.items(),
            prefix=prefix,
            recurse=recurse,
            remove_duplicate=remove_duplicate,
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, each one once: tensors that are state, but no parameters.

        Args:
            recurse: include those of all submodules.

        Example:
            >>> [b.dtype for b in nn.BatchNorm1d(2).buffers()]
            [torch.float32, torch.float32, torch.int64]
        """
        for _, buf in self.named_buffers(recurse=recurse):
            yield buf

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over (name, buffer), names joined by dots.

        Args:
            prefix: put before every name, with a dot.
            recurse: include those of all submodules.
            remove_duplicate: yield a shared buffer under its first name only.

        Example:
            >>> [name for name, _ in nn.BatchNorm1d(2).named_buffers()]
            ['running_mean', 'running_var', 'num_batches_tracked']
        """
        return self._named_members(
            lambda module: module._buffers.items(),
            prefix=prefix,
            recurse=recurse,
            remove_duplicate=remove_duplicate,
        )

    def children(self) -> Iterator[Module]:
        """Iterate over the direct submodules, each one once, in the order of registration.

        Example:
            >>> list(nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())).children())[0]
            ReLU()
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, direct submodule), each one once, in the order of registration.

        Example:
            >>> list(nn.Sequential(nn.ReLU(), nn.Tanh()).named_children())
            [('0', ReLU()), ('1', Tanh())]
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and everything below it, parents first.

        Args:
            remove_duplicate: yield a shared module once only.

        Example:
            >>> net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh()))
            >>> [type(m).__name__ for m in net.modules()]
            ['Sequential', 'Linear', 'Sequential', 'Tanh']
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self,
        memo: set[Any] | None = None,
        prefix: str = "",
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over (name, module) for this module and everything below it.

        Args:
            memo: modules already seen; grows.
            prefix: the name of this module.
            remove_duplicate: yield a shared module under its first name only.

        Example:
            >>> [name for name, _ in nn.Sequential(nn.ReLU()).named_modules()]
            ['', '0']
        """
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]
        for name, module in self._modules.items():
            if module is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, below, remove_duplicate)

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Iterate over (name, member) for what `get_members_fn` finds in each module."""
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = iter([(prefix, self)])
        seen = set()
        for module_name, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{module_name}.{name}" if module_name else name, member

    def get_submodule(self, target: str) -> Module:
        """The submodule with the dotted name `target`; "" is this module.

        Raises:
            AttributeError: a part of the name does not exist or is not a module.

        Example:
            >>> nn.Sequential(nn.Sequential(nn.ReLU())).get_submodule("0.0")
            ReLU()
        """
        module = cast("Module", self)  # nothing else has this part
        for name in target.split(".") if target else ():
            found = _attribute(module, name)
            if not isinstance(found, Traversal):
                raise AttributeError(f"`{name}` is not an nn.Module")
            module = cast("Module", found)
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put `module` at the dotted name `target`.

        Args:
            target: the name; its parents must exist.
            module: the new submodule.
            strict: refuse a name that does not exist yet.

        Raises:
            AttributeError: a part of the name does not exist or is not a module.
            ValueError: `target` is empty or `module` is not a module.

        Example:
            >>> net = nn.Sequential(nn.Sequential(nn.ReLU()))
            >>> net.set_submodule("0.0", nn.GELU())
            >>> net[0][0]
            GELU(approximate='none')
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Traversal):
            raise ValueError(f'"module" is not an nn.Module, found {type(module)}')
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict:
            _attribute(parent, name)
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Traversal):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with the dotted name `target`.

        Raises:
            AttributeError: it does not exist or is not a parameter.

        Example:
            >>> tuple(nn.Sequential(nn.Linear(3, 2)).get_parameter("0.weight").shape)
            (2, 3)
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        param = _attribute(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with the dotted name `target`.

        Raises:
            AttributeError: it does not exist or is not a buffer.

        Example:
            >>> nn.BatchNorm1d(2).get_buffer("running_var").tolist()
            [1.0, 1.0]
        """
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = _attribute(module, name)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found


def _attribute(module: Any, name: str) -> Any:
    if not hasattr(module, name):
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    return getattr(module, name)
