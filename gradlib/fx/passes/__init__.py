"""Passes over graphs: shapes of all steps (`shape_prop`), a module split into parts (`split_module`)."""

from . import infra, shape_prop, split_module

__all__ = ["infra", "shape_prop", "split_module"]
