"""The modules, one file per family; `gradlib.nn` exports all of them."""

from __future__ import annotations

from gradlib.nn.modules.activation import *
from gradlib.nn.modules.adaptive import *
from gradlib.nn.modules.batchnorm import *
from gradlib.nn.modules.container import *
from gradlib.nn.modules.conv import *
from gradlib.nn.modules.distance import *
from gradlib.nn.modules.dropout import *
from gradlib.nn.modules.flatten import *
from gradlib.nn.modules.instancenorm import *
from gradlib.nn.modules.lazy import *
from gradlib.nn.modules.linear import Bilinear, Identity, Linear
from gradlib.nn.modules.loss import *
from gradlib.nn.modules.margin_loss import *
from gradlib.nn.modules.module import Module
from gradlib.nn.modules.normalization import *
from gradlib.nn.modules.padding import *
from gradlib.nn.modules.parameter_container import *
from gradlib.nn.modules.pooling import *
from gradlib.nn.modules.rnn import *
from gradlib.nn.modules.sparse import *
from gradlib.nn.modules.transformer import *
from gradlib.nn.modules.vision import *
