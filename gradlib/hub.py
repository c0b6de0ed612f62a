"""Weights and models of others: files fetched once and kept in a cache folder, and models of a local ``hubconf.py``."""

from __future__ import annotations

import builtins
import contextlib
import errno
import hashlib
import importlib.util
import os
import re
import sys
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .serialization import load as _load_file

try:
    from tqdm import tqdm as _tqdm
except ImportError:
    _tqdm = None

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # weights-0123abcd.pth: the start of the file's SHA-256
MODULE_HUBCONF = "hubconf.py"
VAR_DEPENDENCY = "dependencies"
READ_DATA_CHUNK = 1 << 17

_hub_dir: str | None = None


def _get_torch_home() -> str:
    """The folder of caches: ``$TORCH_HOME``, else ``torch`` in ``$XDG_CACHE_HOME`` or in ``~/.cache``."""
    cache = os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(os.getenv("TORCH_HOME", cache))


def get_dir() -> str:
    """The folder that files are kept in.

    Returns:
        What `set_dir` set, else ``$TORCH_HOME/hub``, ``$XDG_CACHE_HOME/torch/hub`` or ``~/.cache/torch/hub``. It may
        not exist yet.
    """
    return _hub_dir if _hub_dir is not None else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Keep files in another folder.

    Args:
        d: the folder; ``~`` stands for the user's home.

    Example::

        >>> import gradlib as torch
        >>> before = torch.hub.get_dir()
        >>> torch.hub.set_dir("/tmp/weights")
        >>> torch.hub.get_dir()
        '/tmp/weights'
        >>> torch.hub.set_dir(before)
    """
    global _hub_dir
    _hub_dir = os.path.expanduser(d)


# -- files -----------------------------------------------------------------------------------------------------------


def _bar(total: int | None, progress: bool) -> Any:
    """A progress bar; none is shown without tqdm."""
    if _tqdm is None or not progress:
        return contextlib.nullcontext()
    return _tqdm(total=total, unit="B", unit_scale=True, unit_divisor=1024)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Fetch a file. It appears under its name only when it is whole and its hash is right.

    Args:
        url: http, https or file.
        dst: the file's new name; ``~`` stands for the user's home.
        hash_prefix: what the hexadecimal SHA-256 of the content must begin with; None to take any.
        progress: show a bar on stderr, if the package tqdm is installed.

    Raises:
        RuntimeError: the hash is another, or the connection ended early; nothing is left behind.
        URLError: nothing to be had there.
    """
    dst = os.path.expanduser(dst)
    part = f"{dst}.{uuid.uuid4().hex}.partial"
    request = urllib.request.Request(url, headers={"User-Agent": "gradlib.hub"})
    try:
        with urllib.request.urlopen(request) as answer:
            length = answer.headers.get("Content-Length")
            total = None if length is None else int(length)
            found, size = hashlib.sha256(), 0
            with open(part, "wb") as file, _bar(total, progress) as bar:
                while chunk := answer.read(READ_DATA_CHUNK):
                    file.write(chunk)
                    found.update(chunk)
                    size += len(chunk)
                    if bar is not None:
                        bar.update(len(chunk))
        if total is not None and size != total:
            raise RuntimeError(f"{url} ended after {size} of {total} bytes")
        if hash_prefix is not None and not found.hexdigest().startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{found.hexdigest()}")'
            )
        os.replace(part, dst)
    finally:
        Path(part).unlink(missing_ok=True)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """What a file of weights holds; it is fetched once.

    Args:
        url: http, https or file.
        model_dir: the folder to keep it in; None for ``checkpoints`` in that of `get_dir`.
        map_location: as in `load`.
        progress: as in `download_url_to_file`.
        check_hash: require the hash that the name says: ``resnet18-f37072fd.pth``.
        file_name: the name to keep it under; None for the URL's.
        weights_only: as in `load`: True refuses files that could run code.

    Raises:
        RuntimeError: the hash is another.
        URLError: nothing to be had there.
    """
    folder = model_dir if model_dir is not None else os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    kept = os.path.join(folder, name)
    if not os.path.exists(kept):
        sys.stdout.flush()
        sys.stderr.write(f'Downloading: "{url}" to {kept}\n')
        hashed = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, kept, hashed.group(1) if hashed else None, progress=progress)
    return _load_file(kept, map_location=map_location, weights_only=weights_only)


# -- models ----------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Let the code of a folder import its own modules."""
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _hubconf(repo: str | os.PathLike) -> ModuleType:
    """The module ``hubconf.py`` of a folder, run anew. To be called within `_importable`."""
    path = os.path.join(os.fspath(repo), MODULE_HUBCONF)
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    needed = getattr(module, VAR_DEPENDENCY, None) or ()
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _local(source: str) -> None:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            "gradlib.hub fetches no code from GitHub. Clone the repository, and pass its folder with source='local'."
        )


def _entry(module: ModuleType, model: Any) -> Callable:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, model, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    return found


def list(
    github: str | os.PathLike, *_: Any, source: str = "github", **options: Any
) -> builtins.list[str]:
    """The names of the models of a folder with a ``hubconf.py``.

    Args:
        github: the folder.
        source: must be ``"local"``, which PyTorch's function does not take: code is not fetched.
        options: what PyTorch takes for GitHub, without effect here.

    Raises:
        NotImplementedError: another source.
        FileNotFoundError: the folder has no ``hubconf.py``.
        RuntimeError: a package that it names in `dependencies` is not installed.
    """
    _local(source)
    with _importable(os.fspath(github)):
        module = _hubconf(github)
    return [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]


def help(
    github: str | os.PathLike, model: str, *_: Any, source: str = "github", **options: Any
) -> str | None:
    """The docstring of a model's function.

    Args:
        github: the folder.
        model: the name of the function in its ``hubconf.py``.
        source: must be ``"local"``, which PyTorch's function does not take.
        options: what PyTorch takes for GitHub, without effect here.

    Raises:
        NotImplementedError: another source.
        RuntimeError: no such function.
    """
    _local(source)
    with _importable(os.fspath(github)):
        return _entry(_hubconf(github), model).__doc__


def load(
    repo_or_dir: str | os.PathLike,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What a function of a folder's ``hubconf.py`` returns: usually a model.

    Args:
        repo_or_dir: the folder.
        model: the name of the function.
        args: its arguments; keywords, too.
        source: must be ``"local"``: code is not fetched.
        trust_repo, force_reload, verbose, skip_validation: for GitHub, without effect here.

    Raises:
        NotImplementedError: ``source="github"``; clone the repository first.
        FileNotFoundError: the folder has no ``hubconf.py``.
        RuntimeError: no such function, or a package that it names in `dependencies` is not installed.
        ValueError: another source, or `model` is no string.
    """
    _local(source)
    with _importable(os.fspath(repo_or_dir)):
        return _entry(_hubconf(repo_or_dir), model)(*args, **kwargs)
