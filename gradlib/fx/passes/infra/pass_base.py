"""PassBase: a change of graphs as a class."""

from __future__ import annotations

import abc
from typing import NamedTuple

from ....nn import Module
from ...graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it was changed.

    `graph_module` may be the one that the pass got, or a new one.
    """

    graph_module: Module
    modified: bool


class PassBase(abc.ABC):
    """A change of graphs: subclasses give `call`; the pass itself is called on a GraphModule.

    Example:
        >>> class Nothing(PassBase):
        ...     def call(self, graph_module):
        ...         return PassResult(graph_module, False)
        >>> Nothing()(gradlib.fx.symbolic_trace(lambda x: x)).modified
        False
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Change a module.

        Args:
            graph_module: what is changed, or read to make another one.
        """

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Check what must hold before; an exception if it does not.

        Args:
            graph_module: what is going to be changed.
        """

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Check what must hold afterwards; an exception if it does not.

        Args:
            graph_module: what was changed.
        """
