"""Draws a program line by line, and runs each line on PyTorch at once: so it knows what the next one can use.

A kind of line is a function of the `Maker` under `@line(weight)`; it returns the text, or None where nothing fits. The
kinds are in `fuzz_lines` (tensors) and `fuzz_scenes` (autograd, transforms, modules).
"""

from __future__ import annotations

import random
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import torch
from found_programs import names_for

Kind = Callable[["Maker"], "str | None"]
# function, weight, whether it may stand in a function; the first begins every program
KINDS: list[tuple[Kind, float, bool]] = []

MODES = """torch.no_grad()
torch.no_grad()
torch.inference_mode()
torch.enable_grad()
torch.set_grad_enabled(False)
torch.autograd.set_grad_enabled(True)
torch.inference_mode(False)
torch.autograd.detect_anomaly(check_nan=False)
torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)
torch.autograd.graph.saved_tensors_hooks(lambda t: (t, 1), lambda t: t[0])
torch.autograd.graph.save_on_cpu()
torch.autograd.graph.disable_saved_tensors_hooks('no')
torch.autograd.graph.allow_mutation_on_saved_tensors()
torch.autocast('cpu', dtype=torch.bfloat16)
fwAD.dual_level()""".split("\n")

# Lines that give greater numbers, or smaller ones that are not 0, are dropped: rounding would decide what follows.
GREATEST, LEAST = 1e4, 1e-9
ELEMENTS = 400
SIZES = (*(1, 2, 2, 3, 3, 4) * 5, 0)


def line(weight: float, inside: bool = True) -> Callable[[Kind], Kind]:
    """Register a kind of line; `inside`: it may stand in the body of a function that is transformed."""

    def register(kind: Kind) -> Kind:
        KINDS.append((kind, weight, inside))
        return kind

    return register


