"""docs/scaling.md: its tables are what ci/scaling gives, and the formulas hold on the engine's own code."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def scaling():
    """The modules of ci/scaling, by name."""
    names = ["network", "model", "measure"]
    sys.path.insert(0, str(ROOT / "ci" / "scaling"))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(ROOT / "ci" / "scaling"))
        for name in names:
            sys.modules.pop(name, None)


def clusters(network):
    inside, between = network.Link(2e-6, 1 / 100e9), network.Link(20e-6, 1 / 10e9)
    for nodes, each in ((1, 2), (1, 8), (2, 4), (4, 4), (8, 1)):
        yield network.Cluster(nodes, each, inside, between)


@pytest.mark.parametrize("algorithm", ["ring", "doubling", "tree", "hierarchical"])
def test_the_formulas_hold_on_the_code_of_the_engine(scaling, algorithm):
    network, model = scaling["network"], scaling["model"]
    for cluster in clusters(network):
        for nbytes in (64, 1 << 20, 64 << 20):
            took = network.run(cluster, nbytes, algorithm)
            assert took == pytest.approx(model.times(cluster, nbytes)[algorithm], rel=0.1)


def test_the_simulation_gives_the_same_each_time(scaling):
    network = scaling["network"]
    cluster = network.Cluster(3, 4, network.Link(1e-6, 1e-11), network.Link(5e-6, 1e-10))
    for algorithm in network.ALGORITHMS:
        assert len({network.run(cluster, 1 << 20, algorithm) for _ in range(4)}) == 1


def test_ranks_that_are_no_power_of_two_get_the_sums(scaling):
    network = scaling["network"]
    for ranks in (3, 5, 6):
        cluster = network.Cluster(1, ranks, network.Link(1e-6, 1e-11), network.Link(0, 0))
        for algorithm in network.ALGORITHMS:
            assert network.run(cluster, 1 << 16, algorithm) > 0


def test_gpts_have_their_parameters_and_buckets(scaling):
    model = scaling["model"]
    assert model.GPTS["124M"].parameters() == 124_439_808
    for gpt in model.GPTS.values():
        buckets = model.buckets(gpt)
        assert sum(n for b in buckets for _, n in b) == 4 * gpt.parameters()
        layers = [layer for b in buckets for layer, _ in b]
        assert layers == sorted(layers, reverse=True)


def test_a_step_exposes_what_backward_cannot_hide(scaling):
    model, gpt = scaling["model"], scaling["model"].GPTS["124M"]
    nothing = model.step(gpt, 1024, 1e14, lambda m: 0.0)
    assert nothing.exposed == 0
    assert nothing.efficiency == 1
    slow = model.step(gpt, 1024, 1e14, lambda m: 1.0)
    buckets = len(model.buckets(gpt))
    assert slow.communication == buckets
    assert buckets - slow.compute < slow.exposed < buckets
    larger = model.step(gpt, 1024, 1e14, lambda m: 1.0, bucket_mb=1000)
    assert larger.communication < slow.communication


def test_memory_of_the_stages(scaling):
    model = scaling["model"]
    gpt = model.GPTS["1.3B"]
    for stage in range(4):
        assert model.memory(gpt, 1, stage) == 16 * gpt.parameters()
    by_stage = [model.memory(gpt, 64, stage) for stage in range(4)]
    assert by_stage == sorted(by_stage, reverse=True)


def test_alpha_and_beta_of_times(scaling):
    measure = scaling["measure"]
    alpha, beta = 5e-6, 2e-10
    times = {m: 2 * (alpha + beta * m / 2) for m in (4, 1 << 20, 1 << 26)}
    found = measure.fit(times)
    assert found.alpha == pytest.approx(alpha, rel=1e-3)
    assert found.beta == pytest.approx(beta, rel=1e-3)


def test_two_processes_are_measured(scaling):
    times = scaling["measure"].measure(True, repeats=3, sizes=[4, 1 << 20])
    assert all(0 < t < 10 for t in times.values())


def test_the_page_is_up_to_date(scaling, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["scaling"])
    monkeypatch.syspath_prepend(str(ROOT / "ci" / "scaling"))
    spec = importlib.util.spec_from_file_location("scaling_page", ROOT / "ci/scaling/__main__.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    text = program.PAGE.read_text()
    assert program.page(text) == text, "run: python ci/scaling --write"
    assert "MEASURED" not in text
