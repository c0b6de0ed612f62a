"""How a tensor looks when printed: PyTorch's layout, precision and suffixes, made with NumPy.

Only the elements that will be seen are read: a big tensor is cut to its edges on its own device
first, so printing a CUDA tensor moves a handful of values to the host.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from . import dtypes, handed, modes
from .lazy import raw_values
from .sparse import BY_ROWS, COO, is_sparse

__all__ = ["get_printoptions", "printoptions", "set_printoptions", "tensor_repr"]


class PrintOptions(NamedTuple):
    """The settings that `set_printoptions` changes.

    Attributes:
        precision: digits after the point of a floating-point number.
        threshold: number of elements above which a tensor is summarised.
        edgeitems: items shown at either end of a summarised dimension.
        linewidth: columns in a line.
        sci_mode: scientific notation: always (True), never (False), by value (None).
    """

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=float("inf")),
}
_options = PrintOptions()


def get_printoptions() -> PrintOptions:
    """The print options in force."""
    return _options


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors print. What is left at None keeps its value.

    Args:
        precision: digits after the point (default 4).
        threshold: number of elements above which a tensor is summarised (default 1000).
        edgeitems: items shown at either end of a summarised dimension (default 3).
        linewidth: columns in a line (default 80).
        profile: "default", "short" or "full": resets everything that the profile defines, then
            the other arguments are applied. "full" never summarises.
        sci_mode: True or False turns scientific notation on or off for every floating-point
            tensor; None (also after each call) lets the values decide.

    Raises:
        ValueError: unknown profile, or a number that is negative or not an integer.

    Example:
        >>> gradlib.set_printoptions(precision=2)
        >>> gradlib.tensor([1.12345])
        tensor([1.12])
    """
    global _options
    _options = _changed(_options, precision, threshold, edgeitems, linewidth, profile, sci_mode)


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """`set_printoptions(**kwargs)` inside a with block; the former options come back after it.

    Example:
        >>> with gradlib.printoptions(precision=1):
        ...     print(gradlib.tensor([0.25]))
        tensor([0.2])
    """
    global _options
    before = _options
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _options = before


def _changed(
    base: PrintOptions,
    precision: int | None,
    threshold: float | None,
    edgeitems: int | None,
    linewidth: int | None,
    profile: str | None,
    sci_mode: bool | None,
) -> PrintOptions:
    """`base` with the given changes, checked."""
    if profile is not None:
        try:
            chosen = _PROFILES[profile.lower()]
        except (KeyError, AttributeError):
            names = ", ".join(_PROFILES)
            raise ValueError(f"profile must be one of {names}, but got {profile!r}") from None
        base = chosen
    changes: dict[str, Any] = {"sci_mode": sci_mode}
    integers = {"precision": precision, "edgeitems": edgeitems, "linewidth": linewidth}
    for name, value in integers.items():
        if value is None:
            continue
        if not isinstance(value, (int, np.integer)) or value < 0:
            raise ValueError(f"{name} must be a non-negative integer, but got {value!r}")
        changes[name] = int(value)
    if threshold is not None:
        changes["threshold"] = threshold
    return base._replace(**changes)


# --------------------------------------------------------------------------------------------
# Numbers


class _Numbers:
    """The format shared by all numbers of one tensor: notation and column width.

    Args:
        values: host array of the numbers that will be printed; bool, integer or float64.
        options: the print options.
    """

    __slots__ = ("dot", "spec", "width")

    def __init__(self, values: np.ndarray, options: PrintOptions) -> None:
        self.width = 1
        self.dot = False
        if values.dtype.kind != "f":
            self.spec = ""
            self.width = max((len(str(v)) for v in values.ravel().tolist()), default=1)
            return
        shown = values[np.isfinite(values) & (values != 0)]
        whole = bool((shown == np.ceil(shown)).all())
        scientific = bool(shown.size) and self._prefers_scientific(shown, whole)
        if options.sci_mode is not None and shown.size:
            scientific = options.sci_mode
        if scientific:
            self.spec = f".{options.precision}e"
        elif whole:
            self.spec, self.dot = ".0f", True
        else:
            self.spec = f".{options.precision}f"
        if shown.size:
            self.width = max(len(self(v)) for v in shown.tolist())

    @staticmethod
    def _prefers_scientific(shown: np.ndarray, whole: bool) -> bool:
        """Whether fixed point would waste columns or lose digits on these nonzero values."""
        size = np.abs(shown)
        largest, smallest = size.max(), size.min()
        with np.errstate(over="ignore"):
            wide = largest / smallest > 1000.0 or largest > 1.0e8
        return bool(wide or (not whole and smallest < 1.0e-4))

    def __call__(self, value: float) -> str:
        """One number, not padded."""
        if not self.spec:
            return str(value)
        text = format(value, self.spec)
        return text + "." if self.dot and text[-1].isdigit() else text


