"""load_nsys on files made here after the schema of nsys export, with known answers."""

import random
import sqlite3
import time

import pytest

from gradlib.autograd.profiler_util import EventList, Kernel
from gradlib.profiler._nsys import load_nsys
from gradlib.profiler._ranges import read_label

NVTX = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
    category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER,
    domainId INTEGER, uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, jsonText TEXT);
"""
CALLS = """
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
"""
COMMON = """start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER"""
KERNEL = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({COMMON}, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL,
    mangledName INTEGER, graphNodeId INTEGER);
"""
COPIES = f"""
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({COMMON}, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET ({COMMON}, value INTEGER NOT NULL, bytes INTEGER NOT NULL);
"""
GRAPH = f"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({COMMON}, graphId INTEGER, graphExecId INTEGER);"
MARK, PUSH_POP, START_END, DOMAIN, CATEGORY = 34, 59, 60, 75, 33


def process(pid):
    """A global process id, as nsys writes it: hardware and virtual machine above, thread number zero below."""
    return (1 << 56) | (pid << 24)


P, Q = process(4000), process(5000)


class File:
    """An exported file in the making."""

    def __init__(self, path, schema=NVTX + CALLS + KERNEL):
        self.path = path
        self.database = sqlite3.connect(path)
        self.database.executescript(schema)
        self.strings = {}

    def insert(self, table, **values):
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self.database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*values.values()])

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.insert("StringIds", id=self.strings[text], value=text)
        return self.strings[text]

    def nvtx(self, kind, start, end, text, thread=P + 1, **values):
        self.insert(
            "NVTX_EVENTS",
            start=start,
            end=end,
            eventType=kind,
            text=text,
            globalTid=thread,
            **values,
        )

    def range(self, start, end, text, thread=P + 1, **values):
        self.nvtx(PUSH_POP, start, end, text, thread, **values)

    def name_domain(self, number=3, owner=P, name="gradlib"):
        self.nvtx(DOMAIN, 0, None, name, owner + 1, domainId=number)
        self.nvtx(CATEGORY, 0, None, "forward", owner + 1, domainId=number, category=1)
        self.nvtx(CATEGORY, 0, None, "backward", owner + 1, domainId=number, category=2)

    def call(self, correlation, start, thread=P + 1):
        self.insert(
            "CUPTI_ACTIVITY_KIND_RUNTIME",
            start=start,
            end=start + 4,
            eventClass=1,
            globalTid=thread,
            correlationId=correlation,
            nameId=0,
            returnValue=0,
        )

    def work(self, kind, correlation, start, end, owner=P, device=0, **values):
        self.insert(
            f"CUPTI_ACTIVITY_KIND_{kind}",
            start=start,
            end=end,
            deviceId=device,
            contextId=1,
            streamId=7,
            correlationId=correlation,
            globalPid=owner,
            **values,
        )

    def kernel(self, correlation, start, end, name, owner=P, device=0):
        self.work(
            "KERNEL",
            correlation,
            start,
            end,
            owner,
            device,
            demangledName=self.string(f"void {name}<float>(float*)"),
            shortName=self.string(name),
        )

    def load(self):
        self.close()
        return load_nsys(self.path)

    def close(self):
        self.database.commit()
        self.database.close()


@pytest.fixture
def make(tmp_path):
    files = []

    def make(*schema):
        files.append(File(tmp_path / f"run{len(files)}.sqlite", *schema))
        return files[-1]

    yield make
    for file in files:
        file.database.close()


def kernels(event):
    return [(k.name, k.duration) for k in event.kernels]


# rows: DEV-24
def test_events_times_and_kernels(make):
    file = make()
    file.range(1_000, 9_000, "step")
    file.range(2_000, 5_000, "mul, seq=7, sizes=[[2, 3], []], at=train.py:41")
    file.nvtx(MARK, 2_500, None, "a mark")
    file.call(11, 3_000)
    file.call(12, 6_000)
    file.call(13, 9_500)
    file.kernel(12, 30_000, 31_500, "tail", device=2)
    file.kernel(11, 20_000, 22_250, "multiply")
    file.kernel(13, 40_000, 41_000, "late")

    trace = file.load()

    assert isinstance(trace, EventList)
    assert [(e.name, e.time_range.start, e.time_range.end) for e in trace] == [
        ("step", 1.0, 9.0),
        ("mul", 2.0, 5.0),
        ("void late<float>(float*)", 40.0, 41.0),
    ]
    step, mul, late = trace
    assert mul.cpu_parent is step and step.cpu_children == [mul]
    assert mul.kernels == [Kernel("void multiply<float>(float*)", 0, 2.25)]
    assert step.kernels == [Kernel("void tail<float>(float*)", 2, 1.5)]
    assert trace.outside == [Kernel("void late<float>(float*)", 0, 1.0)]
    assert (mul.sequence_nr, mul.scope, mul.thread) == (7, 0, 1)
    assert (mul.input_shapes, mul.stack) == ([[2, 3], []], ["train.py:41"])
    assert step.device_time_total == 3.75 and step.self_cpu_time_total == 5.0
    assert (late.device_type.name, late.device_index, late.thread) == ("CUDA", 0, 7)
    assert (late.cpu_time_total, late.self_device_time_total) == (0, 1.0)
    table = trace.table(sort_by="cuda_time_total")
    assert "3.750us" in table and "2.250us" in table
    assert "Self CUDA time total: 4.750us" in table  # nothing is left out


