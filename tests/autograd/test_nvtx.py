"""Ranges for profilers, recorded by stand-ins for the nvtx and ittapi packages."""

import functools
import sys
import threading
import types

import pytest

import gradlib as gl
from gradlib.autograd import profiler
from gradlib.autograd.profiler import emit_itt, emit_nvtx, record_function
from gradlib.cuda import nvtx
from gradlib.devices.cuda import namespace as cupy_backend
from gradlib.profiler import _nvtx
from gradlib.profiler._ranges import read_label
from gradlib.tape import recording


class Attributes:
    """What the package keeps for a range: the message is a registered text."""

    def __init__(self, category):
        self.message, self.category, self.payload = None, category, None


class Domain:
    """A domain of the nvtx package with a profiler attached, which notes all calls."""

    def __init__(self, name):
        self.name, self.calls, self.open, self.categories = name, [], [], {}

    @functools.cache  # noqa: B019 - as the package has it
    def get_registered_string(self, text):
        return text

    def get_category_id(self, name):
        return self.categories.setdefault(name, len(self.categories) + 1)

    def get_event_attributes(self, message=None, color=None, category=None, payload=None):
        return Attributes(category)

    def push_range(self, attributes):
        self.open.append(attributes.message)
        self.note("push", attributes)

    def pop_range(self):
        self.calls.append(("pop", self.open.pop(), None, None))

    def mark(self, attributes):
        self.note("mark", attributes)

    def start_range(self, attributes):
        self.note("start", attributes)
        return 99

    def end_range(self, number):
        self.calls.append(("end", number, None, None))

    def note(self, kind, attributes):
        self.calls.append((kind, attributes.message, attributes.category, attributes.payload))

    @property
    def texts(self):
        return [text for kind, text, *_ in self.calls if kind == "push"]

    @property
    def tree(self):
        """Texts of ranges, two spaces deeper inside others."""
        lines, depth = [], 0
        for kind, text, *_ in self.calls:
            if kind == "push":
                lines.append("  " * depth + text)
            depth += {"push": 1, "pop": -1}.get(kind, 0)
        return lines


class Deaf:
    """A domain of the package without a profiler."""

    def get_event_attributes(self, **_):
        return None


@pytest.fixture
def package(monkeypatch):
    """A stand-in for the nvtx package; `domains` by name."""
    package = types.ModuleType("nvtx")
    package.domains = {}
    package.get_domain = lambda name=None: package.domains.setdefault(name, Domain(name))
    monkeypatch.setitem(sys.modules, "nvtx", package)
    return package


@pytest.fixture
def domain(package):
    return package.get_domain("gradlib")


@pytest.fixture
def x():
    return gl.ones(2, 3, requires_grad=True)


def seq_of(text):
    return read_label(text).seq


# -- emit_nvtx ---------------------------------------------------------------------------------------------------------


# rows: PROF-29 SEQ-02 SEQ-03 SEQ-04
def test_every_op_and_node_has_a_range(domain, x):
    with emit_nvtx():
        y = x * 2
        z = y.exp()
        z.sum().backward()
    n = y.grad_fn._sequence_nr()
    assert domain.tree == [
        f"mul, seq={n}",
        f"exp, seq={n + 1}",
        f"sum, seq={n + 2}",
        "torch::autograd::GraphRoot",
        f"SumBackward0, stashed seq={n + 2}, seq=0",
        "  expand, seq=0",
        f"ExpBackward0, stashed seq={n + 1}, seq=0",
        "  mul, seq=0",
        f"MulBackward0, stashed seq={n}, seq=0",
        "  mul, seq=0",
        f"torch::autograd::AccumulateGrad, stashed seq={2**64 - 1}, seq=0",
    ]
    assert domain.open == []
    before = len(domain.calls)
    gl.ones(2) + 1
    assert len(domain.calls) == before  # nothing after the block


