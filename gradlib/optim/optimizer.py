"""Optimizer: the base class of everything that updates parameters from their gradients."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from ..autograd.grad_mode import enable_grad
from ..tape import dtypes, modes, override, recording
from ..tape.hooks import RemovableHandle, add_hook
from ..tape.tensor import Tensor

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
    "required",
]

_global_pre_hooks: OrderedDict[int, Callable] = OrderedDict()
_global_post_hooks: OrderedDict[int, Callable] = OrderedDict()


class _Required:
    """A default that every parameter group has to replace."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run `hook(optimizer, args, kwargs)` before the step of every optimizer.

    What the hook returns, unless None, replaces (args, kwargs).

    Example:
        >>> hook = lambda optimizer, args, kwargs: print("before", type(optimizer).__name__)
        >>> handle = register_optimizer_step_pre_hook(hook)
        >>> gradlib.optim.SGD(model.parameters()).step()
        before SGD
        >>> handle.remove()
    """
    return add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Run a hook after the step of every optimizer.

    Args:
        hook: `hook(optimizer, args, kwargs)`.

    Returns:
        A handle whose `remove()` takes the hook away.

    Example:
        >>> hook = lambda optimizer, args, kwargs: print("after", type(optimizer).__name__)
        >>> handle = register_optimizer_step_post_hook(hook)
        >>> gradlib.optim.SGD(model.parameters()).step()
        after SGD
        >>> handle.remove()
    """
    return add_hook(_global_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A step that also runs hooks and shows up in the profiler; both cost one test when off."""

    @functools.wraps(step)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if "_opt_called" in self.__dict__:  # a scheduler wants to know
            self._opt_called = True
        if (
            self._optimizer_step_pre_hooks
            or self._optimizer_step_post_hooks
            or _global_pre_hooks
            or _global_post_hooks
            or modes.state.bits & modes.PROFILE
        ):
            return _hooked_step(self, step, args, kwargs)
        return step(self, *args, **kwargs)

    wrapped.hooked = True  # type: ignore[attr-defined]
    return wrapped


def evaluated(closure: Callable[[], Any] | None) -> Any:
    """The loss of a step's closure; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def _labelled(optimizer: Optimizer, method: str, call: Callable, *args: Any) -> Any:
    """``call(*args)``, with a range of the profiler that names the method while one runs."""
    if not modes.state.bits & modes.PROFILE:
        return call(*args)
    if modes.state.capture is not None:
        return modes.state.capture.whole(f"{type(optimizer).__name__}.{method}", call, args)
    name = f"Optimizer.{method}#{type(optimizer).__name__}.{method}"
    span = recording.Span(name, recording.LABEL)
    try:
        return call(*args)
    finally:
        span.end()


def _hooked_step(self: Optimizer, step: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    if modes.state.capture is not None:  # hooks are a part of the step as any other
        run = functools.partial(_written_down, step)
        return _step_with_hooks(self, step, args, kwargs, run)
    return _labelled(self, "step", _step_with_hooks, self, step, args, kwargs)


def _written_down(step: Callable, self: Optimizer, *args: Any, **kwargs: Any) -> Any:
    loss = None
    if getattr(step, "evaluates_first", False) and len(args) + len(kwargs) == 1:
        closure = kwargs.get("closure") if kwargs else args[0]
        if closure is not None:  # so is that, and then comes the update
            loss, args, kwargs = evaluated(closure), (), {}
    out = _labelled(self, "step", _step_alone, self, step, args, kwargs)
    return out if loss is None else loss


def _step_alone(self: Optimizer, step: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    return step(self, *args, **kwargs)


def _step_with_hooks(
    self: Optimizer,
    step: Callable,
    args: tuple,
    kwargs: dict[str, Any],
    run: Callable | None = None,
) -> Any:
    for hook in chain(_global_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
        replaced = hook(self, args, kwargs)
        if replaced is None:
            continue
        if not (isinstance(replaced, tuple) and len(replaced) == 2):
            raise RuntimeError(
                f"{step} must return None or a tuple of (new_args, new_kwargs), but got {replaced}."
            )
        args, kwargs = replaced
    out = (run or step)(self, *args, **kwargs)
    for hook in chain(self._optimizer_step_post_hooks.values(), _global_post_hooks.values()):
        hook(self, args, kwargs)
    return out


class Optimizer:
    """Base class of all optimizers.

    Args:
        params: iterable of tensors, of (name, tensor) pairs, or of dicts with a key "params" and
            settings of that group.
        defaults: settings of groups that do not have their own.

    Attributes:
        param_groups: list of dicts: the parameters and settings of each group.
        state: dict from parameter to a dict of what the optimizer remembers about it.

    Raises:
        TypeError: `params` holds something that is not a tensor.
        ValueError: it is empty, or a parameter is not a leaf.

    Example:
        >>> class Signs(gradlib.optim.Optimizer):
        ...     @gradlib.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for p in group["params"]:
        ...                 p.sub_(group["lr"] * p.grad.sign())
        >>> w = gradlib.ones(1, requires_grad=True)
        >>> opt = Signs([w], {"lr": 0.25})
        >>> (w * 2).sum().backward()
        >>> opt.step()
        >>> w.item()
        0.75
    """

    _opt_called: bool
    _optimizer_step_pre_hooks: OrderedDict[int, Callable]
    _optimizer_step_post_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable]
    _hook_dicts = tuple(name for name in __annotations__ if name.endswith("_hooks"))

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {params.type()}"
            )
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if len(groups) == 0:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self) -> None:
        """What a new and an unpickled optimizer both need."""
        for name in Optimizer._hook_dicts:
            self.__dict__.setdefault(name, OrderedDict())
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._prepare()
        for group in self.param_groups:  # settings that an older version did not have
            for name, value in self.defaults.items():
                if value is not required:
                    group.setdefault(name, value)
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {i}"] if i else [f"Parameter Group {i}"]
            lines += [f"    {k}: {group[k]}" for k in sorted(group) if k != "params"]
        return "\n".join(lines) + "\n)"

    # --- hooks ----------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run a hook before each step.

        Args:
            hook: `hook(optimizer, args, kwargs)`; what it returns, unless None, replaces (args, kwargs).

        Returns:
            A handle whose `remove()` takes the hook away.

        Raises:
            RuntimeError: in `step`, if it returns something else.
        """
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Run a hook after each step.

        Args:
            hook: `hook(optimizer, args, kwargs)`.

        Returns:
            A handle whose `remove()` takes the hook away.

        Example:
            >>> opt = gradlib.optim.SGD([gradlib.ones(1, requires_grad=True)], lr=0.1)
            >>> handle = opt.register_step_post_hook(lambda optimizer, args, kwargs: print("step"))
            >>> opt.step()
            step
            >>> handle.remove()
        """
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run a hook before `state_dict`.

        Args:
            hook: `hook(optimizer)`.
            prepend: run it before the hooks that are there already.

        Returns:
            A handle whose `remove()` takes the hook away.
        """
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run a hook after `state_dict`.

        Args:
            hook: `hook(optimizer, state_dict)`; what it returns, unless None, replaces the dict.
            prepend: run it before the hooks that are there already.

        Returns:
            A handle whose `remove()` takes the hook away.
        """
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run a hook before `load_state_dict`.

        Args:
            hook: `hook(optimizer, state_dict)`; what it returns, unless None, replaces the dict.
            prepend: run it before the hooks that are there already.

        Returns:
            A handle whose `remove()` takes the hook away.
        """
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Run a hook after `load_state_dict`.

        Args:
            hook: `hook(optimizer)`.
            prepend: run it before the hooks that are there already.

        Returns:
            A handle whose `remove()` takes the hook away.
        """
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    # --- state ----------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What the optimizer remembers, with parameters as numbers in order of the groups.

        Returns:
            {"state": {index: {name: value}}, "param_groups": [{..., "params": [index, ...]}]}.
            Tensors are not copied.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        index: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                index.setdefault(id(p), len(index))
            packed["params"] = [index[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(index[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        out: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, out)
            out = out if replaced is None else replaced
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` returned, for the same parameters in the same order.

        Values are cast and moved to the dtype and device of their parameter.

        Raises:
            ValueError: the numbers of groups or of parameters differ.
        """
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        saved = deepcopy(state_dict["param_groups"])
        groups = self.param_groups
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        params: dict[Any, Tensor] = {}
        owner: dict[Any, dict[str, Any]] = {}
        for group, new in zip(groups, saved):
            for key, p in zip(new["params"], group["params"]):
                params[key], owner[key] = p, new
        state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = _fit(value, params[key], owner[key])
            else:
                state[key] = value
        for group, new in zip(groups, saved):
            new["params"] = group["params"]
            if "param_names" in group:
                new["param_names"] = group["param_names"]
            else:
                new.pop("param_names", None)
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: True sets `.grad` to None; False fills it with zeros in place, so its
                layout stays.
        """
        _labelled(self, "zero_grad", self._reset_grads, set_to_none)

    def _reset_grads(self, set_to_none: bool) -> None:
        plain, setter = not (modes.shared.active or override.armed), Tensor.grad
        for group in self.param_groups:
            for p in group["params"]:
                grad = p._grad
                if grad is None:
                    continue
                if set_to_none:
                    if plain and p.__class__.grad is setter:
                        p._grad = None  # which is all that it does then
                    else:
                        p.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once.

        Args:
            closure: evaluates the model again and returns the loss; few optimizers need it.
        """
        raise NotImplementedError

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters, for instance layers that are unfrozen during training.

        Args:
            param_group: a dict with "params" and settings of this group.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        param_group["params"], names = _listed(param_group["params"])
        if names is not None:
            param_group["param_names"] = names
        for p in param_group["params"]:
            if not isinstance(p, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is {_name_of(p)}"
                )
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, default)
        params = param_group["params"]
        ids = {id(p) for p in params}
        if len(ids) != len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=3,
            )
        others = {id(p) for group in self.param_groups for p in group["params"]}
        if ids & others:
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in self.param_groups[0]) != (names is not None):
            form = "with" if names is not None else "without"
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{form} names to the optimizer"
            )
        self.param_groups.append(param_group)


def _listed(params: Any) -> tuple[list[Any], list[str] | None]:
    """The parameters of a group as a list, and their names if they came with names."""
    if isinstance(params, Tensor):
        return [params], None
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering "
            "of tensors in sets will change between runs. Please use a list instead."
        )
    listed = list(params)
    named = [isinstance(p, tuple) for p in listed]
    if not any(named):
        return listed, None
    if not all(named):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [p for _, p in listed], [name for name, _ in listed]


def _name_of(value: Any) -> str:
    """A type as error messages spell it."""
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _fit(value: Any, param: Tensor, group: dict[str, Any], key: Any = None) -> Any:
    """A loaded value in the dtype and on the device of its parameter; counters stay as saved."""
    if isinstance(value, Tensor):
        if key == "step":
            if group.get("capturable") or group.get("fused"):
                return value.to(dtype=dtypes.float32, device=param.device)
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)
    if isinstance(value, dict):
        return {k: _fit(v, param, group, k) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return type(value)(_fit(v, param, group) for v in value)  # type: ignore[call-arg]
    return value
