"""Differences that random programs may show, each with its reason. The table may only shrink."""

from __future__ import annotations

import re

FORWARD = r"jvp|fwAD|jacfwd|hessian"
WRITES_WHAT_IT_READS = (
    r"(?s)(jvp|fwAD|jacfwd|hessian).*(\b(\w+)(\[.*\])? [-+*/]= .*\b\3\b|\b(\w+)\.\w+_\(.*\b\5\b)"
)

# what the smallest program contains, what the difference says (regular expressions), why
ACCEPTED: tuple[tuple[str, str, str], ...] = (
    # fewer tensors are saved for backward
    ("", r"lines \[\d+, 0\]; 'Trying to backward through the graph", "what saves nothing can run again"),
    ("", r"lines \[\d+, 0\]; 'one of the variables needed for gr", "it is not saved, or a copy of it is"),
    # PyTorch refuses what works here
    ("", "Nested forward mode AD is not supported", "more transforms can be nested"),
    ("grad|jac|hess|vjp", "would mutate a captured Tensor", "a function may write to what it closes over"),
    ("grad|jac|hess|vjp", "don't yet support saved tensor hooks", "transforms work inside of those"),
    ("Function", "must override the setup_context|does not have vmap", "simple Functions are transformed"),
    ("", "automatic differentiation for outputs with complex dtype", "they are differentiated"),
    ("fwAD|jvp", r"forward AD with \w+ that does not support it", "out= takes dual tensors, and more ops do"),
    ("", r"vmap: aten::\w+\(self, \*extra_args\) is not possible", "more ops have a batching rule"),
    ("a(sin|cos|tan)h_", "inplace version of", "they have a gradient in place, too"),
    ("vmap|jac|hessian", "vmap: we do not yet support aten::", "more ops have a batching rule"),
    ("jac|hessian", r"Expected all \w+ to be real but received complex", "they may be complex"),
    ("jac", "'A view was created in no_grad mode and is being modified", "a Jacobian may be written to"),
    ("inference_mode", "'Inplace update to inference tensor outside InferenceMode(?s:.)*vs ''", "a gradient made in "
     "inference mode may be added to"),
    ("", "'maximum not implemented for complex tensors.'", "another type of exception"),
    (FORWARD, "ZeroTensors are immutable", "a tangent of zeros is an ordinary tensor"),
    # PyTorch's result is wrong, undefined, or an internal error
    ("hardsigmoid|hardswish", "value", "the slope of hardsigmoid is exactly 1/6"),
    ("", "value'?: '?raises RuntimeError", "a wrapper of a transform was left behind"),
    ("vmap|jac|grad", "Cannot set version_counter for inference tensor", "an internal error"),
    ("vmap", "34359738", "a shape that was never set"),
    ("", r"value: [^v]*\bnan\b.* vs [^n]*$", "the second derivative is 0 * inf where nothing is smooth"),
    (WRITES_WHAT_IT_READS, "value", "the tangent is taken at the new value instead of the old one"),
    # hooks that read numbers
    ("is_grads_batched", "logged", "a batch that is read is run again entry by entry"),
    # a gradient that is zero
    (FORWARD + r"|jac\w+\(jac|create_graph", "requires_grad: True vs False|leaf: False vs True",
     "PyTorch records a tangent, or a gradient, as a function of the primal also where that derivative is 0"),
    (FORWARD + "|create_graph", r"; '' vs .*(does not|doesn't) require grad", "the same"),
    (FORWARD, r"; 'element 0 of tensors does not.* vs 'element 0 of tensors does not", "the same, lines later"),
    (FORWARD, r"'NoneType' object has no attribute 'register", "the same"),
)  # fmt: skip


def accepted(program: str, says: list[str]) -> bool:
    """Whether a difference is one of those kept on purpose."""
    return any(
        re.search(does, program) and any(re.search(what, s) for s in says[1:])
        for does, what, _ in ACCEPTED
    )