def test_numbers_are_payloads_too(domain, x):
    """In nsys, ranges are matched by category and payload; -1 says that there is no number."""
    with emit_nvtx():
        (x * 2).sum().backward()
    forward, backward = (domain.get_category_id(name) for name in ("forward", "backward"))
    found = [call[1:] for call in domain.calls if call[0] == "push" and call[2] is not None]
    assert {category for _, category, _ in found} == {forward, backward} == {1, 2}
    for text, category, payload in found:
        label = read_label(text)
        assert label.backward == (category == backward)
        assert payload == (label.seq if label.seq not in (0, 2**64 - 1) else payload)
        assert payload < 2**63
    inside = [payload for text, _, payload in found if text == "expand, seq=0"]
    assert inside == [-1]


# rows: PROF-29
def test_ranges_are_balanced_when_an_op_raises(domain, x):
    with emit_nvtx():
        with pytest.raises(RuntimeError):
            x + gl.ones(5)
        y = (x * 2).exp()
        y.register_hook(lambda grad: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            y.sum().backward()
        with pytest.raises(RuntimeError):
            x.add_(1)
    assert domain.open == []
    assert domain.texts[0].startswith("add, seq=")


def test_in_place_ops_custom_functions_and_labels(domain, x):
    class Twice(gl.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with emit_nvtx(), record_function("my, label"):
        y = Twice.apply(x)
        y.add_(1)
    n = y.grad_fn._sequence_nr()
    assert domain.tree == [
        "my, label",
        f"  Twice, seq={n - 1}",
        "    mul, seq=0",
        f"  add_, seq={n}",
    ]


# rows: PROF-31
def test_record_shapes(domain, x):
    with emit_nvtx(record_shapes=True):
        (x * 2).backward(gl.ones(2, 3))
        gl.cat([x, gl.ones(4, 3)])
    first, *_, last = domain.texts
    assert first.endswith(", sizes=[[2, 3], []]") and first.startswith("mul, seq=")
    assert last.endswith(", sizes=[[2, 3], [4, 3], []]")  # the dimension is an argument, too
    assert any(
        t.startswith("MulBackward0") and t.endswith(", seq=0, sizes=[[2, 3]]") for t in domain.texts
    )


def test_with_stack_names_the_line(domain, x):
    with emit_nvtx(with_stack=True):
        x * 2  # this line
    (text,) = domain.texts
    path, _, line = read_label(text).line.rpartition(":")
    assert path == __file__
    with open(__file__) as source:
        assert "# this line" in source.read().splitlines()[int(line) - 1]


# rows: PROF-30
def test_disabled_and_not_reentrant(domain, x):
    with emit_nvtx(enabled=False):
        x * 2
    assert domain.calls == []
    emitting = emit_nvtx()
    with (
        emitting,
        pytest.raises(RuntimeError, match=r"^NVTX annotation context manager is not reentrant$"),
        emitting,
    ):
        pass
    with pytest.raises(RuntimeError, match="not reentrant"), emitting:
        pass
    assert recording.recorders() == ()


# rows: PROF-29
def test_texts_are_not_kept(domain, x):
    """The package keeps every text that it registers; sequence numbers would make that a leak."""
    kept = Domain.get_registered_string.cache_info().currsize
    with emit_nvtx():
        for _ in range(10):
            x * 2
    assert len(set(domain.texts)) == 10
    assert Domain.get_registered_string.cache_info().currsize == kept


# rows: PROF-29 PROF-44
def test_without_a_profiler_ops_take_their_fast_path(package, x):
    package.get_domain = lambda name=None: Deaf()
    with emit_nvtx():
        assert recording.recorders() == ()
        (x * 2).sum().backward()


# rows: PROF-32 DEV-23
def test_without_the_package_it_warns_once(monkeypatch, x):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.delitem(sys.modules, "cupy", raising=False)
    _nvtx._warn_once.cache_clear()
    with pytest.warns(UserWarning, match=r"gradlib\[profile\]") as caught, emit_nvtx():
        x * 2
    assert caught[0].filename == __file__
    with emit_nvtx():
        x * 2
    assert nvtx.range_push("a") == 0
    assert nvtx.range_pop() == 0


# rows: PROF-32
def test_it_synchronizes_a_device_in_use(domain, monkeypatch, x):
    waits = []
    monkeypatch.setattr(_nvtx, "synchronize", lambda: waits.append(len(domain.calls)))
    monkeypatch.setattr(_nvtx, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    with emit_nvtx():
        x * 2
    assert waits == [0, 2]
    with emit_nvtx(enabled=False):
        pass
    monkeypatch.delitem(sys.modules, "cupy")
    with emit_nvtx():
        pass
    assert waits == [0, 2]


# rows: PROF-32
def test_an_error_of_the_device_at_the_end_leaves_nothing_behind(domain, monkeypatch, x):
    def fail():
        if domain.calls:
            raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(_nvtx, "synchronize", fail)
    monkeypatch.setattr(_nvtx, "is_available", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", types.ModuleType("cupy"))
    with pytest.raises(RuntimeError, match="illegal memory access"), emit_nvtx():
        x * 2
    assert recording.recorders() == ()


# rows: PROF-29
def test_beside_the_profiler(domain, x):
    with profiler.profile() as prof, emit_nvtx():
        (x * 2).sum().backward()
    assert [e.name for e in prof.function_events] == [
        read_label(text).name for text in domain.texts
    ]


# -- sequence numbers --------------------------------------------------------------------------------------------------


# rows: SEQ-01
def test_each_node_raises_the_counter(x):
    a = x * 2
    b = a.exp()
    with gl.no_grad():
        a.exp()  # makes no node
    c = b.sum()
    numbers = [t.grad_fn._sequence_nr() for t in (a, b, c)]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


# rows: SEQ-02
def test_an_op_that_makes_no_node_leaves_its_number_to_the_next(domain, x):
    with emit_nvtx():
        gl.ones(2) * 3
        y = x * 2
    last, before = domain.texts[-1], domain.texts[-2]
    assert last == before == f"mul, seq={y.grad_fn._sequence_nr()}"


# rows: SEQ-05 SEQ-06
def test_double_backward(domain, x):
    with emit_nvtx():
        y = x.exp()
        (g,) = gl.autograd.grad(y.sum(), x, create_graph=True)
        made = g.grad_fn
        edge = len(domain.texts)
        gl.autograd.grad(g.sum(), x)
    k = made._sequence_nr()
    first, second = domain.texts[:edge], domain.texts[edge:]
    assert k > y.grad_fn._sequence_nr()
    stashed = f"ExpBackward0, stashed seq={y.grad_fn._sequence_nr()}, seq={k}"
    assert first[first.index(stashed) + 1] == f"mul, seq={k}"
    assert f"MulBackward0, stashed seq={k}, seq=0" in second


# rows: SEQ-08
def test_numbers_of_threads(package):
    """The counter is one for the process: in each thread the numbers rise, and no two nodes share one."""
    numbers = {}

    def train(name):
        w = gl.ones(2, requires_grad=True)
        numbers[name] = [(w * 2).grad_fn._sequence_nr() for _ in range(50)]

    threads = [threading.Thread(target=train, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found == sorted(found) for found in numbers.values())
    assert len({*numbers["a"], *numbers["b"]}) == 100


# rows: PROF-29 SEQ-08
def test_ranges_are_those_of_the_thread(domain, x):
    def other():
        gl.ones(2) * 3

    with emit_nvtx():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert domain.calls == []


# -- emit_itt ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tasks(monkeypatch):
    """Calls of a stand-in for the ittapi package."""
    package, calls = types.ModuleType("ittapi"), []
    package.Domain = package.StringHandle = str
    package.task_begin = lambda domain, name: calls.append((domain, name))
    package.task_end = lambda domain: calls.append((domain, None))
    monkeypatch.setitem(sys.modules, "ittapi", package)
    return calls


# rows: PROF-33
def test_itt_tasks(tasks, x):
    with emit_itt(record_shapes=True):
        (x * 2).sum()
        with pytest.raises(RuntimeError):
            x + gl.ones(5)
    assert all(domain == "gradlib" for domain, _ in tasks)
    names = [name for _, name in tasks]
    assert names[:4] == ["mul, sizes=[[2, 3], []]", None, "sum, sizes=[[2, 3]]", None]
    assert names[4:] == ["add, sizes=[[2, 3], [5]]", None]


# rows: PROF-33
def test_itt_without_the_package(monkeypatch, x):
    monkeypatch.setitem(sys.modules, "ittapi", None)
    emitting = emit_itt()
    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"ittapi .* pip install 'gradlib\[profile\]'"):
            emitting.__enter__()
    with emit_itt(enabled=False):
        x * 2


# rows: PROF-33
def test_itt_disabled_and_not_reentrant(tasks, x):
    with emit_itt(enabled=False):
        x * 2
    assert tasks == []
    emitting = emit_itt()
    with emitting:
        x * 2
    with (
        pytest.raises(RuntimeError, match=r"^ITT annotation context manager is not reentrant$"),
        emitting,
    ):
        pass
    assert [name for _, name in tasks] == ["mul", None]


# -- gradlib.cuda.nvtx and gradlib.cuda.profiler -----------------------------------------------------------------------


# rows: DEV-23
def test_user_ranges_and_marks(package):
    assert gl.cuda.nvtx is nvtx
    assert nvtx.range_push("outer") == 0
    with nvtx.range("batch {} of {total}", 3, total=9):
        nvtx.mark("now")
    assert nvtx.range_push("inner") == 1
    assert nvtx.range_pop() == 1
    assert nvtx.range_pop() == 0
    assert nvtx.range_pop() == -1
    number = nvtx.range_start("request")
    nvtx.range_end(number)
    default = package.get_domain(None)
    assert [call[:2] for call in default.calls] == [
        ("push", "outer"),
        ("push", "batch 3 of 9"),
        ("mark", "now"),
        ("pop", "batch 3 of 9"),
        ("push", "inner"),
        ("pop", "inner"),
        ("pop", "outer"),
        ("start", "request"),
        ("end", 99),
    ]


# rows: DEV-23
def test_user_range_is_closed_when_its_block_raises(package):
    @nvtx.range("step")
    def step():
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            step()
    assert package.get_domain(None).open == []


class FakeCuda:
    """A stand-in for cupy.cuda, which notes the calls of its nvtx and runtime modules."""

    def __init__(self):
        self.calls = []
        self.nvtx = self.runtime = self

    def __getattr__(self, name):
        def call(*args, **kwargs):
            self.calls.append((name, *args, *kwargs.values()))
            return 5

        return call


@pytest.fixture
def fake_cuda(monkeypatch):
    cuda = FakeCuda()
    cupy = types.ModuleType("cupy")
    cupy.cuda = cuda
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cupy_backend, "why_not", lambda: None)
    monkeypatch.setattr(cupy_backend, "get_backend", lambda: types.SimpleNamespace(xp=cupy))
    return cuda


# rows: DEV-23
@pytest.mark.host
def test_ranges_through_cupy_without_the_package(fake_cuda, monkeypatch, x):
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setattr(_nvtx, "synchronize", lambda: None)
    with emit_nvtx():
        y = x * 2
    nvtx.range_end(nvtx.range_start("request"))
    nvtx.mark("now")
    assert fake_cuda.calls == [
        ("RangePush", f"mul, seq={y.grad_fn._sequence_nr()}"),
        ("RangePop",),
        ("RangeStart", "request", None),
        ("RangeEnd", 5),
        ("Mark", "now"),
    ]


# rows: PROF-43
def test_cuda_profiler(fake_cuda):
    with gl.cuda.profiler.profile():
        assert fake_cuda.calls == [("profilerStart",)]
    assert fake_cuda.calls == [("profilerStart",), ("profilerStop",)]
    with pytest.raises(ZeroDivisionError), gl.cuda.profiler.profile():
        raise ZeroDivisionError
    assert fake_cuda.calls[-1] == ("profilerStop",)


# rows: PROF-43
def test_cuda_profiler_without_cuda(monkeypatch):
    monkeypatch.setattr(cupy_backend, "_backend", None)
    monkeypatch.setattr(cupy_backend, "why_not", lambda: "CUDA is not available: no device")
    for action in (gl.cuda.profiler.start, gl.cuda.profiler.stop):
        with pytest.raises(RuntimeError, match="CUDA is not available"):
            action()


def test_names_are_where_pytorch_has_them():
    for name in (
        "emit_nvtx emit_itt load_nvprof load_nsys parse_nvprof_trace EnforceUnique"
    ).split():
        assert callable(getattr(profiler, name))
