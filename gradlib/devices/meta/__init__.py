"""The meta device: shapes, dtypes and strides of tensors that have no memory and no values.

`array` is what its tensors hold, `functions` says what NumPy's functions make of such arrays, and `namespace` is the
`xp` of kernels. No op knows of it: an op's own formula runs on these arrays and gives one more of them. What depends
on values is refused there, so that what comes out is a right shape or an error.
"""
