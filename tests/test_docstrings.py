"""Everything public is explained, and the examples in the explanations give what they say."""

from __future__ import annotations

import builtins
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import types
from collections import Counter

import numpy
import pytest

import gradlib
from gradlib import nn

# Names with an explanation of one line, by namespace: enough for a fact ("The number of elements."), too little for
# most functions. None of these numbers goes up; whoever makes one smaller writes it here.
ONE_LINE = {
    "gradlib": 45,
    "gradlib.Tensor": 38,
    "gradlib.autograd": 2,
    "gradlib.cuda": 8,
    "gradlib.distributed": 84,  # facts of groups, meshes, sharded tensors
    "gradlib.dtype": 3,
    "gradlib.nn": 9,
    "gradlib.optim": 22,
    "gradlib.profiler": 2,
    "gradlib.utils": 2,
}


# modules that cannot be imported here, for want of the package that they need
WITHOUT = tuple(
    module
    for module, needed in {"gradlib.utils.tensorboard": "tensorboard"}.items()
    if importlib.util.find_spec(needed) is None
)


def modules() -> list[str]:
    """The public modules of gradlib."""
    found = ["gradlib"]
    for module in pkgutil.walk_packages(gradlib.__path__, "gradlib."):
        parts = module.name.split(".")[1:]
        if not any(p.startswith("_") for p in parts) and parts[0] not in (
            "tape",
            "op",
            "operators",
            "devices",
            "backends",
            "ops",
        ):
            found.append(module.name)
    return [n for n in found if not n.startswith(WITHOUT)]


def ours(value) -> bool:
    return (getattr(value, "__module__", "") or "").startswith("gradlib")


def explained_above(cls: type, key: str) -> bool:
    """Whether a base of `cls` says more than a line of its method `key`: an override then says only what differs."""
    overridden = (vars(base).get(key) for base in cls.__mro__[1:])
    return any("\n" in (inspect.getdoc(m) or "").strip() for m in overridden if callable(m))


def members(name: str, cls: type):
    """The public methods and properties of a class; those of private bases, too."""
    for key in dir(cls):
        value = inspect.getattr_static(cls, key)
        if not key.startswith("_") and (callable(getattr(cls, key)) or isinstance(value, property)):
            raw = getattr(value, "__func__", value)
            getter = raw.fget if isinstance(raw, property) else raw
            if ours(getter) or cls is gradlib.Tensor:
                yield f"{name}.{key}", raw, inspect.getdoc(getattr(cls, key))


OVERRIDES: set[str] = set()  # public methods that a base explains


def public() -> dict[str, str | None]:
    """name -> docstring of all that is public, each object under one of its names."""
    found, seen = {}, set()
    for module_name in modules():
        module = importlib.import_module(module_name)
        for key in sorted(getattr(module, "__all__", None) or dir(module)):
            value = getattr(module, key, None)
            if key.startswith("_") or isinstance(value, types.ModuleType) or not callable(value):
                continue
            if (
                not ours(value)
                or value.__module__.startswith("gradlib.op.vmap")
                or id(value) in seen
            ):
                continue
            seen.add(id(value))
            found[f"{module_name}.{key}"] = inspect.getdoc(value)
            if isinstance(value, type):
                for name, member, text in members(f"{module_name}.{key}", value):
                    if id(member) not in seen:
                        seen.add(id(member))
                        found[name] = text
                        if explained_above(value, name.rpartition(".")[2]):
                            OVERRIDES.add(name)
    return found


PUBLIC = public()
# Examples that need a recording of another program, or an optional package. It only gets shorter.
NOT_RUN = {f"autograd.profiler.{name}" for name in ("emit_itt", "load_nsys", "load_nvprof")}
EXAMPLES = sorted(
    {
        text: name
        for name, text in PUBLIC.items()
        if text and ">>>" in text and name.removeprefix("gradlib.") not in NOT_RUN
    }.items()
)


