"""Sparse tensors: how they are made, what they are asked, and ops on them as compositions of dense ones.

A sparse tensor is a `Pattern` and values (`tape/sparse.py`). `base` has the few ops that go from values to a sparse
tensor and back, and the products; `rules` says what the declared ops are for sparse arguments; `make` makes tensors;
`functions` is ``gradlib.sparse``.
"""
