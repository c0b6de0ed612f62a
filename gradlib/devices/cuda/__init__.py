"""CUDA: CuPy's array functions, memory, streams, products, and the Python side of `kernels/`."""
