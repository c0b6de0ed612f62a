"""The tables of what a DTensor knows to do: filled by `_rules`, `_rules_shape` and `_special`, read by `_run`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# name of an op -> how it is split: a function of its arguments, with an `Arg` for each DTensor, that gives a `Split`
RULES: dict[str, Callable[..., Any]] = {}
# name of an op -> what runs instead: a function of the op and its arguments, with DTensors as they are
SPECIAL: dict[str, Callable[..., Any]] = {}
# methods and properties that ask the part itself, and mean the same of the whole
OF_THE_PART = set(
    "requires_grad requires_grad_ is_leaf grad_fn device dtype ndim dim ndimension is_cuda is_cpu is_meta itemsize "
    "element_size is_floating_point is_complex is_signed is_inference output_nr retains_grad retain_grad get_device "
    "layout is_sparse is_quantized is_mkldnn is_nested is_mps is_xpu is_ipu is_maia is_mtia is_vulkan is_xla "
    "is_sparse_csr name names _version register_post_accumulate_grad_hook _backward_hooks _is_view _base is_pinned "
    "has_names is_distributed is_conj is_neg is_contiguous record_stream _grad __dir__ _is_zerotensor detach_".split()
)


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: how ops of these names are split."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return add


def special(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: what runs instead of functions of these names."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        SPECIAL.update(dict.fromkeys(names, function))
        return function

    return add
