"""load_nvprof on files made here after nvprof's schema, with known answers."""

import sqlite3
import struct

import pytest

from gradlib.autograd.profiler_util import EventList, FunctionEvent, Kernel
from gradlib.profiler._nvprof import EnforceUnique, load_nvprof, parse_nvprof_trace

SCHEMA = """
CREATE TABLE StringTable(_id_ INTEGER PRIMARY KEY, value TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER(
    _id_ INTEGER PRIMARY KEY, flags INT, timestamp INT, id INT, objectKind INT, objectId BLOB, name INT, domain INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER_DATA(
    _id_ INTEGER PRIMARY KEY, flags INT, id INT, payloadKind INT, payload BLOB, color INT, category INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(_id_ INTEGER PRIMARY KEY, cbid INT, start INT, end INT, processId INT,
    threadId INT, correlationId INT, returnValue INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER(_id_ INTEGER PRIMARY KEY, cbid INT, start INT, end INT, processId INT,
    threadId INT, correlationId INT, returnValue INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL(_id_ INTEGER PRIMARY KEY, start INT, end INT, completed INT,
    deviceId INT, contextId INT, streamId INT, correlationId INT, gridId INT, name INT);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(_id_ INTEGER PRIMARY KEY, copyKind INT, bytes INT, start INT, end INT,
    deviceId INT, correlationId INT);
"""
PROCESS, MAIN, OTHER = (
    900,
    4_000_000_001,
    17,
)  # a thread id above 2**31: CUPTI writes it as a negative number
ORIGIN = 1_700_000_000_000_000_000  # nvprof's clock: ns since 1970


class File:
    """An nvprof file in the making."""

    def __init__(self, path, schema=SCHEMA):
        self.path = path
        self.database = sqlite3.connect(path)
        self.database.executescript(schema)
        self.count = 0

    def insert(self, table, **values):
        names, marks = ", ".join(values), ", ".join("?" * len(values))
        self.database.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", [*values.values()])

    def string(self, text):
        self.count += 1
        self.insert("StringTable", _id_=self.count, value=text)
        return self.count

    def marker(self, number, time, name, thread=MAIN, domain=0):
        owner = struct.pack("<III", PROCESS, thread, 0)
        self.insert(
            "CUPTI_ACTIVITY_KIND_MARKER",
            flags=2 if name else 4,
            timestamp=ORIGIN + time,
            id=number,
            objectKind=2,
            objectId=owner,
            name=name,
            domain=domain,
        )

    def range(self, number, start, end, text, thread=MAIN, domain=0):
        self.marker(number, start, self.string(text), thread, domain)
        self.marker(number, end, 0, thread, domain)

    def payload(self, number, value, category):
        self.insert(
            "CUPTI_ACTIVITY_KIND_MARKER_DATA",
            id=number,
            payloadKind=4,
            payload=struct.pack("<q", value),
            category=category,
        )

    def call(self, correlation, start, thread=MAIN, table="RUNTIME", cbid=211):
        signed = thread - (1 << 32) if thread >= 1 << 31 else thread
        self.insert(
            f"CUPTI_ACTIVITY_KIND_{table}",
            cbid=cbid,
            start=ORIGIN + start,
            end=ORIGIN + start + 5,
            processId=PROCESS,
            threadId=signed,
            correlationId=correlation,
        )

    def kernel(self, correlation, start, end, name):
        self.insert(
            "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL",
            start=ORIGIN + start,
            end=ORIGIN + end,
            deviceId=1,
            correlationId=correlation,
            name=self.string(name),
        )

    def close(self):
        self.database.commit()
        self.database.close()
        return self.path


@pytest.fixture
def file(tmp_path):
    made = File(tmp_path / "run.nvprof")
    yield made
    made.database.close()


def shown(events):
    return [(e.name, e.time_range.start, e.time_range.elapsed_us()) for e in events]


# rows: PROF-34 PROF-35
def test_names_times_and_kernels(file):
    file.range(8, 3_000, 9_000, "train")
    file.range(9, 4_000, 6_000, "mul, seq=7, sizes=[[2, 3], []]")
    file.call(1, 4_500)
    file.call(2, 7_000, cbid=13)  # launches have more than one callback id
    file.kernel(2, 8_000, 8_500, "copy_kernel")
    file.kernel(1, 5_000, 25_250, "_ZN2at4mul_E")  # runs on long after the range
    path = file.close()

    events = load_nvprof(path, microseconds=True)

    assert isinstance(events, EventList)
    assert shown(events) == [
        ("train", 0.0, 6.0),
        ("mul, seq=7, sizes=[[2, 3], []]", 1.0, 2.0),
    ]
    train, mul = events
    assert train.kernels == [Kernel("copy_kernel", 1, 0.5)]
    assert mul.kernels == [Kernel("at::mul_", 1, 20.25)]
    assert mul.cpu_parent is train
    assert (mul.id, mul.thread, mul.sequence_nr, mul.input_shapes) == (9, MAIN, 7, [[2, 3], []])
    assert train.device_time_total == 20.75
    assert "20.250us" in events.table()

    parsed = parse_nvprof_trace(str(path))
    assert type(parsed) is list and isinstance(parsed[0], FunctionEvent)
    assert shown(parsed) == shown(load_nvprof(path))


