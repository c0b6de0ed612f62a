"""The recorder's part for values that go to Python: ``loss.item()``, ``float(x)``, ``if tensor:``.

A number that the step returns, and uses for nothing else, is read in each replay (see `flow`). Any other read makes the
plan one for that value: a replay looks whether it reads the same again. If not, `Missed` ends the replay, what it did
is undone, and the step takes another plan or runs as it is. So there must be nothing before that cannot be undone.
"""

from __future__ import annotations

import dis
import sys
from types import FrameType
from typing import Any

from ..tape.generator import default_generator
from ..tape.interop import Interop
from ..tape.override import running
from ..tape.tensor import Tensor
from .flow import IT, Value, calls_now, is_called_directly, returned
from .plan import Learned
from .state import State, _catches
from .writer import Writer

_KINDS: dict[Any, tuple[Any, Any]] = {  # code -> the method, the builtin that calls it
    running(f).__code__: (f, builtin)
    for f, builtin in (
        (Interop.item, None), (Interop.__float__, float), (Interop.__int__, int), (Interop.__bool__, bool),
        (Interop.__complex__, complex), (Interop.__index__, None),
    )
}  # fmt: skip
_METHODS = [Interop._number, *[f for f, _ in _KINDS.values()]]
_INSIDE = {running(f).__code__ for f in _METHODS}  # of one read
_COPIED = Interop.__complex__, Interop.__index__  # what the builtin gives is not what they give
_NOWHERE = Value("nowhere")
# what sees the variables of a function without being told of them: names of builtins, and of attributes
_SEES = frozenset("breakpoint builtins __builtins__ eval exec locals vars".split())
_FRAMES = frozenset("f_locals _getframe".split())
_SEEING = [breakpoint, eval, exec, locals, sys._getframe, vars]


class Missed(BaseException):
    """A replay reads another value than the one that its plan was recorded with."""


def expect(value: Any, known: bytes) -> None:
    """End a replay that reads another value."""
    if value.tobytes() != known:
        raise Missed


class Read:
    """A number that a step returns: its variable, itself, and where it is in what the step returns."""

    def __init__(self, name: str, where: Value):
        self.name, self.where = name, where
        self.value: Any = None


