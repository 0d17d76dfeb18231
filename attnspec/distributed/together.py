"""From one rank's arguments to the job that all ranks do: agreed, gathered, planned."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from torch import Tensor

from attnspec import __version__
from attnspec.distributed.agree import Card, agree
from attnspec.distributed.all_gather import gather_rows
from attnspec.distributed.compute import Variant
from attnspec.distributed.estimate import choose_strategy
from attnspec.distributed.job import Job, Sharded
from attnspec.distributed.plan import Plan
from attnspec.distributed.prepare import Given, Layouts, Taken, card_of, check_whole, layouts_of, sizes_of, take
from attnspec.distributed.programs import spec_of
from attnspec.distributed.visible import as_values, tensors_of
from attnspec.errors import ArgumentError

if TYPE_CHECKING:
    from attnspec.distributed.context_parallel import ContextParallel


Rows = list[tuple[int, int]]


def meet(context: "ContextParallel", given: Given) -> tuple[Taken, Rows]:
    """What this rank was given, checked, and the rows of q and of k of every rank.

    ArgumentError on every rank where a rank's arguments are wrong, or differ from another's.
    """
    spec, taken = context.attention.spec, None
    readers = frozenset[str]() if given.plan is not None else tensors_of(context.attention.analysed.keys)
    try:
        taken = take(spec, given)
        card = card_of(spec, taken, given, options(context, given), readers, __version__)
    except ArgumentError as error:
        card = Card({}, (0, 0), str(error))
    rows = agree(context.ranks, card)
    assert taken is not None  # where it is None, every rank has raised
    context.ranks.start(taken.q.device)
    return taken, rows


def job_for(context: "ContextParallel", taken: Taken, rows: Rows, deterministic: bool, plan: Plan | None) -> Job:
    """The job of a call that all ranks agree on: shards of declared tensors are gathered, and it is planned."""
    spec = context.attention.spec
    len_q, len_kv = (sum(counts) for counts in zip(*rows, strict=True))
    layouts = layouts_of(context.kinds_of(len_q, len_kv), rows)
    sizes, starts = sizes_of(spec, taken, layouts)
    tensors, sharded = whole(context, taken, layouts)
    check_whole(spec, sizes, tensors)
    if plan is None:
        readers = tensors_of(context.attention.analysed.keys)
        read = [(tensor.name, array) for tensor, array in zip(spec.tensors, tensors) if tensor.name in readers]
        arrays = {name: as_values(array.cpu().numpy()) for name, array in read}
        plan = context.plan_of(sizes, layouts, arrays, starts)
    elif (plan.layout_q, plan.layout_kv) != layouts or plan.sight.sizes != sizes:
        raise ArgumentError(f"plan: made for {plan.sight.sizes}, in its shards, but this call has {sizes}")
    return job_of(context, taken, plan, tensors, sharded, starts, deterministic)


def options(context: "ContextParallel", given: Given) -> Mapping[str, str]:
    """What else ranks must agree on. A graph gathers shards of declared tensors once more in its backward: all do, or none."""
    said = f"deterministic={given.deterministic}, reduce_learned={context.reduce_learned}, machine={context.machine.name}"
    said += f", plan #{given.plan.digest}" if given.plan is not None else ""
    said += ", compiled" if given.wanted is not None and given.sharded else ""
    return {
        "target": f"{context.attention.target or 'by device'}{', emulated' if context.attention.on else ''}",
        "strategy": context.strategy,
        "layout": " and ".join(kind if isinstance(kind, str) else f"{kind.name} #{kind.digest}" for kind in context.kinds),
        "options": said,
    }


def whole(context: "ContextParallel", taken: Taken, layouts: Layouts) -> tuple[tuple[Tensor, ...], tuple[Sharded, ...]]:
    """Declared tensors whole, and how those were cut that came in shards."""
    found, sharded = [], []
    declared = zip(context.attention.spec.tensors, taken.tensors, taken.axes, strict=True)
    for number, (tensor, array, axis) in enumerate(declared):
        array = array.detach()
        if axis is not None:
            layout = layouts[0 if getattr(tensor.shape[axis], "name", "") == "len_q" else 1]
            sharded.append(Sharded(number, axis, layout))
            array = gather_rows(context.ranks, layout, array.movedim(axis, 0), tensor.name).movedim(0, axis).contiguous()
        found.append(array)
    return tuple(found), tuple(sharded)


def job_of(
    context: "ContextParallel",
    taken: Taken,
    plan: Plan,
    tensors: tuple[Tensor, ...],
    sharded: tuple[Sharded, ...],
    starts: tuple[Any, Any],
    deterministic: bool,
) -> Job:
    """The kernels, and who does what."""
    strategy = choose_strategy(plan.load, context.machine) if context.strategy == "auto" else context.strategy
    spec, sizes = spec_of(context.attention.spec, strategy, context.ranks, plan.sight.sizes)
    program, bare = context.programs.pair(spec, taken.q.device)
    variant = Variant(program, bare, tensors, sizes, spec.head_dim, spec.head_dim_v, deterministic)
    learned = tuple(tensor.is_learned for tensor in context.attention.spec.tensors)
    return Job(context.ranks, strategy, plan, variant, starts, learned, sharded, context.reduce_learned)
