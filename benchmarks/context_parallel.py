"""`torchrun --nproc-per-node N -m benchmarks.context_parallel`: a variant over N GPUs against one.

For each variant and length: seconds of one GPU (if the length fits), of N, of the exchange alone, and what of it is not hidden.
First a short length is held against one process. `--device cpu` shows that the script runs, and nothing else.
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import attnspec
from attnspec.distributed import ContextParallel, context_parallel
from attnspec.distributed.ring import send_keys
from attnspec.distributed.simulate import documents

HEAD = "attention {name}\nhead_dim {width}\n"
VARIANTS = {
    "causal": "mask = causal\n",
    "window": "mask = window(4095, 0)\n",
    "documents": "input ids_q: i32[batch, len_q] sorted\ninput ids_kv: i32[batch, len_kv] sorted\n"
    "mask = causal and document(ids_q, ids_kv)\n",
}
MEAN_DOCUMENT = 8192
REPEATS = 10


@dataclass(frozen=True)
class Setting:
    """What is measured. rank: of this process."""

    device: torch.device
    heads: int
    kv_heads: int
    width: int
    strategy: str
    backward: bool
    rank: int
    size: int

    def draw(self, length: int) -> list[Tensor]:
        """Whole q, k, v, the same on every rank."""
        generator = torch.Generator(self.device).manual_seed(7)

        def normal(heads: int) -> Tensor:
            return torch.randn(1, length, heads, self.width, device=self.device, generator=generator).bfloat16()

        return [normal(self.heads), normal(self.kv_heads), normal(self.kv_heads)]

    def tensors(self, variant: str, length: int) -> dict[str, Tensor]:
        """Document ids."""
        if variant != "documents":
            return {}
        ids = torch.from_numpy(documents(length, min(MEAN_DOCUMENT, max(128, length // 4)), 1)).int().to(self.device)
        return {"ids_q": ids, "ids_kv": ids}

    def seconds(self, run: Callable[[], Any]) -> float:
        """The median of some runs, of the slowest rank."""
        times = []
        for _ in range(REPEATS + 2):
            self.wait()
            start = time.perf_counter()
            run()
            self.wait()
            times.append(time.perf_counter() - start)
        mine = torch.tensor(sorted(times[2:])[REPEATS // 2], device=self.device)
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        return float(mine)

    def wait(self) -> None:
        """Until the device has done all."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def step(call: Callable[..., Any], arrays: Sequence[Tensor], backward: bool) -> Any:
    """A forward, and a backward if wanted."""
    leaves = [array.detach().requires_grad_(backward) for array in arrays]
    out = call(*leaves)
    if backward:
        out.backward(torch.ones_like(out))
    return out.detach(), *(leaf.grad for leaf in leaves)


def check(setting: Setting, variant: str, together: ContextParallel, length: int) -> float:
    """The largest difference from one process, of out and of gradients, over the largest value."""
    arrays, tensors = setting.draw(length), setting.tensors(variant, length)
    alone = step(lambda *given: together.attention(*given, **tensors), arrays, setting.backward)
    parts = [together.shard(array) for array in arrays]
    found = step(lambda *given: together(*given, **tensors), parts, setting.backward)
    worst = 0.0
    for one, part in zip(alone, found, strict=True):
        if part is not None:
            whole = together.unshard(part).float()
            worst = max(worst, float((whole - one.float()).abs().max() / one.float().abs().max()))
    return worst


def seconds_alone(setting: Setting, together: ContextParallel, length: int, tensors: dict[str, Tensor]) -> float:
    """Of one GPU: each rank does the whole, at the same time."""
    arrays = setting.draw(length)
    return setting.seconds(lambda: step(lambda *given: together.attention(*given, **tensors), arrays, setting.backward))


def measure(setting: Setting, variant: str, together: ContextParallel, length: int, most_alone: int) -> str:
    """A row of the table."""
    tensors = setting.tensors(variant, length)
    plan = together.plan(length, heads=setting.heads, kv_heads=setting.kv_heads, **tensors)
    parts = [together.shard(array) for array in setting.draw(length)]
    alone = seconds_alone(setting, together, length, tensors) if length <= most_alone else float("nan")
    ranks, keys = together.ranks, torch.cat(parts[1:], -1)
    many = setting.seconds(lambda: step(lambda *given: together(*given, plan=plan, **tensors), parts, setting.backward))

    def exchange() -> None:
        for number in range(1, ranks.size):
            send_keys(ranks, plan, keys, number).pending.wait()

    links = setting.seconds(exchange)
    exposed = many - alone / setting.size / plan.balance
    sent = float(plan.load.sent.sum(0).max()) * plan.widths.key_bytes / 1e6
    times = " | ".join(f"{1e3 * value:.2f}" for value in (alone, many, links, exposed))
    return f"| {variant} | {length} | {plan.layout_q.name} | {plan.balance:.0%} | {times} | {sent:.1f} | {alone / many:.2f} |"


def main() -> None:
    """The table, from the first rank."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="+", default=[65536, 262144])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--strategy", default="ring")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--check-length", type=int, default=3000)
    parser.add_argument("--most-alone", type=int, default=2**20, help="longest sequence that one GPU is timed for")
    given = parser.parse_args()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if given.device == "cuda" else torch.device("cpu")
    if given.device == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if given.device == "cuda" else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    setting = Setting(device, given.heads, given.kv_heads, given.width, given.strategy, given.backward, rank, size)
    columns = ("", "positions", "layout", "balance", "one, ms", "all, ms", "exchange alone, ms", "not hidden, ms", "MB sent")
    rows = [f"| {' | '.join(columns)} | times faster |", "| --- | ---: | --- |" + " ---: |" * 7]
    for variant in given.variants:
        attention = attnspec.build(HEAD.format(name=variant, width=given.width) + VARIANTS[variant])
        layout = "contiguous" if variant == "window" else "zigzag"
        together = context_parallel(attention, dist.group.WORLD, given.strategy, layout)
        worst = check(setting, variant, together, given.check_length)
        if rank == 0:
            print(f"{variant}: {size} against one, {given.check_length} positions: {worst:.2e} of the largest value", flush=True)
        rows += [measure(setting, variant, together, length, given.most_alone) for length in given.lengths]
    if rank == 0:
        print("\n".join(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
