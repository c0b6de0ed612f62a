"""The mechanism of vmap: a function is run once for each entry of a batch, and the results are stacked.

Entries are taken apart and results put together by recorded ops, so gradients and tangents flow through. While the
function runs, its Level is an interposer: it marks every tensor that depends on the batch (`mapped`), so that what a
batch has no answer for (``.item()``, ``if tensor:``) is refused instead of being done entry by entry, and so that a
custom Function with a vmap rule gets the batch as a whole.

Such a Function needs the arguments of all entries at once. Entry 0 runs in the caller's thread; when it meets the
first such Function, each other entry starts in a thread of its own, runs alone until it meets the same call, and
waits. The rule runs, and every entry goes on with its part of the result. Only one of the threads runs at any time.
"""

from __future__ import annotations

import contextvars
import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from . import modes
from .memory import extent
from .modes import VMAP, Interposer, shared, state
from .pytree import flatten, spread, unflatten
from .tensor import Tensor

ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, "
    "please try to rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch "
    "internals, please file a bug report."
)
BRANCH = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that "
    "yet, please file an issue at https://github.com/pytorch/pytorch/issues ."
)
WRITE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args "
    "that has more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped "
    "over in a vmap. Please try to use out-of-place operators instead of inplace arithmetic. If said operator is being "
    "called inside the PyTorch framework, please file a bug report instead."
)
RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)
SHAPES = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{}. Please "
    "file an issue at https://github.com/pytorch/pytorch/issues if you need this feature."
)
PLACES = (
    "vmap: {} counts places in memory, but an entry of the batch lies in the memory of all entries where vmap runs "
    "entry by entry. Please clone() it first."
)
MASK = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing with "
    "a boolean mask."
)
TWO_RULES = (
    "You tried to vmap over {}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please "
    "set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. For more details, "
    "please see https://pytorch.org/docs/main/notes/extending.func.html"
)
NO_RULE = (
    "You tried to vmap over {}, but it does not have vmap support. Please override and implement the vmap staticmethod "
    "or set generate_vmap_rule=True. For more details, please see "
    "https://pytorch.org/docs/main/notes/extending.func.html"
)
TWO_RETURNS = (
    "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with "
    "the output. Got {} instead"
)
NO_MATCH = (
    "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
    "out_dims={} to be compatible with the structure of `output`. out_dims has structure {} but output has structure "
    "{}. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
)
DIVERGED = (
    "vmap: {} has a vmap staticmethod, which needs the arguments of all entries of the batch at once, but entry {} of "
    "the batch did not call it where entry 0 did"
)

NOWHERE: frozenset[int] = frozenset()
_ids = itertools.count(1)
_THREAD_STATE = (
    "saved_hooks",
    "hooks_disabled",
    "dual_level",
    "dual_serial",
    "dual_keepers",
    "check_nan",
)


class VmapInfo(NamedTuple):
    """What the vmap rule of a custom Function is told: the size of the batch, and the randomness mode."""

    batch_size: int
    randomness: str


# -- which tensors depend on the batch ---------------------------------------------------------------------------------


def levels_of(tensor: Any) -> frozenset[int]:
    """The ids of the vmaps (of all that ever ran) whose batch `tensor` depends on."""
    if not isinstance(tensor, Tensor):
        return NOWHERE
    found = tensor.__dict__.get("_levels", NOWHERE)
    if shared.batches:
        from .batched import marks_of

        found |= marks_of(tensor)
    return found


def add_levels(tensor: Tensor, levels: frozenset[int]) -> None:
    """Mark `tensor` as depending on the batches of `levels`."""
    if levels:
        tensor.__dict__["_levels"] = levels_of(tensor) | levels


def inherit(source: Any, out: Any) -> Any:
    """`out`, which was made after the pattern of `source` past the dispatcher, marked like it."""
    if shared.active and state.bits & VMAP:
        add_levels(out, levels_of(source))
    return out


