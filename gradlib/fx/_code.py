"""A graph written out as the source of a Python function."""

from __future__ import annotations

import enum
import operator
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import gradlib

from ..utils import _pytree as pytree
from ._names import BUILTIN, Namespace, published, qualified_name, type_name
from .node import Node

# how operators are written; those of the second table have a reflected form
reflectable_magic_methods = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}",
    "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", **reflectable_magic_methods,
}  # fmt: skip
inplace_methods = {
    **{
        f"i{name.strip('_')}": form.replace(" {}", "= {}")
        for name, form in reflectable_magic_methods.items()
        if name not in ("div", "getitem")
    },
    "setitem": "{}[{}] = {}",
}


@dataclass
class PythonCode:
    """The source of a forward, and the objects that it finds among its globals.

    Attributes:
        src: the source: a line that calls `wrap` for each wrapped function, and the definition.
        globals: name -> object.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


def attribute(base: str, target: str) -> str:
    """The expression for the attribute `target`, a dotted name, of `base`."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class Writer:
    """Writes the body of one function; `globals` collects what it refers to."""

    def __init__(self, root: str, namespace: Namespace, verbose: bool = False) -> None:
        self.root, self.namespace, self.verbose = root, namespace, verbose
        self.globals: dict[str, Any] = {}
        self.wrapped: dict[str, None] = {}
        self.parameters: list[str] = []
        self.returns = ""
        for name, (_, value) in BUILTIN.items():
            self.add_global(name, value)

    def add_global(self, hint: str, value: Any) -> str:
        """The name by which `value` is known in the code, like `hint`."""
        if published(value) is not None and value is not gradlib.device:
            return qualified_name(value)
        try:
            name = self.namespace.create_name(hint, value)
        except TypeError:  # what cannot be hashed is known by itself
            name = self.namespace.create_name(hint, _ById(value))
        self.globals.setdefault(name, value)
        return name

    def type(self, kind: Any) -> str:
        """A type annotation; the classes in it become globals."""
        if kind == ():
            return "()"
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin is None:
            return self.add_global(type_name(kind), kind)
        if " | " in repr(kind) and repr(kind)[0] != "t":
            return "|".join(self.type(i) for i in inner)
        # Optional[X] is a Union, whose second type is None's; List[X] is written as it was
        named = getattr(typing, getattr(kind, "_name", None) or "", origin)
        shown = typing.Union if origin is typing.Union else named
        name = self.add_global(type_name(shown), shown)
        return f"{name}[{','.join(self.type(i) for i in inner)}]" if inner else name

    def value(self, value: Any) -> str:
        """An argument as an expression."""
        if isinstance(value, Node):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            kind = type(value)
            return f"{self.add_global(qualified_name(kind), kind)}({', '.join(map(self.value, value))})"
        if isinstance(value, enum.Enum):
            return f"{self.add_global(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, gradlib.Size):
            return f"torch.Size({list(value)})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{k!r}: {self.value(v)}' for k, v in value.items())}}}"
        if isinstance(value, slice):
            return (
                f"slice({', '.join(self.value(v) for v in (value.start, value.stop, value.step))})"
            )
        if isinstance(value, gradlib.dtype | gradlib.memory_format | gradlib.layout):
            return "torch." + str(value).rpartition(".")[2]
        if isinstance(value, type) or (callable(value) and hasattr(value, "__name__")):
            return self.add_global(qualified_name(value), value)
        return repr(value)

    def call(self, function: str, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        parts = [self.value(a) for a in args] + [
            f"{k} = {self.value(v)}" for k, v in kwargs.items()
        ]
        return f"{function}({', '.join(parts)})"

    def function(self, node: Node) -> str:
        """A call of a function, or the operator that stands for it."""
        target: Any = node.target
        args = node.args
        name = target.__name__ if getattr(target, "__module__", "") == "_operator" else ""
        if name in magic_methods and len(args) in (1, 2) and not node.kwargs:
            return magic_methods[name].format(*map(self.value, args))
        known = self.add_global(qualified_name(target), target)
        if target is getattr and len(args) == 2 and str(args[1]).isidentifier():
            return attribute(self.value(args[0]), args[1])
        if node.meta.get("is_wrapped"):
            self.wrapped.setdefault(known)
        return self.call(known, args, node.kwargs)

    def step(self, node: Node, codegen: CodeGen) -> str:
        """The statement of a Node; a placeholder becomes a parameter, and mostly no statement."""
        kind = "" if node.type is None else f" : {self.type(node.type)}"
        if self.verbose:
            kind = _shape_of(node) or kind
        target = str(node.target)
        if node.op == "placeholder":
            default = f" = {self.value(node.args[0])}" if node.args else ""
            self.parameters.append(f"{target}{kind}{default}")
            plain = target.replace("*", "")
            return "" if plain == repr(node) else f"{node!r} = {plain}\n"
        if node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.type(node.type)}"
            return codegen.generate_output(node.args[0], repr_fn=self.value)
        in_place = getattr(node.target, "__module__", "") == "_operator" and inplace_methods.get(
            getattr(node.target, "__name__", "")
        )
        if node.op == "call_function" and in_place:
            written = in_place.format(*map(self.value, node.args))
            return f"{written};  {node!r}{kind} = {self.value(node.args[0])}"
        expression = {
            "call_function": lambda: self.function(node),
            "call_method": lambda: self.call(
                attribute(self.value(node.args[0]), target), node.args[1:], node.kwargs
            ),
            "call_module": lambda: self.call(attribute(self.root, target), node.args, node.kwargs),
            "get_attr": lambda: attribute(self.root, target),
        }[node.op]()
        return f"{node!r}{kind} = {expression}"


