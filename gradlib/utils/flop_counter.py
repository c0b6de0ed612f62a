"""`FlopCounterMode`: how many floating point operations products, convolutions and attention take, by module.

An operation is a multiplication or an addition. What is counted is what ops declare (`op.costs`), under the names that
PyTorch has for them; a formula that is given for a name (`register_flop_formula`, ``custom_mapping``) goes before that.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from ..ops import aten
from ..tape.modes import state
from ..tape.pytree import tree_map
from ..tape.tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

# The declared ops that count, and where PyTorch counts them.
_COUNTED = {
    name: aten.packet(counted)
    for counted, names in {
        "mm": "mm linear_backward addmm_backward",
        "addmm": "addmm",
        "bmm": "bmm einsum",
        "baddbmm": "baddbmm",
        "convolution": "convolution conv_transpose",
        "convolution_backward": "convolution_backward conv_transpose_backward conv_grad_input conv_grad_weight",
        "_scaled_dot_product_flash_attention": "scaled_dot_product_attention",
        "_scaled_dot_product_flash_attention_backward": "scaled_dot_product_attention_backward",
    }.items()
    for name in names.split()
}
flop_registry: dict[Any, Callable[..., int]] = {}  # formulas of the program


def get_shape(value: Any) -> Any:
    """The shape of a tensor; anything else as it is.

    Example:
        >>> gradlib.utils.flop_counter.get_shape(gradlib.ones(2, 3))
        torch.Size([2, 3])
    """
    return value.shape if isinstance(value, Tensor) else value


def shape_wrapper(formula: Callable[..., int]) -> Callable[..., int]:
    """A formula that takes shapes as one that takes tensors.

    Args:
        formula: gets the shapes of the arguments, and that of the result as ``out_shape``.

    Returns:
        A function of the arguments, and of the result as ``out_val``.

    Example:
        >>> count = gradlib.utils.flop_counter.shape_wrapper(lambda a, out_shape: out_shape.numel())
        >>> count(gradlib.ones(2), out_val=gradlib.ones(3, 2))
        6
    """

    @wraps(formula)
    def count(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out = tree_map(get_shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out, **kwargs)

    return count


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[..., Any]:
    """A decorator: the function counts the operations of an op in each `FlopCounterMode`.

    Args:
        targets: an op of ``gradlib.ops`` before an overload is chosen (``gradlib.ops.aten.cumsum``), or several.
        get_raw: whether the function takes tensors, and the result as ``out_val``; else shapes, and ``out_shape``.

    Returns:
        A decorator that gives the function back.

    Raises:
        ValueError: a target is no op before an overload is chosen.

    Example:
        >>> from gradlib.utils.flop_counter import FlopCounterMode, flop_registry, register_flop_formula
        >>> @register_flop_formula(gradlib.ops.aten.cumsum)
        ... def of_cumsum(x, *args, out_shape=None, **kwargs):
        ...     return x.numel()
        >>> with FlopCounterMode(display=False) as counter:
        ...     _ = gradlib.ones(2, 3).cumsum(1)
        >>> counter.get_total_flops()
        6
        >>> del flop_registry[gradlib.ops.aten.cumsum]
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, list | tuple) else (targets,):
            if not hasattr(target, "overloads"):
                raise ValueError(
                    f"register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else shape_wrapper(formula)
        return formula

    return register


class FlopCounterMode(TorchDispatchMode):
    """A block in which floating point operations are counted, forward and backward.

    Args:
        mods: accepted for old programs; modules are found without it (it warns).
        depth: how far modules in modules are shown in the table; None for all.
        display: whether the table is printed at the end of the block.
        custom_mapping: ops before an overload is chosen -> formulas, as of `register_flop_formula`.

    Example:
        >>> model = nn.Linear(4, 3, bias=False)
        >>> with gradlib.utils.flop_counter.FlopCounterMode(display=False) as counter:
        ...     model(gradlib.ones(2, 4)).sum().backward()
        >>> counter.get_total_flops()  # 2 * 2 * 4 * 3, and as many for the gradient of the weight
        96
        >>> print(counter.get_table())
        Module       FLOP    % Total
        ---------  ------  ---------
        Linear     96.000    100.00%
        - aten.mm  96.000    100.00%
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        self.depth, self.display = depth, display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.mod_tracker = ModuleTracker()
        self._own = {
            op: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
            for op, formula in (custom_mapping or {}).items()
        }

    def get_total_flops(self) -> int:
        """How many operations there were.

        Returns:
            The sum over all ops, in modules or not.
        """
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """How many there were in each module, by op; "Global" has all.

        Returns:
            {name of the module: {op before an overload is chosen: count}}.
        """
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text.

        Args:
            depth: how far modules in modules are shown; that of the mode if None.
        """
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        rows, within = [], False
        for name in sorted(self.flop_counts):
            counts = self.flop_counts[name]
            if name != "Global" and (depth is None or name.count(".") < depth):
                rows += _rows(name, counts, total)
                within = within or sum(counts.values()) >= total
        if total and not within:  # what no module has all of
            rows = _rows("Global", self.flop_counts["Global"], total) + rows
        return _table([["Module", "FLOP", "% Total"], *(rows or [["Global", "0", "0%"]])])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        super().__exit__(*exc)
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """Run `func`, and count what it does.

        Args:
            func: the op.
            types: not used.
            args, kwargs: its operands and attributes.
        """
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = getattr(func, "_overloadpacket", None) or aten.packet(func._name)
        formula = self._own.get(packet) or flop_registry.get(packet)
        if formula is not None:
            self._count(packet, formula(*args, **kwargs, out_val=out))
        elif func._name in _COUNTED and getattr(func, "_cost", None) is not None:
            self._count(self._counted_as(func._name), _flops(func))
        return out

    def _counted_as(self, name: str) -> Any:
        """The gradient of a transposed convolution is a convolution."""
        task = state.current_task
        if name == "convolution" and task is not None and not task.create_graph:
            name = "convolution_backward"
        return _COUNTED[name]

    def _count(self, packet: Any, flops: int) -> None:
        for name in self.mod_tracker.parents:
            self.flop_counts[name][packet] += flops


def _flops(func: Any) -> int:
    """What an op declares; PyTorch counts all pairs of channels for the weight's gradient of a grouped convolution."""
    attrs, flops = func._attrs, func._cost(func._attrs, *func._shapes)
    if func._name == "conv_grad_weight":
        return flops * attrs["groups"]
    if func._name in ("convolution_backward", "conv_transpose_backward"):
        x, weight = attrs["needs"][:2]
        return flops // ((x + weight) or 1) * (x + weight * attrs["groups"])
    return flops


# -- text --------------------------------------------------------------------------------------------------------------

_SUFFIXES = ("", "K", "M", "B", "T")


def get_suffix_str(number: int) -> str:
    """The suffix with which a number has two to four digits before the point.

    Example:
        >>> gradlib.utils.flop_counter.get_suffix_str(55656)
        'K'
    """
    return _SUFFIXES[max(0, min(len(_SUFFIXES) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in the unit of a suffix.

    Example:
        >>> gradlib.utils.flop_counter.convert_num_with_suffix(55656, "K")
        '55.656K'
    """
    index = _SUFFIXES.index(suffix)
    return f"{number / 1000**index:.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """A share as text.

    Example:
        >>> gradlib.utils.flop_counter.convert_to_percent_str(1, 4)
        '25.00%'
    """
    return "0%" if denom == 0 else f"{num / denom:.2%}"


def _rows(name: str, counts: dict[Any, int], total: int) -> list[list[str]]:
    suffix = get_suffix_str(total)
    lines = [(name, sum(counts.values())), *((f"- {op}", n) for op, n in counts.items())]
    return [
        [text, convert_num_with_suffix(n, suffix), convert_to_percent_str(n, total)]
        for text, n in lines
    ]


def _table(rows: Iterable[list[str]]) -> str:
    head, *body = rows
    columns = list(zip(*body, strict=True))
    widths = [max(len(h) + 2, *map(len, c)) for h, c in zip(head, columns, strict=True)]
    lines = [head, ["-" * w for w in widths], *body]
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