def _cells(values: Any, options: PrintOptions) -> tuple[list[str], int]:
    """The text of every element in C order, and the width by which lines are filled."""
    if values.dtype.kind == "c":
        real, imag = _Numbers(values.real, options), _Numbers(values.imag, options)
        texts = []
        for number in values.ravel().tolist():
            right = imag(number.imag)
            sign = "" if right[0] in "+-" else "+"
            texts.append(f"{real(number.real):>{real.width}}{sign}{right}j")
        return texts, real.width + imag.width + 1
    numbers = _Numbers(values, options)
    return [f"{numbers(v):>{numbers.width}}" for v in values.ravel().tolist()], numbers.width


# --------------------------------------------------------------------------------------------
# Arrays


def _to_host(array: Any) -> np.ndarray:
    """The array's values on the host as bool, integer, float64 or complex128."""
    host = array.get() if hasattr(array, "get") else np.asarray(array)
    if host.dtype.kind in "biu":
        return host
    with np.errstate(all="ignore"):
        return host.astype(np.complex128 if host.dtype.kind == "c" else np.float64)


def _corners(array: Any, edge: int) -> np.ndarray:
    """The array without the middle of every dimension longer than two edges, on the host."""
    for axis, length in enumerate(array.shape):
        if length > 2 * edge:
            before = (slice(None),) * axis
            head = _corners(array[(*before, slice(0, edge))], edge)
            tail = _corners(array[(*before, slice(length - edge, None))], edge)
            return np.concatenate((head, tail), axis=axis)
    return _to_host(array)