# rows: DEV-24 SEQ-02 SEQ-03
def test_forward_and_backward_by_payload(make):
    """The payload of emit_nvtx's own ranges is the number, whatever the text says."""
    file = make()
    file.name_domain()
    ours = {"domainId": 3, "textId": None}
    file.range(0, 10, "linear, seq=5", category=1, int64Value=5, **ours)
    file.range(2, 8, "addmm, seq=5", category=1, int64Value=5, **ours)  # this one made the node
    file.range(12, 15, "relu", category=1, int64Value=6, **ours)
    file.range(20, 40, "ReluBackward0", category=2, int64Value=6, **ours)
    file.range(25, 30, "mul, seq=0", category=1, int64Value=-1, **ours)
    file.range(50, 90, "AddmmBackward0, stashed seq=5, seq=0", category=2, int64Value=5, **ours)
    file.range(95, 99, "NCCL", category=1, int64Value=6, domainId=8)  # somebody else's payload
    for correlation, launched in enumerate((4, 13, 26, 35, 60, 70)):
        file.call(correlation, launched)
        file.kernel(correlation, 1_000, 1_000 + 1_000 * 2**correlation, "k")

    trace = file.load()

    assert [(f.name, b.name, f.sequence_nr) for f, b in trace.pairs] == [
        ("relu", "ReluBackward0", 6),
        ("addmm", "AddmmBackward0", 5),
    ]
    assert all(b.scope == 1 and b.fwd_thread == 1 for _, b in trace.pairs)
    report = trace.forward_backward()
    assert [(r.key, r.calls, r.forward_device_us, r.backward_device_us) for r in report] == [
        ("addmm", 1, 1.0, 48.0),
        ("relu", 1, 2.0, 12.0),
    ]
    assert report[0][4:] == pytest.approx((0.006, 0.04))
    assert str(report).splitlines()[2].split() == "addmm 1 1.000us 48.000us 0.006us 0.040us".split()
    assert [row.key for row in report.head(1)] == ["addmm"]


# rows: SEQ-04 SEQ-05 SEQ-06
def test_forward_and_backward_by_text(make):
    """Exports of PyTorch's programs, and ranges made through CuPy, have no payload."""
    file = make()
    worker = P + 2
    file.range(0, 5, "aten::mul, op_id = 1, seq = 0, sizes = [[2, 3], []]")
    file.range(5, 10, "aten::exp, seq = 1")
    file.range(10, 11, "aten::detach, seq = 2")  # makes no node, so the number is used again
    file.range(12, 15, "aten::sum, seq = 2")
    file.range(20, 60, "autograd::engine::evaluate_function: ExpBackward0, seq = 1", worker)
    file.range(22, 58, "ExpBackward0, seq = 1, op_id = 9", worker)
    file.range(25, 30, "aten::mul, seq = 0", worker)  # 0: no nodes are made here
    file.range(70, 80, "MulBackward0, stashed seq=0, seq=0", worker)
    file.range(81, 85, "SumBackward0, stashed seq=2", worker)
    file.range(86, 90, "AccumulateGrad, stashed seq=18446744073709551615, seq=0", worker)
    # double backward: nodes made in backward
    file.range(100, 140, "ExpBackward0, stashed seq=1, seq=3", worker)
    file.range(110, 120, "mul, seq=3", worker)
    file.range(150, 160, "MulBackward0, stashed seq=3, seq=0", worker)
    file.call(1, 25)
    file.kernel(1, 30, 40, "k")

    trace = file.load()

    assert [(f.name, f.time_range.start, b.name, b.fwd_thread) for f, b in trace.pairs] == [
        ("aten::exp", 0.005, "ExpBackward0", 1),
        ("aten::mul", 0.0, "MulBackward0", 1),
        ("aten::sum", 0.012, "SumBackward0", 1),
        ("aten::exp", 0.005, "ExpBackward0", 1),
        ("mul", 0.11, "MulBackward0", 2),
    ]


