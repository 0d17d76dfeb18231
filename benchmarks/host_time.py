"""`python -m benchmarks.host_time`: microseconds that the host takes for a call, ours and its peers', on one GPU, side by side.

The kernels are of one small tile, so that the host is what is waited for. The bar is 20 microseconds for a call of ours without
gradients, on a host that does nothing else: other processes triple it.
"""

import time
from collections.abc import Callable

import torch

import attnspec

PLAIN = "attention plain\nhead_dim 64\n"
ROUNDS, CALLS = 20, 50
ROWS, WIDTH = 64, 64


def host_times(call: Callable[[], object]) -> tuple[float, float]:
    """Microseconds of a call: of the best round, and of the middle one. The GPU is waited for after each."""
    call()
    times = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
    return min(times), sorted(times)[ROUNDS // 2]


def peers(q: torch.Tensor) -> dict[str, Callable[[], object]]:
    """What others are called with, on the same tensor as q, k and v."""
    turned = q.transpose(1, 2)
    found: dict[str, Callable[[], object]] = {
        "scaled_dot_product_attention": lambda: torch.nn.functional.scaled_dot_product_attention(turned, turned, turned)
    }
    try:
        from flash_attn.cute import flash_attn_func  # pyright: ignore[reportMissingImports]
    except ImportError:
        return found
    return found | {"flash-attn-4": lambda: flash_attn_func(q, q, q)}


def main() -> None:
    """A line a call."""
    attention = attnspec.build(PLAIN)
    q = torch.randn(1, ROWS, 1, WIDTH, device="cuda", dtype=torch.bfloat16)
    leaf = q.detach().requires_grad_()
    out = attention(leaf, leaf, leaf)
    calls: dict[str, Callable[[], object]] = {
        "attnspec": lambda: attention(q, q, q),
        "attnspec, with gradients": lambda: attention(leaf, leaf, leaf),
        "attnspec, its backward": lambda: torch.autograd.grad(out, leaf, out, retain_graph=True),
        **peers(q),
    }
    for name, call in calls.items():
        best, middle = host_times(call)
        print(f"{name:28s} {best:6.1f} us at best, {middle:6.1f} in the middle", flush=True)


if __name__ == "__main__":
    main()