class _Layout:
    """Puts the texts of the elements into brackets, columns and lines.

    Args:
        texts: one text for each element that is shown, in C order.
        width: the width that one element takes in a line, without its separator.
        cut: for each dimension, whether its middle was left out.
        options: the print options.
    """

    __slots__ = ("cut", "options", "per_line_width", "texts")

    def __init__(
        self, texts: list[str], width: int, cut: tuple[bool, ...], options: PrintOptions
    ) -> None:
        self.texts = iter(texts)
        self.per_line_width = width + 2
        self.cut = cut
        self.options = options

    def block(self, shape: tuple[int, ...], depth: int, indent: int) -> str:
        """The text of one sub-array; `indent` is the column of its opening bracket."""
        margin = " " * (indent + 1)
        if depth == len(shape) - 1:
            return self._row(shape[depth], self.cut[depth], indent, margin)
        parts = [self.block(shape, depth + 1, indent + 1) for _ in range(shape[depth])]
        if self.cut[depth]:
            parts.insert(self.options.edgeitems, "...")
        return "[" + ("," + "\n" * (len(shape) - depth - 1) + margin).join(parts) + "]"

    def _row(self, length: int, cut: bool, indent: int, margin: str) -> str:
        texts = [next(self.texts) for _ in range(length)]
        if cut:
            texts.insert(self.options.edgeitems, " ...")
        fit = max(1, (self.options.linewidth - indent) // self.per_line_width)
        lines = [", ".join(texts[i : i + fit]) for i in range(0, len(texts), fit)]
        return "[" + (",\n" + margin).join(lines) + "]"


def array_text(array: Any, indent: int, options: PrintOptions | None = None) -> str:
    """The bracketed numbers of a NumPy or CuPy array, without prefix and suffixes.

    Args:
        array: NumPy or CuPy array of any shape that has elements.
        indent: column at which the text starts; further lines are indented to match.
        options: print options; those in force when left out.

    Returns:
        The text, with line breaks where the options ask for them.
    """
    options = options or _options
    edge = options.edgeitems
    summarise = array.size > options.threshold
    cut = tuple(summarise and n > 2 * edge for n in array.shape)
    values = _corners(array, edge) if summarise else _to_host(array)
    texts, width = _cells(values, options)
    if not array.shape:
        return texts[0]
    return _Layout(texts, width, cut, options).block(values.shape, 0, indent)


# --------------------------------------------------------------------------------------------
# Tensors


def _prefix(t: Any) -> str:
    """The name in front of the bracket: "tensor", or the name of the user's subclass."""
    kind = type(t)
    plain = kind.__name__ in ("Tensor", "Parameter", "Buffer") and kind.__module__.startswith(
        "gradlib."
    )
    return "tensor(" if plain else f"{kind.__name__}("


def _dtype_suffix(t: Any, has_numbers: bool) -> str | None:
    """The dtype, when the numbers alone do not tell it."""
    default = dtypes.get_default_dtype()
    if t.dtype is default:
        return None
    if has_numbers:
        if t.dtype.name in ("int64", "bool"):
            return None
        if t.dtype.is_complex and t.dtype.np.itemsize == 2 * default.np.itemsize:
            return None
    return f"dtype={t.dtype!r}"


def _grad_suffix(t: Any) -> str | None:
    """The node that made the tensor, or that it is a leaf which wants a gradient."""
    try:
        grad_fn = t.grad_fn
    except RuntimeError:  # a view whose history an in-place operation has made unusable
        return "grad_fn=<Invalid>"
    if grad_fn is not None:
        return f"grad_fn=<{grad_fn.name()}>"
    return "requires_grad=True" if t.requires_grad else None


def _tangent_suffix(t: Any) -> str | None:
    """The forward-mode tangent, if the tensor carries one at the current level."""
    if modes.state.dual_level < 0:
        return None

    tangent = handed.tangent_of(t)
    return None if tangent is None else f"tangent={tangent}"


def _join(text: str, suffixes: list[str], indent: int, linewidth: int) -> str:
    """The suffixes after the numbers, each on a new line when the line would get too long."""
    column = len(text) - text.rfind("\n") + 1  # leaves room for a bracket and a comma
    pieces = [text]
    for suffix in suffixes:
        if column + len(suffix) + 2 > linewidth:
            pieces.append(",\n" + " " * indent + suffix)
            column = indent + len(suffix)
        else:
            pieces.append(", " + suffix)
            column += len(suffix) + 2
    return "".join(pieces) + ")"


def _sparse_repr(t: Any) -> str:
    """The text of a sparse tensor: its indices, its values, then what else tells it."""
    pattern, prefix = t._array.pattern, _prefix(t)
    names = {"indices": pattern.indices}
    if pattern.layout is not COO:
        plain, compressed = ("col", "crow") if pattern.layout in BY_ROWS else ("row", "ccol")
        names = {f"{compressed}_indices": pattern.compressed, f"{plain}_indices": pattern.plain}
    names["values"] = t._array.values
    lines, text = [], prefix
    for name, array in names.items():
        inner = f"{name}=tensor("
        margin = " " * (len(prefix) + len(inner))
        own = array_text(array, len(margin)) if array.size else f"[], size={tuple(array.shape)}"
        lines.append(f"{inner}{own})")
    text += (",\n" + " " * len(prefix)).join(lines)
    suffixes = [f"size={tuple(t.shape)}", f"nnz={pattern.count}", None]
    if t.device.type != "cpu":
        suffixes.insert(0, f"device='{t.device}'")
    if t.dtype is not dtypes.get_default_dtype():
        suffixes[-1] = _dtype_suffix(t, has_numbers=pattern.count > 0)
    suffixes += [f"layout={pattern.layout}", _grad_suffix(t), _tangent_suffix(t)]
    shown = [suffix for suffix in suffixes if suffix is not None]
    if pattern.layout is COO:
        text += ",\n" + " " * len(prefix) + shown.pop(0)
    return _join(text, shown, len(prefix), _options.linewidth)


def tensor_repr(t: Any, *, tensor_contents: str | None = None) -> str:
    """The text that `repr(t)` and `print(t)` show.

    Args:
        t: Tensor of any shape, dtype and device.
        tensor_contents: shown in place of the numbers.

    Returns:
        For example "tensor([1., 2.], grad_fn=<MulBackward0>)".

    Example:
        >>> gradlib.tensor([[1.0, 2.0], [3.0, 4.0]])
        tensor([[1., 2.],
                [3., 4.]])
    """
    if is_sparse(t):
        return _sparse_repr(t)
    options = _options
    prefix = _prefix(t)
    indent = len(prefix)
    suffixes: list[str | None] = []
    device, shape = t.device, tuple(t.shape)
    if device.type != "cpu":
        suffixes.append(f"device='{device}'")
    hidden = device.type == "meta"
    empty = not hidden and 0 in shape
    if tensor_contents is not None:
        text = tensor_contents
    elif hidden:
        text = "..."
    elif empty:
        text = "[]"
    else:
        array = raw_values(t)
        hidden = options.edgeitems == 0  # then a big tensor shows its size and no numbers
        nothing = hidden and array.ndim > 0 and array.size > options.threshold
        text = "[...]" if nothing else array_text(array, indent, options)
    if hidden or (empty and len(shape) != 1):
        suffixes.append(f"size={shape}")
    suffixes.append(_dtype_suffix(t, has_numbers=not (empty or device.type == "meta")))
    suffixes.append(_grad_suffix(t))
    suffixes.append(_tangent_suffix(t))
    shown = [suffix for suffix in suffixes if suffix is not None]
    return _join(prefix + text, shown, indent, options.linewidth)
