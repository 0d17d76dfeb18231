"""Random FlexAttention functions: an expression of Python's, its operators and torch's functions drawn by hypothesis."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st

Function = Callable[..., Any]


@dataclass(frozen=True)
class Drawn:
    """text: what a person would have written; of: its value for (score, b, h, q, kv)."""

    text: str
    of: Function

    def __repr__(self) -> str:
        return self.text


LENGTH = 9
SOURCE = torch.Generator().manual_seed(11)
TABLE = torch.randn(LENGTH, generator=SOURCE)
BY_HEAD = torch.randn(4, 5, generator=SOURCE)
IDS = torch.randint(0, 5, (2, LENGTH), generator=SOURCE)
FLAGS = torch.rand(LENGTH, generator=SOURCE) < 0.5


def leaf(text: str, of: Function) -> st.SearchStrategy[Drawn]:
    return st.just(Drawn(text, of))


def joined(text: str, of: Function, *parts: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    """An operation on drawn parts."""

    def make(drawn: tuple[Drawn, ...]) -> Drawn:
        return Drawn(text.format(*drawn), lambda *place: of(*(part.of(*place) for part in drawn)))

    return st.tuples(*parts).map(make)


def any_of_ints() -> st.SearchStrategy[Drawn]:
    """Whole numbers that stay small."""
    plain = st.one_of(
        leaf("b", lambda s, b, h, q, kv: b),
        leaf("h", lambda s, b, h, q, kv: h),
        leaf("q", lambda s, b, h, q, kv: q),
        leaf("kv", lambda s, b, h, q, kv: kv),
        leaf("IDS[b, kv]", lambda s, b, h, q, kv: IDS[b, kv]),
        leaf("IDS[b][q]", lambda s, b, h, q, kv: IDS[b][q]),
        leaf("FLAGS[q].int()", lambda s, b, h, q, kv: FLAGS[q].int()),
    )

    def more(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
        number = st.integers(1, 7)
        return st.one_of(
            joined("({} + {})", lambda x, y: x + y, inner, inner),
            joined("({} - {})", lambda x, y: x - y, inner, inner),
            joined("torch.abs({})", torch.abs, inner),
            joined("torch.minimum({}, {})", torch.minimum, inner, inner),
            joined("-{}", lambda x: -x, inner),
            number.flatmap(lambda n: joined(f"({{}} // {n})", lambda x: x // n, inner)),
            number.flatmap(lambda n: joined(f"({{}} % {n})", lambda x: x % n, inner)),
            number.flatmap(lambda n: joined(f"({n} - {{}})", lambda x: n - x, inner)),
            number.flatmap(lambda n: joined(f"{{}}.clamp(-{n}, {n})", lambda x: x.clamp(-n, n), inner)),
            number.flatmap(lambda n: joined(f"({{}} & {n})", lambda x: x & n, inner)),
            number.flatmap(lambda n: joined(f"({{}} * {n})", lambda x: x * n, inner)),
        )

    return st.recursive(plain, more, max_leaves=5)


def any_of_conditions(ints: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    compare = st.one_of(
        joined("({} <= {})", lambda x, y: x <= y, ints, ints),
        joined("({} > {})", lambda x, y: x > y, ints, ints),
        joined("({} == {})", lambda x, y: x == y, ints, ints),
        joined("torch.ne({}, {})", torch.ne, ints, ints),
        leaf("FLAGS[kv]", lambda s, b, h, q, kv: FLAGS[kv]),
    )

    def more(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
        return st.one_of(
            joined("({} & {})", lambda x, y: x & y, inner, inner),
            joined("({} | {})", lambda x, y: x | y, inner, inner),
            joined("({} ^ {})", lambda x, y: x ^ y, inner, inner),
            joined("({} == {})", lambda x, y: x == y, inner, inner),
            joined("~{}", lambda x: ~x, inner),
            joined("torch.where({}, {}, False)", lambda c, x: torch.where(c, x, False), inner, inner),
            joined("torch.logical_or({}, {})", torch.logical_or, inner, inner),
        )

    return st.recursive(compare, more, max_leaves=4)


def any_of_floats(ints: st.SearchStrategy[Drawn], conditions: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
    """Numbers that stay finite and smooth enough to compare."""
    plain = st.one_of(
        leaf("score", lambda s, b, h, q, kv: s),
        leaf("score", lambda s, b, h, q, kv: s),
        leaf("TABLE[kv]", lambda s, b, h, q, kv: TABLE[kv]),
        joined(
            "BY_HEAD[h, {} % 5]", lambda at: at, ints.map(lambda at: Drawn(f"{at} % 5", lambda *p: BY_HEAD[p[2], at.of(*p) % 5]))
        ),
        joined("({} * 0.25)", lambda x: x * 0.25, ints),
        joined("({} / 3)", lambda x: x / 3, ints),
        joined("{}.float()", lambda x: x.float(), ints),
    )

    def more(inner: st.SearchStrategy[Drawn]) -> st.SearchStrategy[Drawn]:
        return st.one_of(
            joined("({} + {})", lambda x, y: x + y, inner, inner),
            joined("({} - {})", lambda x, y: x - y, inner, inner),
            joined("({} * torch.tanh({}))", lambda x, y: x * torch.tanh(y), inner, inner),
            joined("torch.sigmoid({})", torch.sigmoid, inner),
            joined("torch.exp(-{}.abs())", lambda x: torch.exp(-x.abs()), inner),
            joined("torch.log1p({}.abs())", lambda x: torch.log1p(x.abs()), inner),
            joined("torch.sqrt({}.abs() + 1)", lambda x: torch.sqrt(x.abs() + 1), inner),
            joined("torch.nn.functional.softplus({})", torch.nn.functional.softplus, inner),
            joined("({} ** 2 / 8)", lambda x: x**2 / 8, inner),
            joined("torch.maximum({}, {})", torch.maximum, inner, inner),
            joined("torch.where({}, {}, {})", torch.where, conditions, inner, inner),
            joined("torch.where({}, {}, 0.5)", lambda c, x: torch.where(c, x, 0.5), conditions, inner),
        )

    return st.recursive(plain, more, max_leaves=5)


INTS = any_of_ints()
CONDITIONS = any_of_conditions(INTS)
FLOATS = any_of_floats(INTS, CONDITIONS)
