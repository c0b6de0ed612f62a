"""Tensors, their memory and history, and the engine that runs backward."""
