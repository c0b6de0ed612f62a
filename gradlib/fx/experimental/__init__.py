"""Further names of PyTorch's about graphs: what needs values that are not there is refused by name."""
