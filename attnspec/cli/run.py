"""attnc run: a variant forward and backward on this machine, against a float64 oracle."""

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from attnspec.cli.failure import WRONG_NUMBERS
from attnspec.cli.json_text import json_text
from attnspec.cli.options import (
    GPU_TARGETS,
    TARGETS,
    constants_option,
    ctas_option,
    file_argument,
    json_option,
    query_tiles_option,
)
from attnspec.cli.shape import CallShape, Sizes, call_shape
from attnspec.errors import TargetError
from attnspec.language.spec import Spec

if TYPE_CHECKING:
    from attnspec.cli.emulate import Emulated
    from attnspec.runtime.compare import Row

BATCH, LENGTH = 2, 300
MOST_SEED = 2**63 - 1  # of torch's generators
MOST_SCORES = 2**27  # of one sequence: the oracle holds them all at once, in float64, several times


@dataclass(frozen=True)
class Plan:
    """What is run, and on what."""

    spec: Spec
    shape: CallShape
    target: str
    on: str | None
    forward_only: bool
    ctas: Literal[1, 2] | None = None
    query_tiles: Literal[1, 2] | None = None

    @property
    def is_emulated(self) -> bool:
        """Whether the emulator stands for the GPU."""
        return self.on == "emulator"

    @property
    def place(self) -> str:
        """In words."""
        if self.target == "reference":
            return "the reference"
        return f"{self.target} in the emulator" if self.is_emulated else f"{self.target}, this machine's GPU"


@dataclass(frozen=True)
class Trial:
    """One draw of inputs and how its results compare. emulated: its timings in the emulator, where it ran there."""

    seed: int
    seconds: float
    rows: "tuple[Row, ...]"
    emulated: "Emulated | None" = None

    @property
    def is_right(self) -> bool:
        """Numbers within their tolerances and, in the emulator, no faults."""
        return all(row.is_right for row in self.rows) and (self.emulated is None or self.emulated.is_right)


@click.command("run")
@file_argument
@click.option("--target", type=click.Choice(TARGETS), help="What to run on.  [default: the reference, on the CPU]")
@click.option("--on", type=click.Choice(["emulator", "gpu"]), help="Run a GPU target's kernel without its GPU, or on it.")
@click.option("--shape", "sizes", type=Sizes(), default="", metavar="SIZES", help="Some of b=1,h=4,hkv=2,q=300,kv=300.")
@click.option("--seed", type=click.IntRange(0, MOST_SEED), help="Draw the inputs from this seed.  [default: 0]")
@click.option(
    "--seeds",
    type=click.IntRange(1, MOST_SEED),
    help="Run so many draws, from seed 0 on; in the emulator, one draw with so many timings.",
)
@click.option("--forward-only", is_flag=True, help="No gradients.")
@ctas_option
@query_tiles_option
@constants_option
@json_option
def command(
    file: str,
    target: str | None,
    on: str | None,
    sizes: dict[str, int],
    seed: int | None,
    seeds: int | None,
    forward_only: bool,
    ctas: Literal[1, 2] | None,
    query_tiles: Literal[1, 2] | None,
    constants: tuple[tuple[str, Any], ...],
    as_json: bool,
) -> int:
    """Run FILE on drawn inputs, forward and backward, against a float64 oracle.

    Prints the largest error of every result and how much of its tolerance that is. Exit code 0 if all are right, 1 if not.

    The emulator runs the kernel in program order, then with timings of seeds 1 to --seeds: all must give the same bits, and no
    race, deadlock or stray access.
    """
    from attnspec.cli.read_file import read_spec

    if seed is not None and seeds is not None and on is None:
        raise click.UsageError("--seed and --seeds: give one of them", click.get_current_context())
    spec = read_spec(file, constants)
    shape = call_shape(spec, sizes, BATCH, LENGTH)
    target = refuse(target, on, shape)
    if target == "reference" and ctas is not None:
        raise click.UsageError("--ctas: the reference runs no CTAs")
    if target == "reference" and query_tiles is not None:
        raise click.UsageError("--query-tiles: the reference has no work tiles")
    refused = "" if forward_only or target == "reference" else refusal(spec, target, ctas, query_tiles)
    plan = Plan(spec, shape, target, on, forward_only or bool(refused), ctas, query_tiles)
    if not plan.is_emulated:
        trials = [trial(plan, number) for number in (range(seeds) if seeds is not None else [seed or 0])]
    else:
        trials = [emulated_trial(plan, seed or 0, seeds or 0)]
    click.echo(as_text(plan, trials) if not as_json else json_text(as_dict(plan, trials)))
    if refused and not as_json:
        click.echo(f"note: the forward alone was run, since its backward {refused}")
    return 0 if all(one.is_right for one in trials) else WRONG_NUMBERS


def refuse(target: str | None, on: str | None, shape: CallShape) -> str:
    """The target; an error for what cannot run here, before torch is loaded."""
    if on is not None and target == "reference":
        raise click.UsageError("--on: the reference runs on the CPU as it is; the emulator runs GPU targets")
    if on == "gpu" or (on is None and target in GPU_TARGETS):
        target = gpu_here(target, "--on gpu" if on else f"--target {target}")
    scores = shape.heads * shape.len_q * shape.len_kv
    if scores > MOST_SCORES:
        found = f"h * q * kv is {scores:,}; the oracle holds every score at once and takes {MOST_SCORES:,} at most"
        raise click.BadParameter(found, param_hint="'--shape'")
    return target or ("reference" if on is None else "sm100")


