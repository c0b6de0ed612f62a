"""How many kernels some layers launch on CUDA, and the bytes of the arrays that those are given.

    python -m tests.cupy_on_cpu.kernel_counts [--list] [ROW ...]

runs on CuPy itself with kernels launched but not run. An array counts once for each kernel that it is given to, however
often that reads it, and so do the operands and results of products by cuBLAS. Sorting by Thrust is not counted. --list
names the kernels. ROW: only those rows.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable

from . import machine


class Counter:
    """Lists what is launched while a function runs.

    drops: nothing is run. products: what calls cuBLAS, of whose calls the runtime knows only that there were some.
    """

    def __init__(self, runtime, drops=False, products=None):
        self.runtime, self.mode = runtime, 2 if drops else 1
        runtime.cuda_on_cpu_listed.restype = ctypes.c_char_p
        self.products = [] if products is None else products.sizes

    def __call__(self, action: Callable[[], object]) -> tuple[object, list[tuple[str, int]]]:
        """What `action` returns, and (kernel, bytes) of its launches."""
        self.products.clear()
        self.runtime.cuda_on_cpu_list(self.mode)
        result = action()
        self.runtime.cuda_on_cpu_list(0)
        lines = [
            line.rsplit(" ", 1) for line in self.runtime.cuda_on_cpu_listed().decode().splitlines()
        ]
        found = [(name, int(size)) for name, size in lines]
        products = iter(self.products)
        return result, [
            ("cuBLAS", next(products, 0)) if n == "library" else (n, k) for n, k in found
        ]


class Products:
    """cuBLAS, which remembers the bytes of the operands and of the result of each product."""

    def __init__(self, library):
        self.library = library
        self.sizes: list[int] = []

    def __getattr__(self, name):
        function = getattr(self.library, name)
        if not name.startswith("cublasGemm"):
            return function

        def counted(*args):
            m, n, k = args[3:6]
            if "Batched" in name:
                (first, _, a), (second, _, b), (made, _, c), batch = (
                    args[8:11],
                    args[12:15],
                    args[17:20],
                    args[20],
                )
            else:
                (first, second, made), (a, b, c), batch = (
                    (args[8], args[11], args[15]),
                    (0, 0, 0),
                    1,
                )
            shapes = (m * k, first, a), (k * n, second, b), (m * n, made, c)
            self.sizes.append(sum(count * SIZES[t] * (batch if s else 1) for count, t, s in shapes))
            return function(*args)

        return counted


SIZES = {2: 2, 14: 2, 0: 4, 1: 8, 4: 8, 5: 16}
"""Bytes of an element by cudaDataType."""


def rows(gl) -> dict[str, Callable]:
    """name -> a function that makes (arguments that want gradients, what to run on them)."""
    functional, half = gl.nn.functional, gl.bfloat16

    def x(*shape, dtype=half):
        return gl.empty(*shape, dtype=dtype, device="cuda").requires_grad_()

    def batch_norm(dtype):
        def make():
            layer, a = gl.nn.BatchNorm2d(256).cuda(), x(32, 256, 28, 28, dtype=dtype)
            running = layer.running_mean, layer.running_var
            given = layer.weight, layer.bias
            return (a, *given), lambda: functional.batch_norm(a, *running, *given, training=True)

        return make

    def rows_norm(function, *shape):
        def make():
            a, w, b = x(8192, 1024), x(1024, dtype=gl.float32), x(1024, dtype=gl.float32)
            if function == "layer_norm":
                return (a, w, b), lambda: functional.layer_norm(a, (1024,), w, b)
            if function == "rms_norm":
                return (a, w), lambda: functional.rms_norm(a, (1024,), w, 1e-5)
            a = x(*shape)
            w, b = (x(shape[1], dtype=gl.float32) for _ in range(2))
            return (a, w, b), lambda: functional.group_norm(a, 32, w, b)

        return make

    def convolution(images, inputs, outputs, side, bias, dtype=half):
        def make():
            a, w = x(images, inputs, side, side, dtype=dtype), x(outputs, inputs, 1, 1, dtype=dtype)
            b = x(outputs, dtype=dtype) if bias else None
            wanted = (a, w) if b is None else (a, w, b)
            return wanted, lambda: functional.conv2d(a, w, b)

        return make

    def elementwise(function, *dtypes):
        def make():
            given = [x(1 << 22, dtype=d) for d in dtypes]
            return given, lambda: function(*given)

        return make

    def embedding(vocabulary, words, width):
        def make():
            table = x(vocabulary, width)
            index = gl.zeros(words, dtype=gl.int64, device="cuda")
            return (table,), lambda: functional.embedding(index, table)

        return make

    return {
        "batch_norm, bfloat16, float32 weights": batch_norm(half),
        "batch_norm, float32": batch_norm(gl.float32),
        "layer_norm, bfloat16, float32 weights": rows_norm("layer_norm"),
        "rms_norm, bfloat16, float32 weights": rows_norm("rms_norm"),
        "group_norm, bfloat16, float32 weights": rows_norm("group_norm", 32, 256, 28, 28),
        "1x1 convolution 64 -> 256, 56 x 56": convolution(8, 64, 256, 56, False),
        "1x1 convolution 64 -> 256, 56 x 56, bias": convolution(8, 64, 256, 56, True),
        "1x1 convolution 512 -> 2048, 7 x 7": convolution(8, 512, 2048, 7, False),
        "1x1 convolution 64 -> 256, 56 x 56, float32": convolution(
            4, 64, 256, 56, False, gl.float32
        ),
        "tanh": elementwise(gl.tanh, half),
        "mul": elementwise(gl.mul, half, half),
        "bfloat16 + float32": elementwise(gl.add, half, gl.float32),
        "to float32": elementwise(lambda a: a.float(), half),
        "to bfloat16": elementwise(lambda a: a.to(half), gl.float32),
        "gelu": elementwise(functional.gelu, half),
        "embedding 50000 x 768, 8192 words": embedding(50000, 8192, 768),
        "embedding 4096 x 768, 8192 words": embedding(4096, 8192, 768),
    }


def measured(gl, count: Counter, make: Callable) -> tuple[list, list]:
    """(kernel, bytes) of what a row launches forward and backward, when everything is compiled."""

    def compile_all():
        wanted, run = make()
        out = run()
        g = gl.empty_like(out)
        gl.autograd.grad(out, wanted, g)
        return wanted, run, g

    (wanted, run, g), _ = count(compile_all)
    out, forward = count(run)
    return forward, count(lambda: gl.autograd.grad(out, wanted, g))[1]


def table(names: list[str], listed: bool) -> None:
    runtime = machine.install()
    cupy, gl = importlib.import_module("cupy"), importlib.import_module("gradlib")
    cupy.cuda.set_allocator(None)  # each array an allocation of its own, so that its size is known
    gemm = importlib.import_module("gradlib.tape.arrays").backend_for("cuda").gemm
    gemm.lib = Products(gemm.lib)
    count = Counter(runtime, True, gemm.lib)
    print(f"{'':45}{'forward':>20}{'backward':>20}")
    print(f"{'':45}{'kernels':>8}{'MB':>12}{'kernels':>8}{'MB':>12}")
    for name, make in rows(gl).items():
        if names and not any(n in name for n in names):
            continue
        ways = dict(zip(("forward", "backward"), measured(gl, count, make), strict=True))
        cells = [f"{len(w):8}{sum(n for _, n in w) / 1e6:12.1f}" for w in ways.values()]
        print(f"{name:45}{''.join(cells)}", flush=True)
        for way, launched in ways.items() if listed else ():
            for kernel, size in launched:
                print(f"    {way:10}{size / 1e6:10.1f}  {kernel}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    table([a for a in arguments if a != "--list"], "--list" in arguments)
