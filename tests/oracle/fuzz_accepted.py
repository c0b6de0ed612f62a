"""Differences that random programs may show, each with its reason. The tables may only shrink.

An entry excuses only what its reason concerns: `REFUSED` that PyTorch stops, at this text, where gradlib goes on;
`RAISED` the other way round; `OTHERWISE` one line of what else differs. All that is said about a program must be
excused. Numbers are not excused by what a program looks like: `fuzz_decide` runs it again without the cause.
"""

from __future__ import annotations

import ast
import re

from found_programs import differences, run
from fuzz_decide import (
    decided,
    facts,
    stopped_by_zeros,
    without_flags_of_zeros,
    without_rounding,
)

FORWARD = r"jvp|fwAD|jacfwd|hessian|hvp"
BATCHED = "vmap|jac|hess|batched"
TRANSFORM = r"vmap|grad\(|jac|hess|vjp|jvp|hvp|vhp"
STOPPED = rf"(?s)({TRANSFORM}).*except Exception"
ZEROS = r"array\([\[\]\s,.0-]*(shape=\([\d, ]*\))?(, )?(dtype=\w+)?\)"

# what the program contains, the text of PyTorch's exception (regular expressions), why gradlib goes on
REFUSED: tuple[tuple[str, str, str], ...] = (
    (FORWARD, "Nested forward mode AD is not supported", "more transforms can be nested"),
    (TRANSFORM, "that would mutate a captured Tensor", "a function may write to what it closes over"),
    (TRANSFORM, "don't yet support saved tensor hooks", "transforms work inside of those"),
    ("Function", "must override the setup_context|does not have vmap", "simple Functions are transformed"),
    ("complex", "automatic differentiation for outputs with complex dtype", "they are differentiated"),
    ("complex|conj", r"Expected all \w+ to be real but received complex", "they may be complex"),
    (FORWARD, r"forward AD with [\w:]+ that does not support it", "out= takes dual tensors, and more ops do"),
    (BATCHED, r"vmap: [\w: ]+\(self, \*extra_args\) is not possible", "more ops have a batching rule"),
    (BATCHED, "vmap: we do not yet support|[Bb]atching rule not implemented", "the same"),
    (BATCHED + r"|einsum|F\.linear|nn\.", "Can't detach views", "an entry is no view, nor are these results"),
    (r"autograd\.grad\(", "Can't detach views", "a gradient is no view"),
    (BATCHED, "Dimension out of range|cannot reshape tensor of 0 elements", "entries of no dimensions, or none"),
    (TRANSFORM, "unsupported operation: more than one element", "Jacobians, and tangents, have memory of their own"),
    ("", r"derivative for '?[\w:]+'? is not implemented", "it has one"),
    ("a(sin|cos|tan)h_", "inplace version of", "they have a gradient in place, too"),
    (r"requires_grad_\(|Parameter|functional\.", r"call Tensor\.requires_grad_\(\)", "transforms take flags, and older "
     "transforms, inside"),
    (r"autograd\.grad\(", "a view of a leaf Variable that requires grad", "a gradient is another tensor than what was "
     "given"),
    (TRANSFORM, "a view of a leaf Variable that|^a leaf Variable", "what a function returns as it came is no leaf"),
    (TRANSFORM, "A view was created in no_grad mode and is being modified", "a gradient is no view"),
    (TRANSFORM, "data pointer of Tensor that doesn't have storage", "values may be looked at"),
    ("", "Could this error message be improved|INTERNAL ASSERT|ZeroTensors are immutable", "an internal error"),
    (TRANSFORM, "Cannot set version_counter for inference tensor", "the same"),
    ("vmap", "34359738", "a shape that was never set"),
    (r"F\.linear\(", "mat2 must be a matrix", "a bias of two dimensions broadcasts"),
    ("jac", r"stack expects a non-empty TensorList|out of range for tensor of size \[0", "a Jacobian may be empty"),
    ("multi_grad_hook", "Expected gradient function to be set", "a hook on what has no history is never called"),
    ("multi_grad_hook", "A leaf node was passed to _will_engine_execute_node", "multi-grad hooks on leaves work"),
    ("allow_mutation", "backward outside of the 'allow_mutation_on_saved_tensors'", "nothing is saved"),
    ("inference_mode", "Inplace update to inference tensor", "a gradient made in inference mode may be added to"),
    ("detach_", "saved tensor that has been detached in-place", "what is saved has no part in that"),
    (BATCHED, "attempting to use a Tensor in some data-dependent control flow", "more functions work inside"),
    ("bool|any|all|>|<", "Negation, the `-` operator, on a bool tensor", "a bool argument has no gradient"),
    (r"_loss\(|cross_entropy|addmm", "Found dtype Double but expected Float", "gradients of mixed dtypes"),
    (BATCHED, "batching operators that can support dynamic shape", "where no entry differs in shape"),
    (BATCHED, "Index put requires the source and destination dtypes match", "as outside of vmap"),
    ("detach_", "One of the differentiated Tensors does not require grad", "what is detached later has a gradient"),
    ("mark_dirty", "Some elements marked as dirty", "also what is no result may be written to"),
    (r"register_hook\(lambda g", "'NoneType' object has no attribute", "hooks are not called without a gradient"),
    ("allow_mutation", "Inference tensors do not track version", "what is not saved may be written to"),
    ("inference_mode", "Inference tensors cannot be saved", "another number of tensors is saved, and a gradient made "
     "there is an ordinary tensor"),
    (r"(?s)(no_grad|set_grad_enabled|inference).*(jac|vjp)", "element 0 of tensors does not require grad", "a "
     "result that depends on nothing has a Jacobian of zeros"),
    (TRANSFORM, "the output of a function that returns multiple views", "a Jacobian is a tensor of its own, and what "
     "vjp returns a view of one"),
    ("view_as_(real|complex)", "must have a last dimension with stride 1", "what has no elements has any strides"),
    (r"(?si)group_?norm.*is_grads_batched", "The size of tensor a", "batches of gradients of it work"),
    ("checkpoint", "leaf variable has been moved into the graph interior", "a leaf that is returned stays one"),
    (r"register_hook\(lambda gi", "has returned an incorrect number of values", "a write has other edges"),
)  # fmt: skip