def _live() -> set[int]:
    return {level.id for level in state.interposers if isinstance(level, Level)}


def refuse(tensor: Tensor, message: str) -> None:
    """RuntimeError if `tensor` depends on the batch of a running vmap."""
    found = levels_of(tensor)
    if found and shared.batches:
        from .batched import Unbatchable, is_logical

        if is_logical(tensor):
            raise Unbatchable  # done entry by entry, which raises if it is the function that asks
    if found and not found.isdisjoint(_live()):
        raise RuntimeError(message)


def refuse_mask(key: Any) -> None:
    """RuntimeError for an index that is, or contains, a mask which depends on the batch."""
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, Tensor) and item._array.dtype.kind == "b":
            refuse(item, MASK)


def refuse_places(tensor: Any, name: str) -> None:
    """RuntimeError if the function `name` counts places in a memory that entries of a batch share."""
    if shared.active and state.bits & VMAP:
        for level in state.interposers:
            if isinstance(level, Level) and not level.passes:
                level.refuse_places(tensor, name)


def draw(generator: Any) -> None:
    """Called before random numbers are drawn from `generator` inside vmap."""
    for level in reversed(state.interposers):
        if isinstance(level, Level):
            level.before_draw(generator)


# -- one vmap ----------------------------------------------------------------------------------------------------------


class _Abandoned(BaseException):
    """Ends the thread of an entry that will not be continued."""


