"""Views: tensors that alias a base, and what an in-place write to either means for the graph.

A view remembers its base and the ops that lead from the base to it. After an in-place op the history of every view
is out of date; it is made anew, by replaying those ops on the base, when somebody asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import errors, modes
from .arrays import backend_of
from .dtypes import DIFFERENTIABLE
from .lazy import BITS
from .node import edge
from .storage import INFERENCE, share, version_of

if TYPE_CHECKING:
    from .node import Node
    from .tensor import Tensor

new = object.__new__
DEFAULT, NO_GRAD_MODE, MULTI_OUTPUT, CUSTOM_FUNCTION, INFERENCE_MODE, ARGUMENT = range(6)


class View:
    """How a view came to be: its base (never itself a view), and the (op, attributes) to replay on the base."""

    __slots__ = ("attrs", "base", "born", "fn", "made_in", "nr", "op", "parent", "version")

    base: Tensor
    born: Any  # the raw array of the base when the first of the steps was taken, which tells its geometry
    parent: View | None  # of the tensor that this is a view of, if that is a view itself
    fn: Any
    nr: int
    version: int  # of the buffer when `fn` was made or, where none was, when the view was

    @property
    def replay(self) -> tuple:
        """The (op, attributes) that lead from the base to this view, in order."""
        steps, view = [], self
        while view is not None:
            steps.append((view.op, view.attrs))
            view = view.parent
        return (*self.back_to_birth(), *reversed(steps))

    def back_to_birth(self) -> list:
        """The steps that undo what changed the geometry of the base in place since the view was made."""
        base = self.base
        if self.born is base._array or not base._geometries:
            return []
        arrays = [array for array, _, _ in base._geometries]
        first = next((k for k, array in enumerate(arrays) if array is self.born), len(arrays))
        return [(op, attrs) for _, op, attrs in reversed(base._geometries[first:])]

    def current_fn(self, tensor: Tensor) -> Node | None:
        """The node of the view `tensor`, regenerated if its buffer was changed since."""
        if tensor._ver is INFERENCE or self.made_in == ARGUMENT:
            return (
                self.fn
            )  # an argument of a transform stays what is differentiated with respect to
        if self.fn is None and not self.base._rg:
            return None  # a leaf of its own
        version = version_of(tensor)
        if self.version != version:
            self.regenerate(tensor, version)
        return self.fn

    def regenerate(self, tensor: Tensor, version: int) -> None:
        """Make the history of the view `tensor` anew, from that which its base has now."""

        if self.made_in != DEFAULT:
            raise refusal(self, BASE_MODIFIED)
        kept = take_retained(tensor, self.fn, self.nr)
        bits = modes.state.bits
        modes.set_bits(0)
        try:
            self.fn, self.nr = edge(replay(self.base, self.replay))
        finally:
            modes.set_bits(bits)
        self.version = version
        if kept is not None and self.fn is not None:  # the .grad kept is that of the newest value
            self.fn.make_extra().retained[self.nr] = kept


def take_retained(tensor: Tensor, node: Node | None, nr: int) -> Any:
    """Take from `node` that it fills the .grad of `tensor`; a weak reference, or None if it does not."""
    if not tensor._retain or node is None or node.extra is None:
        return None
    return node.extra.retained.pop(nr, None)


def replay(base: Tensor, steps: tuple) -> Tensor:
    """Apply the view ops that lead from a base to its view."""
    for op, attrs in steps:
        base = op.call(base, *attrs)
    return base


def replay_raw(array: Any, steps: tuple) -> tuple[Any, int]:
    """The same on a raw array; the result aliases it, and what happens to its values on the way: see tape/lazy.py."""
    xp, bits = backend_of(array), 0
    for op, attrs in steps:
        if op.flips:
            bits ^= BITS[op.flips]
        else:
            array = op.forward(xp, array, **dict(zip(op.attrs, attrs, strict=True)))
    return array, bits


WITHOUT_GRAD = "A view was created in no_grad mode {} with grad mode enabled."
WHERE = {
    NO_GRAD_MODE: ("no_grad", "was created in no_grad mode {} with grad mode enabled."),
    INFERENCE_MODE: ("inference_mode", "was created in inference mode {} in normal mode."),
}
MODIFIED = "and is being modified inplace"
BASE_MODIFIED = "and its base or another view of its base has been modified inplace"


def refusal(view: View, what: str = MODIFIED) -> RuntimeError:
    """The error for an in-place operation that concerns a view whose history cannot be rewritten."""
    if view.made_in in WHERE:
        mode, created = WHERE[view.made_in]
        start = "A view "
        if view.fn is not None:  # it was made where grad mode was on, of one that was not
            start = f"Output {max(view.nr - 1, 0)} of {errors.maker(view.fn)} is a view of a view which "
        return RuntimeError(
            start
            + created.format(what)
            + " Given that this use case is ambiguous and error-prone, it is forbidden. You "
            "can clarify your code by moving both the view and the inplace either both inside the "
            f"{mode} block (if you don't want the inplace to be tracked) or both outside (if you "
            "want the inplace to be tracked)."
        )
    if view.made_in == ARGUMENT:
        return RuntimeError(
            errors.LEAF_INPLACE if view.parent is None else errors.VIEW_OF_LEAF_INPLACE
        )
    if view.fn is None:
        first = WITHOUT_GRAD.format(what) + " "
    else:
        first = f"Output {max(view.nr - 1, 0)} of {errors.maker(view.fn)} is a view {what}. "
    if view.made_in == MULTI_OUTPUT:
        return RuntimeError(
            first + "This view is the output of a function that returns multiple views. Such "
            "functions do not allow the output views to be modified inplace. You should replace "
            "the inplace operation by an out-of-place one."
        )
    return RuntimeError(
        first + "This view was created inside a custom Function (or because an input was returned "
        "as-is) and the autograd logic to handle view+inplace would override the custom backward "
        "associated with the custom Function, leading to incorrect gradients. This behavior is "
        "forbidden. You can fix this by cloning the output of the custom Function."
    )


def attach(
    out: Tensor, source: Tensor, op: Any, attrs: tuple, node: Node | None, nr: int = 0
) -> Tensor:
    """Make `out`, whose array aliases that of `source`, a view of it."""
    view = new(View)
    parent = view.parent = source._view
    view.op, view.attrs, view.made_in = op, attrs, DEFAULT
    if parent is None:
        view.base, view.born = source, source._array
    else:
        view.base, view.born, view.made_in = parent.base, parent.born, parent.made_in
    if modes.shared.active:
        bits = modes.state.bits
        if bits & (modes.NO_GRAD | modes.INFERENCE):
            here = INFERENCE_MODE if bits & modes.INFERENCE else NO_GRAD_MODE
            view.made_in = here
    storage = source._ver
    if storage.__class__ is int:
        storage = share(source)
    out._ver, out._view = storage, view
    if node is not None:
        view.fn, view.nr, view.version, out._fn = node, nr, storage.version, None
    else:
        view.fn, view.nr, view.version = None, 0, storage.version
        if storage is not INFERENCE:
            if not view.base._rg or view.base._fn is None:
                storage.add_view(out)
            if view.base._rg and out._array.dtype in DIFFERENTIABLE and op.differentiable:
                out._rg = out._inherits = True
    return out
