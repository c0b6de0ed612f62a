"""DTensor: a tensor that several ranks hold together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd.grad_mode import no_grad
from ...tape import override
from ...tape.sizes import Size, wrap_dim
from ...tape.tensor import Tensor
from .. import distributed_c10d as c10d
from ..device_mesh import DeviceMesh, current_mesh
from ._layout import Layout, Placements, checked, is_partial
from ._part import plain
from ._part import wrap as note
from ._redistribute import GradientPlaced, redistribute
from ._run import run
from .placement_types import Placement, Replicate

__all__ = ["DTensor"]


class DTensor(Tensor):
    """A tensor of which each rank of a mesh holds a part, the whole, or a term.

    It is this rank's part itself, with a note of where the others are (`_layout`): its memory, its history and its
    gradient are those of the part, so that optimizers work on it as on any tensor. What asks it for a value or a shape
    is told those of the whole; ops are split over the ranks (`_split`), and those without a rule are refused by name.

    Make one with `distribute_tensor`, `DTensor.from_local` or the functions of ``distributed.tensor``.

    Example::

        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
        (x * 2).sum().full_tensor()
        # tensor(12.)
    """

    _spec: Layout

    def __new__(cls, *args: Any, **kwargs: Any) -> DTensor:
        raise TypeError("make a DTensor with distribute_tensor, or with DTensor.from_local")

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        """What the op gives, split over the ranks; see `_run`."""
        return run(cls, func, args, kwargs or {})

    # -- making, and taking apart --------------------------------------------------------------------------------------

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Sequence[int] | None = None,
        stride: tuple[int, ...] | None = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """The tensor whose parts the ranks have.

        Args:
            local_tensor: this rank's part; gradients flow back to it.
            device_mesh: the mesh; by default that of the `with` block around.
            placements: what each rank has, for each dimension of the mesh; by default all have the whole.
            run_check: take the values of rank 0 where the ranks should have equal ones.
            shape: that of the whole; needed where the parts are not equally long.
            stride: accepted; parts are as they are.
            grad_placements: accepted; a gradient is placed as the part, that of a Partial is the whole.

        Raises:
            ValueError: not as many placements as the mesh has dimensions.

        Example::

            DTensor.from_local(torch.ones(2), mesh, [Shard(0)]).shape
            # torch.Size([4])
        """
        mesh = device_mesh or current_mesh()
        if isinstance(local_tensor, DTensor):
            raise RuntimeError(
                "the local_tensor argument only accepts torch.Tensor but got DTensor value: take to_local() of it"
            )
        placed = checked(placements, mesh, local_tensor.ndim)
        if run_check:
            local_tensor = _as_on_first(local_tensor, mesh, placed)
        if shape is None:
            whole = [*local_tensor.shape]
            for i, placement in enumerate(placed):
                if placement.is_shard():
                    whole[placement.dim] *= mesh.size(i)  # pyright: ignore[reportAttributeAccessIssue]
            shape = whole
        return wrap(local_tensor.view_as(local_tensor), Layout(mesh, placed, shape))

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """This rank's part, as a plain tensor; gradients flow back from it.

        Args:
            grad_placements: how the gradients that come back are placed: as the part, if not given. ``[Partial()]``
                for the whole of which each rank uses a part.

        Example::

            x.to_local()
            # tensor([0., 1.])
        """
        local = plain(self)
        if grad_placements is not None and local.requires_grad:
            back = checked(grad_placements, self._spec.mesh, self.ndim)
            if back != self._spec.gradient:
                return GradientPlaced.apply(local, self._spec, back)
        return local.view_as(local)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """The whole tensor, on every rank; all ranks of the mesh call it.

        Args:
            grad_placements: as for `to_local`.

        Example::

            x.full_tensor()
            # tensor([0., 1., 2., 3.])
        """
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """The same tensor, placed otherwise; all ranks of the mesh call it.

        Args:
            device_mesh: the mesh that the tensor is on, or None.
            placements: what each rank gets, for each dimension of the mesh.
            async_op: accepted; the result is there when it returns.
            forward_dtype, backward_dtype: not supported.

        Raises:
            RuntimeError: no placements, or Partial ones that the tensor does not have already.
            NotImplementedError: another mesh.

        Example::

            x.redistribute(placements=[Replicate()]).to_local()
            # tensor([0., 1., 2., 3.])
        """
        if device_mesh is not None and device_mesh != self._spec.mesh:
            raise NotImplementedError(
                "Cross device mesh comm not supported yet! Take full_tensor() and distribute it on the other mesh"
            )
        if forward_dtype is not None or backward_dtype is not None:
            raise NotImplementedError("redistribute in another dtype: use .to(dtype) before it")
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        target = checked(placements, self._spec.mesh, self.ndim)
        for old, goal in zip(self._spec.placements, target):
            if is_partial(goal) and goal != old:
                raise RuntimeError(
                    f"Can not redistribute from {old} to {goal}, redistributing to Partial is for internal use only!"
                )
        local = plain(self)
        if target == self._spec.placements:
            return wrap(local.view_as(local), self._spec)
        return wrap(redistribute(local, self._spec, target), self._spec.placed(target))

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh of the ranks that hold the tensor."""
        return self._spec.mesh

    @property
    def placements(self) -> Placements:
        """What each rank holds, for each dimension of the mesh."""
        return self._spec.placements

    @property
    def _local_tensor(self) -> Tensor:
        return Tensor._alias(self)

    # -- facts of the whole --------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The shape of the whole tensor."""
        return self._spec.shape

    def size(self, dim: int | None = None) -> Any:
        """The shape of the whole tensor, or the length of one dimension."""
        shape = self._spec.shape
        return shape if dim is None else shape[wrap_dim(dim, len(shape))]

    def numel(self) -> int:
        """The number of elements of the whole tensor."""
        return self._spec.shape.numel()

    nelement = numel

    def stride(self, dim: int | None = None) -> Any:
        """The strides of the whole tensor, laid out in rows."""
        shape = self._spec.shape
        strides = tuple([Size(shape[i + 1 :]).numel() for i in range(len(shape))])
        return strides if dim is None else strides[dim]

    @property
    def nbytes(self) -> int:
        """The bytes of the whole tensor."""
        return self.numel() * self.itemsize

    def __len__(self) -> int:
        if not self._spec.shape:
            raise TypeError("len() of a 0-d tensor")
        return self._spec.shape[0]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        local = Tensor._alias(self)
        shown = local.item() if local.ndim == 0 and not local.is_meta else repr(local)
        return f"DTensor(local_tensor={shown}, device_mesh={self._spec.mesh}, placements={self._spec.placements})"

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return bool(self.full_tensor())

    def __deepcopy__(self, memo: dict[int, Any]) -> DTensor:
        known = memo.get(id(self))
        if known is not None:
            return known
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                "moment: deepcopy tensor.detach()"
            )
        copy = memo[id(self)] = wrap(Tensor._alias(self).clone(), self._spec)
        copy._rg = self._rg
        if getattr(self, "_is_param", False):
            copy.__dict__["_is_param"] = True
        if self._grad is not None:
            copy._grad = Tensor._alias(self._grad).clone()
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        layout = self._spec
        state = (Tensor._alias(self), layout.mesh, layout.placements, tuple(layout.shape))
        return _rebuild, (*state, self._rg, bool(getattr(self, "_is_param", False)))

    # -- gradients -----------------------------------------------------------------------------------------------------

    @property
    def grad(self) -> DTensor | None:
        """The gradient, placed as the tensor; None before the first."""
        grad = self._grad
        if grad is not None and not isinstance(grad, DTensor):
            wrap(
                grad, self._spec.placed(self._spec.gradient)
            )  # the object stays, it says what it is
        return grad  # pyright: ignore[reportReturnType]

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            if not isinstance(value, DTensor):
                raise TypeError(
                    f"assigned grad expected to be a DTensor or None but got grad of type {type(value).__name__}: "
                    "distribute it first"
                )
            if value._spec.shape != self._spec.shape or value._spec.mesh != self._spec.mesh:
                raise RuntimeError(
                    f"attempting to assign a gradient of size '{list(value.shape)}' on {value._spec.mesh} to a tensor "
                    f"of size '{list(self.shape)}' on {self._spec.mesh}"
                )
            if value._spec.placements != self._spec.gradient:
                value = value.redistribute(placements=self._spec.gradient)
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def data(self) -> DTensor:
        """The same memory outside the graph, with a version counter of its own."""
        return wrap(Tensor._make(self._array), self._spec)

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, DTensor):
            raise TypeError(
                "DTensor.data can only be set to a DTensor, got "
                f"{type(value).__name__}: distribute it first"
            )
        self._array, self._spec = value._array, value._spec

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradients of the whole tensor to the leaves; all ranks of the mesh call it.

        gradient: a DTensor of this one's shape; may be left out for a tensor with one element.
        inputs: accumulate only into these tensors.
        """
        if gradient is not None:
            if not isinstance(gradient, DTensor):
                raise TypeError("the gradient of a DTensor is a DTensor: distribute it first")
            gradient = plain(gradient.redistribute(placements=self._spec.gradient))
        elif self.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        plain(self).backward(gradient, retain_graph, create_graph, inputs)

    def register_hook(self, hook: Any) -> Any:
        """Call ``hook(grad)`` with the gradient, a DTensor, when it is computed; what it returns replaces it."""
        layout = self._spec.placed(self._spec.gradient)

        def on_part(grad: Tensor) -> Tensor | None:
            new_grad = hook(wrap(grad.view_as(grad), layout))
            if new_grad is None:
                return None
            return plain(new_grad.redistribute(placements=layout.placements))

        with override.Off(override.SUBCLASSES):
            return Tensor.register_hook(self, on_part)


def wrap(local: Tensor, layout: Layout) -> DTensor:
    """`_part.wrap` with this class."""
    return note(local, layout, DTensor)


def _rebuild(
    local: Tensor, mesh: DeviceMesh, placements: Placements, shape: tuple, grad: bool, param: bool
) -> DTensor:
    """What was pickled; meant for a process at the same place of a job of the same shape."""
    out = wrap(local.detach(), Layout(mesh, placements, shape))
    out._rg = grad
    if param:
        out.__dict__["_is_param"] = True
    return out


@no_grad()
def _as_on_first(local: Tensor, mesh: DeviceMesh, placements: Placements) -> Tensor:
    for i, placement in enumerate(placements):
        if placement.is_replicate() and mesh.size(i) > 1:
            group = mesh.get_group(i)
            local = local.contiguous()
            c10d.broadcast(local, c10d.get_global_rank(group, 0), group=group)
    return local
