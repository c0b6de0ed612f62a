"""What ``torch.__version__`` is where gradlib stands in PyTorch's place: a string that compares as a version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class TorchVersion(str):
    """A version that compares by its numbers, with strings and tuples.

    A local part ("+gradlib") makes it later than the same without, a development version is earlier.

    Example:
        >>> version = gradlib.compat.TorchVersion("2.13.0+gradlib")
        >>> version >= "2.2", version < (2, 14), version == "2.13.0"
        (True, True, False)
    """

    @staticmethod
    def _key(version: str | Iterable[int | str]) -> tuple[tuple[int, ...], bool, str]:
        text = version if isinstance(version, str) else ".".join(map(str, version))
        public, _, local = text.partition("+")
        numbers: list[int] = []
        final = True
        for part in public.split("."):
            digits = part[: len(part) - len(part.lstrip("0123456789"))]
            if digits:
                numbers.append(int(digits))
            if digits != part:  # 2.0.0a0, 2.0rc1, 2.1.dev3
                final = False
                break
        while numbers and not numbers[-1]:
            numbers.pop()
        return tuple(numbers), final, local

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str | tuple | list) and self._key(self) == self._key(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return self._key(self) < self._key(other)

    def __le__(self, other: Any) -> bool:
        return self._key(self) <= self._key(other)

    def __gt__(self, other: Any) -> bool:
        return self._key(self) > self._key(other)

    def __ge__(self, other: Any) -> bool:
        return self._key(self) >= self._key(other)

    __hash__ = str.__hash__


VERSION = TorchVersion("2.13.0+gradlib")
