"""A plan as text: who sees whom, what is sent, what each rank has to do."""

import numpy as np

from attnspec.distributed.estimate import H200, STRATEGIES, Machine, has_heads
from attnspec.distributed.plan import Plan

MOST_RANKS = 32  # of which pairs are drawn
SIGNS = {"empty": ".", "partial": "/", "full": "#"}


def explain(plan: Plan, machine: Machine = H200) -> str:
    """Pairs, bytes and work by rank, and what strategies would cost."""
    sections = [head(plan), pairs(plan), by_rank(plan), strategies(plan, machine)]
    notes = [f"  {note}" for note in plan.sight.walk.notes]
    if notes:
        sections.append("\n".join(["not exact: some keys may be sent or visited without need", *notes]))
    return "\n\n".join(sections) + "\n"


def head(plan: Plan) -> str:
    """What is cut, and how."""
    lengths = {plan.layout_q.length, plan.layout_kv.length}
    what = (
        " x ".join(str(length) for length in (plan.layout_q.length, plan.layout_kv.length)) if len(lengths) > 1 else str(*lengths)
    )
    pieces = max((sum(piece.rank == rank for piece in plan.queries) for rank in range(plan.ranks)), default=0)
    return f"{what} positions over {plan.ranks} ranks, layout {plan.layout_q.name}: up to {pieces} runs a rank"


def pairs(plan: Plan) -> str:
    """A row a rank of queries, a column a rank of keys."""
    if plan.ranks > MOST_RANKS:
        kinds = [plan.kind(rank, owner) for rank, owner in plan.parts]
        return f"pairs of ranks: {len(kinds)} of {plan.ranks**2} see something"
    lines = ["pairs (queries of a row's rank, keys of a column's): . empty, / partial, # full"]
    for rank in range(plan.ranks):
        lines.append(f"  {rank:>3}  " + " ".join(SIGNS[plan.kind(rank, owner)] for owner in range(plan.ranks)))
    return "\n".join(lines)


def by_rank(plan: Plan) -> str:
    """Rows, work and bytes."""
    rows, work = plan.load.sent, plan.load.work.sum(1)
    mean = work.mean() if plan.ranks else 0.0
    lines = [
        f"  {'rank':>4} {'rows':>9} {'tiles a head':>13} {'of mean':>8} {'ring sends':>12} {'receives':>12}   backward twice more"
    ]
    for rank in range(min(plan.ranks, MOST_RANKS)):
        share = work[rank] / mean if mean else 1.0
        sends, receives = (size(float(total) * plan.widths.key_bytes) for total in (rows[:, rank].sum(), rows[rank].sum()))
        lines.append(f"  {rank:>4} {plan.layout_q.counts[rank]:>9} {work[rank]:>13.0f} {share:>7.0%} {sends:>12} {receives:>12}")
    whole = float(rows.sum()) * plan.widths.key_bytes
    everything = plan.load.positions * (plan.ranks - 1) * plan.widths.key_bytes
    lines.append(f"balance {plan.balance:.0%} (mean work over the largest), in visible tiles of 128 x 128")
    lines.append(f"the ring sends {size(whole)} in all, {whole / everything if everything else 0:.0%} of all keys to all ranks")
    return "\n".join(lines)


def strategies(plan: Plan, machine: Machine) -> str:
    """Estimated times."""
    lines = [
        f"estimate on {machine.name}",
        f"  {'':<11} {'forward':>11} {'backward':>11} {'of which work':>14} {'sent, most':>11}",
    ]
    for name, model in STRATEGIES.items():
        if name == "ulysses" and not has_heads(plan.widths, plan.ranks):
            lines.append(f"  {name:<11} heads do not divide: {plan.widths.heads} over {plan.widths.kv_heads}")
            continue
        forward, backward = model(plan.load, machine, "forward"), model(plan.load, machine, "backward")
        work = forward.work + backward.work
        sent = size(forward.sent + backward.sent)
        lines.append(f"  {name:<11} {span(forward.seconds):>11} {span(backward.seconds):>11} {span(work):>14} {sent:>11}")
    return "\n".join(lines)


def size(count: float) -> str:
    """Bytes."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def span(seconds: float) -> str:
    """A time."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{np.round(seconds * 1e6, 1):g} us"