class Level(Interposer):
    """One running vmap: the interposer that sees the ops of its function."""

    def __init__(self, size: int, randomness: str):
        self.id, self.size, self.randomness = next(_ids), size, randomness
        self.mark = frozenset((self.id,))
        self.current = 0  # the entry that runs
        self.workers: list[_Worker] = []
        self.body: Callable = lambda k: None
        self.first_states: dict = {}  # randomness "same": the generators' states when entry 0 first drew
        self.positions: Any = defaultdict(dict)  # entry -> where it has got to
        self.thread_state: Any = None
        self.written: dict[int, tuple[int, Any]] = {}  # what was written to first by which entry

    def mapped(self, tensor: Any) -> bool:
        return self.id in levels_of(tensor)

    def call(self, op, args: tuple, attrs: tuple, proceed: Callable) -> Any:
        """An op of the function: its results depend on the batch if an argument does."""
        given = args[0] if op.variadic else args
        own, mapped = self.id, False
        for a in given:
            if isinstance(a, Tensor) and own in a.__dict__.get("_levels", NOWHERE):
                mapped = True
                break
        if mapped and op.dynamic:
            decides = op.dynamic if isinstance(op.dynamic, str) else op.tensors[0]
            if self.mapped(args[op.tensors.index(decides)]):
                raise RuntimeError(SHAPES.format(op.public))
        if mapped and op.by_place:
            self.refuse_places(args[0], op.public)
        out = proceed()
        if mapped:
            if out.__class__ is Tensor:
                found = out.__dict__
                found["_levels"] = found.get("_levels", NOWHERE) | self.mark
                return out
            for o in out if isinstance(out, tuple) else (out,):
                if isinstance(o, Tensor):
                    add_levels(o, self.mark)
        return out

    def refuse_places(self, tensor: Any, name: str) -> None:
        """RuntimeError if `tensor` is a part of the memory of all entries."""
        view, array = tensor._view, tensor._array
        if not self.mapped(tensor) or (view is not None and self.mapped(view.base)):
            return
        if extent(array)[1] > array.nbytes:
            raise RuntimeError(PLACES.format(name))

    def call_inplace(self, op, tensor, others: tuple, attrs: tuple, proceed: Callable) -> Any:
        """A write of the function: nothing of the batch may be written into what entries share."""
        if any([self.mapped(o) for o in others]) and not self.mapped(tensor):
            base = tensor if tensor._view is None else tensor._view.base
            if self.written.setdefault(id(base), (self.current, base))[0] != self.current:
                raise RuntimeError(WRITE)
        return proceed()

    def call_function(self, cls, args: tuple) -> Any:
        """A custom Function: by its own vmap rule, or entry by entry."""
        from ..autograd.function import Function

        mapped = any([self.mapped(a) for a in args])
        own = cls.vmap is not Function.vmap
        if mapped:
            if own and cls.generate_vmap_rule:
                raise RuntimeError(TWO_RULES.format(cls.__name__))
            if not own and not cls.generate_vmap_rule:
                raise RuntimeError(NO_RULE.format(cls.__name__))
            if own:
                return self.meet(cls, args)
        out = self.outside(lambda: cls.apply(*args))
        for o in out if isinstance(out, tuple) else (out,):
            if mapped and isinstance(o, Tensor):
                add_levels(o, self.mark)
        return out

    def outside(self, run: Callable) -> Any:
        """``run()`` with only the vmaps around this one."""
        inner = state.interposers
        state.interposers = inner[: inner.index(self)] if self in inner else inner
        try:
            return run()
        finally:
            state.interposers = inner

    def before_draw(self, generator: Any) -> None:
        if self.randomness == "error":
            raise RuntimeError(RANDOM)
        if self.randomness == "same":
            here = self.positions[self.current]
            if generator not in here:
                here[generator] = None
                if generator in self.first_states:
                    generator.set_state(self.first_states[generator])
                else:
                    self.first_states[generator] = generator.get_state()

    def switch(self, k: int) -> None:
        """Entry `k` goes on. With randomness "same", where it has got to in its random numbers."""
        old, self.current = self.current, k
        if old == k or not self.first_states:
            return
        for generator in self.positions[old]:
            self.positions[old][generator] = generator.get_state()
        for generator, position in self.positions[k].items():
            if position is not None:
                generator.set_state(position)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(self, body: Callable[[int], Any]) -> list:
        """``[body(0), body(1), ...]``, each seen by this Level."""
        self.body = body
        outer, had = state.interposers, modes.set_flag(VMAP, True)
        state.interposers = (*outer, self)
        self.thread_state = (
            state.bits,
            state.interposers,
            {name: getattr(state, name) for name in _THREAD_STATE},
        )
        try:
            first = body(0)
            if self.workers:
                return [first, *(w.finish() for w in self.workers)]
            results = [first]
            for k in range(1, self.size):
                self.switch(k)
                results.append(body(k))
            return results
        finally:
            for worker in self.workers:
                worker.abandon()
            state.interposers = outer
            modes.set_flag(VMAP, had)

    def meet(self, cls, args: tuple) -> Any:
        """Entry `current` calls a Function with a vmap rule: the rule runs when all entries have come to it."""
        k = self.current
        if k:
            if not self.workers:
                raise RuntimeError(DIVERGED.format(cls.__name__, 0))
            return self.workers[k - 1].meet(cls, args)
        if not self.workers:
            self.workers = [_Worker(self, i) for i in range(1, self.size)]
        calls = [args]
        for worker in self.workers:
            worker.advance()
            if worker.error is not None:
                raise worker.error
            if worker.done or worker.call[0] is not cls:
                raise RuntimeError(DIVERGED.format(cls.__name__, worker.k))
            calls.append(worker.call[1])
        self.switch(0)
        results = self.by_rule(cls, calls)
        for worker, result in zip(self.workers, results[1:], strict=True):
            worker.answer = result
        return results[0]

    def by_rule(self, cls, calls: list[tuple]) -> list:
        """The results of all entries, by the Function's vmap rule on the whole batch."""
        from ..ops.join import stack

        batched, in_dims = [], []
        for column in zip(*calls, strict=True):
            # containers of tensors: a dim for each of their leaves
            flat = [flatten(value) for value in column]
            spec, leaves = flat[0][1], list(zip(*(f[0] for f in flat), strict=True))
            dims = [0 if self._differs(leaf) else None for leaf in leaves]
            values = [
                leaf[0] if d is None else self.outside(lambda leaf=leaf: stack(list(leaf)))
                for leaf, d in zip(leaves, dims, strict=True)
            ]
            batched.append(unflatten(values, spec))
            in_dims.append(unflatten(dims, spec))
        info = VmapInfo(self.size, self.randomness)
        returned = self.outside(lambda: cls.vmap(info, tuple(in_dims), *batched))
        if not isinstance(returned, tuple):
            raise RuntimeError(TWO_RETURNS.format(f"a {type(returned)}"))
        if len(returned) != 2:
            raise RuntimeError(TWO_RETURNS.format(f"{len(returned)} returns"))
        output, out_dims = returned
        outs, spec = flatten(output)
        dims = spread(out_dims, spec)
        if dims is None:
            raise RuntimeError(NO_MATCH.format(out_dims, flatten(out_dims)[1], spec))
        columns = [self.split(o, d) for o, d in zip(outs, dims, strict=True)]
        return [unflatten([c[k] for c in columns], spec) for k in range(self.size)]

    def _differs(self, values: tuple) -> bool:
        """Whether an argument of a Function depends on the batch."""
        if not isinstance(values[0], Tensor):
            return False
        if any([self.mapped(v) for v in values]):
            return True
        first = values[0]
        same = all(
            [v is first or (not v._rg and bool((v._array == first._array).all())) for v in values]
        )
        return not same

    def split(self, tensor: Any, dim: int | None) -> list:
        """The entries of a batched tensor, marked as depending on the batch; all the same one for dim None."""
        if dim is None or not isinstance(tensor, Tensor):
            return [tensor] * self.size
        # not unbind, whose results refuse to be written to
        entries = self.outside(lambda: [tensor.movedim(dim, 0)[k] for k in range(self.size)])
        for e in entries:
            add_levels(e, self.mark | levels_of(tensor))
        return list(entries)


