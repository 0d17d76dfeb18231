"""Tiles of queries that key tiles meet, where that can be counted before a call: what a backward's tiles are chosen by."""

from attnspec.lowering.analysis.analysed import Analysed
from attnspec.lowering.analysis.evaluate import Env, names_for
from attnspec.lowering.analysis.tiles import count_tiles

from attnspec.language.expr import Name, Read, Search, nodes

COUNTED = frozenset({"kv_first", "kv_last", "len_q", "len_kv"})  # what the queries of a key tile may depend on, to be counted


def unknown_of(analysed: Analysed) -> str:
    """What a call has to be known for, to know which queries a key tile meets: names, as a person would say them."""
    if analysed.spec.is_varlen:
        return "the lengths of packed sequences"
    found = [at for item in analysed.queries.seen for end in (item.first, item.last) for at in nodes(end)]
    names = [f"`{at.tensor}`" for at in found if isinstance(at, Read | Search)]
    names += [f"`{at.name}`" for at in found if isinstance(at, Name) and at.name not in COUNTED]
    return ", ".join(dict.fromkeys(names))


def count_visits(analysed: Analysed, tile_q: int, tile_kv: int, length: int) -> int:
    """Query tiles that all key tiles of a head meet, each counted once for each of them, of so many queries and keys."""
    return count_tiles(analysed.queries, tile_q, tile_kv, length, length, Env(names_for(len_q=length, len_kv=length))).visited
