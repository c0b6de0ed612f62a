"""What training on many ranks costs: the figures of docs/scaling.md.

python ci/scaling              compute the tables and compare them with the page
python ci/scaling --write      write them into the page
python ci/scaling --measure    measure alpha and beta of this machine, and print them
"""

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import measure as measuring
import model
import network
from network import Cluster, Link

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "scaling.md"

# Published. alpha: NCCL's own model of its rings, protocol Simple (src/graph/tuning.cc, hwLat, release 2.18 and later):
# 3.4 us a step on NVLink, 14 us over the network. beta: NVIDIA A100 (600 GB/s of NVLink, 300 each way; NVIDIA A100
# Tensor Core GPU data sheet) and a port of HDR InfiniBand for each GPU (200 Gb/s; DGX A100 user guide).
NVLINK = Link(3.4e-6, 1 / 300e9)
INFINIBAND = Link(14e-6, 1 / 25e9)
# A port of 25 Gb/s Ethernet for each node of 8 GPUs, with the same 14 us: what a cloud has without InfiniBand.
ETHERNET = Link(14e-6, 8 / 3.125e9)

RATE = 312e12 * 0.4  # A100 in bfloat16 (data sheet), of which 40% are reached
TOKENS = {"124M": 16 * 1024, "1.3B": 4 * 2048}  # of a rank
RANKS = (8, 64, 1024)


def cluster(ranks: int, between: Link = INFINIBAND) -> Cluster:
    return Cluster(max(1, ranks // 8), min(ranks, 8), NVLINK, between)


def table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def seconds(value: float) -> str:
    return f"{value * 1e6:,.0f} us" if value < 1e-3 else f"{value * 1e3:,.1f} ms"


def all_reduces() -> str:
    rows = []
    for ranks in RANKS:
        for nbytes in (4, 1 << 20, 25 << 20, 500 << 20):
            found = model.times(cluster(ranks), nbytes)
            size = f"{nbytes >> 20} MB" if nbytes >= 1 << 20 else f"{nbytes} B"
            best = min(found, key=lambda name: found[name])
            cells = [f"**{seconds(t)}**" if n == best else seconds(t) for n, t in found.items()]
            rows.append([f"{ranks:,}", size, *cells])
    return table(["ranks", "bytes", "ring", "doubling", "tree", "hierarchical"], rows)


def simulated() -> str:
    rows = []
    for ranks in (8, 16, 64):
        for algorithm in ("ring", "hierarchical", "tree", "doubling"):
            there = cluster(ranks)
            run = network.run(there, 25 << 20, algorithm)
            formula = model.times(there, 25 << 20)[algorithm]
            rows.append(
                [str(ranks), algorithm, seconds(run), seconds(formula), f"{run / formula:.2f}"]
            )
    return table(["ranks", "algorithm", "engine's code, simulated", "formula", "ratio"], rows)


def steps() -> str:
    rows = []
    for name, gpt in model.GPTS.items():
        for kind, between in (("InfiniBand", INFINIBAND), ("Ethernet", ETHERNET)):
            for ranks in RANKS:
                there = cluster(ranks, between)
                best = lambda m, there=there: min(model.times(there, m).values())
                for nbytes in (4, 2):
                    took = model.step(gpt, TOKENS[name], RATE, best, nbytes=nbytes)
                    rows.append(
                        [
                            name, kind, f"{ranks:,}", {4: "float32", 2: "bfloat16"}[nbytes], seconds(took.compute),
                            seconds(took.communication), seconds(took.exposed), f"{took.efficiency:.0%}",
                        ]
                    )  # fmt: skip
    heads = [
        "GPT",
        "between nodes",
        "ranks",
        "gradients",
        "compute",
        "communication",
        "exposed",
        "efficiency",
    ]
    return table(heads, rows)


def memories() -> str:
    rows = []
    for name, gpt in model.GPTS.items():
        for ranks in RANKS:
            cells = [f"{model.memory(gpt, ranks, stage) / 1e9:.2f} GB" for stage in range(4)]
            rows.append([name, f"{ranks:,}", *cells])
    return table(["GPT", "ranks", "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3 (fully_shard)"], rows)


def bucket_table() -> str:
    rows = []
    for name, gpt in model.GPTS.items():
        sizes = [sum(n for _, n in bucket) / 2**20 for bucket in model.buckets(gpt)]
        rows.append(
            [
                name, f"{gpt.parameters():,}", str(len(sizes)), f"{sizes[0]:.1f} MB",
                f"{sorted(sizes)[len(sizes) // 2]:.1f} MB", f"{sizes[-1]:.1f} MB",
            ]
        )  # fmt: skip
    return table(["GPT", "parameters", "buckets", "first", "median", "last"], rows)


TABLES = {
    "all-reduce": all_reduces,
    "simulated": simulated,
    "buckets": bucket_table,
    "steps": steps,
    "memory": memories,
}


def page(text: str) -> str:
    """The page with its tables made anew; each stands between two comments that name it."""
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"docs/scaling.md has no place for the table {name!r}")
        made = make()
        text = pattern.sub(lambda m, made=made: f"{m[1]}{made}\n{m[2]}", text)
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--write", action="store_true", help="write the tables into docs/scaling.md"
    )
    parser.add_argument("--measure", action="store_true", help="measure this machine")
    options = parser.parse_args()
    if options.measure:
        for name, sockets in (("shared memory", False), ("sockets", True)):
            found = measuring.measure(sockets)
            alpha, beta = measuring.fit(found)
            print(f"{name}: alpha {alpha * 1e6:.0f} us, 1 / beta {1e-9 / beta:.2f} GB/s")
            for nbytes, took in found.items():
                print(f"  {nbytes:>10,} bytes {seconds(took)}")
        return 0
    old = PAGE.read_text()
    new = page(old)
    if options.write:
        PAGE.write_text(new)
    elif new != old:
        print("docs/scaling.md is not up to date: run python ci/scaling --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
