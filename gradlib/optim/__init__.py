"""Optimizers and learning rate schedules."""

from __future__ import annotations

from gradlib.optim import lr_scheduler, swa_utils
from gradlib.optim.adadelta import Adadelta
from gradlib.optim.adafactor import Adafactor
from gradlib.optim.adagrad import Adagrad
from gradlib.optim.adam import Adam
from gradlib.optim.adamax import Adamax
from gradlib.optim.adamw import AdamW
from gradlib.optim.asgd import ASGD
from gradlib.optim.lbfgs import LBFGS
from gradlib.optim.muon import Muon
from gradlib.optim.nadam import NAdam
from gradlib.optim.optimizer import Optimizer
from gradlib.optim.radam import RAdam
from gradlib.optim.rmsprop import RMSprop
from gradlib.optim.rprop import Rprop
from gradlib.optim.sgd import SGD
from gradlib.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
