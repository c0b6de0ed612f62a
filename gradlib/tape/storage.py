"""Storage: the version counter that all views of one buffer share.

A tensor that shares its buffer with nobody keeps its version as a plain int in its own `_ver` slot, and gets a
Storage when the first view, detached alias or saved output of it is made: most tensors never need one.
"""

from __future__ import annotations

import weakref
from typing import Any

from . import errors
from .dtypes import DIFFERENTIABLE
from .modes import shared, state

new = object.__new__


class Storage:
    """Version counter of a buffer, and where it was changed last."""

    __slots__ = ("__weakref__", "changed", "version", "views")

    def __init__(self, version: int = 0):
        self.version = version
        self.changed: Any = None  # ((code, instruction), op name) of the last in-place operation
        self.views: list | None = (
            None  # weak references to views that require grad if their base, a leaf, does
        )

    def add_view(self, view) -> None:
        if self.views is None:
            self.views = []
        views = self.views
        views.append(weakref.ref(view))
        if len(views) & (len(views) - 1) == 0 and len(views) > 8:
            self.views = [ref for ref in views if ref() is not None]

    def require_grad(self, base) -> None:
        """The tensor `base` on this buffer requires grad from now on: so do its views."""
        others = []
        for ref in self.views or ():
            view = ref()
            if view is None:
                continue
            others.append(ref)
            if view._view is None or view._view.base is not base:
                continue  # of a detached alias, for example
            if not view._rg and view._array.dtype in DIFFERENTIABLE:
                view._rg = view._inherits = True
        self.views = others or None

    def release_grad(self, base) -> None:
        """The tensor `base` on this buffer requires grad no longer: nor do the views that inherited it."""
        for ref in self.views or ():
            view = ref()
            if view is not None and view._inherits and view._view.base is base:
                view._rg = view._inherits = False


class _Untracked(Storage):
    """The counter of inference tensors: there is none."""

    __slots__ = ()


INFERENCE = _Untracked()


def share(tensor) -> Storage:
    """The Storage of `tensor`, made now if it had none."""
    counter = tensor._ver
    if counter.__class__ is int:
        storage = tensor._ver = new(Storage)
        storage.version, storage.changed, storage.views = counter, None, None
        return storage
    return counter


def version_of(tensor, saving: bool = False) -> int:
    counter = tensor._ver
    if type(counter) is int:
        return counter
    if counter is INFERENCE:
        raise RuntimeError(
            errors.INFERENCE_SAVED if saving else "Inference tensors do not track version counter."
        )
    return counter.version


def before_write(tensor) -> None:
    """Tell allow_mutation_on_saved_tensors that the memory of `tensor` is about to be written raw."""
    if shared.active and state.saved_observer is not None:
        state.saved_observer.before_write(tensor)


def bump(tensor, site=None, by: str | None = None) -> None:
    """Raise the version counter after an in-place change."""
    counter = tensor._ver
    if counter is INFERENCE:
        return
    if site is not None:
        counter = share(tensor)
        counter.changed = (site, by)
        counter.version += 1
    elif type(counter) is int:
        tensor._ver = counter + 1
    else:
        counter.version += 1
