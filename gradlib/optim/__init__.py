"""Optimizers and learning rate schedules."""

from __future__ import annotations

from .._refused import refuse
from . import lr_scheduler, swa_utils
from .adadelta import *
from .adafactor import *
from .adagrad import *
from .adam import *
from .adamax import *
from .asgd import *
from .lbfgs import *
from .muon import *
from .nadam import *
from .optimizer import Optimizer
from .radam import *
from .rmsprop import *
from .rprop import *
from .sgd import *
from .sparse_adam import *

__all__ = [  # pyright: ignore
    *sorted(n for n, v in globals().items() if isinstance(v, type)),
    "lr_scheduler",
    "swa_utils",
]
__getattr__ = refuse(__name__)
