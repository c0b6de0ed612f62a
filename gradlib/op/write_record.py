"""What a new node keeps of the arguments of its op: edges, saved tensors, shapes, numbers. Written once, for both ways.

The straight code of a call (`write.py`) knows which arguments are tensors, and that no mode is on. The general way
(`interpret.make_node`) does not: for it the same lines are the method `connect` of a node class.
"""

from __future__ import annotations

from textwrap import indent

from ..tape import saved
from ..tape.node import edge, unrecorded_edge
from ..tape.tensor import Tensor


def deeper(lines: list[str]) -> list[str]:
    """The lines of a block."""
    return [indent(line, "    ") for line in lines]


class Recorder:
    """Writes the lines that fill ``node_`` for one op, of whose arguments nothing is known.

    ``takes_`` tells which of them take a gradient, ``shape_`` is the shape of the result.
    """

    def __init__(self, op):
        self.op = op
        # the arguments that have a gradient
        self.diff = [t for t in op.tensors if op.vjp is not None or t in op.formulas]

    def requires(self, name: str) -> str:
        return f"takes_[{self.op.tensors.index(name)}] and {name}._rg"

    def save(self, name: str) -> list[str]:
        return [f"save_input(node_, {name!r}, {name})"]

    def shape(self, name: str) -> str:
        return f"getattr({name}, 'shape', ())"

    def keep(self) -> list[str]:
        """Edges, saved arguments, attributes, shapes."""
        op, lines = self.op, []
        for i, name in enumerate(op.tensors):
            if name not in self.diff:
                lines.append(f"node_.e{i} = None")
                continue
            lines += [
                f"if {self.requires(name)}:",
                f"    e_ = {name}._fn",
                f"    if e_ is None: node_.e{i}, node_.i{i} = unrecorded_edge({name})",
                f"    else: node_.e{i} = e_; node_.i{i} = {name}._nr",
                f"else: node_.e{i} = None",
            ]
        for name in op.saved_tensors:
            lines += self.save_if_used(name)
        lines += [f"node_.a_{name} = {name}" for name in op.saved_attrs]
        lines += [f"node_.n_{name} = {self.shape(name)}" for name in op.saved_shapes]
        broadcast = op.elementwise and len(op.tensors) > 1
        return lines + (self.broadcast() if broadcast else [])

    def save_if_used(self, name: str) -> list[str]:
        """Save an argument if a formula that needs it will run."""
        op = self.op
        users = [t for t in self.diff if t in op.users[name]]
        if set(users) >= set(self.diff):
            return self.save(name)
        test = " or ".join(f"node_.e{op.tensors.index(t)} is not None" for t in users) or "False"
        nothing = f"else: node_.s_{name} = None; node_.v_{name} = {saved.DIRECT}"
        return [f"if {test}:", *deeper(self.save(name)), nothing]

    def broadcast(self) -> list[str]:
        """Remember the shapes of arguments that were broadcast, so that their gradients are summed back."""
        return [
            f"node_.b{i} = {t}._array.shape if isinstance({t}, Tensor) and {t}._array.shape != shape_ else None"
            for i, t in enumerate(self.op.tensors)
        ]


def keep_list(op, edges: str, shapes: str) -> list[str]:
    """The same for an op that takes a list of tensors."""
    lines = [f"node_.edge_list = tuple([{edges}])"]
    lines += [f"node_.a_{name} = {name}" for name in op.saved_attrs]
    if "tensors" in op.saved_tensors:
        lines.append(f"node_.s_tensors = tuple(tensors); node_.v_tensors = {saved.DIRECT}")
    elif op.saved_shapes:
        lines.append(f"node_.n_tensors = tuple([{shapes}])")
    return lines


def connect(op) -> str:
    """The method ``connect(node_, takes_, shape_, tensors, *attrs)`` of the node class of `op`."""
    if op.variadic:
        every = "edge(t_) if k_ else (None, 0) for t_, k_ in zip(tensors, takes_)"
        lines, given = keep_list(op, every, "t_._array.shape for t_ in tensors"), "tensors, "
    else:
        lines = Recorder(op).keep()
        given = f"({', '.join(op.tensors)},), "
    attrs = "".join(name + ", " for name in op.attrs)
    start = f"def connect(node_, takes_, shape_, tensors_, {attrs}):\n    {given.rstrip(', ')} = tensors_\n"
    return start + "\n".join(deeper(lines))


NAMES = {
    "unrecorded_edge": unrecorded_edge, "edge": edge, "save_input": saved.save_input, "Tensor": Tensor,
}  # fmt: skip