# what the program contains, the text of gradlib's exception where PyTorch goes on (or fails later), why
RAISED: tuple[tuple[str, str, str], ...] = (
    (r"detach|\.data", "set_sizes_(and_strides|contiguous)|Can't detach views", "as documented for detach()"),
    (TRANSFORM, "Can't detach views", "an argument of the function is a view"),
    ("einsum|bmm|@|F.linear", "not implemented for 'Bool'", "products of bools are refused"),
    ("complex", r"\"(am\w+|m\w+_all)_cpu\" not implemented", "refused also where there is nothing to compare"),
    (r"F\.linear\(", "expected all tensors to have the same dtype", "mixed dtypes are refused always"),
    (rf"(?s)({FORWARD}).*({FORWARD})", "one of the variables needed|multiple views|in no_grad mode", "forward "
     "mode inside forward mode is made of two backward passes"),
    (STOPPED, r"^name '\w+' is not defined", "PyTorch stopped before, at what it refuses"),
    ("vmap", r"A view was created in \w+ mode and", "what vmap returns is a view of what it was given"),
    (TRANSFORM + "|fwAD", "unsupported operation: more than one element", "an expanded tensor is not written in part"),
    (BATCHED, "some elements of the input tensor and the written-to tensor", "refused as it is outside of vmap"),
    ("vmap", "vmap: inplace arithmetic", "a Jacobian that is constant has no place for the batch"),
    (rf"(?s)(inference_mode|grad_enabled|no_grad).*({TRANSFORM})", "^a (view of a )?leaf Variable", "a transformed "
     "function is recorded in every mode"),
    (rf"(?s)({FORWARD}).*allow_mut|allow_mut.*({FORWARD})", "outside of the 'allow_mutation|no attribute 'h_",
     "forward mode inside forward mode goes backward later"),
    ("complex", r"m(ax|in)\(\): does not support complex input", "the dtype is looked at first"),
    (r"(squeeze|transpose|t|swapaxes)_\(", "broadcast|reshape array|out of bounds for array", "a gradient has the "
     "shape of before: another exception"),
    ("(?i)adaptive_?avg", "Expected 3D or 4D tensor", "checked for all sizes"),
    ("", "tensors used as indices must be long", "the index is looked at first"),
    (r"\] =", "some elements of the input tensor and the written-to tensor", "the tensor is written to itself"),
    ("binary_cross_entropy_with_logits", "can't be cast to the desired", "a complex target is refused"),
    ("inference_mode", "Inference tensors cannot be saved", "another number of tensors is saved"),
    (r"(?s)inference_mode.*(\.data|detach\(|jvp|jac|vmap)", "Inplace update to inference tensor", "an alias of an "
     "inference tensor is one, too: PyTorch lets them be written to"),
    ("checkpoint", "saved as 'tensor of a checkpointed part'", "PyTorch's gradient is wrong there"),
    (TRANSFORM, "a tensor that the function closes over is written with one whose gradient", "refused: the write "
     "would need a gradient of its own"),
    (rf"(?s)({FORWARD}).*({FORWARD})", "^jvp inside jvp: ", "refused, as documented"),
    (rf"(?s)({BATCHED}).*({BATCHED})", "asks for the values of a tensor of the batch", "writes through a vmap that "
     "changes the shape of what is written"),
    (rf"(?s)({FORWARD}).*({FORWARD})", "view of a leaf Variable that requires", "forward mode inside forward mode "
     "is made of two backward passes"),
)  # fmt: skip

