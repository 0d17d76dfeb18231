"""`torchrun --standalone --nproc-per-node N -m benchmarks.context_parallel`: a variant over N GPUs against one.

First short lengths are held against one process: each variant by each strategy, compiled too, with gradients; exit 1 if one is
wrong. Then for each variant and length, in the layout that the cost model picks for it: seconds of one GPU (if the length fits),
of N, of the exchange alone, and what is not hidden beyond a fair share of one GPU's time; a row is printed when it is found.
`--device cpu` shows that the script runs, and nothing else.

NCCL's kernels take multiprocessors while they send: NCCL_MAX_P2P_NCHANNELS bounds how many, `--spare` leaves as many free.
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

import attnspec
from attnspec.distributed import ContextParallel, context_parallel
from attnspec.distributed.keys import Keys
from attnspec.distributed.ring import send_keys
from attnspec.distributed.simulate import documents

HEAD = "attention {name}\nhead_dim {width}\n"
VARIANTS = {
    "causal": "mask = causal\n",
    "window": "mask = window(4095, 0)\n",
    "documents": "input ids_q: i32[batch, len_q] sorted\ninput ids_kv: i32[batch, len_kv] sorted\n"
    "mask = causal and document(ids_q, ids_kv)\n",
    "sinks": "learned sinks: f32[heads]\nmask = kv <= qpos - 700\nsink = sinks[h]\n",  # the first rows see no key at all
}
STRATEGIES = ("ring", "all_gather", "ulysses")
MEAN_DOCUMENT = 8192
REPEATS = 5
WRONG = 2.0**-5  # of the largest value: parts come in bf16, and gradients are sums of some tens of roundings of 2^-9


@dataclass(frozen=True)
class Setting:
    """What is measured. rank: of this process."""

    device: torch.device
    heads: int
    kv_heads: int
    width: int
    strategy: str
    backward: bool
    spare: int
    rank: int
    size: int

    def together(self, variant: str, strategy: str, layout: str) -> ContextParallel:
        """A variant over all ranks."""
        attention = attnspec.build(HEAD.format(name=variant, width=self.width) + VARIANTS[variant])
        return context_parallel(attention, dist.group.WORLD, strategy, layout, spare=self.spare)

    def say(self, words: str) -> None:
        """From the first rank, at once."""
        if self.rank == 0:
            print(words, flush=True)

    def draw(self, length: int) -> list[Tensor]:
        """Whole q, k, v, the same on every rank."""
        generator = torch.Generator(self.device).manual_seed(7)

        def normal(heads: int) -> Tensor:
            return torch.randn(1, length, heads, self.width, device=self.device, generator=generator).bfloat16()

        return [normal(self.heads), normal(self.kv_heads), normal(self.kv_heads)]

    def tensors(self, variant: str, length: int) -> dict[str, Tensor]:
        """Document ids, or sinks."""
        if variant == "sinks":
            return {"sinks": torch.linspace(-1, 2, self.heads, device=self.device)}
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


def check(setting: Setting, variant: str, strategy: str, length: int, compiled: bool) -> bool:
    """Whether out and all gradients are those of one process, but for rounding."""
    together = setting.together(variant, strategy, "contiguous" if variant == "window" else "zigzag")
    arrays, tensors = setting.draw(length), setting.tensors(variant, length)
    learned = [tensors[name] for name in together.attention.learned]
    fixed = {name: array for name, array in tensors.items() if name not in together.attention.learned}

    def results(attend: Any, given: Sequence[Tensor]) -> list[Tensor]:
        """out, lse and gradients."""
        leaves = [array.detach().clone().requires_grad_() for array in given]
        named = dict(zip(together.attention.learned, leaves[3:], strict=True))
        out, lse = attend(*leaves[:3], return_lse=True, **fixed, **named)
        torch.autograd.backward((out, lse), (torch.ones_like(out), torch.where(lse == -torch.inf, 0.0, lse / 8)))
        return [out.detach(), lse.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]

    run = torch.compile(together, fullgraph=True, backend="aot_eager") if compiled else together
    alone = results(together.attention, [*arrays, *learned])
    found = results(run, [*(together.shard(array) for array in arrays), *learned])
    worst = []
    for axis, one, part in zip((1, 2, 1, 1, 1, None), alone, found):
        whole = part if axis is None else together.unshard(part, axis)
        difference = torch.where(whole == one, 0.0, whole.float() - one.float())  # -inf twice is no difference
        largest = float(one[one.isfinite()].float().abs().max())
        worst.append(float(difference.abs().max()) / max(largest, 2.0**-100))  # all of it may be 0
    is_right = all(value <= WRONG for value in worst)  # a NaN is not
    how = f"{variant}, {strategy}{', compiled' if compiled else ''}, {length} positions"
    errors = " ".join(f"{value:.1e}" for value in worst)
    setting.say(f"{'right' if is_right else 'WRONG'}: {how}: out, lse, dq, dk, dv, ... of the largest value: {errors}")
    return is_right


def seconds_alone(setting: Setting, together: ContextParallel, length: int, tensors: dict[str, Tensor]) -> float:
    """Of one GPU: each rank does the whole, at the same time."""
    arrays = setting.draw(length)
    return setting.seconds(lambda: step(lambda *given: together.attention(*given, **tensors), arrays, setting.backward))


def measure(setting: Setting, variant: str, together: ContextParallel, length: int, most_alone: int) -> str:
    """A row of the table. A layout of "auto" is picked for the very documents."""
    tensors = setting.tensors(variant, length)
    call: dict[str, Any] = {"heads": setting.heads, "kv_heads": setting.kv_heads, **tensors}
    if together.kinds[0] == "auto":
        together = together.with_layout(together.pick(length, **call))
    plan = together.plan(length, **call)
    parts = [together.shard(array) for array in setting.draw(length)]
    alone = seconds_alone(setting, together, length, tensors) if length <= most_alone else float("nan")
    ranks, keys = together.ranks, Keys(*parts[1:])
    many = setting.seconds(lambda: step(lambda *given: together(*given, plan=plan, **tensors), parts, setting.backward))

    def exchange() -> None:
        for number in range(1, ranks.size):
            send_keys(ranks, plan, keys, number).pending.wait()

    links = setting.seconds(exchange)
    exposed = many - alone / setting.size / plan.balance
    sent = float(plan.load.sent.sum(0).max()) * plan.widths.key_bytes / 1e6
    times = " | ".join(f"{1e3 * value:.2f}" for value in (alone, many, links, exposed))
    return f"| {variant} | {length} | {plan.layout_q.name} | {plan.balance:.0%} | {times} | {sent:.1f} | {alone / many:.2f} |"


def arguments() -> argparse.Namespace:
    """Of the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", type=int, nargs="*", default=[65536, 262144])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=["causal", "window", "documents"])
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--kv-heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--strategy", choices=STRATEGIES, default="ring", help="of what is timed")
    parser.add_argument("--layout", default="auto", help="of what is timed")
    parser.add_argument("--backward", action="store_true", help="time the backward too")
    parser.add_argument("--spare", type=int, default=0, help="multiprocessors that kernels leave to the exchange")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--backend", help="of torch.distributed; cpu:gloo,cuda:nccl, or gloo on the CPU")
    parser.add_argument("--timeout", type=float, default=180, help="seconds that a rank waits for another")
    parser.add_argument("--check-lengths", type=int, nargs="*", default=[3000, 1025])
    parser.add_argument("--most-alone", type=int, default=2**20, help="longest sequence that one GPU is timed for")
    return parser.parse_args()


