"""state_dict and load_state_dict: a module's tensors as a flat dict, out and in."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

from ...autograd.grad_mode import no_grad
from ...tape.hooks import RemovableHandle, add_hook
from ...tape.tensor import Tensor
from ..parameter import Parameter, is_lazy
from ._base import _EXTRA_STATE_KEY_SUFFIX, ModuleFields, hooks_of


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateDict(ModuleFields):
    """The part of `Module` that saves and loads."""

    def get_extra_state(self) -> Any:
        """Give what `state_dict` is to store beside the tensors; override it with `set_extra_state`.

        Returns:
            Anything that can be pickled. It stands under the module's name and "_extra_state".

        Raises:
            RuntimeError: here, as it is called only where it is overridden.

        Example:
            >>> class Counting(nn.Module):
            ...     count = 3
            ...     def get_extra_state(self):
            ...         return self.count
            ...     def set_extra_state(self, state):
            ...         self.count = state
            >>> dict(Counting().state_dict())
            {'_extra_state': 3}
        """
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave; called by `load_state_dict`.

        Args:
            state: what is in the dict under the module's name and "_extra_state".

        Raises:
            RuntimeError: here, as it is called only where it is overridden.
        """
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Write this module's own parameters and persistent buffers; not the submodules'."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buf in self._buffers.items():
            if buf is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buf if keep_vars else buf.detach()
        if type(self).get_extra_state is not StateDict.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """All parameters and persistent buffers of the tree, by dotted name.

        Args:
            *args: deprecated positional form of the keywords.
            destination: dict to fill and return; a new OrderedDict by default.
            prefix: put before every name.
            keep_vars: False stores detached tensors, which share storage with the module.

        Example:
            >>> list(nn.Linear(3, 2).state_dict())
            ['weight', 'bias']
        """
        if args:
            warnings.warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
                stacklevel=2,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in hooks_of(self, "_state_dict_pre_hooks").values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in hooks_of(self, "_state_dict_hooks").values():
            replaced = hook(self, destination, prefix, local_metadata)
            if replaced is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict post-hook must return None")
            destination = replaced
        return destination

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        """Copy values into parameters and buffers by name.

        Args:
            state_dict: what `state_dict` returned.
            strict: raise when names are missing or unexpected.
            assign: put the tensors of `state_dict` in place of the module's, instead of copying
                values; `requires_grad` stays the module's.

        Returns:
            A named tuple (missing_keys, unexpected_keys).

        Raises:
            RuntimeError: keys or shapes do not match.
            TypeError: `state_dict` is not a mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        entries: Any = OrderedDict(state_dict)
        if metadata is not None:
            entries._metadata = metadata

        def load(module: Any, entries: dict, prefix: str) -> None:
            local = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local["assign_to_params_buffers"] = assign
            module._load_from_state_dict(entries, prefix, local, True, missing, unexpected, errors)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    load(child, {k: v for k, v in entries.items() if k.startswith(below)}, below)
            incompatible = _IncompatibleKeys(missing, unexpected)
            for hook in hooks_of(module, "_load_state_dict_post_hooks").values():
                if hook(module, incompatible) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be "
                        "modified, it should be done inplace."
                    )

        load(self, entries, "")
        if strict:
            if unexpected:
                names = ", ".join(f'"{k}"' for k in unexpected)
                errors.insert(0, f"Unexpected key(s) in state_dict: {names}. ")
            if missing:
                names = ", ".join(f'"{k}"' for k in missing)
                errors.insert(0, f"Missing key(s) in state_dict: {names}. ")
        if errors:
            listed = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )
        return _IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own tensors; the submodules' are loaded by `load_state_dict`."""
        given = (
            state_dict,
            prefix,
            local_metadata,
            strict,
            missing_keys,
            unexpected_keys,
            error_msgs,
        )
        for hook in hooks_of(self, "_load_state_dict_pre_hooks").values():
            hook(*given)
        transient = self._non_persistent_buffers_set
        kept = {name: buf for name, buf in self._buffers.items() if name not in transient}
        named = {**self._parameters, **kept}
        owned = {name: tensor for name, tensor in named.items() if tensor is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in owned.items():
            key = prefix + name
            if key in state_dict:
                error = self._load_tensor(name, key, tensor, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)
        extra_key = prefix + _EXTRA_STATE_KEY_SUFFIX
        if type(self).set_extra_state is not StateDict.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    first, dot, _ = key[len(prefix) :].partition(".")
                    if first not in (self._modules if dot else owned):
                        unexpected_keys.append(key)

    def _load_tensor(
        self, name: str, key: str, tensor: Tensor, value: Any, assign: bool
    ) -> str | None:
        """Copy or assign one tensor; the message when it does not fit."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or '
                f"Tensor-like object from checkpoint but received {type(value)}"
            )
        lazy = is_lazy(tensor)
        if lazy and is_lazy(value):
            return None  # both wait for their shape
        if not lazy and tensor.dim() == 0 and value.dim() == 1 and len(value) == 1:
            value = value[0]  # scalars were once saved with shape [1]
        if not lazy and value.shape != tensor.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {tensor.shape}."
            )
        if not assign and not lazy and tensor.is_meta and not value.is_meta:
            warnings.warn(
                f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
                "model, which is a no-op. (Did you mean to pass `assign=True` to assign items in the state "
                "dictionary to their corresponding key in the module instead of copying them in place?)",
                stacklevel=2,
            )
        try:
            with no_grad():
                if assign:
                    self._assign_tensor(name, tensor, value)
                else:
                    tensor.copy_(value)
        except Exception as error:
            return (
                f'While copying the parameter named "{key}", whose dimensions in the model are '
                f"{tensor.size()} and whose dimensions in the checkpoint are {value.size()}, "
                f"an exception occurred : {error.args}."
            )
        return None

    def _assign_tensor(self, name: str, tensor: Tensor, value: Tensor) -> None:
        if isinstance(tensor, Parameter):
            if not isinstance(value, Parameter):
                value = Parameter(value, requires_grad=tensor.requires_grad)
            else:
                value.requires_grad_(tensor.requires_grad)
        setattr(self, name, value)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Register `hook(module, state_dict, prefix, metadata)`; its result replaces the dict."""
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, state_dict, prefix, local_metadata)` after `state_dict`.

        The hook may change the dict in place and must return None.

        Returns:
            A handle whose `remove()` takes the hook away.

        Example:
            >>> def rename(module, state, prefix, metadata):
            ...     state[prefix + "w"] = state.pop(prefix + "weight")
            >>> layer = nn.Linear(1, 1, bias=False)
            >>> _ = layer.register_state_dict_post_hook(rename)
            >>> list(layer.state_dict())
            ['w']
        """
        hook._from_public_api = True  # type: ignore[attr-defined]
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, prefix, keep_vars)` before `state_dict` reads the module.

        Returns:
            A handle whose `remove()` takes the hook away.

        Example:
            >>> layer, seen = nn.Linear(1, 1), []
            >>> _ = layer.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append(prefix))
            >>> _ = nn.Sequential(layer).state_dict()
            >>> seen
            ['0.']
        """
        return add_hook(self._state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Register a hook that sees the arguments of `_load_from_state_dict` before it runs."""
        bound = functools.partial(hook, self) if with_module else hook
        return add_hook(self._load_state_dict_pre_hooks, bound)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook` before this module loads its own tensors.

        It is called with (module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs) and may change them in place.

        Returns:
            A handle whose `remove()` takes the hook away.

        Example:
            >>> def rename(module, state, prefix, *rest):
            ...     state[prefix + "weight"] = state.pop(prefix + "w")
            >>> layer = nn.Linear(1, 1, bias=False)
            >>> _ = layer.register_load_state_dict_pre_hook(rename)
            >>> layer.load_state_dict({"w": gradlib.ones(1, 1)})
            <All keys matched successfully>
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run `hook(module, incompatible_keys)` after this module and its submodules loaded.

        The two lists of `incompatible_keys` may be changed in place; with strict=True an error
        is raised for what is left in them.

        Returns:
            A handle whose `remove()` takes the hook away.

        Example:
            >>> layer = nn.Linear(1, 1)
            >>> _ = layer.register_load_state_dict_post_hook(lambda m, keys: keys.missing_keys.clear())
            >>> layer.load_state_dict({"weight": gradlib.ones(1, 1)})
            <All keys matched successfully>
        """
        return add_hook(self._load_state_dict_post_hooks, hook)
