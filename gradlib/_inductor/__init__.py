"""``torch._inductor``: its settings, which programs set, and which change nothing."""

from .._refused import refuse
from . import config

__all__ = ["config"]

__getattr__ = refuse(
    __name__,
    more=(
        "aot_compile aot_load aoti_compile_and_package aoti_load_package compile compile_aot "
        "standalone_compile"
    ),
    why="There is no compiler in gradlib.",
)
