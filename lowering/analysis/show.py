"""What the analyses found as text for people, and as plain values for JSON."""

from typing import Any

from attnspec.lowering.analysis.analysed import Analysed, LearnedGradient, Range, Walk

from attnspec.language.show_expr import Printer

PRINTER = Printer()
OTHER = {"kv": "q", "q": "kv"}


def show_analysed(analysed: Analysed) -> str:
    """All of it, a section a line of thought."""
    sections = (
        show_walk(analysed.keys),
        show_walk(analysed.queries),
        show_derivative(analysed),
        f"bounds\n  {analysed.bounds.reason}",
        show_reads(analysed),
        show_element_costs(analysed),
    )
    return "\n\n".join(sections) + "\n"


def show_walk(walk: Walk) -> str:
    """Ranges by class, each with the words of the file that it comes from; then why the classes may be too large."""
    title = f"{walk.axis} of a tile of {OTHER[walk.axis]}, from {OTHER[walk.axis]}_first to {OTHER[walk.axis]}_last"
    lines = [title]
    for label, ranges in (("visited", walk.seen), ("masked", walk.hidden)):
        lines += [f"  {label} where {show_range(item, walk.axis)}   ({item.reason})" for item in ranges]
    lines += [] if walk.hidden else ["  masked nowhere"]
    lines += ["  exact: no tile is visited or masked without need"] if walk.exact else []
    return "\n".join([*lines, *(f"  not exact: {note}" for note in walk.notes)])


def show_range(item: Range, axis: str) -> str:
    """`0 <= kv < q_last + 1`."""
    return f"{PRINTER.show(item.first, 5)} <= {axis} < {PRINTER.show(item.last, 5)}"


def show_derivative(analysed: Analysed) -> str:
    """Formulas, and what each gradient of a learned tensor is summed over."""
    found = analysed.derivative
    lines = ["derivatives", f"  d(score out)/d(score in) = {PRINTER.show(found.score)}"]
    for what, entries in (("score out", found.learned), ("sink", found.sink)):
        lines += [f"  {show_gradient(what, entry)}" for entry in entries]
    return "\n".join(lines)


def show_gradient(what: str, entry: LearnedGradient) -> str:
    """`d(sink)/d(sinks[h]) = 1.0, summed over b, q`."""
    place = f"{entry.tensor}[{', '.join(map(PRINTER.show, entry.indices))}]" if entry.indices else entry.tensor
    over = f", summed over {', '.join(entry.reduced)}" if entry.reduced else ""
    return f"d({what})/d({place}) = {PRINTER.show(entry.partial)}{over}"


def show_reads(analysed: Analysed) -> str:
    """Each place where a tensor is read, and how a kernel can address it."""
    if not analysed.reads:
        return "reads\n  none: no tensor is declared"
    rows = dict.fromkeys((read.where, read.tensor, read.address, read.reason) for read in analysed.reads)
    return "\n".join(["reads", *(f"  {where}: {tensor}, by {address}: {reason}" for where, tensor, address, reason in rows)])


def show_element_costs(analysed: Analysed) -> str:
    """Instructions an element costs beside the softmax itself."""
    lines = ["instructions an element", f"  {'':<12}mufu   fma    alu    loads"]
    costs = {"score": analysed.score_cost, "mask": analysed.mask_cost, "derivative": analysed.derivative_cost}
    for name, cost in costs.items():
        lines.append(f"  {name:<12}{cost.mufu:<7g}{cost.fma:<7g}{cost.alu:<7g}{cost.loads:g}")
    return "\n".join(lines)


def analysed_as_dict(analysed: Analysed) -> dict[str, Any]:
    """The same for JSON; infinite bounds are None."""
    bounds, found = analysed.bounds, analysed.derivative
    return {
        "keys": walk_as_dict(analysed.keys),
        "queries": walk_as_dict(analysed.queries),
        "derivative": {
            "score": PRINTER.show(found.score),
            "learned": [gradient_as_dict(entry) for entry in found.learned],
            "sink": [gradient_as_dict(entry) for entry in found.sink],
        },
        "bounds": {
            "low": bounds.low if abs(bounds.low) != float("inf") else None,
            "high": bounds.high if abs(bounds.high) != float("inf") else None,
            "needs_row_max": bounds.needs_row_max,
            "longest_row": bounds.longest_row,
            "reason": bounds.reason,
        },
        "reads": [
            {"tensor": read.tensor, "where": read.where, "address": read.address, "reason": read.reason}
            for read in analysed.reads
        ],
    }


def walk_as_dict(walk: Walk) -> dict[str, Any]:
    """A walk in JSON types, its ends as text of the language."""

    def rows(ranges: tuple[Range, ...]) -> list[dict[str, str]]:
        return [{"first": PRINTER.show(item.first), "last": PRINTER.show(item.last), "reason": item.reason} for item in ranges]

    return {"visited": rows(walk.seen), "masked": rows(walk.hidden), "exact": walk.exact, "notes": list(walk.notes)}


def gradient_as_dict(entry: LearnedGradient) -> dict[str, Any]:
    """A gradient in JSON types."""
    return {
        "tensor": entry.tensor,
        "indices": [PRINTER.show(index) for index in entry.indices],
        "partial": PRINTER.show(entry.partial),
        "address": entry.address,
        "reduced": list(entry.reduced),
    }
