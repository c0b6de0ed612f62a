"""Makes a program that shows a difference as small as it gets."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Iterator


def shrink(program: str, shows: Callable[[str], bool], budget: int = 400) -> str:
    """The smallest program found, by changes one at a time, for which `shows` stays true.

    Tried are: to drop a statement, to put the body of a block in its place, to put a part of an expression in the
    place of the whole, to drop an argument, to make a number 1 or one less. At most `budget` programs are run.
    """
    best = _text(ast.parse(program))
    if not shows(best):
        return program
    improved = True
    while improved and budget > 0:
        improved = False
        position = 0
        while budget > 0:
            candidate = _change(best, position)
            if candidate is None:
                break
            if candidate != best and _cost(candidate) < _cost(best):
                budget -= 1
                if shows(candidate):
                    best, improved = candidate, True
                    continue
            position += 1
    return _renamed(best, shows)


def signature(program: str) -> str:
    """What the minimal program does: names of functions and methods, operators, modes; no numbers or variables."""
    found = set()
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found.add(re.sub(r"\d", "", node.func.id))
        elif isinstance(node, (ast.BinOp, ast.AugAssign)):
            found.add(type(node.op).__name__ + ("=" if isinstance(node, ast.AugAssign) else ""))
        elif isinstance(node, ast.Subscript):
            found.add("[]=" if isinstance(node.ctx, ast.Store) else "[]")
    return " ".join(sorted(found - {"torch", "D", "sum", "func", "F", "nn", "autograd", "log"}))


def without_try(program: str) -> str:
    """The program with the bodies of its `try` statements in their place."""
    tree = ast.parse(program)
    for body in _bodies(tree):
        for k in reversed(range(len(body))):
            if isinstance(statement := body[k], ast.Try):
                body[k : k + 1] = statement.body
    return _text(tree)


def each_without_try(program: str) -> Iterator[str]:
    """The program with the body of one of its `try` statements in its place, for each of them."""
    return _each_try(program, lambda statement: statement.body)


def each_try_dropped(program: str) -> Iterator[str]:
    """The program without one of its `try` statements, for each of them."""
    return _each_try(program, lambda statement: [ast.Pass()])


def _each_try(program: str, instead: Callable[[ast.Try], list[ast.stmt]]) -> Iterator[str]:
    count = sum(isinstance(node, ast.Try) for node in ast.walk(ast.parse(program)))
    for wanted in range(count):
        tree, seen = ast.parse(program), 0
        for body in _bodies(tree):
            for k, statement in enumerate(list(body)):
                if isinstance(statement, ast.Try):
                    if seen == wanted:
                        body[k : k + 1] = instead(statement)
                    seen += 1
        yield _text(tree)


def until(program: str, line: int) -> str:
    """The program up to the statement in which `line` is."""
    tree = ast.parse(program)
    return _text(ast.Module([s for s in tree.body if s.lineno <= line], []))


def _text(tree: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(tree))


def _cost(program: str) -> tuple[int, int]:
    return (
        program.count("\n"),
        len(program) + sum(int(n[:3]) for n in re.findall(r"\b\d+\b", program)),
    )


def _change(program: str, position: int) -> str | None:
    """The program with its change number `position`, None after the last."""
    tree = ast.parse(program)
    for k, apply in enumerate(_changes(tree)):
        if k == position:
            apply()
            try:
                return _text(tree)
            except Exception:
                return program
    return None


def _changes(tree: ast.AST) -> Iterator[Callable[[], None]]:
    """Changes of `tree` in place: of statements first, from the last one to the first."""
    for body in _bodies(tree):
        for k in reversed(range(len(body))):
            statement = body[k]
            yield lambda body=body, k=k: _drop(body, k)
            match statement:
                case ast.Assign(targets=[ast.Name(id=new)], value=ast.Name(id=old)):
                    yield lambda body=body, k=k, new=new, old=old: _merge(tree, body, k, new, old)
            inner = getattr(statement, "body", None)
            if inner and isinstance(statement, (ast.With, ast.Try)):
                yield lambda body=body, k=k, inner=inner: body.__setitem__(slice(k, k + 1), inner)
    for parent in list(ast.walk(tree)):
        for field, value in list(ast.iter_fields(parent)):
            if isinstance(value, list):
                for k, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        if len(value) > 1:
                            yield lambda value=value, k=k: value.pop(k)
                        for part in _parts(item):
                            yield lambda value=value, k=k, part=part: value.__setitem__(k, part)
                    elif isinstance(item, ast.keyword):
                        yield lambda value=value, k=k: value.pop(k)
            elif isinstance(value, ast.expr):
                for part in _parts(value):
                    yield lambda parent=parent, field=field, part=part: setattr(parent, field, part)


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(n, "body", None) for n in ast.walk(tree)]
    return [b for b in found if isinstance(b, list) and b]


def _drop(body: list, k: int) -> None:
    body[k : k + 1] = [] if len(body) > 1 else [ast.Pass()]


def _merge(tree: ast.AST, body: list, k: int, new: str, old: str) -> None:
    """Drop ``new = old``, and call `new` `old`."""
    _drop(body, k)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == new:
            node.id = old


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """What may stand in the place of an expression."""
    match node:
        case ast.Call(func=ast.Name(id="fill")):
            return  # without it the parameters are random
        case ast.Call(func=ast.Attribute(value=value), args=args):
            if not isinstance(value, (ast.Name, ast.Attribute)) or not _module(value):
                yield value
            yield from (copy.deepcopy(a) for a in args if isinstance(a, ast.expr))
        case ast.Call(func=ast.Call(args=[first, *_])):
            yield ast.Call(func=first, args=node.args, keywords=[])
        case ast.Call(args=args):
            yield from args
        case ast.BinOp(left=left, right=right):
            yield left
            yield right
        case ast.Subscript(value=value, ctx=ast.Load()):
            yield value
        case ast.Attribute(value=value, ctx=ast.Load()) if not _module(value):
            yield value
        case ast.Constant(value=int(n)) if not isinstance(n, bool) and n > 1:
            yield ast.Constant(1)
            yield ast.Constant(n - 1)
        case ast.Constant(value=float(n)) if n != 2.0:
            yield ast.Constant(2.0)
        case ast.UnaryOp(operand=operand):
            yield operand


def _module(value: ast.expr) -> bool:
    return ast.unparse(value).split(".")[0] in (
        "torch",
        "F",
        "nn",
        "func",
        "fwAD",
        "copy",
        "pickle",
    )


def _renamed(program: str, shows: Callable[[str], bool]) -> str:
    """The program with its variables called x, y, z..., if that shows the same."""
    names = []
    for name in re.findall(r"\b(?:x|z|g|gs|d|t|f|opt|net|Fn)\d+[vl]?\b", program):
        if name not in names:
            names.append(name)
    short = iter("xyzuvwabcdehkmnpqrs")
    table = {}
    for name in names:
        kind = name.rstrip("vl0123456789")
        wanted = kind if kind in ("f", "Fn", "net", "opt") and kind not in table.values() else None
        table[name] = wanted or next(short, name)
    renamed = re.sub(r"\b\w+\b", lambda m: table.get(m[0], m[0]), program)
    return renamed if renamed != program and shows(renamed) else program
