"""How ops are declared, written out as code, run in general, and run on batches."""
