"""What the lines of a plan call, read off their text: ufuncs and what else works on each element alone."""

from __future__ import annotations

import ast
from typing import Any, NamedTuple

import numpy as np

from ..devices.numpy.namespace import CLIP
from ..op import spreading

_BINARY = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.true_divide, ast.Mod: np.remainder,
    ast.FloorDiv: np.floor_divide, ast.BitAnd: np.bitwise_and, ast.BitOr: np.bitwise_or, ast.BitXor: np.bitwise_xor,
}  # fmt: skip
_COMPARED = {
    ast.Eq: np.equal, ast.NotEq: np.not_equal, ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}  # fmt: skip
_UNARY = {ast.USub: np.negative, ast.Invert: np.invert}


class Named(str):
    """The variable of an array, where an operand may also be a value."""


class Called(NamedTuple):
    """What a line does to each element.

    function: a ufunc, or np.where, or np.dtype for a conversion, or np.ndarray.view. operands: `Named` variables and
    values; for a conversion or view the dtype comes last (None: the same array). into: the variable that it writes to,
    for which an assignment is another name; "" for a new array.
    """

    function: Any
    operands: tuple
    into: str = ""


class Unreadable(Exception):
    """A line that does something else."""


def read(line: Any, names: dict[str, Any]) -> Called | None:
    """What a line calls; None if that is nothing that works on each element alone.

    names: the constants of the plan.
    """
    try:
        return _statement(_parse(line.text), names)
    except Unreadable:
        return None


def _parse(text: str) -> Any:
    body = ast.parse(text).body
    if len(body) != 1:
        raise Unreadable
    return body[0]


def _statement(node: Any, names: dict[str, Any]) -> Called:
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        ufunc = _BINARY.get(type(node.op))
        if ufunc is None:
            raise Unreadable
        target = node.target.id
        return Called(ufunc, (Named(target), _operand(node.value, names)), target)
    if isinstance(node, ast.Expr):
        found = _expression(node.value, names)
        if not found.into:
            raise Unreadable
        return found
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
        raise Unreadable
    if isinstance(node.value, ast.Name) and node.value.id not in names:
        return Called(np.ndarray.view, (Named(node.value.id), None))
    return _expression(node.value, names)


def _operand(node: Any, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return names[node.id] if node.id in names else Named(node.id)
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _operand(node.operand, names)
        if isinstance(value, (int, float)):
            return -value
    raise Unreadable


def _expression(node: Any, names: dict[str, Any]) -> Called:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        pair = _operand(node.left, names), _operand(node.right, names)
        return Called(_BINARY[type(node.op)], pair)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        pair = _operand(node.left, names), _operand(node.comparators[0], names)
        return Called(_COMPARED[type(node.ops[0])], pair)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return Called(_UNARY[type(node.op)], (_operand(node.operand, names),))
    if isinstance(node, ast.Call):
        return _call(node, names)
    raise Unreadable


def _call(node: ast.Call, names: dict[str, Any]) -> Called:
    into, args = "", [_operand(a, names) for a in node.args]
    for keyword in node.keywords:
        if keyword.arg == "out" and isinstance(keyword.value, ast.Name):
            into = keyword.value.id
        elif keyword.arg != "casting":  # of a write in place: it is known to be to the same dtype
            raise Unreadable
    if isinstance(node.func, ast.Attribute):
        owner = _operand(node.func.value, names)
        if not isinstance(owner, Named) or into or node.keywords:
            raise Unreadable
        method = node.func.attr
        if method == "clip" and len(args) == 2 and None not in args:
            return Called(CLIP, (owner, *args))
        if method in ("astype", "view") and len(args) == 1 and isinstance(args[0], np.dtype):
            return Called(np.dtype if method == "astype" else np.ndarray.view, (owner, args[0]))
        raise Unreadable
    function = _operand(node.func, names)
    if function is spreading.spread:
        function, *args = args
    if isinstance(function, np.ufunc) and len(args) == function.nin and function.nout == 1:
        return Called(function, tuple(args), into)
    if function is np.where and len(args) == 3 and not into:
        return Called(np.where, tuple(args))
    raise Unreadable
