"""What the docstrings of elementwise ops say is what these ops do."""

from __future__ import annotations

import inspect
import re

import pytest

import gradlib as gl
from gradlib import special
from gradlib.op.declare import REGISTRY
from gradlib.op.expose import PUBLIC

KINDS = {"bool": gl.bool, "integer": gl.int32, "floating": gl.float64, "complex": gl.complex64}


def _elementwise() -> dict:
    """name -> function and op, of all that is made by `pointwise`, under one of its names."""
    found = {}
    for name, fn in PUBLIC.items():
        op = getattr(fn, "__globals__", {}).get("op")
        if getattr(op, "call", None) is fn:
            found.setdefault(id(fn), (name, fn, op))
    for name in special.__all__:
        if "special_" + name in REGISTRY and not name.endswith("softmax"):
            found[name] = ("special." + name, getattr(special, name), REGISTRY["special_" + name])
    return {name: (fn, op) for name, fn, op in found.values() if op.elementwise}


OPS = _elementwise()


def _arguments(op, dtype) -> list:
    return [gl.ones(2, 1).to(dtype), gl.ones(3).to(dtype)][: len(op.tensors)]


def _takes(op, text: str):
    """A dtype that the op takes."""
    refused = " ".join(re.findall(r"Error: an argument is ([a-z, ]*)\.", text))
    return next(
        d for kind, d in reversed(KINDS.items()) if kind not in refused and kind != "complex"
    )


@pytest.mark.parametrize("name", OPS)
def test_sections(name):
    text = inspect.getdoc(OPS[name][0]) or ""
    found = re.findall(r"^(\w+):$", text, re.MULTILINE)
    assert found == ["Args", "Returns", "Raises", "Example"]
    first = text.split("\n")[0]
    assert first.removesuffix(" of each element.").strip("`") not in ("", OPS[name][1].name, name)


@pytest.mark.parametrize("name", OPS)
def test_refused_dtypes_are_those_that_it_names(name):
    fn, op = OPS[name]
    named = re.findall(r"^    (\w+Error): an argument is ([a-z, ]*)\.$", fn.__doc__, re.MULTILINE)
    refused = {
        kind: error
        for error, kinds in named
        for kind in re.split(", | or ", kinds)
        if kind in KINDS
    }
    raised = {}
    for kind, dtype in KINDS.items():
        try:
            fn(*_arguments(op, dtype))
        except (RuntimeError, NotImplementedError) as e:
            raised[kind] = type(e).__name__
    assert raised == refused


@pytest.mark.parametrize("name", OPS)
def test_the_result_has_the_shape_and_dtype_that_it_names(name):
    fn, op = OPS[name]
    (dtype,) = re.findall("Its dtype: (.*)\\.$", fn.__doc__, re.MULTILINE)
    several = len(op.tensors) > 1
    for kind, given in KINDS.items():
        try:
            result = fn(*_arguments(op, given))
        except (RuntimeError, NotImplementedError):
            continue
        assert result.shape == ((2, 3) if several else (2, 1))
        expected = given
        if dtype == "bool" or (kind == "bool" and dtype.endswith("for bool int64")):
            expected = gl.bool if dtype == "bool" else gl.int64
        elif (
            kind in ("bool", "integer") and dtype.endswith("for integers and bool the default one")
        ) or (kind == "complex" and dtype.endswith("of a complex one that of its parts")):
            expected = gl.float32
        assert result.dtype is expected, kind
    if several and dtype != "bool":
        assert "common" in dtype


@pytest.mark.parametrize("name", [n for n in OPS if len(OPS[n][1].tensors) == 2])
def test_arguments_may_be_numbers_as_it_says(name):
    fn, op = OPS[name]
    text = fn.__doc__
    x = gl.ones(2).to(_takes(op, text))
    may = {
        "broadcast.": (False, False, False),
        "broadcast, or numbers.": (True, True, True),
        "broadcast; one of them may be a number.": (True, True, False),
        "broadcast; the second may be a number.": (False, True, False),
    }[re.findall("broadcast[,;.].*", text)[0]]
    for given, allowed in zip(((1, x), (x, 1), (1, 1)), may, strict=True):
        if allowed:
            fn(*given)
        else:
            with pytest.raises(TypeError):
                fn(*given)
    with pytest.raises(TypeError):
        fn(x, "1")
    with pytest.raises(RuntimeError):
        fn(gl.ones(2).to(x.dtype), gl.ones(3).to(x.dtype))


@pytest.mark.parametrize("name", [n for n in OPS if "    out: " in OPS[n][0].__doc__])
def test_out_is_as_it_says(name):
    fn, op = OPS[name]
    text = fn.__doc__
    given = [gl.ones(2).to(_takes(op, text))] * len(op.tensors)
    result = fn(*given)
    out = gl.zeros_like(result)
    assert fn(*given, out=out) is out
    assert out.equal(result)
    if "of the dtype of the result" in text or "of dtype bool" in text:
        wrong = gl.zeros(2, dtype=gl.float64 if result.dtype is not gl.float64 else gl.float32)
    elif result.dtype.is_floating_point:
        wrong = gl.zeros(2, dtype=gl.int64)
    else:
        return
    with pytest.raises(RuntimeError):
        fn(*given, out=wrong)
    if "then nothing may require grad" in text:
        with pytest.raises(RuntimeError):
            fn(*[t.clone().requires_grad_() for t in given], out=out)


@pytest.mark.parametrize("name", [n for n in OPS if hasattr(gl.Tensor, n + "_")])
def test_the_in_place_form_raises_what_it_says(name):
    write, (fn, op) = getattr(gl.Tensor, name + "_"), OPS[name]
    assert re.findall(r"^(\w+):$", inspect.getdoc(write) or "", re.MULTILINE) == [
        "Returns",
        "Raises",
    ]
    dtype = _takes(op, fn.__doc__)
    others = [gl.ones(2).to(dtype)] * (len(op.tensors) - 1)
    x = gl.ones(2).to(dtype)
    assert write(x, *others) is x
    if dtype.is_floating_point and op.differentiable:
        with pytest.raises(RuntimeError, match="leaf"):
            write(gl.ones(2, dtype=dtype, requires_grad=True), *others)
        with pytest.raises(RuntimeError, match="leaf"):
            write(gl.ones(2, 2, dtype=dtype, requires_grad=True)[0], *others)
    if others:
        with pytest.raises(RuntimeError):
            write(gl.ones(1).to(dtype), *others)
    if op.promote == "float":
        with pytest.raises(RuntimeError):
            write(gl.ones(2, dtype=gl.int64), *[gl.ones(2, dtype=gl.int64)] * len(others))
    with pytest.raises(RuntimeError):
        write(gl.ones(1).to(dtype).expand(2), *others)
