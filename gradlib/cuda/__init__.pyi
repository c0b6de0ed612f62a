"""What gradlib.cuda gives. Written by ci/stubs.py: do not edit."""

import builtins as _b
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, overload

from ..tape.device import device as _device
from ..tape.dtypes import dtype as _dtype
from ..tape.generator import Generator as Generator
from ..tape.layout import layout as _layout
from ..tape.layout import memory_format as _memory_format
from ..tape.sizes import Size as Size
from ..tape.tensor import Tensor as Tensor

from . import amp as amp
from . import capturing as capturing
from . import devices as devices
from . import graphed as graphed
from . import graphs as graphs
from . import inspection as inspection
from . import memory as memory
from . import monitor as monitor
from . import nvtx as nvtx
from . import profiler as profiler
from . import random as random
from . import sanitizer as sanitizer
from . import streams as streams
from . import tensors as tensors
from ..cuda.devices import DeviceProperties as DeviceProperties
from ..cuda.streams import Event as Event
from ..cuda.streams import ExternalStream as ExternalStream
from ..cuda.streams import Stream as Stream
from ..cuda.streams import StreamContext as StreamContext
from ..cuda.devices import can_device_access_peer as can_device_access_peer
from ..devices.cuda.library import current_device as current_device
from ..cuda.streams import current_stream as current_stream
from ..cuda.streams import default_stream as default_stream
from ..cuda.devices import device as device
from ..devices.cuda.library import device_count as device_count
from ..cuda.devices import device_of as device_of
from ..cuda.devices import get_device_capability as get_device_capability
from ..cuda.devices import get_device_name as get_device_name
from ..cuda.devices import get_device_properties as get_device_properties
from ..cuda.streams import get_stream_from_external as get_stream_from_external
from ..cuda.devices import init as init
from ..devices.cuda.library import is_available as is_available
from ..cuda.devices import is_bf16_supported as is_bf16_supported
from ..devices.cuda.library import is_initialized as is_initialized
from ..cuda.devices import set_device as set_device
from ..cuda.streams import set_stream as set_stream
from ..cuda.streams import stream as stream
from ..devices.cuda.library import synchronize as synchronize

def __getattr__(name: _b.str) -> Any: ...
