"""How checkpoints are written and read: the engine room of `gradlib.serialization`.

A checkpoint is the zip archive that PyTorch writes: a pickle, in which tensors are references, and
one uncompressed member for each storage. So either library reads the files of the other.
"""
