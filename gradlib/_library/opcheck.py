"""`opcheck`: an op on an example, against what was registered for it."""

from __future__ import annotations

from typing import Any

import gradlib

from ..ops._custom import OpOverload
from .custom_ops import _overload

__all__ = ["OpCheckError", "opcheck"]


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: Any = None,
    raise_exception: bool = True,
    **tolerances: float,
) -> dict[str, str]:
    """Check an op on an example: its schema, its fake function, and its derivative.

    "test_schema": it changes no argument but those that its schema says. "test_faketensor": results of the fake
    function have the shapes and dtypes of the real ones. "test_autograd_registration": there is a derivative.

    Args:
        op: what `custom_op` gave, or an overload.
        args: an example.
        kwargs: arguments by name.
        test_utils: the names of the checks to run; without it all.
        raise_exception: raise what the first failing check says; else it is in the result.
        tolerances: accepted.

    Returns:
        The name of each check -> "SUCCESS" or what failed.
    """
    overload, kwargs = _overload(op), kwargs or {}
    checks = {
        "test_schema": _check_schema,
        "test_faketensor": _check_fake,
        "test_autograd_registration": _check_autograd,
    }
    chosen = [test_utils] if isinstance(test_utils, str) else test_utils
    report = {}
    for name, check in checks.items():
        if chosen is not None and name not in chosen:
            continue
        try:
            check(overload, args, kwargs)
            report[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            report[name] = str(error)
    return report


class OpCheckError(Exception):
    """A check of `opcheck` failed.

    Its cause is what the op did wrong.
    """


def _tensors(value: Any) -> list[Any]:
    return [t for t in gradlib.utils._pytree.tree_leaves(value) if isinstance(t, gradlib.Tensor)]


def _copied(args: Any) -> Any:
    return gradlib.utils._pytree.tree_map(
        lambda v: v.detach().clone() if isinstance(v, gradlib.Tensor) else v, args
    )


def _check_schema(op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> None:
    args, named = op._schema.bind(_copied(args), _copied(kwargs))
    before = _copied(args)
    op(*args, **named)
    for a, old, new in zip(op._schema.arguments, before, args):
        same = all(gradlib.equal(x, y) for x, y in zip(_tensors(old), _tensors(new), strict=True))
        if not same and not a.is_write:
            raise RuntimeError(f"Argument {a.name} is not defined as mutable but was mutated")


def _check_fake(op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> None:
    if op.fake is None:
        raise RuntimeError(
            f"There was no fake impl registered for {op}. Please use `register_fake` to add one."
        )
    args, named = op._schema.bind(_copied(args), _copied(kwargs))
    real, fake = _tensors(op(*args, **named)), _tensors(op.fake(*args, **named))
    facts = [[(tuple(t.shape), t.dtype, t.device) for t in tensors] for tensors in (real, fake)]
    if facts[0] != facts[1]:
        raise RuntimeError(f"the fake function gives {facts[1]}, the op {facts[0]}")


def _check_autograd(op: OpOverload, args: tuple, kwargs: dict[str, Any]) -> None:
    needs = any(t.requires_grad for t in _tensors(args))
    if needs and op.backward is None and not {"autograd", "composite"} & op.kernels.keys():
        raise RuntimeError(
            f"the arguments require grad, and no derivative is registered for {op.name()}"
        )
