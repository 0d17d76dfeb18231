"""A Hopper GPU: right for every variant, and how fast the forward is beside its peers.

`python -m benchmarks.hopper check [VARIANT ...]` runs variants' forwards against the float64 oracle; `gradients [VARIANT ...]`
forwards and backwards, and deterministic ones several times; `time [CASE ...]` prints TFLOP/s of one process's runs on the same
inputs (of backwards: `attnc bench --backward`, `python -m benchmarks.hopper_backward_trials`). Needs such a GPU, torch,
nvidia-cutlass-dsl and apache-tvm-ffi; peers that are not installed are left out.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from attnspec.backends.emitted import Emitted
from attnspec.runtime.assemble import fake_arguments, load_file, quiet_settings
from attnspec.runtime.compare import compare, judge
from attnspec.runtime.draw_inputs import Inputs, Shape, draw_inputs, fit_shape
from attnspec.runtime.kernel_arguments import as_argument
from torch import Tensor

import attnspec
from attnspec import stages, variants

TARGET = "sm90"
SHAPES = (
    Shape(1, 2, 1, 300, 417),
    Shape(1, 2, 2, 4, 2),
    Shape(2, 1, 1, 1, 1),
    Shape(1, 2, 1, 130, 700),
    Shape(2, 4, 2, 1000, 1500),
)
TOKENS = 16384
WINDOW = 1024
ROUNDS, REPEATS = 5, 10
CAUSAL = "attention causal\nhead_dim {}\ndtype {}\nmask = kv <= qpos\n"
WIDTHS = (("8", "bf16"), ("40", "fp16"), ("96", "bf16"), ("128", "fp16"), ("136, 200", "bf16"), ("192", "bf16"), ("256", "bf16"))


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


def arguments_of(inputs: Inputs, declared: Sequence[str], width_v: int) -> tuple[Any, ...]:
    """What the kernel takes of drawn inputs, on the GPU; results are the fourth and the fifth."""
    q, k, v = (array.cuda() for array in (inputs.q, inputs.k, inputs.v))
    tensors = [as_argument(inputs.tensors[name].cuda()) for name in declared]
    if "cu_seqlens_q" in inputs.keywords:
        q, k, v = (array.unsqueeze(0) for array in (q, k, v))
        places: tuple[Any, ...] = tuple(inputs.keywords[name].cuda() for name in ("cu_seqlens_q", "cu_seqlens_kv"))
    else:
        places = (0, 0, q.shape[1], k.shape[1])
    out = torch.full((*q.shape[:3], width_v), float("nan"), dtype=q.dtype, device="cuda")
    lse = torch.full((q.shape[0], q.shape[2], q.shape[1]), float("nan"), device="cuda")
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    return (q, k, v, out, lse, *tensors, *places, processors)


def check_variant(source: str) -> list[str]:
    """A line for each shape that is wrong, none where all are right."""
    try:
        spec = stages.read(source)
        attention, launch, found = attnspec.build(spec, target=TARGET, on="emulator"), kernel(source), []
        for shape in SHAPES:
            inputs = draw_inputs(spec, fit_shape(spec, shape), 1)
            arguments = arguments_of(inputs, [tensor.name for tensor in spec.tensors], spec.head_dim_v)
            launch(*arguments)
            torch.cuda.synchronize()
            out, lse = (array.cpu() for array in arguments[3:5])
            results = {"out": out.reshape((*inputs.q.shape[:-1], spec.head_dim_v)), "lse": lse.reshape(inputs.dlse.shape)}
            for row in judge(attention, inputs, [results], True):
                if not row.is_right:
                    found.append(f"{shape}: {row.name} error {row.error:.3g}, {row.worst:.3g} of its tolerance")
    except Exception as error:
        return [f"{type(error).__name__}: {str(error)[:300]}"]
    return found


def check_gradients(source: str) -> list[str]:
    """A line for each shape whose results or gradients are wrong, or whose deterministic gradients differ from run to run."""
    try:
        attention, found = attnspec.build(source, target=TARGET), []
        for shape in SHAPES:
            inputs = draw_inputs(attention.spec, fit_shape(attention.spec, shape), 1).on(torch.device("cuda"))
            wrong = [row for row in compare(attention, inputs) if not row.is_right]
            found += [f"{shape}: {row.name} error {row.error:.3g}, {row.worst:.3g} of its tolerance" for row in wrong]
            runs = [gradients_of(attention, inputs) for _ in range(3)]
            if not all(torch.equal(one, first) for run in runs[1:] for one, first in zip(run, runs[0], strict=True)):
                found.append(f"{shape}: deterministic gradients differ from run to run")
    except Exception as error:
        return [f"{type(error).__name__}: {str(error)[:300]}"]
    return found


def gradients_of(attention: attnspec.Attention, inputs: Inputs) -> tuple[Tensor, ...]:
    """Those of a deterministic call."""
    names = ("q", "k", "v", *attention.learned)
    given = {"q": inputs.q, "k": inputs.k, "v": inputs.v} | inputs.tensors
    leaves = {name: given[name].clone().requires_grad_() for name in names}
    out = attention(**(given | leaves), deterministic=True, **inputs.keywords)
    return torch.autograd.grad(out, list(leaves.values()), inputs.dout)


def check(one: Callable[[str], list[str]], sources: Sequence[tuple[str, str]], workers: int) -> bool:
    """A line a variant; whether all are right."""
    start, wrong = time.time(), 0
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for (name, _), lines in zip(sources, pool.map(one, [source for _, source in sources]), strict=True):
            wrong += bool(lines)
            print(f"{name:24s} {'right' if not lines else 'WRONG'}", *lines, sep="\n    " if lines else "", flush=True)
    print(f"{len(sources) - wrong} of {len(sources)} right, {time.time() - start:.0f} s")
    return not wrong


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


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("check", "gradients", "time"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--workers", type=int, default=12)
    parser.add_argument("--json")
    given = parser.parse_args()
    if given.what == "time":
        time_all(given.names, given.json)
        return 0
    sources = [(name, str(variants.path(name))) for name in given.names or variants.names()]
    sources += [] if given.names else [(f"head_dim {dims} {dtype}", CAUSAL.format(dims, dtype)) for dims, dtype in WIDTHS]
    one = check_variant if given.what == "check" else check_gradients
    return 0 if check(one, sources, given.workers) else 1


if __name__ == "__main__":
    sys.exit(main())
