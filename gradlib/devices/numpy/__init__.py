"""NumPy: the array functions of CPU tensors, and kernels for them."""