# what the program contains, one difference, why
OTHERWISE: tuple[tuple[str, str, str], ...] = (
    (FORWARD, rf"(?s)^[^:]*: .*'value': {ZEROS}[^{{]*? vs \('NoneType', None\)", "no tangent instead of zeros"),
    (FORWARD, rf"(?s)grad: [^a-z]*'dtype.*'value': {ZEROS}[^{{]*? vs None", "no gradient instead of one of zeros"),
    (FORWARD, rf"(?s)^[^:]*: \('NoneType', None\) vs .*'value': {ZEROS}", "zeros instead of no tangent"),
    (FORWARD, r"^(variable|logged)[^:]* dtype: float64 vs float32", "a tangent has the dtype of its primal"),
    ("unpack_dual", r"^logged\[\d+\]\[0\]\[1\] dtype: float32 vs float64", "the same"),
    (r"(?s)(retain_grad|backward_hook)(?=.*register_prehook)", r"^variable \w+ grad value|^logged", "pre-hooks of a "
     "node run before .grad is retained, as documented"),
    (r"(?s)inference_mode.*autograd\.grad\(.*create_graph", r"^variable \w+(\[\d\])? (requires_grad|leaf|has)",
     "a gradient with create_graph is recorded in every mode"),
    ("mark_dirty", r"^variable \w+ (requires_grad|leaf|has)", "an argument that is returned stays what it was"),
    (TRANSFORM, r"value'?: '?raises RuntimeError vs", "a wrapper of a transform was left behind"),
    (TRANSFORM, r"(?s)^logged: .*raises RuntimeError", "values may be looked at, but the function runs again then"),
    ("hardsigmoid|hardswish", r"value: [^a-z]* vs [^a-z]*$", "the slope of hardsigmoid is exactly 1/6"),
    ("atan2|hypot", r"(?s)^[^:]*value: .*\bnan\b.* vs [^n]*$", "the derivative at 0 is 0 in both modes"),
    (r"register_hook\(lambda gi", "^logged", "a node of a write through a view counts other edges"),
    ("is_grads_batched", "^logged", "a batch that is read is run again entry by entry"),
    (r"detach_\(\)|requires_grad_\(False\)", r"^variable \w+ (leaf|has|requires_grad)", "a view of what requires no "
     "grad any more is a leaf"),
    (STOPPED, r"^has: \[\] vs", "PyTorch stopped before, at what it refuses"),
    (STOPPED, r"^logged: (.*\('str', '\w+Error'\)\]|\[\['type'\])", "the same"),
    (STOPPED, r"^logged.*\('str', '\w+Error'\) vs \('str', '\w+Error'\)", "the same"),
    ("except Exc", r"^logged.*\('str', 'RuntimeError'\) vs \('str', 'NotImplementedError'\)", "this is a RuntimeError"),
    (r"autograd\.grad\(.*\b(\w+), \[.*\b\1\b", r"^variable \w+ (requires_grad|leaf|has)", "a gradient is another "
     "tensor than what was given"),
)  # fmt: skip

