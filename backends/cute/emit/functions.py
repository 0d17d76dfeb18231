"""The variant's own functions: score, mask, sink, scale, and which keys a tile needs."""

import math
from collections.abc import Sequence
from dataclasses import replace

from attnspec.backends.cute.emit.dialect import dialect_of
from attnspec.backends.cute.emit.mask import gathered, solved_for, write_mask
from attnspec.backends.cute.emit.rows import hoist
from attnspec.backends.expression import write_values
from attnspec.backends.source import Source
from attnspec.lowering.analysis.analysed import Analysed, Range
from attnspec.lowering.analysis.peel import Peeled, peel
from attnspec.lowering.analysis.staging import Staging, staged_number
from attnspec.lowering.dataflow.forward import NO_TILES, TensorTiles, stage_beside
from attnspec.lowering.indices import settle

from attnspec.language.expr import Binary, Expr, Name, Number, Read, names, nodes
from attnspec.language.spec import Spec

LOG2_E = math.log2(math.e)
SCORE = Name("score", "float")
PLACES = {
    "key": ("kv", "A value of a key"),
    "distance": ("distance", "A value of a distance q - kv"),
    "element": ("q, kv", "An element of a tensor"),
}
MOST_GATHERED = 4  # conditions of a key beside a row of scores in registers


def is_folded(spec: Spec) -> bool:
    """Whether the exponential's factor takes the softmax scale in: the score is q . k times a positive constant."""
    return spec.score == SCORE and isinstance(spec.scale, Number) and spec.scale.value > 0


def reads_memory(exprs: Sequence[Expr]) -> bool:
    """Whether expressions of an element, their row values taken out, still read a tensor."""
    return any(isinstance(at, Read) and staged_number(at) is None for expr in exprs for at in nodes(expr))


def is_long(mask: Expr) -> bool:
    """Whether a mask takes so many instructions a key that a row of scores kept in registers beside them spills: it divides for
    each key, by what is no power of two, or has many conditions that are no words in closed form."""
    if len(gathered(mask)) > MOST_GATHERED:
        return True
    divisions = (at for at in nodes(mask) if isinstance(at, Binary) and at.op in ("//", "%") and "kv" in names(at))
    return any(not (isinstance(at.right, Number) and _is_power_of_two(int(at.right.value))) for at in divisions)


def _is_power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


def write_functions(source: Source, analysed: Analysed, tiles: TensorTiles = NO_TILES) -> None:
    """All functions of the variant, and `MODS`, which hands them to the roles. tiles: that TMA brings of tensors."""
    spec = analysed.spec
    write_ranges(source, spec, "seen_keys", "Ranges [first, last) of keys that some row of the tile sees.", analysed.keys.seen)
    purpose = "Ranges [first, last) that hold every key some row of the tile does not see."
    write_ranges(source, spec, "hidden_keys", purpose, analysed.keys.hidden)
    peeled = peel(analysed)
    staging = stage_beside(replace(spec, score=peeled.score), tiles)
    near = ", staged" if staging.values else ""
    _write_staged(source, spec, staging)
    has_score = spec.score != SCORE
    exprs = ([staging.score] if has_score else []) + ([solved_for(staging.mask)] if staging.mask is not None else [])
    row, rest = hoist(settle(exprs, spec.tensors))
    write_function(source, spec, "row_values", "q, at", "What the elements of a row share.", row, is_tuple=True)
    if has_score:
        parameters = f"score, q, kv, at, row{near}"
        units = "natural units" if peeled.outer == 1 else f"in units of {peeled.outer!r}"
        write_function(source, spec, "new_score", parameters, f"The score of an element, {units}.", rest[:1])
    if spec.mask is not None:
        write_mask(source, spec, rest[-1], near)
    if spec.sink is not None:
        write_function(source, spec, "sink_score", "at", "The logit that joins a row's denominator, natural units.", [spec.sink])
    write_function(source, spec, "softmax_scale", "at", "What q . k is multiplied by.", [spec.scale])
    if peeled.inner != 1:
        factor = Binary("*", spec.scale, Number(peeled.inner, "float"), "float")
        factor = Number(spec.scale.value * peeled.inner, "float") if isinstance(spec.scale, Number) else factor
        write_function(source, spec, "score_factor", "at", "What q . k is multiplied by for `new_score`.", [factor])
    score_reads = has_score and (reads_memory(rest[:1]) or len(staging.tiles) > 1)
    mask_reads = spec.mask is not None and (reads_memory(rest[-1:]) or is_long(rest[-1]))
    _write_mods(source, analysed, peeled, score_reads, mask_reads, staging)


