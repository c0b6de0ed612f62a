"""A CUDA graph: work that is recorded once and launched again and again as a whole; `gradlib.cuda.graphs`.

What a graph touches must stay where it is. Its temporaries and results come from a memory pool of its own; and what
its operations read from outside (inputs, parameters) is kept alive with it, as are tables and workspaces of kernels.
"""

from __future__ import annotations

import gc
from typing import Any

from ..devices.cuda import generators
from ..devices.cuda import namespace as _backend
from ..devices.cuda.allocation import Allocator
from ..devices.cuda.library import library, synchronize
from ..tape.device import stored
from ..tape.modes import OBSERVE, Interposer, set_flag, shared, state
from ..tape.tensor import Tensor
from .memory import empty_cache
from .streams import Stream, StreamContext

_MODES = ("global", "thread_local", "relaxed")
_RELAXED = 2  # cudaStreamCaptureModeRelaxed: the pool may have to ask the device for memory
_capturing: CUDAGraph | None = None


class PrivatePool:
    """Memory for graphs alone. Graphs that share it must be replayed in the order in which they were captured."""

    def __init__(self) -> None:
        cuda = library()
        self.pool = cuda.MemoryPool()
        self.allocator = Allocator(cuda, self.pool)
        self.handed_out: set[int] = set()  # addresses, to tell this memory from others

    def __call__(self, size: int) -> Any:
        memory = self.allocator(size)
        self.handed_out.add(memory.mem.ptr)
        return memory


def graph_pool_handle() -> PrivatePool:
    """A memory pool that several graphs may share: pass it as ``pool=``.

    Such graphs have to be replayed in the order in which they were captured.

    Raises:
        RuntimeError: there is no CUDA device.
    """
    return PrivatePool()


def is_current_stream_capturing() -> bool:
    """Whether the work of the current stream is being recorded; False without a CUDA device.

    Example:
        >>> gradlib.cuda.is_current_stream_capturing()
        False
    """
    return shared.cuda is not None and bool(library().get_current_stream().is_capturing())


class _Keeper(Interposer):
    """While a graph is captured: notes the memory from outside that its operations read, and the leaves."""

    def __init__(self, pool: PrivatePool, kept: dict[int, Any], leaves: dict[int, Tensor]):
        self.pool, self.kept, self.leaves = pool, kept, leaves

    def note(self, args: Any) -> None:
        for a in args:
            if isinstance(a, Tensor) and a.is_cuda:
                array = stored(a._array)
                memory = array.data.mem
                if memory.ptr not in self.pool.handed_out:
                    self.kept.setdefault(memory.ptr, array)
                    if a._rg and a._fn is None:
                        self.leaves.setdefault(id(a), a)

    def call(self, op: Any, args: tuple, attrs: tuple, proceed: Any) -> Any:
        self.note(args[0] if op.variadic else args)
        return proceed()

    def call_inplace(
        self, op: Any, tensor: Tensor, others: tuple, attrs: tuple, proceed: Any
    ) -> Any:
        self.note((tensor, *others))
        return proceed()


