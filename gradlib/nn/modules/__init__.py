"""The modules, one file per family; `gradlib.nn` exports all of them."""

from __future__ import annotations

from .activation import *
from .adaptive import *
from .batchnorm import *
from .container import *
from .conv import *
from .distance import *
from .dropout import *
from .flatten import *
from .instancenorm import *
from .lazy import *
from .linear import Bilinear, Identity, Linear
from .linear_cross_entropy import *
from .loss import *
from .margin_loss import *
from .module import Module
from .normalization import *
from .padding import *
from .parameter_container import *
from .pooling import *
from .rnn import *
from .sparse import *
from .transformer import *
from .vision import *

__all__ = sorted(n for n, v in globals().items() if isinstance(v, type))  # pyright: ignore
