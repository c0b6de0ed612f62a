"""Declared: the methods of Tensor that declarations (gradlib/operators) make, as type checkers see them.

At run time the class is empty: declarations put methods on Tensor itself. Type checkers read declared.pyi, which
ci/stubs.py writes.
"""

from __future__ import annotations


class Declared:
    """The part of Tensor that operations make."""

    __slots__ = ()
