"""gradlib: PyTorch's autograd system on NumPy and CuPy. ``import gradlib as torch`` runs PyTorch code."""

import numpy as _np

# Infinities and nan follow PyTorch's rules silently; NumPy's warnings would be noise in every log(0).
_np.seterr(all="ignore")

from .core.device import device
from .core.dtypes import *  # noqa: F403
from .core.tensor import Size, Tensor
from .ops import elementwise, compare, cast, create  # noqa
from .ops.expose import PUBLIC as _PUBLIC
globals().update(_PUBLIC)
