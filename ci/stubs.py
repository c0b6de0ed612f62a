"""Write the type stubs of what declarations make at run time, so that editors complete it and type checkers know it.

    python ci/stubs.py            # write gradlib/__init__.pyi, gradlib/tape/declared.pyi and the others of FILES
    python ci/stubs.py --check    # exit 1 if they are not up to date

Functions and methods are read from the running library: their parameters from the functions themselves, types from the
names and defaults of parameters, results from the tables below.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import gradlib
from gradlib import return_types
from gradlib.op.declare import REGISTRY
from gradlib.op.expose import PUBLIC
from gradlib.op.write import build
from gradlib.tape.dtypes import dtype
from gradlib.tape.tensor import Tensor

PACKAGE = Path(gradlib.__file__).parent

# -- types -------------------------------------------------------------------------------------------------------

TENSORS = """
    input self mask index source src tensor tensor1 tensor2 mat mat1 mat2 vec vec1 vec2 batch1 batch2 weight x1 x2
    input1 input2 boundaries sorted_sequence target elements_of
""".split()
NUMBERS_TOO = "other exponent value end values".split()  # tensors or numbers
INTEGERS = "dim0 dim1 dim2 diagonal offset chunks groups start_dim end_dim row col steps".split()
PARAMETERS = {
    **dict.fromkeys(TENSORS, "Tensor"),
    **dict.fromkeys(NUMBERS_TOO, "Tensor | _b.complex"),
    **dict.fromkeys(INTEGERS, "_b.int"),
    "dtype": "_dtype | None",
    "device": "_device | _b.str | _b.int | None",
    "generator": "Generator | None",
    "tensors": "Sequence[Tensor]",
    "requires_grad": "_b.bool",
    "memory_format": "_memory_format | None",
    "layout": "_layout | None",
    "rounding_mode": "_b.str | None",
    "callable": "Callable[..., Any]",
}

# functions that take numbers in the place of their first tensors
MIXED = (
    "where pow float_power bucketize searchsorted result_type xlogy remainder floor_divide".split()
)

# a parameter that means something else in these functions
EXCEPTIONS = {("movedim", "source"): "Any", ("moveaxis", "source"): "Any"}

PIECES = "tuple[Tensor, ...]"
THREE = "tuple[Tensor, Tensor, Tensor]"
RETURNS = {
    **dict.fromkeys(
        "split chunk unbind tensor_split hsplit vsplit dsplit split_with_sizes unsafe_split unsafe_chunk "
        "unsafe_split_with_sizes split_copy split_with_sizes_copy unbind_copy broadcast_tensors meshgrid gradient "
        "unravel_index".split(),
        PIECES,
    ),
    **dict.fromkeys("var_mean std_mean".split(), "tuple[Tensor, Tensor]"),
    **dict.fromkeys("svd_lowrank pca_lowrank".split(), THREE),
    **dict.fromkeys(
        "unique unique_consecutive atleast_1d atleast_2d atleast_3d nonzero lu type native_batch_norm native_dropout "
        "native_group_norm native_layer_norm resize resize_as to_sparse to_sparse_csr to_sparse_coo sparse_mask "
        "sparse_coo_tensor sparse_csr_tensor sparse_compressed_tensor".split(),
        "Any",
    ),
    "broadcast_shapes": "Size",
    "multi_head_attention_forward": "tuple[Tensor, Tensor | None]",
    "__iter__": "Iterator[Tensor]",
    "__contains__": "_b.bool",
    "__setitem__": "None",
    "set_default_tensor_type": "None",
    "const_data_ptr": "_b.int",
}
EITHER = "max min median nanmedian".split()  # a value, or with a dimension values and indices
NAMED = sorted(set(vars(return_types)) & set(PUBLIC) - set(EITHER))


def _result(name: str, fn: Callable) -> str:
    given = getattr(fn, "__annotations__", {}).get("return")
    if name in NAMED:
        return f"_{name}"
    if name in RETURNS:
        return RETURNS[name]
    if "max_pool" in name:
        return "Any"  # with positions or without
    if given is None:
        return "Tensor"
    kind = str(given).rpartition(".")[2]
    return (
        f"_b.{kind}"
        if kind in ("bool", "int", "str", "float")
        else {"dtype": "_dtype"}.get(kind, kind)
    )


def _parameter(p: inspect.Parameter, owner: str) -> str:
    """One parameter of the function `owner` with its type and default."""
    if p.kind is p.VAR_POSITIONAL:
        return f"*{p.name}: {'Tensor' if p.name == 'tensors' else 'Any'}"
    if p.kind is p.VAR_KEYWORD:
        return f"**{p.name}: Any"
    kind = EXCEPTIONS.get((owner, p.name)) or PARAMETERS.get(p.name, "Any")
    if owner in MIXED and kind == "Tensor":
        kind = "Tensor | _b.complex"
    if isinstance(p.default, bool):
        kind = "_b.bool"
    if p.default is p.empty:
        return f"{p.name}: {kind}"
    if p.default is None and "None" not in kind and kind != "Any":
        kind += " | None"
    plain = p.default is None or isinstance(p.default, (bool, int, float, str))
    return f"{p.name}: {kind} = {repr(p.default) if plain else '...'}"


def _signature(fn: Callable) -> list[inspect.Parameter]:
    op = _CALLS.get(id(fn))
    if op is not None:
        build(op)  # the code that knows the arguments
    return list(inspect.signature(fn).parameters.values())


_CALLS = {id(op.call): op for op in REGISTRY.values()}


def _parameters(name: str, fn: Callable, owner: dict[str, Any], method: bool) -> str:
    """The parameter list of a function, or of a method (whose first parameter is `self`)."""
    params = _signature(fn)
    base = owner.get(name[:-1]) if name.endswith("_") else None
    if base is not None and params[-1].kind is inspect.Parameter.VAR_KEYWORD:
        params = [p for p in _signature(base) if p.name not in ("out", "dtype")]
    if method:
        params = params[1:]
    parts, star = ["self"] if method else [], False
    for p in params:
        star |= p.kind is p.VAR_POSITIONAL
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if not p.name.startswith("_"):
            parts.append(_parameter(p, name))
    return ", ".join(parts)


def _doc(fn: Callable) -> str:
    """The first line of a docstring."""
    text = (inspect.getdoc(fn) or "").partition("\n")[0].strip()
    return text.replace("\\", "\\\\").replace('"""', "'''")


