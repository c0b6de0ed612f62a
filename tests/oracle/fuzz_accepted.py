"""Differences that random programs may show, each with its reason. The table may only shrink."""

from __future__ import annotations

import re

FORWARD = r"jvp|fwAD|jacfwd|hessian"
WRITES_WHAT_IT_READS = (
    r"(?s)(?=.*(jvp|fwAD|jacfwd|hessian))"
    r".*(\b(\w+)(\[.*\])? [-+*/]= .*\b\3\b|\b(\w+)\.\w+_\(.*\b\5\b)"
)
# the result of a vmap, or a view of it, is written to
WRITES_A_RESULT = (
    r"(?sm)^(\w+) = (vmap|jac\w*|hessian|torch\.utils\.checkpoint\.checkpoint)\("
    r".*^(\1[.\[]|(\w+) = [^\n]*\b\1\b.*^\4\b)"
)

# what the smallest program contains, what the difference says (regular expressions), why
ACCEPTED: tuple[tuple[str, str, str], ...] = (
    # fewer tensors are saved for backward
    ("", r"lines \[\d+, 0\]; 'Trying to backward through the graph", "what saves nothing can run again"),
    ("", r"lines \[\d+, 0\]; 'one of the variables needed for gr", "it is not saved, or a copy of it is"),
    # PyTorch refuses what works here
    ("", "Nested forward mode AD is not supported", "more transforms can be nested"),
    ("grad|jac|hess|vjp|jvp", "would mutate a captured Tensor", "a function may write to what it closes over"),
    ("grad|jac|hess|vjp", "don't yet support saved tensor hooks", "transforms work inside of those"),
    ("Function", "must override the setup_context|does not have vmap", "simple Functions are transformed"),
    ("", "automatic differentiation for outputs with complex dtype", "they are differentiated"),
    ("fwAD|jvp", r"forward AD with \w+ that does not support it", "out= takes dual tensors, and more ops do"),
    ("", r"vmap: (aten::)?\w+\(self, \*extra_args\) is not possible", "more ops have a batching rule"),
    ("", r"'(the )?derivative for '?[\w:]+'? is not implemented\.?('|\") vs ''", "it has one"),
    ("", r"call Tensor\.requires_grad_\(\)(?s:.*) vs ''", "flags may be set inside of a transform"),
    ("", "raises NotImplementedError vs raises RuntimeError", "the same the other way round"),
    (r"autograd\.grad\(.*", "'a view of a leaf Variable that requires grad(?s:.*) vs ''", "a gradient is "
     "another tensor than what was given"),
    ("", r"lines \[\d+, \d+\]; 'one of the variables needed for gr(?s:.*) vs '(Trying to backward|one of the var)",
     "the same, lines later"),
    ("", "'' vs [\"']one of the variables needed for gr", "a result or a view is saved where PyTorch saves a copy"),
    ("jvp|jac", "data pointer of Tensor that doesn't have storage(?s:.*) vs ''", "values may be looked at"),
    ("", "Could this error message be improved", "an internal error"),
    ("vjp|jvp|grad", "'' vs .a view of a leaf|a leaf Variable(?s:.*) vs ''", "what a function returns as it "
     "came is another tensor"),
    ("detach", "vs 'set_sizes_and_strides|'' vs \"Can't detach views", "refused also where nothing changes"),
    ("einsum|bmm", "not implemented for .'Bool", "products of bools are refused"),
    (r"add(mm|mv|r|bmm)_\(|baddbmm_\(", r"variable \w+ value", "PyTorch reads what it has already written"),
    ("median|expand", r"value: [\d.]+e-3\d\d vs", "PyTorch reads memory that nobody wrote"),
    (r"F\.linear\(", "mat2 must be a matrix", "a bias of two dimensions broadcasts"),
    (r"autograd\.grad\(\w+, \[.*\b(\w+), \1\b", r"variable \w+", "one gradient for each, also of the same tensor"),
    ("lt_|le_|gt_|ge_|eq_|ne_", r"logged.* vs \('NoneType', None\)", "no tangent instead of one of zeros"),
    (r"channels_last(?s:.*)out=", "value", "out= of another size becomes row-major"),
    ("mark_dirty", "requires_grad", "an argument that is returned stays what it was"),
    ("", "cannot register a hook on a tensor that doesn't", "a derivative that is constant is not recorded"),
    ("topk|sort|kthvalue|median", r"variable \w+ value", "any one of equal elements is right"),
    ("unfold|as_strided", r"variable \w+ value", "a view that overlaps itself is written to"),
    ("std|var|norm|dist", r"value.*\bnan\b", "the second derivative where nothing is smooth"),
    (FORWARD, r"'str:?', 'RuntimeError'\) vs \('str', 'NameError'", "PyTorch stopped before"),
    ("grad|jac|hess|vjp", "'' vs \"Can't detach views", "an argument of the function is a view"),
    ("", "raises RuntimeError vs raises NotImplementedError", "a NotImplementedError is a RuntimeError"),
    ("a(sin|cos|tan)h_", "inplace version of", "they have a gradient in place, too"),
    ("vmap|jac|hessian", "vmap: we do not yet support aten::", "more ops have a batching rule"),
    ("jac|hessian", r"Expected all \w+ to be real but received complex", "they may be complex"),
    ("jac", "'A view was created in no_grad mode and is being modified", "a Jacobian may be written to"),
    ("inference_mode", "'Inplace update to inference tensor outside InferenceMode(?s:.)*vs ''", "a gradient made in "
     "inference mode may be added to"),
    ("", "'maximum not implemented for complex tensors.'", "another type of exception"),
    ("vmap|jac|hessian|grad", "'unsupported operation: more than one element of the written-to tensor(?s:.)*vs ''",
     "results of vmap, and so of Jacobians, have entries of their own"),
    ("", "vs 'unsupported operation: more than one element", "an expanded tensor is not written to where that is "
     "recorded: its gradient would be wrong"),
    ("vjp|jvp|vmap", r"raises (\w+) vs raises \1; lines", "what a function returns as it came is another tensor"),
    (WRITES_A_RESULT, r"variable \w+ value", "results of vmap have entries of their own"),
    ("jac|hessian", "This view is the output of a function that returns multiple(?s:.)*vs ''", "a Jacobian is no view"),
    ("vmap|einsum", "\"Can't detach views in-place", "these results are no views"),
    (r"optim.*\[(\w+), \1\]", "value", "one parameter twice, which PyTorch warns of"),
    (r"(?s)(\w+) = (\w+)\n.*optim.*\[(\1, \2|\2, \1)\]", "value", "the same"),
    (FORWARD, "ZeroTensors are immutable", "a tangent of zeros is an ordinary tensor"),
    # PyTorch's result is wrong, undefined, or an internal error
    ("hardsigmoid|hardswish", "value", "the slope of hardsigmoid is exactly 1/6"),
    ("", "value'?: '?raises RuntimeError", "a wrapper of a transform was left behind"),
    ("vmap|jac|grad", "Cannot set version_counter for inference tensor", "an internal error"),
    ("vmap", "34359738", "a shape that was never set"),
    ("", r"value: [^v]*\bnan\b.* vs [^n]*$", "the second derivative is 0 * inf where nothing is smooth"),
    (WRITES_WHAT_IT_READS, "value", "the tangent is taken at the new value instead of the old one"),
    # inference mode
    ("inference_mode", "requires_grad|leaf|Inference tensors cannot be saved|value|out=... arguments|does not require",
     "what requires grad there is recorded outside, too"),
    # hooks that read numbers
    (r"register_hook\(lambda gi", "logged", "a node of a write through a view counts other edges"),
    ("is_grads_batched", "logged", "a batch that is read is run again entry by entry"),
    # a gradient that is zero
    (FORWARD + r"|jac\w+\(jac|create_graph", "requires_grad: True vs False|leaf: False vs True",
     "PyTorch records a tangent, or a gradient, as a function of the primal also where that derivative is 0"),
    (FORWARD + "|create_graph", r"; '' vs .*(does not|doesn't) require grad", "the same"),
    (FORWARD, r"; 'element 0 of tensors does not.* vs 'element 0 of tensors does not", "the same, lines later"),
    (FORWARD, r"'NoneType' object has no attribute 'register", "the same"),
    (FORWARD + "|create_graph|vjp", "requires_grad: False vs True|leaf: True vs False", "the same the other way round"),
    (FORWARD, r"vs \"name '\w+' is not defined", "PyTorch stopped before, as transforms do not nest there"),
    (r"(?s)(\w+) = \w+\.(positive|contiguous|to)\(.*optim", "value", "one parameter twice, which PyTorch warns of"),
    (r"detach_\(\)", r"variable \w+ (leaf|has|requires_grad)", "a view of what was detached is a leaf"),
    ("unsqueeze_|squeeze_|t_|swapaxes_|transpose_", "vmap|Dimension out of range|exceeds dimension|shape: |value", "a "
     "change of geometry inside vmap is one of the entry"),
)  # fmt: skip


def accepted(program: str, says: list[str]) -> bool:
    """Whether a difference is one of those kept on purpose."""
    return any(
        re.search(does, program) and any(re.search(what, s) for s in says[1:])
        for does, what, _ in ACCEPTED
    )
