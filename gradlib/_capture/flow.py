"""Where the result of a call goes in a function's bytecode: whether it is returned, and used for nothing else.

A value read from a tensor is another one in each replay. A plan may hand it to the caller, but nothing may be decided
or computed by it. So the instructions after the call are followed on all paths, with what they do to the value: it may
be kept in variables, put into tuples, lists and dicts, dropped, returned. Any other instruction that takes it, and any
instruction that is not known here, is a use.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

_NEW = sys.version_info >= (3, 12)
_DELAYED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Value(NamedTuple):
    """What is known of a value that matters; None stands for any other one.

    kind: "it" is the result of the call itself; "tuple", "list" and "dict" hold it among `items`; "some" is it on some
    paths only.
    """

    kind: str
    items: tuple = ()


IT, SOME = Value("it"), Value("some")


class Used(Exception):
    """The value is used for something."""


_EFFECTS = {  # instruction -> (values that it takes, values that it gives)
    "LOAD_CONST": (0, 1), "LOAD_DEREF": (0, 1), "LOAD_CLOSURE": (0, 1), "PUSH_NULL": (0, 1), "LOAD_NAME": (0, 1),
    "LOAD_CLASSDEREF": (0, 1), "LOAD_ASSERTION_ERROR": (0, 1), "GET_LEN": (1, 2),
    "BINARY_OP": (2, 1), "COMPARE_OP": (2, 1), "IS_OP": (2, 1), "CONTAINS_OP": (2, 1), "BINARY_SUBSCR": (2, 1),
    "BINARY_SLICE": (3, 1), "STORE_SUBSCR": (3, 0), "STORE_SLICE": (4, 0), "DELETE_SUBSCR": (2, 0),
    "STORE_ATTR": (2, 0), "DELETE_ATTR": (1, 0), "UNARY_NEGATIVE": (1, 1), "UNARY_NOT": (1, 1),
    "UNARY_INVERT": (1, 1), "UNARY_POSITIVE": (1, 1), "TO_BOOL": (1, 1), "GET_ITER": (1, 1), "LOAD_METHOD": (1, 2),
    "FORMAT_SIMPLE": (1, 1), "FORMAT_WITH_SPEC": (2, 1), "CONVERT_VALUE": (1, 1), "STORE_DEREF": (1, 0),
    "STORE_GLOBAL": (1, 0), "STORE_NAME": (1, 0), "DELETE_DEREF": (0, 0), "BEFORE_WITH": (1, 2), "CACHE": (0, 0),
    "RESUME": (0, 0), "NOP": (0, 0), "PRECALL": (0, 0), "KW_NAMES": (0, 0), "EXTENDED_ARG": (0, 0),
    "COPY_FREE_VARS": (0, 0), "MAKE_CELL": (0, 0), "CALL_INTRINSIC_1": (1, 1), "LIST_TO_TUPLE": (1, 1),
}  # fmt: skip
_WITHIN = {
    "DICT_MERGE": (1, 0),
    "DICT_UPDATE": (1, 0),
    "LIST_EXTEND": (1, 0),
    "LIST_APPEND": (1, 0),
}
# where no value that matters is on the stack; what they do to it does not matter then
_PLAIN = (
    frozenset(
        "MAKE_FUNCTION SET_FUNCTION_ATTRIBUTE CALL_FUNCTION_EX UNPACK_SEQUENCE UNPACK_EX SET_ADD SET_UPDATE MAP_ADD "
        "FOR_ITER END_FOR BUILD_SET BUILD_STRING JUMP_IF_TRUE_OR_POP JUMP_IF_FALSE_OR_POP "
        "LOAD_BUILD_CLASS".split()
    )
    | _WITHIN.keys()
)


def _effect(i: dis.Instruction) -> tuple[int, int] | None:
    """How many values an instruction takes and gives; None if that is not known here."""
    name, n = i.opname, i.arg or 0
    if (found := _EFFECTS.get(name)) is not None:
        return found
    if name == "LOAD_GLOBAL":
        return 0, 1 + (n & 1)
    if name == "LOAD_ATTR":
        return 1, 1 + (n & 1 if _NEW else 0)
    if name == "LOAD_SUPER_ATTR":
        return 3, 1 + (n & 1)
    if name == "CALL":
        return n + 2, 1
    if name == "CALL_KW":
        return n + 3, 1
    if name in ("BUILD_SLICE", "BUILD_STRING", "BUILD_SET"):
        return n, 1
    if name == "FORMAT_VALUE":
        return (2 if n & 4 else 1), 1
    return None


@functools.lru_cache(256)
def _instructions(code: CodeType) -> tuple[list[dis.Instruction], dict[int, int]]:
    """The instructions, and where each one is by its offset."""
    found = [i for i in dis.get_instructions(code) if i.opname != "CACHE"]
    return found, {i.offset: k for k, i in enumerate(found)}


def _current(frame: FrameType) -> int:
    """Which instruction a frame is at."""
    instructions, _ = _instructions(frame.f_code)
    return max(k for k, i in enumerate(instructions) if i.offset <= frame.f_lasti)


def calls_now(frame: FrameType) -> tuple[str, Any] | None:
    """What a frame that is at a call calls there: ("name", value) or ("method", (object or None, name)), or None.

    It is what the instruction itself calls, no matter what that calls in turn. The object is None if it is not told by
    a variable.
    """
    instructions, _ = _instructions(frame.f_code)
    at = _current(frame)
    i, n = instructions[at], instructions[at].arg or 0
    if i.opname not in ("CALL", "CALL_FUNCTION_EX") or sys.version_info >= (3, 14):
        return None
    left = n if i.opname == "CALL" else 1 + (n & 1)  # values that are still to be taken off
    k = at
    while left:
        k -= 1
        j = instructions[k]
        effect = _WITHIN.get(j.opname) or _built(j) or _effect(j)
        if j.opname == "LOAD_FAST":
            effect = 0, 1
        if effect is None or instructions[k + 1].is_jump_target:
            return None
        takes, gives = effect
        if gives > left:
            return None
        left += takes - gives
    if instructions[k].is_jump_target and k < at:
        return None
    k -= 1
    while instructions[k].opname in ("PUSH_NULL", "PRECALL", "KW_NAMES"):
        k -= 1
    return _loaded(frame, instructions, k)


def _built(i: dis.Instruction) -> tuple[int, int] | None:
    n = i.arg or 0
    if i.opname in ("BUILD_TUPLE", "BUILD_LIST"):
        return n, 1
    if i.opname == "BUILD_MAP":
        return 2 * n, 1
    return (n + 1, 1) if i.opname == "BUILD_CONST_KEY_MAP" else None


def _loaded(frame: FrameType, instructions: list, k: int) -> tuple[str, Any] | None:
    i = instructions[k]
    if instructions[k + 1].is_jump_target:
        return None
    if i.opname == "LOAD_GLOBAL":
        return "name", frame.f_globals.get(i.argval, frame.f_builtins.get(i.argval))
    if i.opname in ("LOAD_FAST", "LOAD_DEREF"):
        return "name", frame.f_locals.get(i.argval)
    if i.opname in ("LOAD_METHOD", "LOAD_ATTR"):
        owner = None
        if k and not i.is_jump_target and instructions[k - 1].opname in ("LOAD_FAST", "LOAD_DEREF"):
            owner = frame.f_locals.get(instructions[k - 1].argval)
        return "method", (owner, i.argval)
    return None


def is_called_directly(code: CodeType, frame: FrameType) -> bool:
    """Whether the call that a frame is at calls the function of that code itself."""
    found = calls_now(frame)
    if found is None:
        return False
    kind, value = found
    if kind == "method":
        owner, name = value
        if owner is None or name in getattr(owner, "__dict__", ()):
            return False
        if type(owner).__getattribute__ is not object.__getattribute__:
            return False
        value = inspect.getattr_static(type(owner), name, None)
        value = getattr(value, "__func__", value)  # of a static or class method
    if isinstance(value, MethodType):
        value = value.__func__
    return isinstance(value, FunctionType) and value.__code__ is code


def returned(frame: FrameType, value: Value) -> set[Value | None] | None:
    """What a frame may return, if `value` is what the call that it is at gives; None if that has another use."""
    code = frame.f_code
    if code.co_flags & _DELAYED:
        return None
    instructions, places = _instructions(code)
    found: set[Value | None] = set()
    states: dict[int, tuple[tuple, frozenset]] = {}
    todo = [(_current(frame) + 1, (value,), frozenset())]
    try:
        while todo:
            k, stack, names = todo.pop()
            if k in states:
                stack, names = _both(states[k], (stack, names))
                if (stack, names) == states[k]:
                    continue
            states[k] = stack, names
            todo += _next(instructions, places, k, list(stack), dict(names), found)
    except Used:
        return None
    return found


def _both(a: tuple, b: tuple) -> tuple[tuple, frozenset]:
    """What is known where two paths meet."""
    (s, mine), (t, others) = a, b
    n = max(len(s), len(t))
    s, t = (None,) * (n - len(s)) + s, (None,) * (n - len(t)) + t
    stack = tuple([x if x == y else SOME for x, y in zip(s, t, strict=True)])
    left, right = dict(mine), dict(others)
    names = {k: v if right.get(k) == v else SOME for k, v in left.items()}
    names |= {k: SOME for k in right.keys() - left.keys()}
    return stack, frozenset(names.items())


def _next(
    instructions: list, places: dict, k: int, stack: list, names: dict, found: set
) -> list[tuple]:
    """Where it goes on after an instruction, and with what."""
    i = instructions[k]
    name, n = i.opname, i.arg or 0
    follow = [k + 1]

    def pop() -> Value | None:
        return stack.pop() if stack else None

    def take(count: int) -> list:
        return [pop() for _ in range(count)][::-1]

    if name in ("LOAD_FAST", "LOAD_FAST_CHECK"):
        stack.append(names.get(i.argval))
    elif name == "LOAD_FAST_LOAD_FAST":
        stack += [names.get(v) for v in i.argval]
    elif name == "LOAD_FAST_AND_CLEAR":
        stack.append(names.pop(i.argval, None))
    elif name == "STORE_FAST":
        names[i.argval] = pop()
    elif name == "STORE_FAST_STORE_FAST":
        for v in i.argval:
            names[v] = pop()
    elif name == "STORE_FAST_LOAD_FAST":
        names[i.argval[0]] = pop()
        stack.append(names.get(i.argval[1]))
    elif name == "DELETE_FAST":
        names.pop(i.argval, None)
    elif name == "POP_TOP":
        pop()
    elif name in ("COPY", "SWAP"):
        stack[:0] = [None] * (n - len(stack))
        if name == "COPY":
            stack.append(stack[-n])
        else:
            stack[-1], stack[-n] = stack[-n], stack[-1]
    elif name in ("BUILD_TUPLE", "BUILD_LIST"):
        items = take(n)
        stack.append(Value(name[6:].lower(), tuple(items)) if any(items) else None)
    elif name in ("BUILD_MAP", "BUILD_CONST_KEY_MAP"):
        if name == "BUILD_MAP":
            pairs = take(2 * n)
            keys, items = pairs[::2], pairs[1::2]
        else:
            keys, items = [pop()], take(n)
        if any(keys):
            raise Used
        stack.append(Value("dict", tuple(items)) if any(items) else None)
    elif name in ("RETURN_VALUE", "RETURN_CONST"):
        found.add(pop() if name == "RETURN_VALUE" else None)
        follow = []
    elif name in ("RAISE_VARARGS", "RERAISE"):
        if any(take(n if name == "RAISE_VARARGS" else 1)):
            raise Used
        follow = []
    elif name.startswith("JUMP_") and "_OR_POP" not in name:
        follow = [places[i.argval]]
    elif name.startswith("POP_JUMP_"):
        if pop() is not None:
            raise Used
        follow.append(places[i.argval])
    elif not any(stack) and (name in _PLAIN or _effect(i) is not None):
        stack.clear()
        if "JUMP" in name or name == "FOR_ITER":
            follow.append(places[i.argval])
    else:
        effect = _effect(i)
        if effect is None or any(take(effect[0])):
            raise Used
        stack += [None] * effect[1]
    while stack and stack[0] is None:
        del stack[0]
    left = frozenset((v, x) for v, x in names.items() if x is not None)
    return [(f, tuple(stack), left) for f in follow]
