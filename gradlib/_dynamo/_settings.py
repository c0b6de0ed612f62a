"""Settings of a compiler that is not there: they can be read, set and patched, and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


def patch_for(module: ModuleType) -> Callable[..., Any]:
    """The function `patch` of a module of settings: sets some of them within ``with``, or in a decorated function."""

    def patch(
        arg1: str | dict[str, Any] | None = None, arg2: Any = None, **kwargs: Any
    ) -> contextlib.AbstractContextManager[None]:
        """Set some settings within ``with``, or while a decorated function runs.

        Args:
            arg1: the name of a setting, or a dict of names and values.
            arg2: the value, after a name.
            kwargs: settings by name.
        """
        changes = {**(arg1 if isinstance(arg1, dict) else {}), **kwargs}
        if isinstance(arg1, str):
            changes[arg1] = arg2

        @contextlib.contextmanager
        def hold() -> Iterator[None]:
            missing = object()
            before = {name: vars(module).get(name, missing) for name in changes}
            vars(module).update(changes)
            try:
                yield
            finally:
                for name, value in before.items():
                    if value is missing:
                        vars(module).pop(name, None)
                    else:
                        vars(module)[name] = value

        return hold()

    return patch
