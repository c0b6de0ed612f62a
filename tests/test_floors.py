"""The floors of the package: a file imports from its own floor or from below, at its top, and there is no circle.

What a lower file needs of a higher one it is handed (`tape/handed.py`).
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from gradlib.tape import handed

ROOT = Path(__file__).parent.parent

FLOORS = (
    "tape return_types version _refused _tries _unsupported",
    "op",
    "operators",
    "devices",
    "profiler serialization storage",
    "autograd func ops overrides backends",
    "_capture nn optim amp utils cuda linalg fft sparse special signal random testing quasirandom accelerator compiler"
    " safetensors collect_env _C _VF _checks _composites _dtypes _foreach _no_device _utils distributed cpu futures hub"
    " mps mtia multiprocessing types xpu __config__ distributions",
    "gradlib",  # what `import gradlib` gives
    # gradlib as `torch`
    "compat _absent_names _placeholders _torch_version fx jit _jit_internal export onnx library _library _dynamo"
    " _inductor",
    "__main__",
)
FLOOR = {name: i for i, names in enumerate(FLOORS) for name in names.split()}

# Functions and classes that lower files are handed; fewer are better.
HANDED = 40
# Imports of gradlib inside functions, with the reason of each.
INSIDE_FUNCTIONS = {
    "gradlib.devices -> gradlib.devices.cuda.namespace": "needs CuPy: imported when a CUDA device is first asked for",
    "gradlib.devices -> gradlib.devices.meta.namespace": "few need the meta device: imported when it is asked for",
    "gradlib.devices.numpy.chains -> gradlib.devices.numpy.programs": "needs numba: imported when a step is fused",
    "gradlib.autograd.graph -> gradlib.autograd._offload": "for CUDA tensors alone, and brings CuPy's namespace",
}


class Import(NamedTuple):
    """One statement: the module it is in, the module it imports, and whether that is inside a function."""

    importer: str
    imported: str
    inside: bool


@cache
def modules() -> dict[str, Path]:
    """The modules of the package by name."""
    files = (ROOT / "gradlib").rglob("*.py")
    return {
        ".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f
        for f in files
    }


def part(module: str) -> str:
    """What lies on a floor: the first folder, or file, below gradlib."""
    return [*module.split("."), "gradlib"][1]


def imported_by(module: str, node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules of the package that a statement imports."""
    if isinstance(node, ast.Import):
        wanted = [(alias.name, alias.name) for alias in node.names]
    else:
        package = module.split(".")
        if modules()[module].name != "__init__.py":
            package.pop()
        start = package[: len(package) - node.level + 1] if node.level else []
        base = ".".join([*start, *([node.module] if node.module else [])])
        wanted = [(f"{base}.{alias.name}", base) for alias in node.names]
    for name, otherwise in wanted:
        found = name if name in modules() else otherwise
        if found in modules() and found != module:
            yield found


def is_for_types(node: ast.AST) -> bool:
    """Whether this is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def walk(module: str, node: ast.AST, inside: bool) -> Iterator[Import]:
    """The imports below a node of a module's tree."""
    for child in ast.iter_child_nodes(node):
        if is_for_types(child):
            continue
        if isinstance(child, ast.Import | ast.ImportFrom):
            for found in imported_by(module, child):
                yield Import(module, found, inside)
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from walk(module, child, inside or function)


@cache
def imports() -> tuple[Import, ...]:
    """All imports of the package within itself."""
    trees = {name: ast.parse(file.read_text()) for name, file in modules().items()}
    return tuple(found for name, tree in trees.items() for found in walk(name, tree, False))


def inside_functions() -> set[str]:
    return {f"{i.importer} -> {i.imported}" for i in imports() if i.inside}


def circles() -> list[list[str]]:
    """Files that import each other, directly or not."""
    targets: dict[str, list[str]] = {m: [] for m in modules()}
    for i in imports():
        targets[i.importer].append(i.imported)
    order: dict[str, int] = {}  # Tarjan's algorithm
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        stack.append(module)
        for target in targets[module]:
            if target not in order:
                visit(target)
            if target in stack:
                lowest[module] = min(lowest[module], lowest[target])
        if lowest[module] == order[module]:
            at = stack.index(module)
            found.append(sorted(stack[at:]))
            del stack[at:]

    for module in targets:
        if module not in order:
            visit(module)
    return [c for c in found if len(c) > 1]


def test_every_part_has_a_floor():
    assert {part(module) for module in modules()} == set(FLOOR)


def test_no_import_goes_up():
    assert not [i for i in imports() if FLOOR[part(i.imported)] > FLOOR[part(i.importer)]]


def test_no_circles():
    assert circles() == []


def test_imports_within_the_package_are_relative():
    found = [
        name
        for name, file in modules().items()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        and not node.level
        and (node.module or "").split(".")[0] == "gradlib"
    ]
    assert found == []


def test_imports_are_at_the_top_of_files():
    assert inside_functions() == set(INSIDE_FUNCTIONS)


def handed_names() -> list[str]:
    """What `tape/handed.py` says that lower files are handed."""
    tree = ast.parse(Path(handed.__file__).read_text())
    [types] = [node for node in ast.walk(tree) if is_for_types(node)]
    return [
        a.asname or a.name
        for n in ast.walk(types)
        if isinstance(n, ast.ImportFrom)
        for a in n.names
    ]


def test_what_is_handed_over_is_used_and_there():
    """One list of all that goes against the current, and no name in it without need."""
    names = handed_names()
    later = {name for name in names if name not in vars(handed)}
    # the last two with gradlib.amp, which sets its flag, and gradlib.nn
    assert later <= {*handed._LATER, "in_float32", "compile_module"}
    texts = [file.read_text() for file in modules().values()]
    unused = [n for n in names if not any(re.search(rf"handed\.{n}\b", text) for text in texts)]
    assert not unused
    assert len(names) <= HANDED


# what brings much, or what others bring
PUBLIC = """
    amp autograd.profiler backends.cuda cuda.capturing cuda.graphs cuda.random distributions fft func linalg nn
    nn.functional nn.utils.stateless ops optim profiler random safetensors serialization special storage testing
    utils.checkpoint utils.data
""".split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="one process each would take a minute")
def test_every_public_module_can_be_imported_first():
    """A package imports its parts when it is entered: that can close a circle of which no file knows."""
    code = f"""
import os, sys, numpy, ml_dtypes
for name in {PUBLIC}:
    pid = os.fork()
    if pid == 0:
        try:
            __import__("gradlib." + name)
        except BaseException as exc:
            print(name, repr(exc), flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
"""
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert out.stdout == ""
