"""GraphModule: a Module whose forward is generated from a `Graph`."""

from __future__ import annotations

import copy
import itertools
import linecache
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradlib

from ..nn import Module, Parameter
from ..tape.source import is_library
from ._code import PythonCode, PyTreeCodeGen
from ._names import BUILTIN, published
from .graph import Graph

__all__ = ["GraphModule", "reduce_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_count = itertools.count()
_KEPT = (  # what a deep copy keeps besides what its graph refers to
    "_state_dict_hooks _load_state_dict_pre_hooks _load_state_dict_post_hooks _create_node_hooks _erase_node_hooks"
).split()


def _compiled(source: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function `forward` of a source; tracebacks show its lines."""
    file = f"<eval_with_key>.{next(_count)}"
    linecache.cache[file] = (len(source), None, [line + "\n" for line in source.split("\n")], file)
    space = dict(names)
    exec(compile(source, file, "exec", dont_inherit=True), space)
    return space["forward"]


def _import_block(names: dict[str, Any]) -> str:
    """Import statements for the globals of generated code."""
    lines = []
    for name, value in names.items():
        if name in BUILTIN:
            lines.append(BUILTIN[name][0])
        elif isinstance(value, str):  # an annotation that is a string
            lines.append(f"{name} = {value!r}")
        elif getattr(value, "__module__", None) not in (None, "builtins"):
            found = published(value)
            module = value.__module__
            if found is not None:
                module = "gradlib" + found.rpartition(".")[0].removeprefix("torch")
            own = getattr(value, "_name", None) or value.__name__
            lines.append(f"from {module} import {own} as {name}")
    return "\n".join(lines) + "\n"


class _CodeOnlyModule(Module):
    """A module of which there is a forward and what it refers to, but no graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__ = body


def reduce_graph_module(body: dict[str, Any], import_block: str) -> Module:
    """What unpickling a GraphModule calls: its code is run on Proxies, to have its graph again.

    Args:
        body: the attributes of the module.
        import_block: the import statements of its code.
    """
    names: dict[str, Any] = {}
    exec(import_block, names)
    forward = _compiled(import_block + body["_code"], names)
    tracer: Any = body.get("_tracer_cls") or gradlib.fx.Tracer
    keeping = type("KeepModules", (tracer,), {"is_leaf_module": lambda self, m, name: True})
    kind = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})
    module = kind(body)
    graph = keeping().trace(module)
    graph._tracer_cls = tracer
    made = GraphModule(module, graph, "GraphModule")
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    return made


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Give a module what another has under a dotted name; modules on the way are made."""
    *path, last = target.split(".")
    for part in path:
        there, here = getattr(from_module, part), getattr(to_module, part, None)
        if here is there:  # it came with a module around it
            return
        if here is None:
            here = Module()
            setattr(to_module, part, here)
        from_module, to_module = there, here
    _assign_attr(getattr(from_module, last), to_module, last)


def _assign_attr(from_obj: Any, to_module: Module, target: str) -> None:
    """Give a module something under a dotted name; tensors become buffers."""
    *path, last = target.split(".")
    for part in path:
        here = getattr(to_module, part, None)
        if here is None:
            here = Module()
            setattr(to_module, part, here)
        to_module = here
    if isinstance(from_obj, gradlib.Tensor) and not isinstance(from_obj, Parameter):
        to_module.register_buffer(last, from_obj)
    else:
        setattr(to_module, last, from_obj)


class GraphModule(Module):
    """A Module made of a graph: `code` is the source of its forward.

    After changes of the graph `recompile` must be called; assigning another graph does so.

    Args:
        root: where the parameters, buffers and modules come from that the graph refers to: a Module, whose hierarchy
            is kept, or a dict from dotted names.
        graph: the steps of forward.
        class_name: the name of the new module's class.

    Attributes:
        meta: a dict for whatever passes want to keep with it.

    Raises:
        RuntimeError: the graph refers to something that the dict `root` has not.

    Example:
        >>> traced = gradlib.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
        >>> for node in traced.graph.find_nodes(op="call_module", target="1"):
        ...     with traced.graph.inserting_after(node):
        ...         double = traced.graph.call_function(gradlib.mul, (node, 2))
        ...     _ = node.replace_all_uses_with(double, lambda user: user is not double)
        >>> _ = traced.recompile()
        >>> print(traced.code.strip())
        def forward(self, input):
            input_1 = input
            _0 = getattr(self, "0")(input_1);  input_1 = None
            _1 = getattr(self, "1")(_0);  _0 = None
            mul = torch.mul(_1, 2);  _1 = None
            return mul
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> GraphModule:
        # forward differs from instance to instance, and calls look for it on the class
        base = next(
            c for c in cls.__mro__ if c.__qualname__.rpartition(".")[2] != "GraphModuleImpl"
        )
        own: Any = type(
            "GraphModuleImpl", (base,), {"__module__": __name__, "__qualname__": "GraphModuleImpl"}
        )
        return super().__new__(own)

    def __init__(
        self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        targets = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = getattr(root, "training", True)
            if isinstance(root, _CodeOnlyModule):  # all of it, used or not
                parts = (root.named_children(), root.named_buffers(), root.named_parameters())
                targets = [name for part in parts for name, _ in part] + targets
            for target in targets:
                _copy_attr(root, self, target)
        elif isinstance(root, dict):
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module") and node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted(targets, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        # a local class could not be pickled
        kind = graph._tracer_cls
        self._tracer_cls = None if kind is None or "<locals>" in kind.__qualname__ else kind
        self.meta: dict[str, Any] = {}
        self._create_node_hooks: list[Callable[..., Any]] = []
        self._erase_node_hooks: list[Callable[..., Any]] = []

    @property
    def graph(self) -> Graph:
        """The steps of forward.

        Assigning another Graph generates the code of forward anew.
        """
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        assert isinstance(graph, Graph), f"Expected a Graph instance, but got {type(graph)}"
        self._graph = graph
        graph.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of forward.

        It is that of the last `recompile`.
        """
        return self._code

    def recompile(self) -> PythonCode:
        """Generate forward from the graph; to be called after changes of the graph.

        Returns:
            The source, and the globals that it refers to.
        """
        codegen = self._graph._codegen
        if isinstance(codegen, PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        code = self._graph.python_code("self")
        self._code = code.src
        type(self).forward = _compiled(code.src, code.globals)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            last = [f for f in frames if not is_library(f.filename)][-1:]
            if last and last[0].filename.startswith("<eval_with_key>"):
                print(_where_it_failed(last[0]), file=sys.stderr)
            raise

    # -- modules in it -------------------------------------------------------------------------------------------

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module under a dotted name; modules on the way are made.

        Args:
            target: the name.
            m: the module.

        Returns:
            False if something on the way is no Module.

        Example:
            >>> gradlib.fx.symbolic_trace(lambda x: x).add_submodule("a.b", nn.ReLU())
            True
        """
        *path, last = target.split(".")
        module: Any = self
        for part in path:
            child = getattr(module, part, None)
            if child is None:
                child = Module()
                setattr(module, part, child)
            if not isinstance(child, Module):
                return False
            module = child
        module.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Take away the module under a dotted name.

        Args:
            target: the name.

        Returns:
            Whether there was one.
        """
        path, _, last = target.rpartition(".")
        try:
            module = self.get_submodule(path)
        except AttributeError:
            return False
        if not isinstance(getattr(module, last, None), Module):
            return False
        delattr(module, last)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Take away the modules that the graph does not call, and of which it fetches nothing.

        Modules within a called one stay.
        """
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            target = str(node.target)
            used.update(itertools.accumulate(target.split("."), "{}.{}".format))
            if node.op == "call_module":
                inside = self.get_submodule(target).named_modules()
                used.update(f"{target}.{name}".rstrip(".") for name, _ in inside)
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    # -- copies and files ----------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        body = self.__dict__.copy()
        code = self.recompile()
        del body["_graph"]
        return reduce_graph_module, (body, _import_block(code.globals))

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        made: Any = type(self).__new__(type(self))
        memo[id(self)] = made
        body = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        GraphModule.__init__(made, body, body.__dict__["_graph"])
        for name in _KEPT:
            if name in self.__dict__:
                setattr(made, name, body.__dict__[name])
        made.meta = body.__dict__.get("meta", {})
        for name, value in made.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(made, name, value)
        return made

    def __copy__(self) -> GraphModule:
        made = GraphModule(self, self.graph, type(self).__name__)
        made.meta = self.meta
        return made

    def to_folder(self, folder: str | Path, module_name: str = "FxModule") -> None:
        """Write a Python package: ``module.py`` with a class, and the parameters beside it.

        Args:
            folder: where; made if it is not there.
            module_name: the name of the class.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        gradlib.save(self.state_dict(), place / "state_dict.pt")
        lines = []
        for name, child in self.named_children():
            gradlib.save(child, place / f"{name}.pt")
            lines.append(f"self.{name} = torch.load(folder / {f'{name}.pt'!r}, weights_only=False)")
        for kind, named in (("parameter", self._parameters), ("buffer", self._buffers)):
            for name, value in named.items():
                if value is None:
                    continue
                made = f"torch.empty({list(value.shape)}, dtype=torch.{str(value.dtype).rpartition('.')[2]})"
                made = f"torch.nn.Parameter({made})" if kind == "parameter" else made
                lines.append(f"self.register_{kind}({name!r}, {made})")
        lines.append("self.load_state_dict(torch.load(folder / 'state_dict.pt'))")
        code = self.recompile()
        body = "\n".join(["super().__init__()", *lines])
        (place / "module.py").write_text(
            f"from pathlib import Path\n\n{_import_block(code.globals)}\nfolder = Path(__file__).parent\n\n\n"
            f"class {module_name}(torch.nn.Module):\n    def __init__(self):\n"
            + "".join(f"        {line}\n" for line in body.split("\n"))
            + "\n"
            + "\n".join(("    " + line).rstrip() for line in self.code.strip().split("\n"))
            + "\n"
        )
        (place / "__init__.py").write_text("from .module import *\n")

    def print_readable(
        self, print_output: bool = True, include_stride: bool = False, **accepted: Any
    ) -> str:
        """Print the code of forward and of the GraphModules in it, with shapes and lines where they are known.

        Args:
            print_output: print it, too.
            include_stride: accepted; strides are not shown.
            accepted: further settings of PyTorch about how it looks.

        Returns:
            The text.

        Example:
            >>> print(gradlib.fx.symbolic_trace(nn.ReLU()).print_readable(False).split("(")[0])
            class ReLU
        """
        name = type(self).__name__
        parts = [f"class {name}(torch.nn.Module):"]
        code = self._graph.python_code("self", verbose=True).src.strip("\n")
        parts += ["    " + line if line.strip() else "" for line in code.split("\n")]
        for child in self.children():
            if isinstance(child, GraphModule):
                text = child.print_readable(print_output=False)
                parts += ["", *("    " + line for line in text.split("\n"))]
        text = "\n".join(parts)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return "\n".join(
            [
                super().__repr__(),
                self._code,
                "# To see more debug info, please use `graph_module.print_readable()`",
            ]
        )


def _where_it_failed(frame: traceback.FrameSummary) -> str:
    """The lines of generated code around that which failed."""
    lines, at = linecache.getlines(frame.filename), frame.lineno or 1
    before, after = "".join(lines[max(at - 2, 0) : at]), "".join(lines[at : at + 2])
    marker = "~" * len(frame.line or "") + "~~~ <--- HERE"
    return (
        f"Call using an FX-traced Module, line {at} of the traced Module's generated forward function:\n{before}"
        f"{marker}\n{after}"
    )
