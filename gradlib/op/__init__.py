"""How ops are declared, written out as code, run in general, and run on batches."""

from ..tape import handed

handed.later("gradlib.op.write_device", "build_on_device")
handed.later("gradlib.op.write_traced", "specialize")
handed.later("gradlib.ops.subclass", "subclasses")
