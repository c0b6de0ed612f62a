"""einsum: sums of products in index notation, as matrix products, without copies where possible."""

from __future__ import annotations

import math
from functools import lru_cache

from ...op import costs
from ...op.declare import declare
from ...op.expose import function
from ...op.interpret import common_dtype
from ...tape.sparse import is_sparse
from ...tape.tensor import Tensor
from .matmul import bmm_op, product, same_types

# -- the product of two operands ---------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def plan(a: tuple, b: tuple, out: tuple):
    """How to do a pair by matrix products: dimension orders for both operands and the result.

    Labels of `a` are in `b` or `out`, those of `b` in `a` or `out`, none twice. Returns (swap, permutations of a and b,
    numbers of batch, free and summed dimensions, permutation of the result).
    """
    batch = [x for x in out if x in a and x in b]
    summed = [x for x in a if x in b and x not in out]
    free_a, free_b = [x for x in out if x not in b], [x for x in out if x not in a]
    rest = [x for x in out if x not in batch]
    swap = (
        bool(rest) and rest[0] in free_b and bool(free_a)
    )  # the result comes out in its own order
    if swap:
        a, b, free_a, free_b = b, a, free_b, free_a
    order_a = [a.index(x) for x in (*batch, *free_a, *summed)]
    order_b = [b.index(x) for x in (*batch, *summed, *free_b)]
    made = (*batch, *free_a, *free_b)
    order_out = tuple(made.index(x) for x in out)
    if order_out == tuple(range(len(out))):
        order_out = None
    return swap, tuple(order_a), tuple(order_b), len(batch), len(free_a), len(summed), order_out


def _pair(xp, self, other, *, a, b, out):
    swap, order_a, order_b, n_batch, n_free, n_summed, order_out = plan(a, b, out)
    if swap:
        self, other = other, self
    x, y = self.transpose(order_a), other.transpose(order_b)
    batch = x.shape[:n_batch]
    rows, columns = x.shape[n_batch : n_batch + n_free], y.shape[n_batch + n_summed :]
    if not n_summed:
        middle = (1,) * len(columns)
        result = x.reshape(batch + rows + middle) * y.reshape(batch + (1,) * len(rows) + columns)
    else:
        inner = math.prod(x.shape[n_batch + n_free :])
        x = x.reshape((*batch, math.prod(rows), inner) if n_batch else (math.prod(rows), inner))
        y = y.reshape(
            (*batch, inner, math.prod(columns)) if n_batch else (inner, math.prod(columns))
        )
        result = product(xp, x, y).reshape(batch + rows + columns)
    return result if order_out is None else result.transpose(order_out)


def _autocast(device: str, attrs: tuple) -> str:
    """On the CPU, what sums over nothing is no product of matrices."""
    a, b, out = attrs
    contracts = any([label in b and label not in out for label in a])
    return "lower" if contracts or device == "cuda" else ""


pair_op = declare(
    "einsum", _pair, flops=costs.pair, autocast=_autocast, promote="none", jvp="multilinear", complex=True,
    self=lambda F, g, other, a, b, out: F.einsum(g, other.conjugate(), out, b, a),
    other=lambda F, g, self, a, b, out: F.einsum(self.conjugate(), g, a, out, b),
    samples=lambda t: [
        (t(3, 4), t(4, 2), (0, 1), (1, 2), (0, 2)), (t(2, 3, 4), t(2, 4, 3), (0, 1, 2), (0, 2, 1), (1, 0)),
        (t(3), t(4), (0,), (1,), (1, 0)), (t(3, 4), t(3, 4), (0, 1), (0, 1), ()), (t(0, 4), t(4, 2), (0, 1), (1, 2),
        (2, 0)),
    ],
    batch="einsum",
)  # fmt: skip

# -- notation ----------------------------------------------------------------------------------------------------


def _fail(text: str):
    raise RuntimeError(f"einsum(): {text}")


def _letters(part: str, where: str, start: int) -> list:
    """Labels of one operand; Ellipsis stands for "...". `start`: where `part` begins in the equation."""
    labels: list = []
    i = 0
    while i < len(part):
        if part[i] == " ":
            i += 1
        elif part.startswith("...", i):
            if Ellipsis in labels:
                _fail(f"found '.' for {where} for which an ellipsis was already found")
            labels.append(Ellipsis)
            i += 3
        elif part[i].isalpha() and part[i].isascii():
            labels.append(part[i])
            i += 1
        elif part[i] == ".":
            _fail(f"found '.' for {where} that is not part of any ellipsis")
        else:
            _fail(
                f"invalid subscript given at index {start + i} in the equation string, subscripts must be in [a-zA-Z]"
            )
    return labels


def parse_equation(equation: str, n: int):
    """([labels of each operand], labels of the result or None)."""
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) < n:
        _fail("more operands were provided than specified in the equation")
    if len(parts) > n:
        _fail("fewer operands were provided than specified in the equation")
    inputs, start = [], 0
    for i, part in enumerate(parts):
        inputs.append(_letters(part, f"operand {i}", start))
        start += len(part) + 1
    return inputs, _letters(right, "the output", start + 1) if arrow else None


