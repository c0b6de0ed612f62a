"""What gradlib and `cudnn.cpp` take for the numbers and arguments of cuDNN, against its headers and the library itself.

    python -m tests.cupy_on_cpu.cudnn_header FOLDER [--write]

FOLDER is that of a package nvidia-cudnn-cu12 or -cu13, `site-packages/nvidia/cudnn`: too large to be installed for
tests alone, so what its headers say is kept in cudnn.txt (--write), which tests/cuda/test_cudnn.py compares with
gradlib. The library needs no device for descriptors: they are set as gradlib sets them and read back.
"""

from __future__ import annotations

import argparse
import ctypes
import re
import sys
from pathlib import Path

from gradlib.devices.cuda import cudnn

TABLE = Path(__file__).with_name("cudnn.txt")
NAMES = {
    "CUDNN_DATA_FLOAT": cudnn.FLOAT, "CUDNN_DATA_DOUBLE": cudnn.DOUBLE, "CUDNN_DATA_HALF": cudnn.HALF,
    "CUDNN_DATA_BFLOAT16": cudnn.BFLOAT16, "CUDNN_TENSOR_NCHW": cudnn.NCHW, "CUDNN_TENSOR_NHWC": cudnn.NHWC,
    "CUDNN_CROSS_CORRELATION": cudnn.CROSS_CORRELATION, "CUDNN_DEFAULT_MATH": cudnn.DEFAULT_MATH,
    "CUDNN_TENSOR_OP_MATH": cudnn.TENSOR_OP_MATH, "CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION": cudnn.ALLOW_CONVERSION,
    "CUDNN_FMA_MATH": cudnn.FMA_MATH, "CUDNN_DETERMINISTIC": cudnn.DETERMINISTIC,
    "CUDNN_STATUS_BAD_PARAM": cudnn.BAD_PARAM, "CUDNN_STATUS_NOT_SUPPORTED": cudnn.NOT_SUPPORTED,
    "CUDNN_STATUS_INTERNAL_ERROR": cudnn.INTERNAL_ERROR,
}  # fmt: skip
KINDS = {ctypes.c_void_p: "pointer", ctypes.c_int: "int", ctypes.c_size_t: "size"}


def own_lines() -> list[str]:
    """What gradlib takes for true, in the form of the table."""
    lines = [f"{name} {value}" for name, value in NAMES.items()]
    for name, types in cudnn.signatures().items():
        lines.append(" ".join([name, *[KINDS[t] for t in types]]))
    for kind, operands in cudnn.OPERANDS.items():
        lines.append(f"cudnnConvolution{kind} of {' '.join(operands)}")
    fields = [(getattr(cudnn.Result, f[0]).offset, f[1]) for f in cudnn.Result._fields_]
    kinds = {ctypes.c_int: "int", ctypes.c_float: "float", ctypes.c_size_t: "size"}
    for kind in ("Fwd", "BwdData", "BwdFilter"):
        parts = [f"{kinds.get(t, 'ints')}@{at}" for at, t in fields]
        lines.append(" ".join([f"cudnnConvolution{kind}AlgoPerf_t", *parts]))
    return sorted(lines)


def kind_of(argument: str) -> str:
    """What an argument of a declaration is passed as."""
    argument = argument.strip()
    if re.search(r"[*\[]|Descriptor_t|cudnnHandle_t|cudaStream_t", argument):
        return "pointer"
    return "size" if "size_t" in argument else "int"


