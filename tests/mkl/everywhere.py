"""``pytest -p tests.mkl.everywhere``: MKL computes all arrays that it can, small ones too, quicker or not."""

from gradlib.devices.numpy import mkl

mkl.SMALL = 0
mkl._wins = lambda *given: True
assert mkl.library() is not None, "oneMKL is not installed: pip install 'gradlib[mkl]'"