def parse_sublists(args: tuple):
    """The form ``einsum(a, [0, 1], b, [1, 2], [0, 2])``."""
    operands, inputs = list(args[: len(args) // 2 * 2 : 2]), [list(x) for x in args[1::2]]
    output = list(args[-1]) if len(args) % 2 else None
    for labels in (*inputs, output or ()):
        for x in labels:
            if x is not Ellipsis and not 0 <= x < 52:
                raise ValueError(
                    "einsum(): subscript in subscript list is not within the valid range [0, 52)"
                )
    return operands, inputs, output


def _expand_ellipsis(inputs: list, output, operands: list):
    """Every Ellipsis as labels ("...", i), counted from the right; the result's labels if not given."""
    longest = 0
    for k, (labels, t) in enumerate(zip(inputs, operands)):
        spare = t.ndim - len(labels)
        if Ellipsis in labels:
            longest = max(longest, spare + 1)
            if spare + 1 < 0:
                spare = -2
        if (
            (spare < 0 and Ellipsis not in labels)
            or spare < -1
            or (spare > 0 and Ellipsis not in labels)
        ):
            _fail(
                f"the number of subscripts in the equation ({len(labels) - (Ellipsis in labels)}) "
                f"{'is more than' if spare < -1 and Ellipsis in labels else 'does not match'} the number of dimensions "
                f"({t.ndim}) for operand {k}{'' if Ellipsis in labels else ' and no ellipsis was given'}"
            )

    def expand(labels, count):
        found = []
        for x in labels:
            found += [("...", i) for i in range(longest - count, longest)] if x is Ellipsis else [x]
        return found

    full = [expand(labels, t.ndim - len(labels) + 1) for labels, t in zip(inputs, operands)]
    if output is None:
        plain = [x for labels in inputs for x in labels if x is not Ellipsis]
        once = sorted(x for x in set(plain) if plain.count(x) == 1)
        return full, [("...", i) for i in range(longest)] + once
    result = expand(output, longest)
    known = {x for labels in full for x in labels}
    for x in output:
        if x is not Ellipsis and output.count(x) > 1:
            _fail(f"output subscript {x} appears more than once in the output")
        if x is not Ellipsis and x not in known:
            _fail(f"output subscript {x} does not appear in the equation for any input operand")
    return full, result


# -- operands made plain -----------------------------------------------------------------------------------------


def _diagonals(t: Tensor, labels: list, k: int):
    """Repeated labels of one operand as one dimension: its diagonal."""
    for x in dict.fromkeys(labels):
        while labels.count(x) > 1:
            i = labels.index(x)
            j = labels.index(x, i + 1)
            if t.shape[i] != t.shape[j]:
                _fail(
                    f"subscript {x} is repeated for operand {k} but the sizes don't match, {t.shape[j]} != {t.shape[i]}"
                )
            t = t.diagonal(0, i, j)
            labels = [y for m, y in enumerate(labels) if m not in (i, j)] + [x]
    return t, labels


def _sizes(operands, inputs) -> dict:
    sizes: dict = {}
    for k, (t, labels) in enumerate(zip(operands, inputs)):
        for n, x in zip(t.shape, labels):
            have = sizes.setdefault(x, n)
            if have != n and n != 1:
                if have != 1:
                    _fail(
                        f"subscript {x if not isinstance(x, tuple) else '...'} has size {n} for operand {k} which "
                        "does not "
                        f"broadcast with previously seen size {have}"
                    )
                sizes[x] = n
    return sizes


def _squeeze_ones(t: Tensor, labels: list, sizes: dict):
    """Broadcast dimensions of length 1 taken out."""
    ones = [i for i, x in enumerate(labels) if t.shape[i] == 1 and sizes[x] != 1]
    if ones:
        t = t.reshape([n for i, n in enumerate(t.shape) if i not in ones])
        labels = [x for i, x in enumerate(labels) if i not in ones]
    return t, labels


def _sum_others(t: Tensor, labels: list, wanted):
    """Dimensions that nothing else needs summed away."""
    drop = tuple(i for i, x in enumerate(labels) if x not in wanted)
    if drop:
        t = t.sum(drop)
        labels = [x for x in labels if x in wanted]
    return t, labels


def _one_type(a: Tensor, b: Tensor, la, lb, out) -> tuple[Tensor, Tensor]:
    """Two operands of one dtype: products are promoted, sums of products are refused with RuntimeError."""
    if a.dtype is b.dtype:
        return a, b
    sizes = zip(la, a._array.shape)
    if any(x in lb and x not in out and n != 1 for x, n in sizes):
        same_types(bmm_op, a, b)
    common = common_dtype((a, b))
    return a.to(common), b.to(common)


def _contract(first: tuple[Tensor, list], second: tuple[Tensor, list], wanted, sizes):
    """Two (tensor, labels) pairs as one, keeping the labels in `wanted`."""
    (a, la), (b, lb) = _squeeze_ones(*first, sizes), _squeeze_ones(*second, sizes)
    a, la = _sum_others(a, la, {*lb, *wanted})
    b, lb = _sum_others(b, lb, {*la, *wanted})
    out = [x for x in wanted if x in la or x in lb]
    number = {x: i for i, x in enumerate(dict.fromkeys((*la, *lb)))}
    codes = (tuple(number[x] for x in labels) for labels in (la, lb, out))
    return pair_op.call(*_one_type(a, b, la, lb, out), *codes), out


def _path(operands, inputs, output):
    """Pairs of positions to contract, in order; the cheapest order for more than two operands."""
    if len(operands) <= 2:
        return [tuple(range(len(operands)))]
    import opt_einsum  # only here: it takes time to import

    symbols: dict = {}
    for x in (x for labels in inputs for x in labels):
        symbols.setdefault(x, opt_einsum.get_symbol(len(symbols)))
    text = ",".join("".join(symbols[x] for x in labels) for labels in inputs)
    text += "->" + "".join(symbols[x] for x in output if x in symbols)
    return opt_einsum.contract_path(
        text, *(tuple(t.shape) for t in operands), shapes=True, optimize="auto"
    )[0]


def _finish(t: Tensor, labels: list, output: list, sizes: dict) -> Tensor:
    """The last operand with exactly the labels of the result, in their order."""
    t, labels = _sum_others(t, labels, set(output))
    missing = [x for x in output if x not in labels]
    for _ in missing:
        t = t.unsqueeze(0)
    labels = [*missing, *labels]
    order = tuple(labels.index(x) for x in output)
    if order != tuple(range(len(order))):
        t = t.permute(order)
    shape = tuple(sizes[x] for x in output)
    return t if tuple(t.shape) == shape else t.expand(shape)


@lru_cache(maxsize=1024)
def _simple(equation: str):
    """(a, b, out) for a pair of operands with nothing repeated, left out or to be summed first; else None."""
    left, arrow, out = equation.replace(" ", "").partition("->")
    a, comma, b = left.partition(",")
    if not arrow or not comma or (not (a + b + out).isalpha() and a + b + out):
        return None
    plain = all(len(set(x)) == len(x) for x in (a, b, out)) and set(out) <= {*a, *b}
    if not plain or not set(a) <= {*b, *out} or not set(b) <= {*a, *out}:
        return None
    return tuple(a), tuple(b), tuple(out)


def _fits(labels, operands) -> bool:
    a, b = operands[0]._array.shape, operands[1]._array.shape
    if len(a) != len(labels[0]) or len(b) != len(labels[1]):
        return False
    sizes = dict(zip(labels[0], a))
    return all(sizes.get(x, n) == n for x, n in zip(labels[1], b))


@function("einsum")
def einsum(*args):
    """Sums of products of the operands in index notation.

    ``einsum("ij,jk->ik", a, b)`` or ``einsum(a, [0, 1], b, [1, 2], [0, 2])``. Without "->" the result has the labels
    that occur once, in alphabetical order, after those of "...". A repeated label in one operand takes its diagonal;
    dimensions of length 1 broadcast.

    Args:
        args: the equation and the operands, or operands each followed by their labels.

    Returns:
        A tensor of one dimension for each label of the result.

    Raises:
        RuntimeError: labels that do not fit the operands.

    Example:
        >>> gradlib.einsum("ij,j->i", gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], str):
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
        if not operands:
            raise ValueError("einsum(): must provide at least one operand")
        if len(operands) == 2:
            labels = _simple(args[0])
            if labels is not None and _fits(labels, operands):
                try:
                    return pair_op.call(*operands, *labels)
                except RuntimeError:
                    return pair_op.call(*_one_type(operands[0], operands[1], *labels), *labels)
        inputs, output = parse_equation(args[0], len(operands))
    else:
        operands, inputs, output = parse_sublists(args)
    inputs, output = _expand_ellipsis(inputs, output, operands)
    plain = [_diagonals(t, labels, k) for k, (t, labels) in enumerate(zip(operands, inputs))]
    tensors, labels = zip(*plain)
    sizes = _sizes(tensors, labels)
    terms = list(plain)
    for step in _path(tensors, labels, output):
        chosen = [terms[i] for i in step]
        terms = [t for i, t in enumerate(terms) if i not in step]
        while len(chosen) > 1:
            wanted = dict.fromkeys(
                (*output, *(x for _, labels in (*terms, *chosen[2:]) for x in labels))
            )
            chosen = [_contract(chosen[0], chosen[1], list(wanted), sizes), *chosen[2:]]
        terms += chosen
    result = _finish(*terms[0], output, sizes)
    if result is operands[0]:
        return result.clone() if is_sparse(result) else result.view(result.shape)
    return result