# what has no answer (see fuzz_decide.facts), one difference, why
UNDECIDED: tuple[tuple[str, str, str], ...] = (
    ("ties", "^variable|^logged", "any one of equal elements is right"),
    ("overlap", "^variable|^logged", "a view that overlaps itself is written to"),
    ("constant", "^variable|^logged", "the standard deviation of equal numbers has no derivative"),
    ("late", "^variable|^logged", "PyTorch refuses a write to an inference tensor after it has written"),
    ("inference", "requires_grad|leaf|value|has:|^logged|^ended.*(nference|out=... arg|does not require)", "what "
     "requires grad in inference mode is recorded outside, too"),
)  # fmt: skip


def accepted(program: str, says: list[str]) -> bool:
    """Whether all that differs is kept on purpose."""
    texts = [s for s in says[1:] if s.startswith("texts")]
    if any(_excused(program, s) for s in texts):
        return True
    left = [s for s in _without_dead_wrappers(program, says[1:]) if s not in texts]
    left = without_flags_of_zeros(program, [s for s in left if not _excused(program, s)])
    if left:
        known = facts(program)
        if re.search(r"inference_mode(?s:.*)out=", program):
            known.add("late")
        left = [s for s in left if not any(f in known and re.search(w, s) for f, w, _ in UNDECIDED)]
    if left and all(s.partition(": ")[0].endswith("value") for s in left):
        left = without_rounding(program, left)

    def stays(said: str) -> bool:
        return not said.startswith("ended") and _excused(program, said)

    if not left or decided(program, [says[0], *left, *texts], stays):
        return True
    return bool(texts) and _accepted_before(program, parts(texts[0])[0])


def _without_dead_wrappers(program: str, says: list[str]) -> list[str]:
    """`says` without what is said about tensors of PyTorch's that a transform left behind: they have no values."""
    if not re.search(TRANSFORM, program):
        return says
    dead = [s.partition(" value: ")[0] for s in says if " value: raises RuntimeError vs" in s]
    return [s for s in says if not any(s.startswith(d + " ") for d in dead)]


def _accepted_before(program: str, line: int) -> bool:
    """Whether all that differs before `line`, at which both fail, is kept on purpose."""
    tree = ast.parse(program)
    shorter = ast.unparse(ast.Module([s for s in tree.body if (s.end_lineno or 0) < line], []))
    ours, theirs = run(shorter, "gradlib"), run(shorter, "torch")
    found = differences(ours, theirs)
    return bool(found) and ours["ended"] == "well" and accepted(shorter, ["well", *found])


def _excused(program: str, said: str) -> bool:
    if not said.startswith(("ended", "texts")):
        return any(
            re.search(does, program) and re.search(what, said) for does, what, _ in OTHERWISE
        )
    theirs, ours, text, our_text = parts(said)
    # a NotImplementedError is a RuntimeError
    kinds = "raises (RuntimeError|NotImplementedError) vs raises (RuntimeError|NotImplementedError)"
    if theirs == ours and re.search(kinds, said) and re.search("not (implemented|supported)", said):
        return True
    stopped = theirs and (not ours or theirs <= ours)
    if stopped and any(re.search(d, program) and re.search(w, text) for d, w, _ in REFUSED):
        return True
    if stopped and stopped_by_zeros(program, theirs, text, "torch"):
        return True
    if ours and (not theirs or ours <= theirs):
        if stopped_by_zeros(program, ours, our_text):
            return True
        return any(re.search(d, program) and re.search(w, our_text) for d, w, _ in RAISED)
    return False


def parts(said: str) -> tuple[int, int, str, str]:
    """The lines at which PyTorch and gradlib stopped (0: they did not), and their texts."""
    found = re.search(r"(?s)lines \[(\d+), (\d+)\]; PyTorch: (.*); gradlib: (.*)$", said)
    assert found is not None
    return int(found[1]), int(found[2]), found[3], found[4]