def gpu_here(target: str | None, option: str) -> str:
    """The target of this machine's GPU; TargetError without one, or for another target."""
    import torch

    from attnspec.runtime.device import target_for

    if not torch.cuda.is_available():
        raise TargetError(f"{option}: torch finds no CUDA GPU here; --on emulator runs the kernels of a GPU on the CPU")
    return target_for(torch.device("cuda", torch.cuda.current_device()), target, None)


def refusal(spec: Spec, target: str, ctas: Literal[1, 2] | None, query_tiles: Literal[1, 2] | None) -> str:
    """Why a target that runs the variant's forward cannot run its backward, or nothing."""
    from attnspec import stages
    from attnspec.lowering.schedule.refusal import Unsupported

    analysed = stages.analyse(spec)
    stages.place(stages.draw(analysed, "forward", target, ctas, query_tiles=query_tiles), analysed, target)
    try:
        stages.place(stages.draw(analysed, "backward", target, ctas), analysed, target)
    except Unsupported as error:
        return f"has no kernel: {error}"
    return ""


def trial(plan: Plan, seed: int) -> Trial:
    """Draw, run, compare."""
    import torch

    from attnspec.api import build
    from attnspec.runtime.compare import compare
    from attnspec.runtime.draw_inputs import Shape, draw_inputs

    torch.set_num_threads(1)  # the reference's tiles are too small to share out; waiting threads only slow each other down
    start = time.perf_counter()
    attention = build(plan.spec, target=plan.target, ctas=plan.ctas, query_tiles=plan.query_tiles)
    inputs = draw_inputs(plan.spec, Shape(**asdict(plan.shape)), seed).on("cpu" if plan.target == "reference" else "cuda")
    rows = compare(attention, inputs, plan.forward_only)
    return Trial(seed, time.perf_counter() - start, rows)


def emulated_trial(plan: Plan, seed: int, timings: int) -> Trial:
    """Draw, run in the emulator with several timings, compare."""
    import torch

    from attnspec.api import build
    from attnspec.cli.emulate import emulate
    from attnspec.runtime.draw_inputs import Shape, draw_inputs

    torch.set_num_threads(1)
    start = time.perf_counter()
    attention = build(plan.spec, target=plan.target, on=plan.on, ctas=plan.ctas, query_tiles=plan.query_tiles)
    inputs = draw_inputs(plan.spec, Shape(**asdict(plan.shape)), seed)
    found = emulate(attention, inputs, timings, plan.forward_only)
    return Trial(seed, time.perf_counter() - start, found.rows, found)


def worst(trials: list[Trial]) -> "list[tuple[int, Row]]":
    """Of each result the draw that comes nearest to its tolerance, with its seed."""
    by_result = zip(*([(one.seed, row) for row in one.rows] for one in trials), strict=True)
    return [max(rows, key=lambda pair: pair[1].worst) for rows in by_result]


def as_text(plan: Plan, trials: list[Trial]) -> str:
    """What ran, a row a result, the verdict."""
    from attnspec.cli.emulate import as_lines
    from attnspec.cli.summary import spec_title
    from attnspec.cli.table import table

    found = worst(trials)
    seeds = f"seed {trials[0].seed}" if len(trials) == 1 else f"seeds 0 to {trials[-1].seed}, the worst of each result"
    rows = [
        (row.name, f"{row.error:.2e}", f"{100 * row.worst:.3g} %", "ok" if row.is_right else f"WRONG (seed {seed})", row.reason)
        for seed, row in found
    ]
    wrong = wrong_of(trials)
    what = "forward agrees" if plan.forward_only else "forward and backward agree"
    passed = f"pass: {what} with the float64 oracle"
    verdict = f"FAIL: {wrong}" if wrong else passed
    head = ("result", "largest error", "of tolerance", "", "tolerance: what the result may be off by, relative to its size")
    return "\n".join(
        [
            f"{spec_title(plan.spec)}, on {plan.place}",
            f"{plan.shape}; {seeds}; {sum(one.seconds for one in trials):.1f} s",
            "",
            *(line for one in trials if one.emulated is not None for line in (*as_lines(one.emulated), "")),
            *([table(head, rows, right=(1, 2)), ""] if rows else []),
            verdict,
        ]
    )


def wrong_of(trials: list[Trial]) -> str:
    """What is wrong in words; nothing if all is right."""
    from attnspec.cli.emulate import failures

    told = [failures(one.emulated) for one in trials if one.emulated is not None]
    if told:
        return told[0]
    wrong = [row.name for _, row in worst(trials) if not row.is_right]
    return f"{', '.join(wrong)} beyond the tolerance" if wrong else ""


def as_dict(plan: Plan, trials: list[Trial]) -> dict[str, Any]:
    """The same for machines, every draw."""
    from attnspec.cli.emulate import timings_as_list

    runs = [
        {
            "seed": one.seed,
            "seconds": round(one.seconds, 3),
            "results": [{**asdict(row), "is_right": row.is_right} for row in one.rows],
            **({"timings": timings_as_list(one.emulated)} if one.emulated is not None else {}),
        }
        for one in trials
    ]
    return {
        "name": plan.spec.name,
        "target": plan.target,
        "on": plan.on,
        "passes": ["forward"] if plan.forward_only else ["forward", "backward"],
        "pass": all(one.is_right for one in trials),
        "shape": asdict(plan.shape),
        "runs": runs,
    }
