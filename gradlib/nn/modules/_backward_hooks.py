"""Full backward hooks: the inputs and the outputs of a module pass through one identity each.

The identity's graph node is where the gradient of all inputs, or of all outputs, is known at
one time, however many nodes the module itself recorded.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from ...autograd.function import Function
from ...operators import public as ops
from ...tape.hooks import in_forward_mode
from ...tape.modes import is_grad_enabled
from ...tape.tensor import Tensor


class BackwardHookFunction(Function):
    """Identity on any number of tensors that require grad."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        """Tensors of any shapes; returned as they are."""
        return tensors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        """The tangents unchanged, as views, for the results are views, too."""
        return tuple(None if t is None else t.view_as(t) for t in tangents)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        """The gradients unchanged; hooks of the node see and replace them."""
        return grads


class BackwardHook:
    """One call of one module that has full backward hooks or full backward pre-hooks.

    Args:
        module: what the hooks are called with.
        hooks: full backward hooks, in order.
        pre_hooks: full backward pre-hooks, in order.
    """

    def __init__(self, module: Any, hooks: Iterable[Callable], pre_hooks: Iterable[Callable]):
        self.module = module
        self.hooks = tuple(hooks)
        self.pre_hooks = tuple(pre_hooks)
        self.grad_outputs: tuple | None = None
        self.input_positions: list[int] | None = None  # None: no input requires grad
        self.output_positions: list[int] = []
        self.n_inputs = self.n_outputs = -1

    def setup_input_hook(self, args: tuple) -> tuple:
        """Pass the tensors among `args` through the input identity.

        Args:
            args: the positional arguments of the module.

        Returns:
            The arguments to call it with.
        """
        self.n_inputs = len(args)
        self.kinds = [(a.shape, a.dtype, a.device) if isinstance(a, Tensor) else None for a in args]
        args, self.input_positions = self._through_identity(args, self._on_input_node)
        return args

    def setup_output_hook(self, output: Any) -> Any:
        """Pass the tensors of a module's result through the identity.

        Args:
            output: a tensor or a tuple.

        Returns:
            The result to hand on.
        """
        single = not isinstance(output, tuple)
        outputs = (output,) if single else output
        self.n_outputs = len(outputs)
        outputs, positions = self._through_identity(outputs, self._on_output_node)
        self.output_positions = positions or []
        return outputs[0] if single else _like(output, outputs)

    def _through_identity(
        self, values: tuple, attach: Callable[[Any], None]
    ) -> tuple[tuple, list[int] | None]:
        where = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
        if not (where and is_grad_enabled()) or in_forward_mode():
            return values, None
        passed = BackwardHookFunction.apply(*[values[i] for i in where])
        if not isinstance(passed, tuple):
            passed = (passed,)
        attach(passed[0].grad_fn)
        out = list(values)
        for i, t in zip(where, passed):
            out[i] = t
        return tuple(out), where

    def _on_output_node(self, node: Any) -> None:
        def before(grads: tuple) -> tuple:
            grad_outputs = _scatter(grads, self.output_positions, self.n_outputs)
            for hook in self.pre_hooks:
                replaced = hook(self.module, grad_outputs)
                if replaced is not None:
                    grad_outputs = _checked(replaced, len(grad_outputs), "grad_output")
            self.grad_outputs = grad_outputs
            changed = tuple(grad_outputs[i] for i in self.output_positions)
            if self.input_positions is None:
                self._run_without_inputs()
            return changed

        node.register_prehook(before)

    def _run_without_inputs(self) -> None:
        """No input requires grad: run the hooks now, they have no input gradient to change."""
        if self.hooks:
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module "
                "outputs since no inputs require gradients.",
                stacklevel=2,
            )
        grad_inputs = (None,) * self.n_inputs
        for hook in self.hooks:
            replaced = hook(self.module, grad_inputs, self.grad_outputs)
            if replaced is not None and not all(r is None for r in replaced):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
        self.grad_outputs = None

    def _on_input_node(self, node: Any) -> None:
        def after(grads: tuple, _: tuple) -> tuple:
            if self.grad_outputs is None:
                return grads  # reached without passing the outputs: nothing to report
            positions = self.input_positions or []
            grad_inputs = _scatter(grads, positions, self.n_inputs)
            grad_inputs = tuple(
                ops.zeros(kind[0], dtype=kind[1], device=kind[2])
                if g is None and kind is not None
                else g
                for g, kind in zip(grad_inputs, self.kinds)
            )
            for hook in self.hooks:
                replaced = hook(self.module, grad_inputs, self.grad_outputs)
                if replaced is not None:
                    grad_inputs = _checked(replaced, self.n_inputs, "grad_input")
            self.grad_outputs = None
            return tuple(grad_inputs[i] for i in positions)

        node.register_hook(after)


def attach_non_full(module: Any, hooks: Iterable[Callable], args: tuple, result: Any) -> None:
    """Run deprecated backward hooks at the graph node of the first tensor found in `result`."""
    found = result
    while not isinstance(found, Tensor):
        values = found.values() if isinstance(found, dict) else found
        found = next(v for v in values if isinstance(v, (Tensor, dict, list, tuple)))
    node = found.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(lambda gin, gout, hook=hook: hook(module, gin, gout))
    _warn_non_full(args, result, node)


def _warn_non_full(args: tuple, result: Any, node: Any) -> None:
    """Say which gradients a deprecated hook does not see."""
    outputs = result if isinstance(result, tuple) else (result,)
    part = "grad_output"
    if not all(isinstance(r, Tensor) for r in outputs):
        case = "on a Module that does not return a single Tensor or a tuple of Tensors"
        start = "Using non-full backward hooks"
    elif not all(isinstance(a, Tensor) for a in args):
        case = "on a Module that does not take as input a single Tensor or a tuple of Tensors"
        start, part = "Using non-full backward hooks", "grad_input"
    elif len({r.grad_fn for r in outputs if r.grad_fn is not None}) > 1:
        start, case = "Using a non-full backward hook", "when outputs are generated by different"
        case += " autograd Nodes"
    else:
        before = {a.grad_fn for a in args if a.grad_fn is not None}
        if before == {n for n, _ in node.next_functions if n is not None}:
            return
        start = "Using a non-full backward hook"
        case = "when the forward contains multiple autograd Nodes"
        part = "grad_input"
    missing = f"some {part}" if "Nodes" in case else f"some of the {part}"
    warnings.warn(
        f"{start} {case} is deprecated and will be removed in future versions. This hook will be "
        f"missing {missing}. Please use register_full_backward_hook to get the documented "
        "behavior.",
        FutureWarning,
        stacklevel=5,
    )


def _scatter(grads: tuple, positions: list[int], n: int) -> tuple:
    """Gradients of the tensors at their places among all values, None elsewhere."""
    out: list[Any] = [None] * n
    for i, g in zip(positions, grads):
        out[i] = g
    return tuple(out)


def _checked(replaced: Any, n: int, kind: str) -> tuple:
    replaced = replaced if isinstance(replaced, tuple) else (replaced,)
    if len(replaced) != n:
        raise RuntimeError(
            f"Backward hook returned an invalid number of {kind}, got {len(replaced)}, "
            f"but expected {n}"
        )
    return replaced


def _like(original: tuple, values: tuple) -> tuple:
    """A tuple of the class of `original`; named tuples take their fields one by one."""
    if hasattr(original, "_fields"):
        return type(original)(*values)
    return type(original)(values)
