"""What autocast does: how the field `autocast` of a declaration is read, and functions that are treated as a whole."""

from __future__ import annotations

import functools
from typing import Any

LOWER, FLOAT32, WIDEST, REFUSED = 1, 2, 3, 4
DEVICES = ("cpu", "cuda")
_MEANING = {"lower": LOWER, "float32": FLOAT32, "promote": WIDEST, "refuse": REFUSED}


@functools.cache
def by_device(declared: str) -> dict[str, int]:
    """``"cpu:float32 cuda:refuse"``, or one word for all device types: device type -> policy.

    Raises:
        ValueError: there is no such device type or policy.

    Example:
        >>> by_device("cuda:lower")
        {'cuda': 1}
    """
    found = {}
    for part in declared.split():
        device, _, policy = part.rpartition(":")
        if policy not in _MEANING or device not in ("", *DEVICES):
            raise ValueError(f"unknown autocast policy {part!r}; there are {sorted(_MEANING)}")
        found.update(dict.fromkeys((device,) if device else DEVICES, _MEANING[policy]))
    return found


_resolved: dict[str, dict[Any, int | None]] = {device: {} for device in DEVICES}  # op -> policy


def of_op(op: Any, device: str, attrs: tuple) -> int | None:
    """The policy of a call of `op` on a device type, or None."""
    known = _resolved[device]
    try:
        return known[op]
    except KeyError:
        declared = op.autocast
    if declared.__class__ is not str:  # depends on the attributes
        return by_device(declared(device, attrs)).get(device)
    found = known[op] = by_device(declared).get(device)
    return found


# Functions made of several ops that are treated as a whole: device type -> names (in gradlib.nn.functional, gradlib
# or gradlib.linalg) and policy.
_LOSS_FUNCTIONS = (
    "l1_loss kl_div poisson_nll_loss hinge_embedding_loss margin_ranking_loss cosine_embedding_loss "
    "triplet_margin_loss multi_margin_loss multilabel_margin_loss"
)
FUNCTIONS: dict[str, list[tuple[str, int]]] = {
    "cuda": [
        (
            f"{_LOSS_FUNCTIONS} cosine_similarity norm dist renorm householder_product ormqr",
            FLOAT32,
        ),
        ("vecdot", LOWER),
    ],
    "cpu": [
        (
            f"{_LOSS_FUNCTIONS} adaptive_avg_pool3d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d "
            "grid_sample grid_sampler stft lstsq lu_solve householder_product ormqr quantile nanquantile",
            FLOAT32,
        ),
        ("vecdot", LOWER),
    ],
}
