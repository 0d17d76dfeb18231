"""The variant's own functions for the backward: score with its slope, mask by query, scale, queries that a key tile meets."""

import math
from collections.abc import Mapping, Sequence

from attnspec.backends.cute.emit.dialect import attribute_names, dialect_of
from attnspec.backends.cute.emit.functions import LOG2_E, SCORE, is_folded, reads_memory, write_function, write_ranges
from attnspec.backends.cute.emit.mask import solved_for, write_query_mask
from attnspec.backends.cute.emit.rows import hoist
from attnspec.backends.expression import write_values
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.sorted_masks import solve_sorted
from attnspec.lowering.dataflow.backward import merges
from attnspec.lowering.indices import settle, settle_indices

from attnspec.language.expr import Expr, Number, Read, Search, names, nodes

ONE = Number(1.0, "float")
ONE_BY_ONE = ("distance", "element", "scattered")  # addresses at which every element has an address of its own to compute
HEADS = {"h", "hkv"}
FIXED = "kv"  # the position that all elements of a thread share


def write_backward_functions(source: Source, analysed: Analysed) -> None:
    """All functions of the variant, and `MODS`, which hands them to the roles."""
    spec, walk = analysed.spec, analysed.queries
    write_ranges(source, spec, "seeing_queries", "Ranges [first, last) of queries that see some key of the tile.", walk.seen)
    purpose = "Ranges [first, last) that hold every query that does not see some key of the tile."
    write_ranges(source, spec, "hidden_queries", purpose, walk.hidden)
    derivative = analysed.derivative
    exprs: list[Expr] = [spec.score, derivative.score]
    mask = solve_sorted(spec, "q")
    exprs += [solved_for(mask, "q")] if mask is not None else []
    plain = len(exprs)
    for found in derivative.learned:
        exprs += [found.partial, *settle_indices(spec.tensor(found.tensor), found.indices, spec.tensors)]
    key, rest = hoist(settle(exprs, spec.tensors), FIXED)
    write_function(source, spec, "key_values", "kv, at", "What the elements of a key share.", key, is_tuple=True)
    if spec.score != SCORE:
        _write_score(source, analysed, rest[0], rest[1])
    if spec.mask is not None:
        write_query_mask(source, spec, rest[2])
    _write_learned(source, analysed, rest[plain:])
    _write_sink(source, analysed)
    write_function(source, spec, "softmax_scale", "at", "What q . k is multiplied by.", [spec.scale])
    score_reads = reads_memory(rest[:1])
    mask_reads = spec.mask is not None and reads_memory([rest[2]])
    ends = [end for found in walk.hidden for end in (found.first, found.last)]
    hidden_reads = any(isinstance(at, Read | Search) for end in ends for at in nodes(end))
    ends += [end for found in walk.seen for end in (found.first, found.last)]
    by_head = any(names(end) & HEADS for end in ends)
    reading = {"hidden_reads": hidden_reads, "reads_once": hidden_reads and not by_head}
    in_loop = any(found.address in ONE_BY_ONE or "q" in names(found.partial) for found in derivative.learned)
    in_loop = in_loop or reads_memory(rest[plain:])
    flags = {"score_reads": score_reads, "mask_reads": mask_reads, "gathers_in_loop": in_loop}
    _write_mods(source, analysed, flags | {name: True for name, holds in reading.items() if holds})


def _write_learned(source: Source, analysed: Analysed, exprs: Sequence[Expr]) -> None:
    """For each read of a learned tensor, the derivative by it, and its address. exprs: those of all reads, one after another."""
    spec, rest = analysed.spec, list(exprs)
    for number, found in enumerate(analysed.derivative.learned, 1):
        partial, indices = rest[0], rest[1 : 1 + len(found.indices)]
        rest = rest[1 + len(found.indices) :]
        purpose = f"The score's derivative by the element of {found.tensor} that is read ({found.address})."
        write_function(source, spec, f"partial_{number}", "score, q, kv, at, key", purpose, [partial])
        address = f"Which element of {found.tensor} that is."
        write_function(source, spec, f"indices_{number}", "q, kv, at, key", address, indices or [Number(0, "int")], is_tuple=True)


def _write_score(source: Source, analysed: Analysed, score: Expr, slope: Expr) -> None:
    """One function for both, which have most of their values in common."""
    source.blank(2)
    with source.block("def new_score(score, q, kv, at, key):"):
        source.docstring(
            "The score of an element, natural units, and its derivative by the score before (None: 1).",
            "",
            *analysed.derivative.reason.split("; ")[:1],
        )
        wanted = [score] if slope == ONE else [score, slope]
        texts = write_values(source, dialect_of(analysed.spec), wanted)
        source.line(f"return {', '.join(texts if len(texts) == 2 else [*texts, 'None'])}")


def _write_sink(source: Source, analysed: Analysed) -> None:
    """The sink, and for each of its reads of a learned tensor the derivative by it, and its address."""
    spec = analysed.spec
    if spec.sink is None or not analysed.derivative.sink:
        return
    write_function(source, spec, "sink_score", "at", "The logit that joins a row's denominator, natural units.", [spec.sink])
    for number, found in enumerate(analysed.derivative.sink, 1):
        purpose = f"The sink's derivative by the element of {found.tensor} that is read."
        write_function(source, spec, f"sink_partial_{number}", "at", purpose, [found.partial])
        indices = settle_indices(spec.tensor(found.tensor), found.indices, spec.tensors) or [Number(0, "int")]
        write_function(source, spec, f"sink_indices_{number}", "at", "Which element that is.", indices, is_tuple=True)


def _write_mods(source: Source, analysed: Analysed, flags: Mapping[str, bool]) -> None:
    spec = analysed.spec
    folded = is_folded(spec)
    factor = float(spec.scale.value) * LOG2_E if folded and isinstance(spec.scale, Number) else math.log2(math.e)
    source.blank(2)
    with source.block("MODS = BackwardMods("):
        source.line("queries=seeing_queries, hidden=hidden_queries, key=key_values,")
        score, mask = "new_score" if spec.score != SCORE else None, "visible_queries" if spec.mask is not None else None
        source.line(f"score={score}, mask={mask}, scale=softmax_scale,")
        may_hide = not folded and not math.isfinite(analysed.bounds.low)
        source.line(f"to_log2={factor!r}, is_folded={folded}, may_hide={may_hide},")
        attributes = attribute_names(spec)
        if analysed.derivative.learned:
            with source.block("learned=("):
                for number, found in enumerate(analysed.derivative.learned, 1):
                    place = f"{attributes[found.tensor]!r}, {found.address!r}, partial_{number}, indices_{number}"
                    source.line(f"LearnedRead({place}),")
            source.line("),")
        if analysed.derivative.sink:
            source.line("sink=sink_score,")
            with source.block("sinks=("):
                for number, found in enumerate(analysed.derivative.sink, 1):
                    source.line(f"SinkRead({attributes[found.tensor]!r}, sink_partial_{number}, sink_indices_{number}),")
            source.line("),")
        source.line(" ".join(f"{name}={flag}," for name, flag in {"merges": merges(analysed), **flags}.items()))
    source.line(")")