class _Worker:
    """An entry of the batch in a thread of its own, which runs only while `advance` waits for it."""

    def __init__(self, level: Level, k: int):
        self.level, self.k = level, k
        self.call: Any = None  # (cls, args) of the Function call that it waits in
        self.answer: Any = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = self.abandoned = False
        self.go, self.back = threading.Semaphore(0), threading.Semaphore(0)
        run = contextvars.copy_context().run
        self.thread = threading.Thread(target=run, args=(self._main,), daemon=True)
        self.thread.start()

    def _main(self) -> None:
        self.go.acquire()
        bits, interposers, rest = self.level.thread_state
        try:
            if not self.abandoned:
                for name, value in rest.items():
                    setattr(state, name, value)
                state.interposers = interposers
                modes.set_bits(bits)
                self.result = self.level.body(self.k)
        except _Abandoned:
            pass
        except BaseException as exc:
            self.error = exc
        finally:
            modes.set_bits(0)  # flags are counted over all threads
            state.interposers = ()
            self.done = True
            self.back.release()

    def advance(self) -> None:
        """Let the entry run to its next Function call, or to its end."""
        if not self.done:
            self.level.switch(self.k)
            self.go.release()
            self.back.acquire()

    def meet(self, cls, args: tuple) -> Any:
        """In the entry's thread: wait at a Function call for the entry's part of the result."""
        self.call = (cls, args)
        self.back.release()
        self.go.acquire()
        if self.abandoned:
            raise _Abandoned
        return self.answer

    def finish(self) -> Any:
        """Let the entry run to its end; its result."""
        self.advance()
        if self.error is not None:
            raise self.error
        if not self.done:
            raise RuntimeError(DIVERGED.format(self.call[0].__name__, 0))
        return self.result

    def abandon(self) -> None:
        """End the thread, wherever the entry is."""
        if not self.done:
            self.abandoned = True
            self.go.release()
            self.back.acquire()
        self.thread.join()


def marks(values: Iterable) -> frozenset[int]:
    """The union of the levels of several values."""
    found: frozenset[int] = frozenset()
    if shared.active and state.bits & VMAP:
        for value in values:
            found |= levels_of(value)
    return found
