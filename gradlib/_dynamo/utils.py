"""What PyTorch's compiler counts: nothing is compiled, so that all counts are 0."""

from __future__ import annotations

from collections import Counter, defaultdict

from .._refused import refuse
from ..compiler import is_compiling as is_compile_supported

__all__ = ["counters", "is_compile_supported"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)

__getattr__ = refuse(
    __name__,
    more=(
        "CompileProfiler clone_input clone_inputs compile_times deepcopy_to_fake_tensor detect_fake_mode "
        "dynamo_timed istype same"
    ),
    why="There is no compiler in gradlib.",
)
