"""DTensors in and out: what lies on this rank, and what the results are pieces of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from attnspec.distributed.prepare import axis_of
from attnspec.distributed.ranks import Ranks
from attnspec.errors import ArgumentError
from attnspec.language.spec import Spec


@dataclass(frozen=True)
class Placed:
    """Plain tensors of this rank. sharded: declared tensors that came as shards. like: the DTensor of q, None if it was plain."""

    arrays: tuple[Any, Any, Any]
    tensors: dict[str, Any]
    sharded: tuple[str, ...] = ()
    like: DTensor | None = None

    def wrap_out(self, out: Tensor) -> Tensor:
        """out as q was given."""
        if self.like is None:
            return out
        return placed(out, self.like.device_mesh, self.like.placements, torch.Size((*self.like.shape[:-1], out.shape[-1])))

    def wrap_lse(self, lse: Tensor) -> Tensor:
        """lse, its axes (batch, heads, length) or (heads, total), as q was given."""
        if self.like is None:
            return lse
        *batch, length, heads, _ = self.like.shape
        axes = (1, 0) if not batch else (0, 2, 1)
        placements = [Shard(axes[at.dim]) if isinstance(at, Shard) else at for at in self.like.placements]
        return placed(lse, self.like.device_mesh, placements, torch.Size((*batch, heads, length)))


def placed(part: Tensor, mesh: DeviceMesh, placements: Any, shape: torch.Size) -> DTensor:
    """A rank's part as a DTensor of a shape; nothing is sent."""
    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=shape, stride=stride)


def local(ranks: Ranks, spec: Spec, arrays: tuple[Any, Any, Any], tensors: Mapping[str, Any], reduced: bool) -> Placed:
    """The plain tensors of a call. reduced: gradients of whole learned tensors come back summed over the ranks."""
    if not any(isinstance(array, DTensor) for array in (*arrays, *tensors.values())):
        return Placed(arrays, dict(tensors))
    like = arrays[0] if isinstance(arrays[0], DTensor) else None
    sequence = 0 if spec.is_varlen else 1
    for name, array in zip(("q", "k", "v"), arrays, strict=True):
        if isinstance(array, DTensor) != (like is not None):
            raise ArgumentError(f"{name}: q, k and v are all DTensors or all plain tensors")
        if isinstance(array, DTensor) and array.placements[dimension(ranks, array, name)] != Shard(sequence):
            found = f"placements {tuple(array.placements)}"
            raise ArgumentError(f"{name}: {found}, wanted Shard({sequence}) on the dimension of the mesh that shares a sequence")
    if like is not None:
        check_heads(spec, like, sequence)
    plain, sharded = {}, []
    for name, value in tensors.items():
        plain[name] = value
        if isinstance(value, DTensor):
            at = dimension(ranks, value, name)
            if isinstance(value.placements[at], Shard):
                check_axis(spec, name, value.placements[at])
                sharded.append(name)
            plain[name] = value.to_local(grad_placements=gradient_placements(value, at, like, reduced))
    parts = tuple(array.to_local() if isinstance(array, DTensor) else array for array in arrays)
    return Placed((parts[0], parts[1], parts[2]), plain, tuple(sharded), like)


def dimension(ranks: Ranks, array: DTensor, name: str) -> int:
    """The dimension of a DTensor's mesh that is the group."""
    mesh = array.device_mesh
    for at in range(mesh.ndim):
        if mesh.get_group(at).group_name == ranks.group.group_name:
            return at
    raise ArgumentError(f"{name}: its mesh {mesh} has no dimension whose ranks are those that share a sequence")


def check_heads(spec: Spec, like: DTensor, sequence: int) -> None:
    """Other dimensions may share out the batch, or heads where the variant does not ask which."""
    from attnspec.distributed.rewrite import OF_HEADS, names_of

    if Shard(sequence + 1) in like.placements and names_of(spec) & OF_HEADS:
        raise ArgumentError(f"q: {spec.name} depends on the number of a head, which shards of heads do not know")


def check_axis(spec: Spec, name: str, found: Placement) -> None:
    """Declared tensors are cut along the axis of the sequence."""
    declared = {tensor.name: tensor for tensor in spec.tensors}
    if name in declared and found != Shard(axis_of(declared[name])):
        raise ArgumentError(f"{name}: placement {found}, wanted Shard({axis_of(declared[name])}) or Replicate()")


def gradient_placements(value: DTensor, at: int, like: DTensor | None, reduced: bool) -> list[Placement]:
    """What a gradient that comes back is: over ranks that saw other rows it is yet to be summed."""
    found: list[Placement] = []
    for number, placement in enumerate(value.placements):
        if isinstance(placement, Shard):
            found.append(placement)
        elif number == at:
            found.append(Replicate() if reduced else Partial())
        else:
            is_cut = like is not None and like.device_mesh == value.device_mesh and isinstance(like.placements[number], Shard)
            found.append(Partial() if is_cut else Replicate())
    return found