# rows: DEV-24
def test_by_line(make):
    file = make()
    file.range(0, 50_000, "epoch 1")
    file.range(1_000, 4_000, "mul, seq=1, at=/home/me/train.py:41")
    file.range(4_000, 5_000, "exp, seq=2, at=/home/me/train.py:41")
    file.range(6_000, 9_000, "sum, seq=3, at=/home/me/train.py:42")
    file.range(10_000, 12_000, "SumBackward0, stashed seq=3, seq=0")
    file.range(13_000, 20_000, "ExpBackward0, stashed seq=2, seq=0")
    file.range(14_000, 16_000, "mul, seq=0, at=/home/me/train.py:43")
    for correlation, launched in enumerate((2_000, 7_000, 11_000, 15_000, 40_000)):
        file.call(correlation, launched)
        file.kernel(correlation, 60_000, 61_000 * 2**correlation, "k")
    trace = file.load()
    us = [61.0 * 2**n - 60 for n in range(5)]
    assert [tuple(row) for row in trace.by_line()] == [
        ("/home/me/train.py:41", 2, us[0], us[3], 4.0, 7.0),
        ("/home/me/train.py:42", 1, us[1], us[2], 3.0, 2.0),
    ]


def test_by_line_says_how_to_record_lines(make):
    file = make()
    file.range(0, 10, "mul, seq=1")
    file.call(1, 5)
    file.kernel(1, 6, 7, "k")
    with pytest.raises(RuntimeError, match=r"emit_nvtx\(with_stack=True\)"):
        file.load().by_line()


def test_two_processes_and_threads(make):
    """Correlation numbers, domains, categories and sequence numbers are those of a process."""
    file = make()
    file.name_domain(number=3, owner=P)
    file.name_domain(number=4, owner=Q)
    ours = {"category": 1, "int64Value": 1}
    file.range(0, 100, "mul", P + 1, domainId=3, **ours)
    file.range(10, 90, "add", P + 2, domainId=3, category=1, int64Value=2)
    file.range(20, 80, "exp", Q + 1, domainId=4, **ours)
    file.range(200, 300, "ExpBackward0", Q + 1, domainId=4, category=2, int64Value=1)
    for owner, thread in ((P, P + 1), (Q, Q + 1)):
        file.call(7, 50, thread)
        file.kernel(7, 400, 500, f"of_{thread - owner}_{owner >> 24 & 0xFFFF}", owner)
    mul, add, exp, backward = trace = file.load()
    assert kernels(mul) == [("void of_1_4000<float>(float*)", 0.1)]
    assert kernels(exp) == [("void of_1_5000<float>(float*)", 0.1)]
    assert kernels(add) == []
    assert trace.pairs == [(exp, backward)]


def test_overlapping_ranges_of_other_kinds(make):
    """Domains may overlap without nesting, start-end ranges nest in nothing, open ranges last to the end."""
    file = make()
    file.range(0, 10, "a", domainId=1)
    file.range(5, 15, "b", domainId=2)
    file.nvtx(START_END, 2, 9, "request")
    file.range(20, None, "open")
    for correlation, launched in enumerate((4, 7, 12, 15, 50)):
        file.call(correlation, launched)
        file.kernel(correlation, 60, 70 + correlation, f"k{correlation}")
    a, request, b, still_open, *alone = trace = file.load()
    assert [k.name for k in a.kernels] == ["void k0<float>(float*)"]
    assert [k.name for k in b.kernels] == ["void k1<float>(float*)", "void k2<float>(float*)"]
    assert request.kernels == [] and request.is_async
    assert [k.name for k in trace.outside] == ["void k3<float>(float*)", "void k4<float>(float*)"]
    assert {e.name for e in alone} == {k.name for k in trace.outside}
    assert b.cpu_parent is None
    assert still_open.time_range.end == 0.02  # nothing later was recorded on the host


