"""pyproject.toml: what it says is what the repository has."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import gradlib
from gradlib import version as version_of_gradlib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]

# what a package is called where it is imported, if otherwise
MODULES = {"nvidia-ml-py": "pynvml", "pillow": "PIL", "scikit-learn": "sklearn"}
# extras of which a folder has to import every package
USERS = {
    "profile": "gradlib",
    "scipy": "gradlib",
    "onnx": "gradlib",
    "fast": "gradlib",
    "tensorboard": "gradlib",
    "examples": "examples",
}


def names(requirements: list[str]) -> list[str]:
    """The packages that requirements are about."""
    return [re.split(r"[\[<>=; ]", line)[0] for line in requirements]


@pytest.mark.parametrize(("extra", "folder"), USERS.items())
def test_packages_of_an_extra_are_used(extra, folder):
    source = "\n".join(p.read_text() for p in (ROOT / folder).rglob("*.py"))
    for package in names(EXTRAS[extra]):
        module = MODULES.get(package, package)
        used = rf"(^ *(import|from) {module}\b)|(find|import_module)\(\"{module}\"\)"
        assert re.search(used, source, re.MULTILINE), f"{folder} does not import {package}"


def test_examples_import_what_their_extra_has():
    source = "\n".join(p.read_text() for p in (ROOT / "examples").glob("*.py"))
    imported = set(re.findall(r"^ *(?:import|from) (\w+)", source, re.MULTILINE))
    known = {MODULES.get(name, name) for name in names(EXTRAS["examples"])}
    beside = {p.stem for p in (ROOT / "examples").glob("*.py")} | {"gradlib", "numpy", "examples"}
    assert imported - sys.stdlib_module_names - beside <= known


def test_dependencies_are_imported():
    source = "\n".join(p.read_text() for p in (ROOT / "gradlib").rglob("*.py"))
    for package in names(PROJECT["project"]["dependencies"]):
        assert re.search(rf"^ *(import|from) {package}\b", source, re.MULTILINE), package


def test_every_extra_is_known_here():
    # devices, what tests need; an MPI, an MKL and cuDNN, which are libraries and no packages to import
    others = {
        "cuda12",
        "cuda13",
        "cudnn12",
        "cudnn13",
        "test",
        "cupy-on-cpu",
        "cupy13-on-cpu",
        "dev",
        "distributed",
        "mkl",
    }
    assert set(EXTRAS) == others | set(USERS)


def test_the_version_is_written_once():
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "gradlib/version.py"
    assert re.search(
        rf'^__version__ = "{gradlib.__version__}"$',
        Path(version_of_gradlib.__file__).read_text(),
        re.M,
    )


def test_classifiers_begin_with_the_oldest_python_that_is_allowed():
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=")
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    assert versions[0] == oldest
    minors = [int(v.removeprefix("3.")) for v in versions]
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_readme_names_the_extras():
    text = (ROOT / "README.md").read_text()
    sentence = re.search(r"Other extras: ([^\n]*)", text)
    assert sentence is not None
    above = {"cuda12", "cuda13", "examples", "cupy-on-cpu", "cupy13-on-cpu"}
    assert set(re.findall(r"`([\w-]+)`", sentence[1])) == set(EXTRAS) - above


def test_hosted_ci_runs_on_pythons_that_are_classified():
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    matrix = re.search(r"python: \[(.*)\]", text)
    assert matrix is not None and "run: ci/test" in text
    classified = "\n".join(PROJECT["project"]["classifiers"])
    for version in re.findall(r"\"([\d.]+)\"", matrix[1]):
        assert f"Python :: {version}" in classified


def test_hooks_before_a_commit_are_what_ci_checks():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    checks = (ROOT / "ci" / "test").read_text()
    for command in re.findall(r"entry: \.venv/bin/(\w+(?: (?:format|check))?)", hooks):
        assert f".venv/bin/{command}" in checks


def test_the_changelog_has_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## \[(.*?)\](?: - \d{4}-\d\d-\d\d)?$", text, re.MULTILINE)
    assert headings[0] == "Unreleased" and headings[1] == gradlib.__version__
    assert set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) <= {
        "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security",
    }  # fmt: skip