def header_lines(folder: Path) -> list[str]:
    """The same lines as the headers say them."""
    text = "\n".join((folder / f"cudnn_{part}.h").read_text() for part in ("graph", "ops", "cnn"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    lines = []
    for name in NAMES:
        [value] = set(re.findall(rf"\b{name}\s*=\s*(\d+)", text))
        lines.append(f"{name} {value}")
    for name in cudnn.signatures():
        [arguments] = set(re.findall(rf"\b{name}\s*\(([^;]*?)\)\s*;", text))
        given = [a for a in arguments.split(",") if a.strip() not in ("", "void")]
        lines.append(" ".join([name, *[kind_of(a) for a in given]]))
        if name.startswith("cudnnConvolution"):
            operands = re.findall(r"(?:Tensor|Filter)Descriptor_t\s+d?([xyw])Desc", arguments)
            lines.append(f"{name} of {' '.join(operands)}")
    for kind in ("Fwd", "BwdData", "BwdFilter"):
        name = f"cudnnConvolution{kind}AlgoPerf"
        [fields] = re.findall(rf"{name}Struct\s*{{(.*?)}}", text, flags=re.S)
        parts, at = [], 0
        for field in filter(None, map(str.strip, fields.split(";"))):
            size = {"size_t": 8}.get(field.split()[0], 4)
            kind_ = {"size_t": "size", "float": "float"}.get(field.split()[0], "int")
            at += -at % size
            parts.append(f"{'ints' if '[' in field else kind_}@{at}")
            at += size * int((re.findall(r"\[(\d+)\]", field) or [1])[0])
        lines.append(" ".join([f"{name}_t", *parts]))
    return sorted(lines)


def version_of(folder: Path) -> str:
    text = (folder / "cudnn_version.h").read_text()
    return ".".join(
        re.findall(rf"#define CUDNN_{part} (\d+)", text)[0]
        for part in ("MAJOR", "MINOR", "PATCHLEVEL")
    )


def kept_lines() -> list[str]:
    return [line for line in TABLE.read_text().splitlines() if not line.startswith("#")]


def check_descriptors(path: Path) -> int:
    """Set descriptors of all types and layouts in the library as plans do, and ask it for sizes; returns how many."""
    lib = cudnn._declared(ctypes.CDLL(str(path)))
    cases = [
        ((2, 6, 9, 8), (9, 2, 2, 3), (1, 2), (2, 0), (1, 3), 3),
        ((2, 3, 7), (5, 3, 3), (2,), (1,), (1,), 1),
        ((1, 2, 5, 4, 6), (3, 2, 2, 3, 1), (1, 2, 3), (0, 1, 2), (2, 1, 1), 1),
    ]  # fmt: skip
    done = 0
    for x, w, *how in cases:
        out = cudnn.out_sizes(x[2:], w[2:], *how[:3])
        given = cudnn.shapes(x, w, (x[0], w[0], *out), *how)
        assert given is not None
        for dtype in cudnn.TYPES:
            for last in (False, True):
                problem = cudnn.Problem(cudnn.FORWARD, given, dtype, last, False, False, 0)
                plan = cudnn.Plan.__new__(cudnn.Plan)
                plan._describe(lib, problem)
                sizes = (ctypes.c_int * len(given.x))()
                status = lib.cudnnGetConvolutionNdForwardOutputDim(
                    plan.how.value, plan.described["x"].value, plan.described["w"].value, len(sizes), sizes
                )  # fmt: skip
                assert status == 0 and tuple(sizes) == given.y, (status, tuple(sizes), given)
                for name, shape in (("x", given.x), ("y", given.y)):
                    kind, nd = ctypes.c_int(), ctypes.c_int()
                    dims, strides = ((ctypes.c_int * len(shape))() for _ in range(2))
                    get = lib.cudnnGetTensorNdDescriptor
                    where = map(ctypes.byref, (kind, nd))
                    assert get(plan.described[name].value, len(shape), *where, dims, strides) == 0
                    assert kind.value == cudnn.TYPES[dtype][0] and tuple(dims) == shape
                    assert tuple(strides) == cudnn._strides(shape, last)
                    size = ctypes.c_size_t()
                    lib.cudnnGetTensorSizeInBytes(plan.described[name].value, ctypes.byref(size))
                    assert size.value == dtype.itemsize * cudnn.math.prod(shape)
                done += 1
    return done


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--write", action="store_true")
    given = options.parse_args()
    found = header_lines(given.folder / "include")
    if given.write:
        head = f"# The headers of cuDNN {version_of(given.folder / 'include')}: {Path(__file__).name} writes this."
        TABLE.write_text("\n".join([head, *found]) + "\n")
    wrong = sorted(set(found) ^ set(own_lines()))
    print("\n".join(wrong) or f"{len(found)} lines agree")
    library = given.folder / "lib" / "libcudnn.so.9"
    if library.exists():
        print(f"{check_descriptors(library)} sets of descriptors are as the library reads them")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
