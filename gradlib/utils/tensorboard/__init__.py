"""Files for TensorBoard: `SummaryWriter`, of the package tensorboard, which is the extra ``gradlib[tensorboard]``."""

from __future__ import annotations

try:
    import tensorboard
except ImportError as error:
    raise ImportError(
        "gradlib.utils.tensorboard needs the package tensorboard: pip install 'gradlib[tensorboard]'"
    ) from error

from ..._refused import refuse
from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
__getattr__ = refuse(__name__)
