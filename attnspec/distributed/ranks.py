"""The processes that share a sequence, and what they send one another: torch's own process groups, nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from attnspec.errors import ArgumentError

T = TypeVar("T")
_started: "WeakKeyDictionary[ProcessGroup, set[torch.device]]" = WeakKeyDictionary()


class LostRankError(RuntimeError):
    """A rank of the group is gone, or did not answer within the group's timeout."""


@dataclass(frozen=True)
class Ranks:
    """A process group and this process's place in it; ranks are those of the group."""

    group: ProcessGroup
    rank: int
    size: int

    def everyone(self, rank: int) -> int:
        """A rank of the group as one of the default group."""
        return dist.get_global_rank(self.group, rank)

    def start(self, device: torch.device) -> None:
        """Once for a group and a GPU, something that all ranks take part in.

        NCCL connects a group when it is first used, and waits for all ranks then; an exchange may be without some of them.
        """
        if device.type != "cpu" and device not in _started.setdefault(self.group, set()):
            self.sum("connecting", torch.zeros(1, device=device))
            _started[self.group].add(device)

    def exchange(self, what: str, sends: Sequence[tuple[int, Tensor]], receives: Sequence[tuple[int, Tensor]]) -> "Pending":
        """Start sends and receives, all at once; every rank must start its exchanges in the same order.

        Nothing is copied: a tensor is whole when `wait` has returned, and must stay as it is till then.
        """
        peers = sorted({rank for rank, _ in (*sends, *receives)})
        operations = [dist.P2POp(dist.isend, tensor, self.everyone(rank), self.group) for rank, tensor in sends]
        operations += [dist.P2POp(dist.irecv, tensor, self.everyone(rank), self.group) for rank, tensor in receives]
        works = self.watched(what, peers, lambda: dist.batch_isend_irecv(operations)) if operations else []
        return Pending(self, what, peers, works, [tensor for _, tensor in (*sends, *receives)])

    def watched(self, what: str, peers: Sequence[int], run: Callable[[], T]) -> T:
        """The result of something that talks to peers; `LostRankError` where one of them does not answer."""
        try:
            return run()
        except RuntimeError as error:
            whom = ", ".join(map(str, peers))
            ranks = f"rank{'s' * (len(peers) > 1)} {whom}" if peers else "the group"
            why = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            message = f"rank {self.rank} of {self.size} lost contact while {what} ({ranks}): a process has ended or hangs"
            raise LostRankError(f"{message}; torch.distributed says: {why}") from error

    def all_gather(self, what: str, tensor: Tensor) -> Tensor:
        """The tensors of all ranks, of one shape, along a new first axis."""
        whole = tensor.new_empty(self.size, *tensor.shape)
        others = [rank for rank in range(self.size) if rank != self.rank]
        plain, room = as_bytes(tensor.contiguous()), list(as_bytes(whole).unbind())
        self.watched(what, others, lambda: dist.all_gather(room, plain, group=self.group))
        return whole

    def all_to_all(self, what: str, tensor: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Rows of the first axis to each rank in turn; the rows that came, rank by rank."""
        found = tensor.new_empty(sum(received), *tensor.shape[1:])
        others = [rank for rank in range(self.size) if rank != self.rank]
        plain, room = as_bytes(tensor.contiguous()), as_bytes(found)

        def run() -> Any:
            return dist.all_to_all_single(room, plain, list(received), list(sent), group=self.group)

        self.watched(what, others, run)
        return found

    def sum(self, what: str, tensor: Tensor) -> Tensor:
        """The sum of the tensors of all ranks."""
        others = [rank for rank in range(self.size) if rank != self.rank]
        total = tensor.contiguous().clone()
        self.watched(what, others, lambda: dist.all_reduce(total, group=self.group))
        return total

    def objects(self, what: str, value: T) -> list[T]:
        """Any value of each rank."""
        found: list[Any] = [None] * self.size
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.watched(what, others, lambda: dist.all_gather_object(found, value, group=self.group))
        return found


@dataclass
class Pending:
    """An exchange that has been started."""

    ranks: Ranks
    what: str
    peers: list[int]
    works: list[Any]
    tensors: list[Tensor]  # held until they are sent

    def wait(self) -> None:
        """Until all has come and gone (on a GPU: the current stream waits, not the host)."""

        def run() -> None:
            for work in self.works:
                work.wait()

        if self.works:
            self.ranks.watched(self.what, self.peers, run)
        self.tensors = []


def ranks_of(place: Any) -> Ranks:
    """The ranks of a process group, or of a mesh of one dimension."""
    if isinstance(place, DeviceMesh):
        if place.ndim != 1:
            names = place.mesh_dim_names or tuple(range(place.ndim))
            raise ArgumentError(
                f"mesh: {place.ndim} dimensions {names}, wanted one: give the part that shares a sequence, mesh['cp']"
            )
        place = place.get_group()
    if not isinstance(place, ProcessGroup):
        wanted = "a DeviceMesh of one dimension or a ProcessGroup of torch.distributed is wanted"
        if place is dist.GroupMember.NON_GROUP_MEMBER:
            raise ArgumentError(f"group: this process is not in it; {wanted}, in whose ranks this process is")
        raise ArgumentError(f"group: {wanted}, got {type(place).__name__}")
    return Ranks(place, dist.get_rank(place), dist.get_world_size(place))


def as_bytes(tensor: Tensor) -> Tensor:
    """Types that a transport may not know go as bytes along the last axis; a scalar stays."""
    if tensor.dtype in (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8) or tensor.dim() == 0:
        return tensor
    return tensor.view(torch.uint8)
