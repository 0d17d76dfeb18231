"""How fast the backward is on a Hopper GPU, kernel by kernel, beside flash-attn-4, on the same inputs in one run.

`python -m benchmarks.hopper_backward [WORD ...]` prints, for each case whose label has one of the words, TFLOP/s of the whole
backward, and microseconds of each of its kernels.
"""

import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from attnspec import stages
from benchmarks.hopper import TARGET, TOKENS, Case, cases, compiled, kernel, median_time

PRODUCTS = 2.5  # of a backward, for one of a forward
CLOSE = 2.0**-6  # of the largest gradient: sums in another order, rounded to bf16


Backward = tuple[Callable[[], object], tuple[Tensor, ...]]  # and where it leaves its gradients


def calls(case: Case) -> dict[str, Backward]:
    """Ours, and the peer's where there is one."""
    heads, batch = 2048 // case.head_dim, TOKENS // case.length
    sizes = (batch, case.length, heads, case.head_dim)
    q, k, v, dout = (torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    out, lse = torch.empty_like(q), torch.empty(batch, heads, case.length, device="cuda")
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    places = (0, 0, case.length, case.length, processors)
    kernel(case.source)(q, k, v, out, lse, *places)
    analysed = stages.analyse(stages.read(case.source))
    emitted = stages.emit(analysed, stages.place(stages.draw(analysed, "backward", TARGET), analysed, TARGET))
    scratch, gradients = emitted.manifest["scratch"], tuple(torch.empty_like(q) for _ in range(3))
    tile = scratch["tile_q"]
    rows = batch * heads * -(-case.length // tile) * tile
    memory = (torch.empty(rows * scratch[size], device="cuda") for size in ("planes", "width"))
    arguments = (q, k, v, out, dout, lse, torch.zeros_like(lse), *gradients, *memory, *places)
    launch = compiled(emitted)
    return {"ours": (lambda: launch(*arguments), gradients)} | _peer(case, q, k, v, dout)


def _peer(case: Case, q: Tensor, k: Tensor, v: Tensor, dout: Tensor) -> dict[str, Backward]:
    """flash-attn-4, where it is installed and has the variant."""
    try:
        from flash_attn.cute import flash_attn_func  # pyright: ignore[reportMissingImports]
    except ImportError:
        return {}
    if case.fa4 is None:
        return {}
    leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    result = flash_attn_func(*leaves, **case.fa4)
    out = result[0] if isinstance(result, tuple) else result

    def again() -> tuple[Tensor, ...]:
        return torch.autograd.grad(out, leaves, dout, retain_graph=True)

    return {"flash-attn-4": (again, again())}


def kernels(call: Callable[[], object]) -> dict[str, float]:
    """Microseconds of each kernel of a call, the longest first."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        call()
        torch.cuda.synchronize()
    times = {event.key: event.device_time_total for event in seen.key_averages()}
    return dict(sorted(times.items(), key=lambda item: -item[1]))


def show(label: str, case: Case) -> None:
    """A line a form."""
    flops = PRODUCTS * 4.0 * case.visible * case.head_dim * (2048 // case.head_dim) * (TOKENS // case.length)
    first: tuple[Tensor, ...] = ()
    for name, (call, gradients) in calls(case).items():
        rate, parts = flops / median_time(call) / 1e12, kernels(call)
        first = first or gradients
        apart = max(float((one.float() - other.float()).abs().max() / other.float().abs().max())
                    for one, other in zip(gradients, first, strict=True))  # fmt: skip
        named = "  ".join(f"{_short(kernel)} {time:.0f}" for kernel, time in parts.items())
        print(f"{label:24s} {name:12s} {rate:6.1f}  {named}{'' if apart < CLOSE else f'  WRONG by {apart:.3g}'}", flush=True)


def _short(name: str) -> str:
    """What of a kernel's name tells it apart."""
    known = ("prepare", "convert", "backward", "preprocess", "postprocess", "bwd")
    return next((word for word in known if word in name.lower()), name[:24])


def main() -> None:
    """The command line."""
    for case in cases():
        label = f"{case.name} D{case.head_dim} S{case.length}"
        if not sys.argv[1:] or any(word in label for word in sys.argv[1:]):
            show(label, case)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
