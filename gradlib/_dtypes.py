"""dtypes and layouts of PyTorch that tensors have not here: they can be named and compared, and are refused on use."""

from __future__ import annotations

from typing import Any

from .tape import dtypes


class _Unstored(dtypes.dtype):
    """A dtype without tensors."""

    __slots__ = ()

    def __init__(self, name: str, itemsize: int, category: int, tensor_type: str, signed: bool):
        self.name, self.itemsize, self.category = name, itemsize, category
        self.is_signed, self.tensor_type = signed, tensor_type

    @property
    def np(self) -> Any:
        raise NotImplementedError(f"gradlib has no tensors of dtype {self!r}")

    def __reduce__(self) -> Any:
        return _by_name, (self.name,)


def _by_name(name: str) -> dtypes.dtype:
    return ALL[name]


def _make() -> dict[str, dtypes.dtype]:
    kinds = [
        ("quint8", 1, "QUInt8", False), ("qint8", 1, "QInt8", True), ("qint32", 4, "QInt32", True),
        ("quint4x2", 1, "QUInt4x2", False), ("quint2x4", 1, "QUInt2x4", False), ("bits1x8", 1, "Bits1x8", False),
        ("bits2x4", 1, "Bits2x4", False), ("bits4x2", 1, "Bits4x2", False), ("bits8", 1, "Bits8", False),
        ("bits16", 2, "Bits16", False),
    ]  # fmt: skip
    kinds += [(f"int{n}", 1, f"Int{n}", True) for n in range(1, 8)]
    kinds += [(f"uint{n}", 1, f"UInt{n}", False) for n in range(1, 8)]
    made: dict[str, dtypes.dtype] = {
        name: _Unstored(name, size, dtypes.INTEGER, kind + "Tensor", signed)
        for name, size, kind, signed in kinds
    }
    made["complex32"] = _Unstored("complex32", 4, dtypes.COMPLEX, "ComplexHalfTensor", True)
    made["float4_e2m1fn_x2"] = _Unstored(
        "float4_e2m1fn_x2", 1, dtypes.FLOATING, "Float4_e2m1fn_x2Tensor", True
    )
    return made


ALL = _make()
globals().update(ALL)
chalf = ALL["complex32"]
