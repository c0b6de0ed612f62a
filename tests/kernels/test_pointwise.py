"""Generated elementwise kernels against the formulas that they were made from."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from nvrtc import compile_for
from overlay_checks import check_forward, check_vjp, close, numpy, run_vjp, tensor, values
from samples import samples_of

import gradlib as gl
from gradlib.devices.cuda.fused import pointwise
from gradlib.devices.cuda.fused.generate import preamble, trace
from gradlib.devices.cuda.fused.pointwise import F4, ForwardOverlay, VjpOverlay, collapse
from gradlib.devices.cuda.kernels import HALVES, OPTIONS, instance
from gradlib.op import formulas
from gradlib.op.declare import REGISTRY
from gradlib.op.overlays import on

overlays = on("cuda")

SLOPPY = {
    "lgamma": 50,
    "erfinv": 50,
    "special_ndtri": 50,
    "acosh": 20,
    "atanh": 20,
    "asin": 20,
    "acos": 20,
}


class Recorder:
    """A launcher that only remembers which modules are asked for."""

    def __init__(self):
        self.modules = {}

    def launch(self, module, kernel, grid, block, args, shared=0):
        self.modules[module.name] = module


def uneven_pairs(dtype):
    """Pairs of tensors that are broadcast, strided, or both."""

    def t(*shape, seed=0):
        return tensor(values(shape, seed, 0.5, 2), dtype.name)

    return [(t(3, 4), t(4, seed=1)), (t(3, 1), t(4, seed=1)), (t(2, 1, 5), t(3, 1, seed=1)), (t(), t(2, 3, seed=1)),
            (t(2, 3), t(1, 1, seed=1)), (t(4, 3).t(), t(3, 4, seed=1)), (t(4, 6)[:, ::2], t(4, 3, seed=1)),
            (t(2, 3, 4, 5).permute(0, 2, 3, 1), t(2, 4, 5, 3, seed=1)), (t(3, 1).expand(3, 4), t(3, 4, seed=1)),
            (t(4).flip(0), t(3, 4, seed=1))]  # fmt: skip


def cases(kind, dtype=gl.float64):
    """(op, arguments) for every op that has a generated kernel of a kind."""
    uneven = ("prelu_kernel",) if kind == "forward" else ("mul", "div")
    found = [(REGISTRY[name], pair) for name in uneven for pair in uneven_pairs(dtype)]
    for op in REGISTRY.values():
        overlay = pointwise.overlay(kind, op)
        if overlay is None or (overlays.forwards if kind == "forward" else overlays.vjps).get(
            op.name
        ):
            continue
        for args in samples_of(op, dtype=dtype):
            needs = tuple(
                isinstance(a, gl.Tensor) and a.requires_grad for a in args[: len(op.tensors)]
            )
            if kind == "forward" or any(needs):
                found.append((op, args))
    return found


def traced_cases(device, kind, dtype=gl.float64):
    """Those of `cases` that the overlay does not refuse, and the modules that they use."""
    recorder = SimpleNamespace(
        launcher=Recorder(), empty=device.empty, empty_like=device.empty_like, name="recorder"
    )
    kept = []
    for op, args in cases(kind, dtype):
        if kind == "forward":
            n = len(op.tensors)
            arrays = [a._array if isinstance(a, gl.Tensor) else a for a in args[:n]]
            if any(a is not None and not hasattr(a, "dtype") for a in arrays):
                continue
            out = overlays.forward_of(op)(
                recorder, *device.put(arrays), **dict(zip(op.attrs, args[n:]))
            )
        else:
            result = op.call(*args)
            out = run_vjp(
                Shim(device, recorder),
                overlays.vjp_of(op),
                result.grad_fn,
                np.ones(result.shape),
                result.dtype,
            )
        if out is not NotImplemented:
            kept.append((op, args))
    return kept, recorder.launcher.modules


class Shim:
    """The device's memory with the recorder's launcher."""

    def __init__(self, device, recorder):
        self.put, self.launcher, self.name = device.put, recorder.launcher, "recorder"
        self.empty, self.empty_like = device.empty, device.empty_like


@pytest.fixture(scope="module")
def everything(host_session):
    """(forward cases, vjp cases), with all their kernels compiled as one translation unit."""
    forward, modules = traced_cases(host_session, "forward")
    vjp, more = traced_cases(host_session, "vjp")
    modules = [*modules.values(), *more.values()]
    kernels = tuple(instance(m.name, pointwise.F8) for m in modules)
    host_session.launcher.compile_together(kernels, preamble() + "".join(m.own for m in modules))
    return forward, vjp


def test_forward_kernels(device, everything):
    # rows: DEV-26
    for op, args in everything[0]:
        check_forward(device, op.name, args, factor=SLOPPY.get(op.name, 4))
    assert len({op.name for op, _ in everything[0]}) >= 28


def test_vjp_kernels(device, everything):
    # rows: DEV-26
    for op, args in everything[1]:
        check_vjp(device, op.name, args, factor=SLOPPY.get(op.name, 8))
    assert len({op.name for op, _ in everything[1]}) >= 60


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e300, -1e300, 1e-300, 40.0, -40.0, 0.5]
)


CANCELS = {"special_erfcx": 3e-16}
"""What may be left where two terms of about 1 cancel in a gradient (2 x erfcx(x) - 2 / sqrt(pi) at 1e300): on a GPU the
product is fused with the difference and so is not rounded, and what remains is the rounding error of the other term."""


def special_cases(found):
    """(op, tensors of special values, attributes), one for each op of one or two arguments."""
    grids = {1: [SPECIAL], 2: [a.reshape(-1) for a in np.meshgrid(SPECIAL, SPECIAL)]}
    by_name = {op.name: (op, args) for op, args in found if len(op.tensors) in grids}
    for op, args in by_name.values():
        n = len(op.tensors)
        if all(isinstance(a, gl.Tensor) for a in args[:n]):
            pairs = zip(grids[n], args)
            yield (
                op,
                [gl.from_numpy(a.copy()).requires_grad_(t.requires_grad) for a, t in pairs],
                args[n:],
            )


def test_special_values(device, everything):
    # rows: DEV-26
    for op, tensors, attrs in special_cases(everything[0]):
        given, named = [t._array for t in tensors], dict(zip(op.attrs, attrs))
        with np.errstate(all="ignore"):
            expected = op.forward(gl.tape.arrays.backend_for("cpu"), *given, **named)
            found = overlays.forward_of(op)(device, *device.put(given), **named)
        np.testing.assert_allclose(numpy(found), expected, rtol=1e-9, err_msg=op.name)


def test_gradients_at_special_values(device, everything):
    # rows: DEV-26
    for op, tensors, attrs in special_cases(everything[1]):
        with np.errstate(all="ignore"):
            out = op.call(*tensors, *attrs)
            g = np.ones(out.shape)
            expected = formulas.gradients(out.grad_fn, (g,), False)
            found = run_vjp(device, overlays.vjp_of(op), out.grad_fn, g, gl.float64)
        for a, b in zip(found, expected, strict=True):
            if b is not None:
                atol = CANCELS.get(op.name, 1e-300)
                np.testing.assert_allclose(numpy(a), b, rtol=1e-8, atol=atol, err_msg=op.name)


@pytest.mark.parametrize(
    ("architecture", "dtype", "element"), [("sm_80", gl.float64, pointwise.F8), ("sm_90", gl.float32, HALVES[1])]
)  # fmt: skip
def test_they_compile_for_gpus(device, architecture, dtype, element):
    # rows: DEV-26
    modules = {}
    for kind in ("forward", "vjp"):
        modules |= traced_cases(device, kind, dtype)[1]
    kernels = tuple(instance(name, element) for name in modules)
    compile_for(
        architecture, preamble() + "".join(m.own for m in modules.values()), kernels, OPTIONS
    )


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["gelu", "sigmoid"])
def test_dtypes(device, name, kind):
    # rows: DEV-26
    attrs = ("none",) if name == "gelu" else ()
    for shape in ((), (1,), (31,), (33, 40), (1025,), (0, 3)):
        x = tensor(values(shape, low=-6, high=6), kind)
        check_forward(device, name, (x, *attrs), kind, factor=2)
        check_vjp(device, name, (x, *attrs), kind, factor=2)


def test_arrays_that_are_not_aligned(device):
    # rows: DEV-26
    whole = tensor(values((70,), low=-6, high=6), "float32")
    silu = overlays.forward_of(REGISTRY["silu"])
    for start, stop in ((0, 70), (1, 70), (4, 8), (3, 5), (2, 69)):
        x = device.put(whole._array)[start:stop]
        close(
            silu(device, x),
            REGISTRY["silu"].forward(gl.tape.arrays.backend_for("cpu"), whole._array[start:stop]),
            "float32",
        )


def test_the_layout_of_the_arguments_is_kept(device):
    # rows: DEV-26
    x = tensor(values((2, 4, 5, 3))).permute(0, 3, 1, 2)
    out = check_forward(device, "silu", (x,))
    assert out.strides == x._array.strides
    (grad,) = check_vjp(device, "sigmoid", (x,))
    assert grad.shape == x.shape


def test_only_what_is_needed(device):
    # rows: DEV-26
    a, b = tensor(values((3, 4), 0, 0.5, 2)), tensor(values((3, 4), 1, 0.5, 2))
    check_vjp(device, "div", (a, b), needs=(False, True))
    check_vjp(device, "div", (a.detach(), b))
    check_vjp(device, "div", (2.5, b))  # a number among the arguments
    kernels = [k for k in device.launcher.launched if k.startswith("div_vjp")]
    assert len(kernels) == 3


def test_one_operation_is_for_arrays_that_lie_side_by_side(device):
    # rows: DEV-26
    a, b = tensor(values((3, 4))), tensor(values((3, 4), 1), grad=False)
    check_vjp(device, "mul", (a, b))
    out = gl.mul(a, b)
    columns = np.ones((4, 3)).T
    vjp = overlays.vjp_of(REGISTRY["mul"])
    assert run_vjp(device, vjp, out.grad_fn, columns, gl.float64) is NotImplemented
    check_forward(device, "exp", (a,))
    check_forward(device, "exp", (a.t(),), runs=False)
    check_forward(device, "add", (a, b[0]), runs=False)
    check_forward(
        device, "relu", (a,), runs=False
    )  # its formula is more than a function of the library
    # what gives an argument back, and what no kernel of floating numbers computes
    check_vjp(device, "exp", (a,))
    out = gl.add(a, b)
    assert (
        run_vjp(device, overlays.vjp_of(REGISTRY["add"]), out.grad_fn, np.ones((3, 4)), gl.float64)
        is NotImplemented
    )
    assert (
        overlays.forward_of(REGISTRY["eq"]) is None and overlays.forward_of(REGISTRY["cat"]) is None
    )


def test_dtypes_that_kernels_do_not_take(device):
    # rows: DEV-26
    x = device.put(np.arange(4))
    assert overlays.forward_of(REGISTRY["sigmoid"])(device, x) is NotImplemented
    z = device.put(np.ones(3, np.complex64))
    assert overlays.forward_of(REGISTRY["rsqrt"])(device, z) is NotImplemented
    a, b = device.put(np.ones(3, np.float32)), device.put(np.ones(3))
    assert overlays.forward_of(REGISTRY["prelu_kernel"])(device, a, b) is NotImplemented


def test_an_attribute_that_always_changes_does_not_compile_for_ever(device):
    # rows: DEV-26
    overlay = ForwardOverlay(REGISTRY["leaky_relu"]).function
    recorder = SimpleNamespace(
        launcher=Recorder(), empty=device.empty, empty_like=device.empty_like
    )
    x = device.put(np.ones(3))
    answers = [overlay(recorder, x, negative_slope=0.01 * i) for i in range(pointwise.VARIANTS + 5)]
    assert [a is NotImplemented for a in answers] == [False] * pointwise.VARIANTS + [True] * 5
    assert overlay(recorder, x, negative_slope=0.01) is not NotImplemented


def test_traces_share_work_and_give_up_in_time():
    # rows: DEV-26
    shared = trace(F4, ("x",), lambda F, s: [F.exp(s["x"]) + F.exp(s["x"]), F.exp(s["x"]) * 2.0])
    assert shared is not None and shared.cost == 3

    def branch(F, s):
        return [s["x"] if s["x"] > 0 else -s["x"]]

    for bad in (branch, lambda F, s: [F.sum(s["x"])], lambda F, s: [F.reshape(s["x"], s["x"].shape)],
                lambda F, s: [s["x"] + "a"]):  # fmt: skip
        assert trace(F4, ("x",), bad) is None

    def in_place(F, s):
        x = s["x"]
        y = x.copy()
        y += 1
        F.backend.exp(y, out=y)
        return [y * x]

    traced = trace(F4, ("x",), in_place)
    assert traced is not None
    assert "exp(t0)" in traced.body() and "t1 * in_x" in traced.body()


def test_dimensions_are_joined():
    # rows: DEV-26
    assert collapse((2, 3, 4), [(96, 32, 8)]) == ([24], [[8]])
    assert collapse((2, 3, 4), [(96, 32, 8), (0, 32, 8)]) == ([2, 12], [[96, 8], [0, 8]])
    assert collapse((2, 1, 4), [(32, 0, 8), (0, 0, 8)]) == ([2, 4], [[32, 8], [0, 8]])
    assert collapse((1, 1), [(8, 8)]) == ([], [[]])


def test_names_that_a_vjp_overlay_wants():
    # rows: DEV-26
    from gradlib.op.declare import parameters

    assert parameters(VjpOverlay(REGISTRY["div"]).function) == ("F", "g", "needs", "other", "self")


@pytest.mark.parametrize("shape", [(3, 5), ()])
@pytest.mark.parametrize("number", [2.5, np.float32(2.5), np.float64(2.5)])
def test_numbers_are_passed_by_value(device, shape, number):
    # rows: DEV-26
    # a number in place of a tensor is kept as it was given; CuPy would pass the bits of a NumPy number as an address
    x = tensor(values(shape, low=0.5, high=1.5), "float32")
    out = REGISTRY["xlogy"].call(x, number)
    found = run_vjp(
        device, overlays.vjp_of(REGISTRY["xlogy"]), out.grad_fn, np.ones(shape), out.dtype
    )
    np.testing.assert_allclose(numpy(found[0]), np.full(shape, np.log(2.5)), rtol=1e-6)
