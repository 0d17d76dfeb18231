"""Sizes on the command line: `--shape b=1,h=4,hkv=2,q=300,kv=300`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from attnspec.language.limits import MAX_BATCH, MAX_HEADS, MAX_LENGTH
from attnspec.language.spec import Spec

LARGEST = {"b": MAX_BATCH, "h": MAX_HEADS, "hkv": MAX_HEADS, "q": MAX_LENGTH, "kv": MAX_LENGTH}
MOST_DRAWN_HEADS = 16


class Sizes(click.ParamType):
    """Some of the sizes, by their short names."""

    name = "SIZES"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, int]:
        """Sizes by name."""
        if isinstance(value, dict):
            return value
        if not value:
            return {}
        found: dict[str, int] = {}
        for part in value.split(","):
            key, _, text = (piece.strip() for piece in part.partition("="))
            if key not in LARGEST or "=" not in part:
                self.fail(
                    f"{part.strip()!r}: wanted some of b=, h=, hkv=, q=, kv=, such as b=1,h=4,hkv=2,q=300,kv=300", param, ctx
                )
            if key in found:
                self.fail(f"{key} is given twice", param, ctx)
            if not text.isdecimal() or not 1 <= int(text[:12]) <= LARGEST[key]:
                self.fail(f"{key}={text[:20]}: wanted an integer from 1 to {LARGEST[key]}", param, ctx)
            found[key] = int(text)
        return found


@dataclass(frozen=True)
class CallShape:
    """All sizes of a call."""

    batch: int
    heads: int
    kv_heads: int
    len_q: int
    len_kv: int

    def __str__(self) -> str:
        heads = f"{self.heads} heads over {self.kv_heads} key/value heads"
        return f"batch {self.batch}, {heads}, q {self.len_q}, kv {self.len_kv}"


def call_shape(spec: Spec, given: Mapping[str, int], batch: int, length: int) -> CallShape:
    """The sizes given, and for the others small ones that go with them and with the variant's `group`."""
    heads, kv_heads = call_heads(spec, given.get("h"), given.get("hkv"))
    if heads % kv_heads or (spec.group is not None and heads != kv_heads * spec.group):
        wanted = f"{spec.name} has `group {spec.group}`" if spec.group is not None else "every one must serve as many"
        raise click.BadParameter(f"{heads} heads (h) over {kv_heads} key/value heads (hkv): {wanted}", param_hint="'--shape'")
    len_q = given.get("q", given.get("kv", length))
    return CallShape(given.get("b", batch), heads, kv_heads, len_q, given.get("kv", len_q))


def call_heads(spec: Spec, heads: int | None, kv_heads: int | None) -> tuple[int, int]:
    """Query and key/value heads, from those given."""
    if heads is not None and kv_heads is not None:
        return heads, kv_heads
    if heads is not None:
        even = 2 if heads % 2 == 0 else 1
        return heads, max(1, heads // spec.group) if spec.group is not None else even
    if kv_heads is None:
        kv_heads = 2 if spec.group is None or 2 * spec.group <= MOST_DRAWN_HEADS else 1
    return kv_heads * (2 if spec.group is None else spec.group), kv_heads