def test_copies_fills_and_graphs(make):
    file = make(NVTX + CALLS + KERNEL + COPIES + GRAPH)
    file.range(0, 100, "to")
    for correlation in range(4):
        file.call(correlation, 10 + correlation)
    file.work("MEMCPY", 0, 200, 300, bytes=64, copyKind=8)
    file.work("MEMSET", 1, 300, 450, value=0, bytes=64)
    file.kernel(2, 450, 550, "in_graph")  # the kernels of a graph have the number of its launch
    file.kernel(2, 550, 750, "in_graph")
    file.work("GRAPH_TRACE", 3, 800, 900, graphId=2, graphExecId=3)
    (event,) = file.load()
    assert kernels(event) == [
        ("[CUDA memcpy DtoD]", 0.1),
        ("[CUDA memset]", 0.15),
        ("void in_graph<float>(float*)", 0.1),
        ("void in_graph<float>(float*)", 0.2),
        ("[CUDA graph 2]", 0.1),
    ]


def test_few_columns_suffice(make):
    """Older exports have no text column for registered strings, and no process in the rows of kernels."""
    file = make("""
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, textId INT, globalTid INT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, correlationId INT, mangledName INT);
        INSERT INTO StringIds VALUES (1, 'mul, seq=7'), (2, '_ZN2at4mul_E');
        INSERT INTO NVTX_EVENTS VALUES (1000, 2000, 59, 1, 72057661146071041);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1100, 1200, 72057661146071041, 5);
        INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1300, 1400, 5, 2);
    """)
    (event,) = file.load()
    assert (event.name, event.sequence_nr, kernels(event)) == ("mul", 7, [("at::mul_", 0.1)])


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (NVTX + KERNEL, "no table CUPTI_ACTIVITY_KIND_RUNTIME: record with nsys profile --trace=c"),
        (CALLS + NVTX.replace("eventType", "kind"), "NVTX_EVENTS of .* has no column eventType"),
    ],
)
def test_missing_tables_name_the_option(make, schema, words):
    file = make(schema + COPIES + KERNEL.replace("KIND_KERNEL", "KIND_OTHER"))
    file.work("MEMSET", 1, 300, 450, value=0, bytes=64)
    with pytest.raises(RuntimeError, match=words):
        file.load()


def test_device_work_alone(make):
    """Without ranges there is a table of kernels; without anything, an error."""
    file = make(NVTX.partition("CREATE TABLE NVTX_EVENTS")[0] + COPIES + KERNEL)
    file.work("MEMSET", 1, 3_000, 4_500, value=0, bytes=64)
    file.kernel(2, 5_000, 7_000, "k", device=1)
    file.kernel(3, 7_000, 8_000, "k", device=1)
    with pytest.warns(UserWarning, match="no table NVTX_EVENTS, .*: record with nsys profile"):
        trace = file.load()
    assert [(a.key, a.count, a.self_device_time_total) for a in trace.key_averages()] == [
        ("[CUDA memset]", 1, 1.5),
        ("void k<float>(float*)", 2, 3.0),
    ]
    assert [(e.name, e.device_index, e.thread) for e in trace.kernels()] == [
        ("[CUDA memset]", 0, 7),
        ("void k<float>(float*)", 1, 7),
        ("void k<float>(float*)", 1, 7),
    ]
    with pytest.raises(RuntimeError, match="no table NVTX_EVENTS: record with nsys profile"):
        make(CALLS).load()


def test_the_clock_and_the_names_of_threads(make):
    file = make(
        NVTX
        + CALLS
        + KERNEL
        + """
        CREATE TABLE ANALYSIS_DETAILS (globalVid INT, duration INT, startTime INT, stopTime INT);
        CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT, utcTime TEXT, localTime TEXT);
        CREATE TABLE ThreadNames (nameId INT, priority INT, globalTid INT);
        INSERT INTO ANALYSIS_DETAILS VALUES (1, 90000, 10000, 100000);
        INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1779630014975716426, '', '');
        """
    )
    for owner, name in ((P, "python"), (Q, "worker")):
        file.insert("ThreadNames", nameId=file.string(name), priority=1, globalTid=owner + 1)
        file.range(12_000, 15_000, "step", owner + 1)
    file.call(1, 13_000)
    file.kernel(1, 21_000, 23_000, "k")
    file.kernel(9, 31_000, 32_000, "of an unknown call")
    *steps, kernel = trace = file.load()
    assert [(e.time_range.start, e.time_range.end) for e in steps] == [(2.0, 5.0)] * 2
    assert (kernel.time_range.start, kernel.time_range.end) == (21.0, 22.0)
    assert trace._began_at_ns == 1779630014975716426
    assert trace._threads == {1: "worker, process 5000"}  # numbers of threads are those of a system


