"""What distributions say to parameters and values that they do not take: PyTorch's exceptions and texts."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import gradlib

# the parameters of each, and values that they take
FAMILY: dict[str, dict[str, Any]] = {
    "Bernoulli": {"probs": 0.3},
    "Beta": {"concentration1": 0.5, "concentration0": 1.5},
    "Binomial": {"total_count": 3.0, "probs": 0.3},
    "Categorical": {"probs": [0.2, 0.8]},
    "Cauchy": {"loc": 0.0, "scale": 1.0},
    "Chi2": {"df": 2.0},
    "ContinuousBernoulli": {"probs": 0.3},
    "Dirichlet": {"concentration": [1.0, 2.0]},
    "Exponential": {"rate": 1.0},
    "FisherSnedecor": {"df1": 3.0, "df2": 4.0},
    "Gamma": {"concentration": 1.0, "rate": 2.0},
    "GeneralizedPareto": {"loc": 0.0, "scale": 1.0, "concentration": 0.1},
    "Geometric": {"probs": 0.3},
    "Gumbel": {"loc": 0.0, "scale": 1.0},
    "HalfCauchy": {"scale": 1.0},
    "HalfNormal": {"scale": 1.0},
    "InverseGamma": {"concentration": 1.0, "rate": 2.0},
    "Kumaraswamy": {"concentration1": 1.0, "concentration0": 2.0},
    "LKJCholesky": {"dim": 3, "concentration": 1.0},
    "Laplace": {"loc": 0.0, "scale": 1.0},
    "LogNormal": {"loc": 0.0, "scale": 1.0},
    "LogisticNormal": {"loc": [0.0, 1.0], "scale": [1.0, 1.0]},
    "LowRankMultivariateNormal": {"loc": [0.0, 0.0], "cov_factor": [[1.0], [1.0]], "cov_diag": [1.0, 1.0]},
    "Multinomial": {"total_count": 3, "probs": [0.2, 0.8]},
    "MultivariateNormal": {"loc": [0.0, 0.0], "covariance_matrix": [[1.0, 0.0], [0.0, 1.0]]},
    "NegativeBinomial": {"total_count": 3.0, "probs": 0.3},
    "Normal": {"loc": 0.0, "scale": 1.0},
    "OneHotCategorical": {"probs": [0.2, 0.8]},
    "OneHotCategoricalStraightThrough": {"probs": [0.2, 0.8]},
    "Pareto": {"scale": 1.0, "alpha": 2.0},
    "Poisson": {"rate": 2.0},
    "RelaxedBernoulli": {"temperature": 0.5, "probs": 0.3},
    "RelaxedOneHotCategorical": {"temperature": 0.5, "probs": [0.2, 0.8]},
    "StudentT": {"df": 3.0, "loc": 0.0, "scale": 1.0},
    "Uniform": {"low": 0.0, "high": 1.0},
    "VonMises": {"loc": 0.0, "concentration": 1.0},
    "Weibull": {"scale": 1.0, "concentration": 1.0},
    "Wishart": {"df": 3.0, "covariance_matrix": [[1.0, 0.0], [0.0, 1.0]]},
}  # fmt: skip
BAD = (-1.0, 0.0, 1.5, float("nan"), float("inf"))
# What PyTorch says there is about what it computes with, or nothing at all; ours is right, or refuses.
OTHERS = {
    ("ContinuousBernoulli", "probs"): "PyTorch looks after it has clamped them to what it takes",
    (
        "GeneralizedPareto",
        "log_prob",
    ): "PyTorch fails for float64 while the default dtype is float32",
    ("GeneralizedPareto", "cdf"): "likewise",
    ("GeneralizedPareto", "unchecked"): "likewise",
    ("Gumbel", "cdf 1000.0"): "PyTorch refuses 1, which is what it computed",
    ("Kumaraswamy", "cdf whole"): "PyTorch takes 2, which is outside",
    ("Wishart", "expand"): "the sizes of another parameter",
    ("Wishart", "unchecked"): "of no positive definite matrix; PyTorch gives a number",
}


def with_first(value: Any, bad: float) -> Any:
    """A nested list whose first number is another."""
    return [with_first(value[0], bad), *value[1:]] if isinstance(value, list) else bad


def attempt(function: Callable[[], Any]) -> Any:
    """The shape of a result, or the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function()
        except Exception as error:
            return type(error).__name__.lstrip("_"), str(error).replace("gradlib", "torch")
    return "gave", tuple(getattr(result, "shape", ()))


