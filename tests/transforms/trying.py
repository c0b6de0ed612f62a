"""All checks by name, and running them on cases."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import gradlib as gl

from . import asking, batching, gradients, kinds, laziness, outside, running, writing
from .cases import Case
from .compare import Inapplicable

CHECKS: dict[str, Callable[[Case], None]] = {
    **gradients.CHECKS,
    **batching.CHECKS,
    **writing.CHECKS,
    **running.CHECKS,
    **asking.CHECKS,
    **kinds.CHECKS,
    **laziness.CHECKS,
    **outside.CHECKS,
}


def outcome(case: Case, check: str) -> str | None:
    """None if the check passes, "-" if it has nothing to test there, else what is wrong."""
    gl.manual_seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if case.answers and check not in ("asked", "modes"):
                return "-"
            CHECKS[check](case)
    except Inapplicable:
        return "-"
    except AssertionError as exc:
        return str(exc) or "assertion"
    except BaseException as exc:
        if isinstance(exc, KeyboardInterrupt):
            raise
        return f"{type(exc).__name__}: {exc}".splitlines()[0][:300]
    finally:
        assert gl.is_grad_enabled()
        gl.set_default_dtype(gl.float32)
    return None


def failures(chosen: list[tuple[Case, str]]) -> Iterator[tuple[Case, str, str]]:
    """What fails of the given (case, check) although it is not listed."""
    from .listed import listed

    for case, check in chosen:
        if listed(case.key, case.number, check):
            continue
        text = outcome(case, check)
        if text not in (None, "-"):
            yield case, check, text