def test_gaps_are_told(make):
    file = make(NVTX)
    file.range(0, 10_000, "mul, seq=1")
    with pytest.warns(UserWarning, match="CPU times only: record with nsys profile --trace=cuda"):
        (event,) = file.load()
    assert event.cpu_time_total == 10.0

    file = make(NVTX + CALLS + GRAPH)
    file.call(1, 5)
    file.work("GRAPH_TRACE", 1, 10, 20, graphId=2, graphExecId=3)
    with pytest.warns(UserWarning, match="--cuda-graph-trace=node"):
        trace = file.load()
    assert trace.outside == [Kernel("[CUDA graph 2]", 0, 0.01)]


def test_unreadable_files_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_nsys(tmp_path / "absent.sqlite")
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"something else")
    with pytest.raises(RuntimeError, match="make one with nsys export --type sqlite"):
        load_nsys(report)


def test_damaged_file(make):
    file = make()
    big_file(file, 100)
    file.close()
    whole = file.path.read_bytes()
    file.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(
        RuntimeError, match=r"run0.sqlite is damaged \(.*\); make one with nsys export"
    ):
        load_nsys(file.path)


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("my label, with a comma", ("my label, with a comma", None, False, None, None)),
        ("mul, seq=37", ("mul", 37, False, None, None)),
        ("MulBackward0, stashed seq=37, seq=5", ("MulBackward0", 37, True, None, None)),
        ("aten::mul, op_id = 7", ("aten::mul", None, False, None, None)),
        ("aten::mul, op_id = 8, sizes = [[2], []]", ("aten::mul", None, False, [[2], []], None)),
        ("aten::mul, seq = 2, op_id = 9", ("aten::mul", 2, False, None, None)),
        ("MulBackward0, op_id = 9", ("MulBackward0", None, True, None, None)),
        ("an op_id = 3", ("an op_id = 3", None, False, None, None)),
        ("cat, seq=1, sizes=[[], [0, 3]]", ("cat", 1, False, [[], [0, 3]], None)),
        ("f, seq=1, at=/a, b/c.py:9", ("f", 1, False, None, "/a, b/c.py:9")),
        (
            "aten::add, op_id = 3, seq = 2, sizes = [[4], [4], []], input_op_ids = [(1, 0)]",
            ("aten::add", 2, False, [[4], [4], []], None),
        ),
    ],
)
def test_labels(text, label):
    assert tuple(read_label(text)) == label


def big_file(file, nodes):
    """`nodes` ops of one kernel each, and their nodes with three; rows of kernels in random order."""
    file.name_domain()
    pushes, calls, done, clock = [], [], [], 0
    for seq in (*range(nodes), *reversed(range(nodes))):
        backward = len(pushes) >= nodes
        text = f"MulBackward0, stashed seq={seq}, seq=0" if backward else f"mul, seq={seq}"
        begin = clock
        for _ in range(3 if backward else 1):
            clock += 10
            number = len(calls)
            calls.append((clock, clock + 4, 1, P + 1, number, 0, 0))
            ran = clock + 1_000_000
            done.append((ran, ran + seq, 0, 1, 7, number, P, 1, 1, None, None))
        clock += 10
        pushes.append((begin, clock, PUSH_POP, text, 2 if backward else 1, P + 1, 3, seq))
    random.Random(0).shuffle(done)
    file.string("void k<float>(float*)")
    file.database.executemany(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, category, globalTid, domainId, int64Value) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        pushes,
    )
    for table, rows in (("RUNTIME", calls), ("KERNEL", done)):
        marks = ", ".join("?" * len(rows[0]))
        file.database.executemany(f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} VALUES ({marks})", rows)


def test_nothing_is_mismatched(make):
    """Each kernel runs as many ns as the number of its node, so a wrong match shows in its time."""
    nodes = 2_000
    file = make()
    big_file(file, nodes)
    trace = file.load()
    assert len(trace) == 2 * nodes and len(trace.pairs) == nodes and not trace.outside
    for forward, backward in trace.pairs:
        assert forward.sequence_nr == backward.sequence_nr
        time_us = forward.sequence_nr / 1000
        assert [k.duration for k in forward.kernels] == [time_us]
        assert [k.duration for k in backward.kernels] == [time_us] * 3


@pytest.mark.slow
def test_a_large_file_loads_in_seconds(make):
    """100,000 ranges and 200,000 kernels."""
    file = make()
    big_file(file, 50_000)
    file.close()
    start = time.process_time()
    trace = load_nsys(file.path)
    assert time.process_time() - start < 10  # a promise of seconds, on machines of several speeds
    assert len(trace) == 100_000 and len(trace.pairs) == 50_000 and not trace.outside
    assert sum(len(event.kernels) for event in trace) == 200_000