class CUDAGraph:
    """The work of a stretch of a program, as a graph that :meth:`replay` launches.

    `gradlib.cuda.capture` makes graphs of whole training steps.

    Args:
        keep_graph: accepted; the graph is kept anyway, for ``raw_cuda_graph``.

    Example:
        >>> if gradlib.cuda.is_available():
        ...     static_x = gradlib.ones(4, device="cuda")
        ...     side = gradlib.cuda.Stream()
        ...     with gradlib.cuda.stream(side):
        ...         static_y = static_x * 2  # warm up
        ...     gradlib.cuda.synchronize()
        ...     g = gradlib.cuda.CUDAGraph()
        ...     with gradlib.cuda.graph(g):
        ...         static_y = static_x * 2
        ...     _ = static_x.fill_(3)
        ...     g.replay()  # static_y now belongs to the new values
        ...     assert static_y.tolist() == [6.0] * 4
    """

    def __init__(self, keep_graph: bool = False):
        self._graph: Any = None
        self._pool: PrivatePool | None = None
        self._kept: dict[int, Any] = {}
        self._leaves: dict[int, Tensor] = {}
        self._held: list[Any] = []
        self._workspaces: dict = {}
        self._capture: tuple | None = None  # what capture_end has to undo
        self._generators: list[Any] = []

    # -- capture -----------------------------------------------------------------------------------------------------

    def capture_begin(
        self, pool: PrivatePool | None = None, capture_error_mode: str = "global"
    ) -> None:
        """Record the work of the current stream, which must not be the default one, from now on.

        Warm up first: the first run of an operation may compile kernels and copy tables, which cannot be captured.

        Args:
            pool: from ``graph_pool_handle()`` or another graph's ``pool()``; by default a new one.
            capture_error_mode: one of PyTorch's names; the capture is always relaxed, since the memory pool may have to
                grow.

        Raises:
            RuntimeError: on the default stream, inside another capture, a second time, or another mode.
        """
        global _capturing
        if capture_error_mode not in _MODES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        if self._graph is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        if _capturing is not None:
            raise RuntimeError("Another graph is being captured; captures do not nest.")
        cuda = library()
        stream = cuda.get_current_stream()
        if stream.ptr in (0, 1, 2):
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. "
                "(However, after capture, it's ok to replay them on the default stream.)"
            )
        self._pool = PrivatePool() if pool is None else pool
        shared.cuda.sweep()
        stream.begin_capture(_RELAXED)
        allocator = cuda.using_allocator(self._pool)
        allocator.__enter__()
        keeper = _Keeper(self._pool, self._kept, self._leaves)
        had = set_flag(OBSERVE, True)
        state.interposers = (*state.interposers, keeper)
        self._capture = stream, allocator, keeper, had
        _capturing = self
        shared.cuda.held = self._held
        _backend.get_backend().gemm.use_graph(self._workspaces)

    def capture_end(self) -> None:
        """End the recording that ``capture_begin`` began.

        Raises:
            RuntimeError: something made it invalid, or there is none.
        """
        global _capturing
        if self._capture is None:
            raise RuntimeError("capture_end() without a preceding capture_begin()")
        stream, allocator, keeper, had = self._capture
        self._capture = _capturing = None
        backend = _backend.get_backend()
        backend.gemm.use_graph(None)
        shared.cuda.held = None
        state.interposers = tuple(i for i in state.interposers if i is not keeper)
        set_flag(OBSERVE, had)
        allocator.__exit__(None, None, None)
        self._held.extend(getattr(backend, "tables", {}).values())
        self._graph = stream.end_capture()

    def _give_up(self) -> None:
        """End a capture in which an error occurred."""
        try:
            self.capture_end()
        except RuntimeError:
            pass
        self.reset()

    # -- use ---------------------------------------------------------------------------------------------------------

    def replay(self) -> None:
        """Launch the recorded work on the current stream. Random numbers go on where the last launch left off.

        Raises:
            RuntimeError: nothing was captured.
        """
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        _order_generators(self._generators)
        self._graph.launch()

    def instantiate(self) -> None:
        """Do nothing: graphs are ready when their capture ends.

        Accepted for programs that call it.
        """

    def reset(self) -> None:
        """Forget the graph and give its memory back when the work queued so far is done.

        Another capture may begin then.
        """
        if self._graph is not None and shared.cuda is not None:
            everything = self._graph, self._pool, self._kept, self._held, self._workspaces
            shared.cuda.retire(everything, shared.cuda.current())
        self._graph = self._pool = None
        self._kept, self._leaves, self._held, self._workspaces = {}, {}, [], {}

    def pool(self) -> PrivatePool:
        """The memory pool of this graph, for ``capture_begin(pool=...)`` of another one.

        Raises:
            RuntimeError: nothing was captured.
        """
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def register_generator_state(self, generator: Any) -> None:
        """Say that the graph draws from a generator other than the default ones.

        Args:
            generator: a `Generator` of this device.
        """
        self._generators.append(generator)

    def enable_debug_mode(self) -> None:
        """Do nothing: ``debug_dump`` always works.

        Accepted for programs that call it.
        """

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph to a file, in the language of Graphviz.

        Args:
            debug_path: the file.

        Raises:
            RuntimeError: nothing was captured.
        """
        if self._graph is None:
            raise RuntimeError(
                "Called CUDAGraph::debug_dump without a preceding successful capture."
            )
        with open(debug_path, "w") as file:
            file.write(self._graph.debug_dot_str(0))

    def raw_cuda_graph(self) -> int:
        """The address of the cudaGraph_t."""
        return int(self._graph.graph)

    def raw_cuda_graph_exec(self) -> int:
        """The address of the cudaGraphExec_t."""
        return int(self._graph.graphExec)


def _order_generators(others: list[Any]) -> None:
    """Let the current stream come after the last draws, and later draws after what it does now."""

    for generator in (*generators._defaults.values(), *others):
        rng: Any = getattr(generator, "rng", None)
        if getattr(rng, "state", None) is not None:
            with library().Device(rng.device):
                rng._enter()


class graph:
    """Capture the work of a block into a :class:`CUDAGraph`.

    cuda_graph: an empty one. pool, capture_error_mode: see ``CUDAGraph.capture_begin``. stream: to capture on; by
    default one that all captures share.
    """

    default_capture_stream: Any = None
    _made_for: Any = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: PrivatePool | None = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ):
        self.cuda_graph, self.pool, self.capture_error_mode = cuda_graph, pool, capture_error_mode
        self.capture_stream = capture_stream() if stream is None else stream
        self.stream_ctx = StreamContext(self.capture_stream)

    def __enter__(self) -> None:
        synchronize()
        gc.collect()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.stream_ctx.__exit__(None, None, None)
            raise

    def __exit__(self, exc_type: Any, exc: Any, traceback: Any) -> None:
        try:
            if exc_type is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph._give_up()
        finally:
            self.stream_ctx.__exit__(exc_type, exc, traceback)


def capture_stream() -> Stream:
    """The stream that captures use when they are given none."""
    library()
    if graph._made_for is not shared.cuda:
        graph.default_capture_stream, graph._made_for = Stream(), shared.cuda
    return graph.default_capture_stream
