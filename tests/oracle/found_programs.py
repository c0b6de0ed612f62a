"""Runs a short program on a library and says all that it shows: values, layouts, graphs, versions, exceptions."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent / "found"


def programs(folder: Path = FOLDER) -> dict[str, str]:
    """Title -> program, of all the files in a folder: each program follows a line ``### title``."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.txt")):
        for block in path.read_text().split("### ")[1:]:
            title, program = block.split("\n", 1)
            key = f"{path.stem}: {title}"
            assert key not in found, f"two programs are called {key!r}"
            found[key] = program
    return found


def names_for(library: str) -> dict[str, Any]:
    """What a program finds: the library as `torch`, its usual modules, and helpers with seeded numbers."""
    lib: Any = importlib.import_module(library)
    func = importlib.import_module(library + ".func")

    def tensor(seed, *shape, dt="float64", rg=False):
        numbers = np.random.default_rng(seed).standard_normal(shape)
        if dt.startswith("complex"):
            numbers = numbers + 1j * np.random.default_rng(seed + 1000).standard_normal(shape)
        if dt.startswith(("int", "uint")):
            numbers = np.abs(numbers * 3)
        made = lib.tensor(numbers).to(getattr(lib, dt))
        return made.requires_grad_() if rg else made

    def fill(module):
        with lib.no_grad():
            for k, p in enumerate(module.parameters()):
                p.copy_(tensor(k + 50, *p.shape))
        return module

    logged: list = []
    return {
        "torch": lib,
        "np": np,
        "copy": copy,
        "pickle": pickle,
        "nn": lib.nn,
        "F": lib.nn.functional,
        "fwAD": importlib.import_module(library + ".autograd.forward_ad"),
        "func": func,
        **{n: getattr(func, n) for n in "vmap grad jvp vjp jacfwd jacrev hessian".split()},
        "functional_call": func.functional_call,
        "LIB": library,
        "D": tensor,
        "fill": fill,
        "log": lambda *values: logged.append([describe(v) for v in values]),
        "__logged": logged,
        "__name__": "program",
    }


def describe(value: Any) -> Any:
    """A value of either library as plain data that can be compared."""
    if hasattr(type(value), "grad_fn") and hasattr(type(value), "numpy"):
        return tensor_facts(value)
    if isinstance(value, dict):
        return {str(k): describe(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [describe(v) for v in value]
    if isinstance(value, BaseException):
        return failure(value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return (type(value).__name__, value)
    if isinstance(value, (np.ndarray, np.generic)):
        return (str(value.dtype), np.asarray(value).tolist())
    if type(value).__name__ in ("dtype", "device", "Size", "memory_format", "layout"):
        return str(value).replace("gradlib", "torch")
    return type(value).__name__


def tensor_facts(tensor: Any, with_grad: bool = True) -> dict:
    """What of a tensor must agree. Strides and versions are compared where a program logs them."""
    facts: dict[str, Any] = {
        "dtype": str(tensor.dtype).rpartition(".")[2],
        "shape": tuple(tensor.shape),
    }
    for name, get in (
        ("requires_grad", lambda: tensor.requires_grad),
        ("leaf", lambda: tensor.is_leaf),
        ("value", lambda: numbers(tensor)),
    ):
        try:
            facts[name] = get()
        except Exception as exc:
            facts[name] = failure(exc)
    if with_grad and facts["leaf"] is True:
        grad = tensor.grad
        facts["grad"] = None if grad is None else tensor_facts(grad, with_grad=False)
    return facts


def numbers(tensor: Any) -> np.ndarray:
    if getattr(tensor, "_is_zerotensor", bool)():  # PyTorch's zeros without memory
        return np.zeros(tuple(tensor.shape))
    plain = tensor.detach().resolve_conj().resolve_neg()
    if str(plain.dtype).endswith(("bfloat16", "float16")):
        plain = plain.float()
    return plain.numpy().copy()


def failure(exc: BaseException) -> str:
    kind = type(exc).__name__
    return f"raises {kind}"


def run(program: str, library: str) -> dict:
    """What the program leaves: its variables, what it logged, and how it ended."""
    names = names_for(library)
    given = set(names)
    outcome: dict[str, Any] = {"ended": "well"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(program, "<program>", "exec"), names)
        except Exception as exc:
            outcome["ended"] = failure(exc)
            outcome["line"] = _line(exc)
            outcome["text"] = str(exc)  # for readers: it is not compared
        outcome["logged"] = names["__logged"]
        for name, value in names.items():
            if name not in given and not name.startswith("__") and not callable(value):
                outcome[f"variable {name}"] = describe(value)
    return outcome


def _line(exc: BaseException) -> int:
    """The line of the program at which it failed."""
    found, trace = 0, exc.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<program>" and not found:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


def differences(ours: Any, theirs: Any, where: str = "", rough: bool = False) -> list[str]:
    """Every place in which two outcomes differ, as ``where: PyTorch's vs ours``; `rough`: to single precision."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = [
            d
            for k in ours
            if k in theirs
            for d in differences(ours[k], theirs[k], f"{where} {k}", rough)
        ]
        only = [sorted(a.keys() - b.keys()) for a, b in ((theirs, ours), (ours, theirs))]
        return (
            [*found, f"{where} has: {only[0]} vs {only[1]}".strip()] if only != [[], []] else found
        )
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = zip(ours, theirs, strict=True)
        return [
            d for k, (a, b) in enumerate(pairs) for d in differences(a, b, f"{where}[{k}]", rough)
        ]
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        same = ours.shape == theirs.shape and _close(ours, theirs, rough)
    elif (
        isinstance(ours, tuple)
        and isinstance(theirs, tuple)
        and ours[:1] == theirs[:1] == ("float",)
    ):
        same = _close(np.asarray(ours[1]), np.asarray(theirs[1]), rough)
    elif isinstance(ours, (list, np.ndarray)) or isinstance(theirs, (list, np.ndarray)):
        same = False
    else:
        same = ours == theirs
    return [] if same else [f"{where.strip()}: {theirs} vs {ours}"]


def _close(ours: np.ndarray, theirs: np.ndarray, rough: bool = False) -> bool:
    if ours.dtype.kind not in "fc":
        return bool(np.array_equal(ours, theirs))
    coarse = rough or ours.dtype in (np.float32, np.complex64)
    return np.allclose(
        ours,
        theirs,
        rtol=1e-3 if rough else 1e-4 if coarse else 1e-8,
        atol=5e-5 if rough else 1e-5 if coarse else 1e-10,
        equal_nan=True,
    )


def compare(program: str) -> list[str]:
    """The differences between what a program does on gradlib and on PyTorch; texts of errors are not compared."""
    ours, theirs = run(program, "gradlib"), run(program, "torch")
    ours.pop("text", ""), theirs.pop("text", "")
    if ours["ended"] != theirs["ended"]:
        return [f"ended: {theirs['ended']} vs {ours['ended']}"]
    return differences(ours, theirs)
