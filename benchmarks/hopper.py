"""How fast the forward is on a Hopper GPU beside its peers.

`python -m benchmarks.hopper [CASE ...]` prints TFLOP/s of one process's runs on the same inputs (of backwards: `attnc bench
--backward`, `python -m benchmarks.hopper_backward`; whether all is right: `python -m pytest tests/gpu`). Needs such a GPU,
torch, nvidia-cutlass-dsl and apache-tvm-ffi; peers that are not installed are left out.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from attnspec.backends.emitted import Emitted
from attnspec.runtime.assemble import fake_arguments, load_file, quiet_settings
from torch import Tensor

from attnspec import stages

TARGET = "sm90"
TOKENS = 16384
WINDOW = 1024
ROUNDS, REPEATS = 5, 10


def kernel(source: str) -> Callable[..., None]:
    """A variant's forward as a function of tensors and numbers."""
    analysed = stages.analyse(stages.read(source))
    return compiled(stages.emit(analysed, stages.place(stages.draw(analysed, "forward", TARGET), analysed, TARGET)))


_compiled: dict[str, Callable[..., None]] = {}


def compiled(emitted: Emitted) -> Callable[..., None]:
    """An emitted forward, or backward, compiled once for this process's GPU."""
    import cutlass.cute as cute
    from cutlass import Int32
    from cutlass.cute.runtime import make_fake_stream

    (module,) = emitted.modules
    if module.text not in _compiled:
        folder = Path(mkdtemp(prefix="attnspec-"))
        (folder / module.file_name).write_text(module.text)
        with quiet_settings(str(folder)):
            live = load_file(module, folder / module.file_name)
            arguments = fake_arguments(emitted.manifest["arguments"])
            stream = make_fake_stream(use_tvm_ffi_env_stream=True)
            options = "--gpu-arch sm_90a --enable-tvm-ffi --keep-ptx"
            _compiled[module.text] = cute.compile(
                getattr(live, module.name), *arguments, Int32(1), stream, options=f"{options} --dump-dir {folder}"
            )
    return _compiled[module.text]


@dataclass(frozen=True)
class Case:
    """A timed variant. peers: functions of (q, k, v), each (batch, rows, heads, width), by name; visible: pairs of a sequence."""

    name: str
    source: str
    head_dim: int
    length: int
    visible: float
    sdpa: dict[str, Any] | None = None
    fa4: dict[str, Any] | None = None


def cases() -> list[Case]:
    """Dense, causal, window and softcap, of two head dimensions and two lengths."""
    found = []
    for length in (4096, 16384):
        for width in (128, 64):
            half, window = (length * (length + 1)) / 2, sum(min(row + 1, WINDOW) for row in range(length))
            text = f"attention timed\nhead_dim {width}\n"
            causal, banded = "mask = kv <= qpos\n", f"mask = kv <= qpos and kv > qpos - {WINDOW}\n"
            rows = [
                ("dense", text, float(length**2), {"is_causal": False}, {}),
                ("causal", text + causal, half, {"is_causal": True}, {"causal": True}),
                ("window", text + banded, float(window), None, {"causal": True, "window_size": (WINDOW - 1, 0)}),
                ("softcap", text + "score = softcap(score, 50.0)\n", float(length**2), None, {"softcap": 50.0}),
            ]
            found += [Case(name, source, width, length, seen, sdpa, fa4) for name, source, seen, sdpa, fa4 in rows]
    return found


def median_time(call: Callable[[], object]) -> float:
    """Seconds of one call, the median of rounds of several."""
    for _ in range(3):
        call()
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(REPEATS):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / REPEATS / 1e3)
    return sorted(times)[len(times) // 2]


def peers_of(case: Case, q: Tensor, k: Tensor, v: Tensor) -> dict[str, Callable[[], object]]:
    """The peers that are installed and have the variant."""
    found: dict[str, Callable[[], object]] = {}
    if case.sdpa is not None:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        query, key, value = (array.transpose(1, 2) for array in (q, k, v))

        def cudnn() -> object:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return torch.nn.functional.scaled_dot_product_attention(query, key, value, **(case.sdpa or {}))

        found["cudnn"] = cudnn
    try:
        from flash_attn.cute import flash_attn_func  # pyright: ignore[reportMissingImports]
    except ImportError:
        return found
    found["fa4"] = lambda: flash_attn_func(q, k, v, **(case.fa4 or {}))
    return found


def measure(case: Case) -> dict[str, float]:
    """TFLOP/s by implementation; NaN for a peer that fails."""
    heads, batch = 2048 // case.head_dim, TOKENS // case.length
    sizes = (batch, case.length, heads, case.head_dim)
    q, k, v = (torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(batch, heads, case.length, device="cuda")
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    launch, flops = kernel(case.source), 4.0 * case.visible * case.head_dim * heads * batch
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: launch(q, k, v, out, lse, 0, 0, case.length, case.length, processors),
        **peers_of(case, q, k, v),
    }
    rates = {}
    for name, call in calls.items():
        try:
            rates[name] = flops / median_time(call) / 1e12
        except Exception as error:
            print(f"    {name}: {type(error).__name__} {str(error)[:120]}")
            rates[name] = float("nan")
    return rates


def time_all(wanted: Sequence[str], path: str | None) -> None:
    """A line a case, and all as JSON where a path is given."""
    rows = []
    for case in cases():
        label = f"{case.name} D{case.head_dim} S{case.length}"
        if wanted and not any(word in label for word in wanted):
            continue
        rates = measure(case)
        rows.append({"case": label, "tflops": rates})
        best = max((rate for name, rate in rates.items() if name != "ours" and rate == rate), default=float("nan"))
        shown = "  ".join(f"{name} {rate:6.1f}" for name, rate in rates.items())
        print(f"{label:24s} {shown}  ours / best peer {rates['ours'] / best:.2f}", flush=True)
    if path is not None:
        Path(path).write_text(json.dumps(rows, indent=1))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json")
    given = parser.parse_args()
    time_all(given.names, given.json)


if __name__ == "__main__":
    main()
