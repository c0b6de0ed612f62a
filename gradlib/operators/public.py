"""The public functions of all operations by name, as ``gradlib.<name>`` has them: for the floors above that compute.

    from gradlib.operators import public as ops

    ops.zeros(2, 3)

Type checkers read public.pyi, which ci/stubs.py writes.
"""

from ..op.expose import PUBLIC

globals().update(PUBLIC)