class Maker:
    """A program in the making: its lines, and the names as they are after these."""

    def __init__(self, seed: int = 0, outer: Maker | None = None):
        self.r = outer.r if outer else random.Random(seed)
        self.depth = outer.depth + 1 if outer else 0
        self.counter = outer.counter if outer else [0]
        self.lines: list[tuple[str, str]] = []  # header of the mode around it, text
        self.functions = [] if outer is None else list(outer.functions)
        self.failed = False
        self.names: dict[str, Any] = {}
        self.start: dict[str, Any] = {}
        if outer is None:
            self._restart()

    # -- chance -----------------------------------------------------------------------------------------------

    def chance(self, p: float) -> bool:
        return self.r.random() < p

    def one(self, *options: Any) -> Any:
        return self.r.choice(options)

    def words(self, text: str) -> str:
        return self.r.choice(text.split())

    def seed(self) -> int:
        return self.r.randint(1, 9)

    def shape(self, low: int = 0, high: int = 3) -> tuple[int, ...]:
        return tuple(self.r.choice(SIZES) for _ in range(self.r.randint(low, high)))

    def number(self) -> Any:
        return self.r.choice([2, 0.5, -1.5, 3, -1, 1, 0, 0.25, 2.0])

    # -- names ------------------------------------------------------------------------------------------------

    def fresh(self, letter: str = "x") -> str:
        self.counter[0] += 1
        return f"{letter}{self.counter[0]}"

    def value(self, name: str) -> torch.Tensor:
        return self.names[name]

    def tensors(self, test: Callable[[torch.Tensor], Any] | None = None) -> list[str]:
        """The variables that are tensors, oldest first."""
        return [
            n
            for n, v in self.names.items()
            if isinstance(v, torch.Tensor) and not n.startswith("_") and (not test or test(v))
        ]

    def pick(self, test: Callable[[torch.Tensor], Any] | None = None) -> str | None:
        """One of them, rather a new one."""
        found = self.tensors(test)
        if not found:
            return None
        return found[max(self.r.randrange(len(found)), self.r.randrange(len(found)))]

    def operand(self, shape: tuple, dtype: torch.dtype = torch.float64, exact: bool = False) -> str:
        """Text of something that broadcasts to `shape` (or has just that shape)."""
        if not exact and self.chance(0.25):
            return str(self.number())
        known = self.tensors(lambda t: t.is_floating_point() or t.is_complex() or self.chance(0.1))
        fits = [n for n in known if _broadcasts(self.value(n).shape, shape, exact)]
        if fits and self.chance(0.7):
            return self.r.choice(fits)
        if not exact and known and self.chance(0.3):
            return f"{self.r.choice(known)}.sum()"
        if exact:
            wanted = shape
        else:
            wanted = tuple(
                1 if self.chance(0.2) else n for n in shape[self.r.randint(0, len(shape)) :]
            )
        return self.fresh_tensor(wanted, dtype)

    def fresh_tensor(
        self, shape: tuple, dtype: torch.dtype = torch.float64, rg: float = 0.15
    ) -> str:
        """Text of a tensor with seeded numbers."""
        kind = str(dtype).removeprefix("torch.")
        parts = [str(self.seed()), *map(str, shape)]
        if kind != "float64":
            parts.append(f"dt='{kind}'")
        if (dtype.is_floating_point or dtype.is_complex) and self.chance(rg) and not self.depth:
            parts.append("rg=True")
        return f"D({', '.join(parts)})"

    # -- lines ------------------------------------------------------------------------------------------------

    def draw(self, count: int, tries: int = 60) -> None:
        """Draw `count` more lines."""
        kinds = [k for k in KINDS if self.depth == 0 or k[2]]
        weights = [k[1] for k in kinds]
        header = ""
        goal = len(self.lines) + count
        while len(self.lines) < goal and tries and not self.failed:
            tries -= 1
            if header and self.chance(0.5):
                header = ""
            elif not header and self.chance(0.08):
                header = f"with {self.r.choice(MODES)}:"
            kind = self.r.choices(kinds, weights)[0][0] if self.lines or self.depth else KINDS[0][0]
            text = kind(self)
            if text:
                self.add(text, header)

    def add(self, text: str, header: str = "") -> bool:
        """Run a line; keep it if it goes well, or (rarely) as the end of the program if it does not."""
        try:
            self._run(header, text)
            ok = self._bounded()
            error = None
        except Exception as exc:
            ok, error = False, exc
        if error is not None and self.depth == 0:
            roll = self.r.random()
            if roll < 0.06:
                self.failed = True
                self.lines.append((header, text))
                return True
            if roll < 0.14 and not isinstance(error, (NameError, SyntaxError)):
                text = f"try:\n{textwrap.indent(text, '    ')}\nexcept Exception as e:\n    log(type(e).__name__)"
                ok = self._bounded(error)
        if ok:
            self.lines.append((header, text))
            return True
        self._restart()
        return False

    def body(self) -> str:
        """The lines so far, those of one mode in one block."""
        blocks: list[tuple[str, list[str]]] = []
        for header, text in self.lines:
            if header and blocks and blocks[-1][0] == header:
                blocks[-1][1].append(text)
            else:
                blocks.append((header, [text]))
        return "\n".join(
            f"{h}\n{textwrap.indent(chr(10).join(ls), '    ')}" if h else "\n".join(ls)
            for h, ls in blocks
        )

    def inner(self, arguments: dict[str, torch.Tensor], count: int) -> Maker:
        """A maker for the body of a function of `arguments` (samples); it may use the outer tensors, too."""
        made = Maker(outer=self)
        made.start = dict(self.names)
        if self.chance(0.6):
            for name in self.tensors():
                del made.start[name]
        made.start.update(arguments)
        made._restart()
        made.draw(count, tries=4 * count)
        return made

    def _run(self, header: str, text: str) -> None:
        if header:
            text = f"{header}\n{textwrap.indent(text, '    ')}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, "<line>", "exec"), self.names)

    def _restart(self) -> None:
        """Run again what is kept: a line that was dropped may have changed something."""
        if self.depth == 0:
            self.names = names_for("torch")
            self.given = set(self.names)
        else:
            self.names = {
                k: _copied(v) if isinstance(v, torch.Tensor) else v for k, v in self.start.items()
            }
        for k, (header, text) in enumerate(self.lines):
            try:
                self._run(header, text)
            except Exception:  # it went well only after a line that is gone
                del self.lines[k:]
                break
        if self.depth == 0:
            for name in self.given:
                if isinstance(self.names.get(name), torch.Tensor):
                    self.given.discard(name)

    def _bounded(self, error: Exception | None = None) -> bool:
        """Whether all numbers are finite and of moderate size, and all tensors small; `error`: and usable."""
        if error is not None:
            try:
                return self._bounded()
            except RuntimeError:
                return False
        for value in list(self.names.values()):
            if isinstance(value, torch.Tensor):
                for t in (value, value.grad if value.is_leaf else None):
                    if t is not None and not _moderate(t):
                        return False
                if value.is_inference() and value.requires_grad:
                    return False  # PyTorch records nothing for it
                if value.requires_grad and not (value.is_floating_point() or value.is_complex()):
                    return (
                        False  # a fault of PyTorch: what is written into integers has no derivative
                    )
        return True


def _copied(t: torch.Tensor) -> torch.Tensor:
    """A copy that does not require grad, so that a body can be tried on it."""
    with torch.inference_mode(False), torch.no_grad():
        return t.detach().clone()


def _moderate(t: torch.Tensor) -> bool:
    if t.numel() > ELEMENTS:
        return False
    if not (t.is_floating_point() or t.is_complex()) or not t.numel():
        return True
    with torch.no_grad():
        sizes = t.detach().abs()
    if ((sizes > 0) & (sizes < LEAST)).any():
        return False
    return bool(sizes.max() < (50 if t.dtype.itemsize == 2 else GREATEST))


def place_of(t: torch.Tensor) -> int:
    """Where the memory of `t` begins; a number of its own for what a transform left without memory."""
    try:
        return t.untyped_storage().data_ptr()
    except RuntimeError:
        return id(t)


def overlaps(t: torch.Tensor) -> bool:
    """Whether several elements share a place in memory: what is written to them is undefined, or refused."""
    places = {0}
    for n, step in zip(t.shape, t.stride(), strict=True):
        places = {p + k * step for p in places for k in range(n)}
    return len(places) < t.numel()


def has_ties(t: torch.Tensor) -> bool:
    """Whether elements are equal: any of them may be the first of them in an order."""
    return not t.is_complex() and t.unique().numel() < t.numel()


def _broadcasts(shape: Any, to: tuple, exact: bool) -> bool:
    if exact or len(shape) > len(to):
        return tuple(shape) == tuple(to)
    return all(a in (b, 1) for a, b in zip(reversed(shape), reversed(to), strict=False))