def namespace(name: str) -> str:
    """gradlib.nn.Linear.forward -> gradlib.nn; names of gradlib itself, and of Tensor, stand for themselves."""
    parts = name.split(".")
    if parts[1] == "Tensor":
        return "gradlib.Tensor"
    return "gradlib" if parts[1][0].isupper() or len(parts) < 3 else ".".join(parts[:2])


def test_nothing_public_lacks_a_docstring():
    assert [name for name, text in PUBLIC.items() if not (text or "").strip()] == []


def test_one_line_is_the_exception():
    short = Counter(
        namespace(name)
        for name, text in PUBLIC.items()
        if "\n" not in (text or "").strip() and name not in OVERRIDES
    )
    more = {n: count for n, count in short.items() if count > ONE_LINE.get(n, 0)}
    assert more == {}, "write shapes, errors and an example"


def beside(name: str) -> dict:
    """What is in the module that has `name`; of gradlib itself only that name, as others are those of builtins."""
    module = name.rpartition(".")[0]
    while module not in sys.modules:
        module = module.rpartition(".")[0]
    if module != "gradlib":
        return vars(sys.modules[module])
    key = name.split(".")[1]
    return {} if hasattr(builtins, key) else {key: getattr(gradlib, key)}


class Config:
    """A class of a program."""


def usual() -> dict:
    """What examples take for granted: the library's names, a model and data for it."""
    return {
        "gradlib": gradlib, "nn": nn, "F": nn.functional, "numpy": numpy, "Config": Config,
        "model": nn.Linear(3, 2), "loss_fn": nn.functional.mse_loss, "train_on": lambda *batch: None,
        "x": gradlib.ones(4, 3, requires_grad=True), "y": gradlib.zeros(4, 2), "target": gradlib.zeros(4, 2),
        "batch": gradlib.ones(4, 3), "images": gradlib.ones(4, 3), "texts": list("abcd"),
        "f": lambda x: x @ x.T, "loss": gradlib.ones(1, requires_grad=True).sum(),
    }  # fmt: skip


# examples that name the CPU, or show what is so there alone
OF_THE_CPU = set(
    "utils.dlpack.to_dlpack nn.parallel.replicate nn.DataParallel Generator Generator.clone_state Generator.get_state "
    "get_rng_state cuda.amp.custom_fwd cuda.capturing.capture cuda.tensors.FloatTensor library.Library explain "
    "utils.checkpoint.get_device_states Tensor.apply_ Tensor.map_ Tensor.map2_ Tensor.type Tensor.is_shared from_numpy "
    "get_device typename nn.attention.flex_attention.BlockMask.shown UntypedStorage.is_shared".split()
)
ON_DEVICES = [
    pytest.param(
        *e,
        id=e[1],
        marks=[pytest.mark.host] if e[1].removeprefix("gradlib.") in OF_THE_CPU else [],
    )
    for e in EXAMPLES
]


class Anywhere(doctest.OutputChecker):
    """What is printed on a device, as it is printed on the CPU."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Whether the texts are the same but for the device, and where a line ends because of it."""
        if super().check_output(want, got, optionflags):
            return True
        got = re.sub(r",\s*device='cuda:\d'|device='cuda:\d',\s*", "", got)
        got = re.sub(r"cuda:\d", "cpu", got)
        return "".join(want.replace("<BLANKLINE>", "").split()) == "".join(got.split())


@pytest.mark.parametrize(("text", "name"), ON_DEVICES)
@pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning"
)
def test_example(text, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    gradlib.set_printoptions(profile="default")  # an example changes them
    names = {**usual(), **beside(name)}
    gradlib.save(names["model"].state_dict(), "model.pt")
    gradlib.save(names["model"].state_dict(), "checkpoint.pt")
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    report: list[str] = []
    checker = Anywhere() if gradlib.get_default_device().type != "cpu" else None
    runner = doctest.DocTestRunner(checker, verbose=False, optionflags=doctest.ELLIPSIS)
    result = runner.run(test, out=report.append)
    assert result.failed == 0, "".join(report)
