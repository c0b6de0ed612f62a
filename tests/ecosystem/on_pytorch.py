"""Run a program on PyTorch: ``python on_pytorch.py program.py file``.

torchvision's compiled part is for one build of PyTorch. Beside another it is not loaded, and the package then stops at
the names of two ops, which no program here uses: they are declared for it.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

import torch

spec = importlib.util.find_spec("torchvision")
if spec is not None and spec.origin is not None:
    try:
        torch.ops.load_library(str(Path(spec.origin).parent / "_C.so"))
    except OSError:
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

del sys.argv[0]
sys.path[0] = str(Path(sys.argv[0]).parent)
runpy.run_path(sys.argv[0], run_name="__main__")