def _function(name: str, fn: Callable, owner: dict[str, Any], method: bool) -> Iterator[str]:
    pad = "    " if method else ""
    first = "self" if method else "input: Tensor"
    if name in EITHER:
        for extra, kind in (
            ("", "Tensor"),
            (", dim: _b.int, keepdim: _b.bool = False", f"_{name}"),
        ):
            yield f"{pad}@overload"
            yield f"{pad}def {name}({first}{extra}, *, out: Any = None) -> {kind}: ..."
        if name in ("max", "min"):
            yield f"{pad}@overload"
            yield f"{pad}def {name}({first}, other: Tensor, *, out: Any = None) -> Tensor: ..."
        return
    if name.startswith("__") and name not in ("__setitem__", "__array_wrap__"):  # operators
        plain = name in ("__neg__", "__pos__", "__abs__", "__invert__", "__iter__", "__reversed__")
        yield f"    def {name}(self{'' if plain else ', other: Any'}, /) -> {_result(name, fn)}: ..."
        return
    yield f"{pad}def {name}({_parameters(name, fn, owner, method)}) -> {_result(name, fn)}:"
    doc = _doc(fn)
    yield f'{pad}    """{doc}"""' if doc else f"{pad}    ..."


# -- files -------------------------------------------------------------------------------------------------------

HEAD = '''"""{doc} Written by ci/stubs.py: do not edit."""

import builtins as _b
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from {up}tape.device import device as _device
from {up}tape.dtypes import dtype as _dtype
from {up}tape.generator import Generator as Generator
from {up}tape.layout import layout as _layout
from {up}tape.layout import memory_format as _memory_format
from {up}tape.sizes import Size as Size
from {up}tape.tensor import Tensor as Tensor
'''


def _named() -> Iterator[str]:
    """The named results, as classes."""
    for name in sorted({*NAMED, *EITHER}):
        yield f"class _{name}(NamedTuple):"
        for field in getattr(return_types, name)._fields:
            yield f"    {field}: {PIECES if (name, field) == ('histogramdd', 'bin_edges') else 'Tensor'}"
        yield ""


def _made_by_declarations() -> dict[str, Any]:
    """What was put on Tensor from outside of its class body."""
    found = {}
    for name, value in sorted(vars(Tensor).items()):
        made = value.fget if isinstance(value, property) else value
        if callable(made) and not getattr(made, "__qualname__", "Tensor.").startswith("Tensor."):
            found[name] = value
    return found


def methods() -> str:
    """The text of gradlib/tape/declared.pyi."""
    members = _made_by_declarations()
    lines = [HEAD.format(doc="Methods of Tensor that declarations make.", up="..")]
    lines += [*_named(), "class Declared:"]
    for name, value in members.items():
        if isinstance(value, property):
            doc = _doc(value.fget) if value.fget else ""
            if value.fset is not None:
                lines.append(f"    {name}: Tensor")
            else:
                lines += [
                    "    @property",
                    f"    def {name}(self) -> Tensor:",
                    f'        """{doc}"""',
                ]
        else:
            lines += _function(name, value, members, True)
    return "\n".join(lines) + "\n"


