"""Models over processes: a tiny language model, wrapped ones, DTensors, and a compiled call."""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard

import attnspec
from attnspec.distributed import context_parallel

VARIANT = """attention tiny
head_dim 16
learned sinks: f32[heads]
learned decay: f32[heads]
score = score + (qpos - kv) * -exp(decay[h])
mask = kv <= qpos and kv > qpos - 60
sink = sinks[h]
"""
VOCABULARY, WIDTH, HEADS, LENGTH, STEPS = 29, 32, 2, 150, 20


class Block(nn.Module):
    """One layer of a language model; `attend` is a variant, or one over ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, VOCABULARY)
        self.sinks, self.decay = nn.Parameter(torch.zeros(HEADS)), nn.Parameter(torch.full((HEADS,), -4.0))
        self.attend = attnspec.build(VARIANT)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits."""
        q, k, v = self.qkv(self.embedding(tokens)).unflatten(-1, (3, HEADS, 16)).bfloat16().unbind(2)
        found = self.attend(q, k, v, sinks=self.sinks, decay=self.decay)
        return self.out(found.flatten(2).float())


def make_model() -> Block:
    """The same everywhere."""
    torch.manual_seed(3)
    return Block()


def text() -> Tensor:
    """Tokens in which the next depends on those before."""
    generator = torch.Generator().manual_seed(5)
    tokens = torch.randint(0, VOCABULARY, (1, LENGTH + 1), generator=generator)
    tokens[:, 3:] = torch.where(torch.rand(1, LENGTH - 2, generator=generator) < 0.8, tokens[:, :-3], tokens[:, 3:])
    return tokens


def losses_alone() -> list[float]:
    """Of one process."""
    model, tokens = make_model(), text()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return [step(model, optimizer, tokens[:, :-1], tokens[:, 1:], None) for _ in range(STEPS)]


def step(model: Block, optimizer: torch.optim.Optimizer, given: Tensor, wanted: Tensor, group: ProcessGroup | None) -> float:
    """A training step; gradients of what each rank has a share of are added over the group."""
    logits = model(given)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum") / LENGTH
    optimizer.zero_grad()
    loss.backward()
    total = loss.detach().clone()
    if group is not None:
        dist.all_reduce(total, group=group)
        for name, parameter in model.named_parameters():
            if name not in ("sinks", "decay"):  # those have been summed by the call
                dist.all_reduce(parameter.grad, group=group)
    optimizer.step()
    return float(total)


def losses_together(group: ProcessGroup, strategy: str, layout: str) -> list[float]:
    """The same over a group: shards of tokens, one optimizer a rank."""
    model, tokens = make_model(), text()
    together = context_parallel(model.attend, group, strategy, layout)
    model.attend = together
    given, wanted = together.shard(tokens[:, :-1].contiguous()), together.shard(tokens[:, 1:].contiguous())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return [step(model, optimizer, given, wanted, group) for _ in range(STEPS)]


def losses_wrapped(group: ProcessGroup) -> list[float]:
    """Parameters too are sharded over the group, by FSDP2, which adds up gradients: the call leaves that to it."""
    model, tokens = make_model(), text()
    together = context_parallel(model.attend, group, "ring", "zigzag", reduce_learned=False)
    model.attend = together
    given, wanted = together.shard(tokens[:, :-1].contiguous()), together.shard(tokens[:, 1:].contiguous())
    shard_parameters(model, group)
    return losses_of(model, model, given, wanted, group)


def shard_parameters(model: nn.Module, group: ProcessGroup) -> None:
    """Over the group, by FSDP2; gradients are added up, not averaged."""
    fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu", mesh_dim_names=("cp",)))
    model.set_gradient_divide_factor(1.0)
    model.set_force_sum_reduction_for_comms(True)


def losses_of(
    model: nn.Module, run: Callable[[Tensor], Tensor], given: Tensor, wanted: Tensor, group: ProcessGroup
) -> list[float]:
    """Of three steps of a sharded model. run: the model, or what was compiled of it."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(3):
        loss = nn.functional.cross_entropy(run(given).flatten(0, 1), wanted.flatten(), reduction="sum") / LENGTH
        optimizer.zero_grad()
        loss.backward()
        total = loss.detach().clone()
        dist.all_reduce(total, group=group)
        optimizer.step()
        losses.append(float(total))
    return losses


def distributed_tensors(group: ProcessGroup) -> dict[str, Tensor]:
    """Results and gradients, whole, of a call on DTensors."""
    mesh = DeviceMesh.from_group(group, "cpu", mesh_dim_names=("cp",))
    q, k, v, sinks, decay = drawn()
    parts = [DTensor.from_local(shard(one, group), mesh, [Shard(1)], run_check=False) for one in (q, k, v)]
    learned = [DTensor.from_local(one, mesh, [Replicate()], run_check=False) for one in (sinks, decay)]
    leaves = [one.detach().requires_grad_() for one in (*parts, *learned)]
    together = context_parallel(attnspec.build(VARIANT), mesh)
    out, lse = together(*leaves[:3], return_lse=True, sinks=leaves[3], decay=leaves[4])
    assert out.placements == (Shard(1),) and lse.placements == (Shard(2),)
    assert out.shape == q.shape and lse.shape == (1, HEADS, q.shape[1])
    (out.to_local().float().square().sum() + lse.to_local().sum()).backward()
    names = ("q", "k", "v", "sinks", "decay")
    found = {"out": out, "lse": lse, **{name: leaf.grad for name, leaf in zip(names, leaves, strict=True)}}
    return {name: value.full_tensor().detach() for name, value in found.items()}


def drawn() -> list[Tensor]:
    """Whole inputs."""
    generator = torch.Generator().manual_seed(2)
    arrays = [torch.randn(1, 90, HEADS, 16, generator=generator).bfloat16() for _ in range(3)]
    return [*arrays, torch.tensor([0.5, -1.0]), torch.tensor([-4.0, -3.0])]


def shard(whole: Tensor, group: ProcessGroup) -> Tensor:
    """Rows of this rank, as DTensor cuts."""
    return whole.chunk(group.size(), 1)[group.rank()].contiguous()
