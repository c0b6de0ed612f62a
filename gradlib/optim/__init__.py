"""Optimizers and learning rate schedules."""

from __future__ import annotations

from gradlib.optim import lr_scheduler, swa_utils
from gradlib.optim.adadelta import Adadelta
from gradlib.optim.adagrad import Adagrad
from gradlib.optim.adam import Adam
from gradlib.optim.adamax import Adamax
from gradlib.optim.adamw import AdamW
from gradlib.optim.asgd import ASGD
from gradlib.optim.lbfgs import LBFGS
from gradlib.optim.nadam import NAdam
from gradlib.optim.optimizer import Optimizer
from gradlib.optim.radam import RAdam
from gradlib.optim.rmsprop import RMSprop
from gradlib.optim.rprop import Rprop
from gradlib.optim.sgd import SGD

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
    "swa_utils",
]