class _ById:
    """Stands for an object that has no hash."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _shape_of(node: Node) -> str:
    """The dtype and shape that a pass left in `meta`, as an annotation."""
    meta = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
    if meta is None or not hasattr(meta, "dtype") or not hasattr(meta, "shape"):
        return ""
    digits = "".join(c for c in str(meta.dtype) if c.isdigit())
    short = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf", "bool": "b8"}
    name = str(meta.dtype).rpartition(".")[2].removesuffix(digits)
    return f': "{short.get(name, name)}{digits}[{", ".join(map(str, meta.shape))}]"'


def _freed(nodes: list[Node]) -> dict[Node, list[Node]]:
    """Node -> the Nodes whose values nobody needs after it."""
    last: dict[Node, Node] = {}
    freed: dict[Node, list[Node]] = {}
    for node in reversed(nodes):
        for used in node.all_input_nodes:
            if used not in last:
                last[used] = node
                freed.setdefault(node, []).append(used)
    for node in nodes:
        if not node.users:
            freed.setdefault(node, []).append(node)
    return freed


class CodeGen:
    """How a graph becomes a function: subclasses change what goes in and what comes out.

    Give one to `Graph.set_codegen`.

    Example:
        >>> CodeGen().gen_fn_def(["x"], "")
        'def forward(self, x):'
    """

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line with ``def``.

        Args:
            free_vars: the parameters; ``self`` is put before them.
            maybe_return_annotation: what stands between the parameters and the colon.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        """The return statement.

        Args:
            output_args: what the output Node returns.
            repr_fn: writes a value.
        """
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The arguments of the graph, given those of the function.

        They are the same unless a subclass says otherwise.
        """
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns, given what the graph does.

        It is the same unless a subclass says otherwise.
        """
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Further globals of the function, as (name, object).

        None, unless a subclass has some.
        """
        return []

    def _gen_python_code(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
    ) -> PythonCode:
        all_nodes = list(nodes)
        writer, freed = Writer(root_module, namespace, verbose), _freed(all_nodes)
        body: list[str] = []
        where = None
        for node in all_nodes:
            if verbose and node.op not in ("placeholder", "output"):
                comment = _where(node)
                if comment != where:
                    where = comment
                    body.append(f"\n# {comment}\n")
            body.append(writer.step(node, self))
            if node.op == "placeholder":
                continue
            gone = freed.get(node, []) if node.op != "output" else []
            body.append(f";  {' = '.join(map(repr, gone))} = None\n" if gone else "\n")
        if not any(body):
            body.append("pass\n")
        wraps = ""
        if writer.wrapped:
            wrap = writer.add_global("wrap", gradlib.fx.wrap)
            wraps = "\n".join(f'{wrap}("{name}")' for name in writer.wrapped)
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        head = self.gen_fn_def(writer.parameters, writer.returns)
        text = "\n".join("    " + line for line in "".join(body).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wraps}\n\n{head}\n{text}", writer.globals)


def _where(node: Node) -> str:
    """The line of the program that made a Node, as a comment."""
    lines = (node.stack_trace or "").strip().split("\n")
    for i in range(len(lines) - 2, -1, -1):
        if lines[i].strip().startswith("File "):
            file, line, name = lines[i].strip()[len("File ") :].split(", ")
            return (
                f"File: {file.strip(chr(34))}:{line.removeprefix('line ')} in {name.removeprefix('in ')}, "
                f"code: {lines[i + 1].strip()}"
            )
    return "No stacktrace found for following nodes"


class PyTreeInfo(NamedTuple):
    """How arguments and results of a traced function are nested; see `PyTreeCodeGen`."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class PyTreeCodeGen(CodeGen):
    """For a function whose arguments are containers: it takes them apart for the graph, and puts the result together.

    Attributes:
        pytree_info: the structure of the arguments and that of the result.
    """

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """The leaves of the arguments.

        See `CodeGen.process_inputs`.
        """
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, outputs: Any) -> Any:
        """The result in the structure that the traced function gave it.

        See `CodeGen.process_outputs`.
        """
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line with ``def``, and one that takes the arguments apart.

        See `CodeGen.gen_fn_def`.
        """
        names = list(self.pytree_info.orig_args)  # of a method with self, which is a leaf then
        inputs = list(names)
        head = super().gen_fn_def(names, maybe_return_annotation)
        leaves = ["self"] if inputs[:1] == ["self"] else []
        leaves += [v.split(":")[0].split("=")[0].strip() for v in free_vars if v != "self"]
        if not leaves:
            return head
        return f"{head}\n    {', '.join(leaves)}, = fx_pytree.tree_flatten_spec([{', '.join(inputs)}], self._in_spec)"

    def generate_output(self, output_args: Any, *, repr_fn: Callable[[Any], str] = repr) -> str:
        """The return statement, which puts the result together.

        See `CodeGen.generate_output`.
        """
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args, repr_fn=repr_fn)
        return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"


assert set(magic_methods) - {"div"} <= set(dir(operator))