# rows: PROF-34
def test_threads_are_kept_apart(file):
    """Ranges of two threads overlap in time; launches belong to those of their own thread."""
    file.range(1, 0, 100, "main")
    file.range(2, 10, 90, "other", thread=OTHER)
    file.call(1, 50)
    file.kernel(1, 60, 61, "k")
    main, other = load_nvprof(file.close(), microseconds=True)
    assert main.kernels and not other.kernels
    assert other.cpu_parent is None


# rows: PROF-34
def test_driver_calls_and_copies(file):
    file.range(1, 0, 100, "to_device")
    file.call(4, 20, table="DRIVER")
    file.kernel(4, 60, 62, "fill")
    file.call(5, 40)
    file.insert(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        copyKind=1,
        start=ORIGIN + 70,
        end=ORIGIN + 75,
        deviceId=0,
        correlationId=5,
    )
    (event,) = load_nvprof(file.close(), microseconds=True)
    assert event.kernels == [Kernel("fill", 1, 0.002), Kernel("[CUDA memcpy HtoD]", 0, 0.005)]


# rows: PROF-34
def test_forward_and_backward_by_payload_and_by_text(file):
    domain = file.string("gradlib")
    file.range(1, 0, 10_000, "mul, seq=3", domain=domain)
    file.range(
        2, 20_000, 50_000, "MulBackward0, stashed seq=4, seq=0", domain=domain
    )  # the payload wins
    file.payload(1, 3, 1)
    file.payload(2, 3, 2)
    file.range(3, 60_000, 70_000, "exp, seq = 9")
    file.range(4, 80_000, 85_000, "ExpBackward0, stashed seq=9, seq=0")
    file.call(1, 30_000)
    file.kernel(1, 90_000, 92_000, "k")
    trace = load_nvprof(file.close(), microseconds=True)
    assert [(f.id, b.id) for f, b in trace.pairs] == [(1, 2), (3, 4)]
    assert [tuple(row) for row in trace.forward_backward()] == [
        ("mul", 1, 0.0, 2.0, 10.0, 30.0),
        ("exp", 1, 0.0, 0.0, 10.0, 5.0),
    ]


# rows: PROF-34
def test_few_columns_suffice(tmp_path):
    """Older files name no threads; a marker that is never ended, as marks are, is no range."""
    file = File(
        tmp_path / "old.prof",
        """
        CREATE TABLE StringTable (_id_ INTEGER, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (id INTEGER, name INTEGER, timestamp INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (cbid INTEGER, start INTEGER, end INTEGER, correlationId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
            (start INTEGER, end INTEGER, name TEXT, correlationId INTEGER);
        INSERT INTO StringTable VALUES (1, 'mul, seq=7'), (2, 'a mark');
        INSERT INTO CUPTI_ACTIVITY_KIND_MARKER VALUES (10, 1, 1000), (10, 0, 2000), (11, 2, 500);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (211, 1100, 1200, 5);
        INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES (1300, 1400, 'kernel_mul', 5);
        """,
    )
    path = file.close()
    (event,) = load_nvprof(path, microseconds=True)
    assert (event.id, event.name) == (10, "mul, seq=7")
    assert event.time_range.elapsed_us() == 1.0
    assert event.kernels == [Kernel("kernel_mul", 0, 0.1)]
    (event,) = load_nvprof(path)  # the numbers of the file
    assert event.time_range.elapsed_us() == 1000
    assert event.kernels == [Kernel("kernel_mul", 0, 100)]


# rows: PROF-35 PROF-36
def test_duplicate_marker(file):
    file.range(4, 0, 10, "mul")
    file.range(4, 20, 30, "add")
    path = file.close()
    with pytest.raises(RuntimeError, match=r"duplicate key: \(4,\)"):
        load_nvprof(path)


# rows: PROF-36
def test_enforce_unique():
    unique = EnforceUnique()
    unique.see(1, 2)
    unique.see(2, 1)
    with pytest.raises(RuntimeError, match=r"^duplicate key: \(1, 2\)$"):
        unique.see(1, 2)


def test_unreadable_files_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_nvprof(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()

    other = tmp_path / "run.nsys-rep"
    other.write_bytes(b"something else")
    with pytest.raises(RuntimeError, match="not an SQLite file; record one with nvprof -o"):
        load_nvprof(other)

    empty = File(
        tmp_path / "empty.nvprof", "CREATE TABLE StringTable(_id_ INT, value TEXT)"
    ).close()
    with pytest.raises(RuntimeError, match=r"no table CUPTI_ACTIVITY_KIND_MARKER: .*emit_nvtx"):
        load_nvprof(empty)


def test_kernels_without_calls_name_the_option(file):
    file.range(1, 0, 10, "mul")
    file.kernel(1, 20, 30, "k")
    for table in ("RUNTIME", "DRIVER"):
        file.database.execute(f"DROP TABLE CUPTI_ACTIVITY_KIND_{table}")
    path = file.close()
    with pytest.raises(RuntimeError, match="--profile-api-trace all"):
        load_nvprof(path)
