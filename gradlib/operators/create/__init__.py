"""Tensors from nothing, from numbers, and from memory of others."""