def package() -> str:
    """The text of gradlib/__init__.pyi."""
    lines = [HEAD.format(doc="What ``import gradlib`` gives.", up=".")]
    lines.append("from .operators.public import *")
    lines += _submodules(gradlib)
    for name in (*[n for n in dir(gradlib) if not n.startswith("_")], "__version__"):
        value = getattr(gradlib, name)
        if not isinstance(value, ModuleType) and name not in ("Generator", "Size", "Tensor"):
            lines.extend(() if _is_function(name, value) else _name(name, value))
    return "\n".join([*lines, "", "def __getattr__(name: _b.str) -> Any: ..."]) + "\n"


def _is_function(name: str, value: Any) -> bool:
    return name in PUBLIC and not isinstance(value, type)


def functions() -> str:
    """The text of gradlib/operators/public.pyi."""
    lines = [HEAD.format(doc="The public functions of all operations.", up="..")]
    lines.append(
        f"from ..tape.declared import {', '.join('_' + n for n in sorted({*NAMED, *EITHER}))}"
    )
    for name, value in sorted(PUBLIC.items()):
        if not name.startswith("_") and _is_function(name, value):
            lines += _function(name, value, PUBLIC, False)
    return "\n".join(lines) + "\n"


def _name(name: str, value: Any) -> Iterator[str]:
    """The line that gives any other public name."""
    module = getattr(value, "__module__", None) or ""
    if isinstance(value, dtype):
        yield f"{name}: _dtype"
    elif name in PUBLIC:
        yield f"{name}: type[Tensor]"
    elif isinstance(value, (float, str)):
        kind = type(value)
        yield f"{name}: _b.{kind.__name__}" if kind in (float, str) else f"{name}: _{kind.__name__}"
    elif value is None:
        yield f"{name}: None"
    elif module.startswith("gradlib."):
        source = getattr(sys.modules[module], "__dict__", {})
        own = next(
            (
                k
                for k in (name, value.__name__ if hasattr(value, "__name__") else "")
                if source.get(k) is value
            ),
            None,
        )
        if own is not None:
            yield f"from .{module.removeprefix('gradlib.')} import {own} as {name}"
        else:
            yield f"{name}: Any"


def module(name: str) -> str:
    """The text of the stub of a module whose names come from elsewhere, or are made at run time."""
    source = importlib.import_module(f"gradlib.{name}")
    up = "." * (name.count(".") + 1 + hasattr(source, "__path__"))
    lines, functions = [HEAD.format(doc=f"What gradlib.{name} gives.", up=up)], []
    lines += _submodules(source)
    for key in dir(source):
        value = getattr(source, key)
        if key.startswith("_") or key in ("Any", "Tensor", "annotations", "TYPE_CHECKING"):
            continue
        if isinstance(value, ModuleType):
            continue
        if callable(value) and (found := _home(key, value)):
            home, own = found
            lines.append(f"from {up}{home} import {own} as {key}" if home != name else "")
            if home == name:
                functions += _function(key, value, {}, False)
        elif callable(value) and not isinstance(value, type):
            functions += _function(key, value, {}, False)
    return (
        "\n".join(
            [*filter(None, lines), "", *functions, "def __getattr__(name: _b.str) -> Any: ..."]
        )
        + "\n"
    )


def _submodules(source: ModuleType) -> list[str]:
    """The lines for the public modules of a package, imported already or not."""
    found = pkgutil.iter_modules(getattr(source, "__path__", []))
    return [f"from . import {m.name} as {m.name}" for m in found if not m.name.startswith("_")]


def _home(name: str, value: Any) -> tuple[str, str] | None:
    """(module, name) that a class or function can be imported from, if it is no method of an op."""
    place = getattr(value, "__module__", None) or ""
    if (
        not place.startswith("gradlib.")
        or place.startswith("gradlib.operators")
        or place == "gradlib.generated"
    ):
        return None
    names = vars(sys.modules[place]) if place in sys.modules else {}
    own = next((k for k in (name, getattr(value, "__name__", "")) if names.get(k) is value), None)
    return (place.removeprefix("gradlib."), own) if own else None


FILES: dict[Path, Callable[[], str]] = {
    PACKAGE / "__init__.pyi": package,
    PACKAGE / "tape" / "declared.pyi": methods,
    PACKAGE / "operators" / "public.pyi": functions,
    PACKAGE / "nn" / "__init__.pyi": partial(module, "nn"),
    PACKAGE / "nn" / "functional.pyi": partial(module, "nn.functional"),
    PACKAGE / "special.pyi": partial(module, "special"),
    PACKAGE / "cuda" / "__init__.pyi": partial(module, "cuda"),
}


def stale() -> list[Path]:
    """The stubs that are not what would be written now."""
    return [p for p, text in FILES.items() if not p.exists() or p.read_text() != text()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a stub is out of date"
    )
    old = stale()
    if parser.parse_args().check:
        for path in old:
            print(f"{path} is out of date: run python ci/stubs.py")
        return bool(old)
    for path in old:
        path.write_text(FILES[path]())
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