def said(library: Any, name: str) -> dict[str, Any]:
    d = importlib.import_module(f"{library.__name__}.distributions")
    kind, given, found = getattr(d, name), FAMILY[name], {}

    def tensor(value: Any) -> Any:
        return value if isinstance(value, int) else library.tensor(value, dtype=library.float64)

    def make(values: dict[str, Any], **more: Any) -> Any:
        return kind(**{n: tensor(v) for n, v in values.items()}, **more)

    def tried(label: str, values: dict[str, Any], as_they_are: bool = False) -> None:
        found[label] = attempt(lambda: (kind(**values) if as_they_are else make(values)) and None)

    numbers = all(isinstance(v, (int, float)) for v in given.values())
    for parameter, value in given.items():
        for bad in BAD:
            tried(f"{parameter} {bad}", given | {parameter: with_first(value, bad)})
        if isinstance(value, float):
            tried(f"{parameter} of a batch", given | {parameter: [value, -value - 1]})
        if numbers:
            tried(f"{parameter} a number", given | {parameter: -2.0}, as_they_are=True)
            tried(f"{parameter} a text", given | {parameter: "x"}, as_they_are=True)
    if "probs" in given:
        others = {n: v for n, v in given.items() if n != "probs"}
        tried("logits nan", others | {"logits": with_first(given["probs"], float("nan"))})
        tried("logits and probs", given | {"logits": given["probs"]})
    made = make(given)
    event = tuple(made.event_shape)
    values = {
        str(x): library.full(event, x, dtype=library.float64)
        for x in (float("nan"), -1.5, 1e3, 0.5)
    }
    values["whole"] = library.full(event, 2)
    values["shape"] = library.zeros(*event, 5, dtype=library.float64)
    values["length"] = library.zeros(7, dtype=library.float64)
    for label, x in values.items():
        found[f"log_prob {label}"] = attempt(lambda x=x: made.log_prob(x))
        found[f"cdf {label}"] = attempt(lambda x=x: made.cdf(x))
    for label, x in {"a number": 1.0, "a list": [1.0]}.items():
        found[f"log_prob {label}"] = attempt(lambda x=x: made.log_prob(x))
    for x in (-0.5, 1.5, float("nan")):
        found[f"icdf {x}"] = attempt(lambda x=x: made.icdf(tensor(x)))
    found["expand"] = attempt(lambda: made.expand((2, 3)).expand((4,)))
    found["enumerate_support"] = attempt(made.enumerate_support)
    found["rsample"] = attempt(lambda: made.rsample((2,)))
    found["unchecked"] = attempt(lambda: make(given, validate_args=False).log_prob(values["-1.5"]))
    return found


@pytest.mark.parametrize("name", FAMILY)
def test_errors_are_those_of_pytorch(name):
    ours, theirs = (said(library, name) for library in (gradlib, torch))
    for what, wanted in theirs.items():
        have = ours[what]
        if have == wanted or any((name, key) in OTHERS for key in (what, what.split()[0])):
            continue
        inner = (
            re.search(r"of (?:the )?distribution (\w+)\(", wanted[1])
            if wanted[0] == "ValueError"
            else None
        )
        assert inner and inner[1] != name, f"{what}: {have} vs {wanted}"
        # theirs is about a distribution that it is made of: ours is about this one
        assert have[0] == "ValueError" and re.search(rf"of (the )?distribution {name}\(", have[1])


def names_of_parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_methods_take_arguments_by_the_names_of_pytorch():
    """Of all distributions and transforms; the names of constraints' `check` are not documented."""
    for name in torch.distributions.__all__:
        theirs, ours = (getattr(lib.distributions, name) for lib in (torch, gradlib))
        if not isinstance(theirs, type):
            continue
        assert names_of_parameters(ours) == names_of_parameters(theirs), name
        for method, function in inspect.getmembers(theirs, inspect.isfunction):
            if not method.startswith("_"):
                have = names_of_parameters(getattr(ours, method))
                assert have == names_of_parameters(function), (name, method)


def test_all_are_here():
    d = torch.distributions
    found = {
        n
        for n in d.__all__
        if isinstance(getattr(d, n), type) and issubclass(getattr(d, n), d.Distribution)
    }
    composed = {
        "Distribution",
        "ExponentialFamily",
        "Independent",
        "MixtureSameFamily",
        "TransformedDistribution",
    }
    assert found - composed == set(FAMILY)