class Reads(Writer):
    """What becomes of reads of values."""

    def __init__(self, reached: State, arguments: list[Any], learned: Learned, fuses: bool = False):
        super().__init__(reached, arguments, learned, fuses)
        self.step: Any = None
        self.started: Any = None  # the code that calls the step
        self.reads: list[Read] = []
        self.ends: dict[FrameType, Read] = {}  # frames that are about to return a read value
        self.cleared: list[Any] = []  # optimizers whose gradients were reset before a guard

    def read(self, tensor: Any) -> None:
        """A value of a tensor of one element goes to Python: called while that method runs."""
        self.notes.note("item", tensor)
        name = self.tensor(tensor)
        if name is None:
            return
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code not in _INSIDE:
            frame = frame.f_back
        # entries: what has the place of their code where classes of tensors are asked first
        inside = _INSIDE | {f.__code__ for f in _METHODS}
        outermost, method = None, (None, None)
        while frame is not None and frame.f_code in inside:
            outermost, method = frame, _KINDS.get(frame.f_code, method)
            frame = frame.f_back
        where = self._end(frame, *method)
        if where is None or outermost is None:
            self.expect(name, tensor._array)
        elif where is not _NOWHERE:
            found = Read(f"v{len(self.reads)}", where)
            self.reads.append(found)
            self.ends[outermost] = found
            call, make = self.draft.constant(method[0]), self.draft.constant(Tensor._make)
            self.emit(f"{found.name} = {call}({make}({name}))", (found.name,), (name,), "item")

    def expect(self, name: str, array: Any) -> None:
        """The plan is for the values that are in the array now."""
        if self.lasting:
            self.refuse(
                "a value is read, and used for more than being returned, after something that a plan could not undo if "
                f"it is another one: {self.lasting}"
            )
            return
        known = array.tobytes()
        self.draft.guards.append(known)
        self.notes.plain = False
        self.reads_gradients = True
        call = self.draft.constant(expect)
        self.emit(
            f"{call}({name}, {self.draft.constant(known)})", (), (name,), "item", True, undone=True
        )

    # -- numbers that are returned -----------------------------------------------------------------------------------

    def _end(self, frame: FrameType | None, method: Any, builtin: Any) -> Value | None:
        """Where what a method of a tensor gives is in what the step returns; None if it is used otherwise.

        frame: that calls the method, or the builtin that calls it.
        """
        if frame is None or method is None or method in _COPIED or not self._calls(frame, builtin):
            return None
        if self._sees_variables():
            return None
        value = IT
        while True:
            if _catches(frame.f_code):
                return None
            found = returned(frame, value)
            if found is None or len(found) != 1:
                return None
            (end,) = found
            if end is None:
                return _NOWHERE
            value, outer = end, frame.f_back
            if outer is None:
                return None
            if outer.f_code is self.started:
                own = getattr(self.step, "__func__", self.step)
                return value if getattr(own, "__code__", None) is frame.f_code else None
            if not is_called_directly(frame.f_code, outer):
                return None
            frame = outer

    def _calls(self, frame: FrameType, builtin: Any) -> bool:
        """Whether what a frame calls now is the method of a tensor itself, or the builtin that only calls it."""
        found = calls_now(frame)
        if found is None:
            return False
        kind, value = found
        if builtin is not None:
            return kind == "name" and value is builtin
        if kind != "method" or value[1] != "item":
            return False
        return not self._other_items()

    def _other_items(self) -> bool:
        """Whether something but tensors may have an attribute ``item``, which might call the method in turn."""
        for code in self.reached.codes.values():
            constants = [c for c in code.co_consts if isinstance(c, (str, tuple))]
            if any([c == "item" or (isinstance(c, tuple) and "item" in c) for c in constants]):
                return True
            if code.co_name in ("item", "__getattr__", "__getattribute__"):
                return True
            if "item" in code.co_names and _stores_item(code):
                return True
        return any(["item" in d for d in self.reached.dicts()])

    def _sees_variables(self) -> bool:
        """Whether code that may run can look into a function's variables, where the bytecode does not show it."""
        if any([f is s for f in self.reached.values() for s in _SEEING]):
            return True  # by another name
        return any([_sees(code) for code in self.reached.codes.values()])

    def placed(self, result: Any) -> Any:
        """What the step returned, with each number that was read replaced by its `Read`; refuses if it is not there."""
        for read in self.reads:
            try:
                result = _with(result, read.where, read)
            except LookupError:
                self.refuse("a value is read, and is not found in what the step returns", False)
        return result


def _sees(code: Any) -> bool:
    return any(
        [
            i.argval.__class__ is str
            and (
                i.argval in _FRAMES
                or (i.argval in _SEES and "ATTR" not in i.opname and "METHOD" not in i.opname)
            )
            for i in dis.get_instructions(code)
        ]
    )


def _stores_item(code: Any) -> bool:
    return any(
        [i.opname == "STORE_ATTR" and i.argval == "item" for i in dis.get_instructions(code)]
    )


def _with(value: Any, where: Value, read: Read) -> Any:
    if where.kind == "it":
        if value is not read.value:
            raise LookupError
        return read
    kind: Any = {"tuple": tuple, "list": list, "dict": dict}.get(where.kind)
    if type(value) is not kind or len(value) != len(where.items):
        raise LookupError
    entries = list(value.values()) if isinstance(value, dict) else list(value)
    found = [
        e if w is None else _with(e, w, read) for e, w in zip(entries, where.items, strict=True)
    ]
    return dict(zip(value, found, strict=True)) if isinstance(value, dict) else kind(found)


class Undo:
    """What a replay may have to take back: gradients that it sets, and the state of the random number generator."""

    def __init__(self, tensors: list, optimizers: list):
        self.tensors, self.optimizers = tensors, optimizers

    def begin(self) -> Any:
        """How things are."""
        params = [p for o in self.optimizers for g in o.param_groups for p in g["params"]]
        return default_generator._pack(), [(t, t._grad) for t in (*self.tensors, *params)]

    @staticmethod
    def back(before: Any) -> None:
        """Make them be so again."""
        drawn, gradients = before
        default_generator._unpack(drawn)
        for tensor, grad in gradients:
            tensor._grad = grad