def run(setting: Setting, given: argparse.Namespace) -> bool:
    """All checks and the table; whether all was right."""
    right = True
    for length in given.check_lengths:
        for variant in VARIANTS:
            for strategy in STRATEGIES:
                if strategy != "ulysses" or setting.heads % setting.size == 0:
                    right &= check(setting, variant, strategy, length, False)
            right &= check(setting, variant, "ring", length, True)
    columns = ("", "positions", "layout", "balance", "one, ms", "all, ms", "exchange alone, ms", "not hidden, ms", "MB sent")
    setting.say(f"| {' | '.join(columns)} | times faster |\n| --- | ---: | --- |" + " ---: |" * 7)
    for variant in given.variants:
        together = setting.together(variant, given.strategy, given.layout)
        for length in given.lengths:
            setting.say(measure(setting, variant, together, length, given.most_alone))
    return right


def main() -> None:
    """Start, run, and say on every rank what went wrong."""
    given = arguments()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if given.device == "cuda" else torch.device("cpu")
    if given.device == "cuda":
        torch.cuda.set_device(device)
    backend = given.backend or ("cpu:gloo,cuda:nccl" if given.device == "cuda" else "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=given.timeout))
    rank, size = dist.get_rank(), dist.get_world_size()
    sizes = given.heads, given.kv_heads, given.width
    setting = Setting(device, *sizes, given.strategy, given.backward, given.spare, rank, size)
    setting.say(
        f"{size} x {torch.cuda.get_device_name(device) if given.device == 'cuda' else 'CPU'}, torch {torch.__version__}, {given}"
    )
    try:
        right = run(setting, given)
    except BaseException:
        print(f"rank {rank}: {traceback.format_exc()}", file=sys.stderr, flush=True)
        os._exit(1)  # destroying the group would wait for the others
    dist.destroy_process_group()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