def _write_staged(source: Source, spec: Spec, staging: Staging) -> None:
    """`staged0`, `staged1`, ...: values that are brought to shared memory once a tile."""
    for number, value in enumerate(staging.values):
        place, what = PLACES[value.axis]
        write_function(source, spec, f"staged{number}", f"{place}, at", f"{what}, staged in shared memory.", [value.expr])
        if value.axis == "element":
            purpose = f"Where in `{value.read.tensor}` all elements of a tile are."
            write_function(source, spec, f"where{number}", "at", purpose, value.read.indices[:-2], is_tuple=True)


def _write_mods(
    source: Source, analysed: Analysed, peeled: Peeled, score_reads: bool, mask_reads: bool, staging: Staging
) -> None:
    spec, bounds = analysed.spec, analysed.bounds
    folded = is_folded(spec)
    factor = float(spec.scale.value) * LOG2_E if folded and isinstance(spec.scale, Number) else LOG2_E * peeled.outer
    source.blank(2)
    with source.block("MODS = Mods("):
        source.line("keys=seen_keys, hidden=hidden_keys, row=row_values,")
        score, mask = "new_score" if spec.score != SCORE else None, "visible_keys" if spec.mask is not None else None
        source.line(f"score={score}, mask={mask},")
        source.line(f"sink={'sink_score' if spec.sink is not None else None},")
        source.line(f"scale={None if folded else 'softmax_scale' if peeled.inner == 1 else 'score_factor'},")
        source.line(f"to_log2={factor!r},")
        source.line(f"midpoint={None if bounds.needs_row_max else (bounds.low + bounds.high) / 2 / peeled.outer},")
        source.line(f"score_reads={score_reads}, mask_reads={mask_reads},")
        if staging.values:
            with source.block("stages=("):
                for number, value in enumerate(staging.values):
                    where = f", where{number}" if value.axis == "element" else ""
                    kind = value.expr.kind == "float"
                    source.line(f"Stage(staged{number}, {value.axis!r}, {kind}, {value.in_score}{where}),")
            source.line("),")
    source.line(")")


def write_function(
    source: Source, spec: Spec, name: str, parameters: str, purpose: str, exprs: Sequence[Expr], is_tuple: bool = False
) -> None:
    """One function that returns the values of expressions."""
    source.blank(2)
    with source.block(f"def {name}({parameters}):"):
        source.docstring(purpose)
        texts = write_values(source, dialect_of(spec), settle(exprs, spec.tensors))
        source.line(f"return ({''.join(f'{text}, ' for text in texts).rstrip()})" if is_tuple else f"return {texts[0]}")


def write_ranges(source: Source, spec: Spec, name: str, purpose: str, ranges: Sequence[Range]) -> None:
    """One function that returns a tuple of pairs, with each range's reason."""
    source.blank(2)
    with source.block(f"def {name}(at):"):
        source.docstring(purpose)
        for number, found in enumerate(ranges, 1):
            source.comment(f"{number}: {found.reason}")
        edges = write_values(source, dialect_of(spec), [edge for found in ranges for edge in (found.first, found.last)])
        with source.block("return ("):
            for first, last in zip(edges[::2], edges[1::2], strict=True):
                source.line(f"(Int32({first}), Int32({last})),")
        source.line(")")
