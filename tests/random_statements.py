"""Random variants by kind of statement: masks, scores and sinks of every read class, as text with the tensors they declare.

`random_variants` draws expressions; this draws what decides how a kernel is built: by what a tensor is addressed (key, query,
head, distance, element, through another tensor), whether it is learned, sorted, staged, and what a mask leaves of the tiles.
"""

import random
from collections.abc import Callable

PACKABLE_MASKS = (
    "none", "causal", "top left", "window", "prefix", "chunks", "dilated", "image", "head reach", "arithmetic", "key range",
    "distance table", "empty rows",
)  # fmt: skip
PACKABLE_SCORES = (
    "none", "softcap", "alibi", "clipped distance", "temperature", "bucket", "position", "hidden", "conditional", "tanh", "let",
    "scaled", "far",
)  # fmt: skip
MASKS = (
    *PACKABLE_MASKS, "documents", "sorted documents", "bits", "block table", "key bool", "query reach", "element bool",
    "float gate",
)  # fmt: skip
SCORES = (
    *PACKABLE_SCORES, "by distance", "by key", "by query", "by element", "by kind", "gate", "product", "two of distance",
    "key and element",
)  # fmt: skip
SINKS = ("none", "learned", "by key head", "product", "constant", "conditional")
FLOATS = ("f32", "f32", "bf16", "fp16")


class Statements:
    """One variant's statements, drawn from a source of chance. learns: how often a tensor that may be learned is."""

    def __init__(self, chance: random.Random, is_packed: bool, learns: float) -> None:
        self.chance = chance
        self.is_packed = is_packed
        self.learns = learns
        self.declared: dict[str, str] = {}

    def number(self, low: int, high: int) -> int:
        """An int, both ends included."""
        return self.chance.randint(low, high)

    def one_of(self, *choices: str) -> str:
        """One of the texts."""
        return self.chance.choice(choices)

    def tensor(self, kind: str, shape: str, tail: str = "", learned: bool = False) -> str:
        """Declare one; its name."""
        name = f"t{len(self.declared)}"
        word = "learned" if learned and self.chance.random() < self.learns else "input"
        self.declared[name] = f"{word} {name}: {kind}{f'[{shape}]' if shape else ''}{tail}"
        return name

    def table(self, shape: str, tail: str = "") -> str:
        """A float tensor, learned or not."""
        return self.tensor(self.one_of(*FLOATS), shape, tail, learned=True)

    def side(self) -> str:
        """A position."""
        return self.one_of("q", "qpos", "kv")

    def plain(self) -> str:
        """A condition on positions and heads alone."""
        return self.one_of(
            f"kv <= qpos + {self.number(-30, 60)}",
            f"kv > q - {self.number(0, 200)}",
            f"{self.side()} // {self.number(3, 90)} <= {self.side()} // {self.number(3, 90)}",
            f"{self.side()} % {self.number(2, 9)} != {self.number(0, 2)}",
            f"(q + kv) % {self.number(3, 70)} < {self.number(1, 60)}",
            f"({self.side()} ^ {self.number(1, 63)}) < kv + {self.number(0, 100)}",
            f"h % 2 == {self.number(0, 1)}",
            f"hkv <= {self.number(0, 1)}",
            f"abs(qpos - kv - {self.number(-20, 40)}) > {self.number(0, 30)}",
            f"kv * {self.number(1, 3)} <= q * {self.number(1, 3)} + len_kv // 2",
        )

    def mask(self, kind: str, depth: int) -> str:
        """A condition with a leaf of some kind, joined with others."""
        leaf = getattr(self, "mask_" + kind.replace(" ", "_"))()
        for _ in range(depth):
            kinds = PACKABLE_MASKS if self.is_packed else MASKS
            other = self.mask(self.chance.choice(kinds), 0) if self.chance.random() < 0.4 else self.plain()
            if other == "true":
                continue
            leaf = self.one_of(
                f"({leaf} and {other})",
                f"({leaf} or {other})",
                f"(not {other} or {leaf})",
                f"({leaf} if {self.plain()} else {other})",
            )
        return leaf

    def mask_none(self) -> str:
        return "true"

    def mask_causal(self) -> str:
        return "causal"

    def mask_top_left(self) -> str:
        return "causal_top_left"

    def mask_window(self) -> str:
        left = self.one_of(str(self.number(0, 150)), "none")
        right = str(self.number(0, 100)) if left == "none" else self.one_of(str(self.number(0, 100)), "0", "none")
        return f"{self.one_of('window', 'window_top_left')}({left}, {right})"

    def mask_prefix(self) -> str:
        if self.chance.random() < 0.5:
            first = self.tensor("i32", "batch", " in 0..len_kv")
            return f"(causal or kv < {first}[b])"
        return f"(prefix({self.number(0, 140)}) or causal)"

    def mask_chunks(self) -> str:
        return f"chunked({self.number(5, 140)})"

    def mask_dilated(self) -> str:
        return f"dilated({self.number(2, 5)})"

    def mask_documents(self) -> str:
        rows, keys = self.tensor("i32", "batch, len_q", " in 0..3"), self.tensor("i32", "batch, len_kv", " in 0..3")
        return f"document({rows}, {keys})"

    def mask_sorted_documents(self) -> str:
        ends = self.one_of(" in 0..3 sorted", " sorted", " in -2..90 sorted")
        rows, keys = self.tensor("i32", "batch, len_q", ends), self.tensor("i32", "batch, len_kv", ends)
        return self.one_of(
            f"document({rows}, {keys})", f"{keys}[b, kv] <= {rows}[b, q]", f"{keys}[b, kv] // 2 == {rows}[b, q] // 2"
        )

    def mask_bits(self) -> str:
        if self.chance.random() < 0.5:
            return f"bit_set({self.tensor('i32', 'batch, len_q, (len_kv + 31) // 32', ' in -2147483648..2147483647')})"
        words = self.tensor("i32", "heads, len_q, (len_kv + 31) // 32", " in -2147483648..2147483647")
        return f"({words}[h, q, kv // 32] >> (kv & 31)) & 1 == 0"

    def mask_image(self) -> str:
        columns = self.number(7, 33)
        return f"neighbourhood_2d({self.number(9, 20)}, {columns}, {self.number(1, 3)})"

    def mask_block_table(self) -> str:
        rows, keys = self.one_of("16", "64", "128", "50"), self.one_of("16", "64", "128", "33")
        first = self.one_of("heads", "kv_heads")
        table = self.tensor("bool", f"{first}, len_q // {rows} + 1, len_kv // {keys} + 1")
        return f"{table}[{'h' if first == 'heads' else 'hkv'}, q // {rows}, kv // {keys}]"

    def mask_key_bool(self) -> str:
        shape, index = self.chance.choice((("batch, len_kv", "b, kv"), ("heads, len_kv", "h, kv"), ("len_kv", "kv")))
        return f"{self.tensor('bool', shape)}[{index}]"

    def mask_query_reach(self) -> str:
        low = self.tensor("i32", "batch, len_q", " in 0..200")
        return self.one_of(f"{low}[b, q] <= kv", f"kv < {low}[b, q]", f"kv // 8 != {low}[b, q] // 8")

    def mask_head_reach(self) -> str:
        reach = self.tensor("i32", "heads", " in 0..90")
        return f"(kv > qpos - {reach}[h] and kv <= qpos)"

    def mask_element_bool(self) -> str:
        shape, index = self.chance.choice((("len_q, len_kv", "q, kv"), ("batch, heads, len_q, len_kv", "b, h, q, kv")))
        return f"{self.tensor('bool', shape)}[{index}]"

    def mask_float_gate(self) -> str:
        return f"{self.tensor(self.one_of(*FLOATS), 'batch, len_kv')}[b, kv] {self.one_of('<', '>')} 0.25"

    def mask_arithmetic(self) -> str:
        return (
            f"{self.plain()} {self.one_of('and', 'or')} not {self.plain()}" if self.chance.random() < 0.7 else "q * kv % 5 <= 2"
        )

    def mask_key_range(self) -> str:
        first = self.number(1, 140)
        return self.one_of(f"kv >= {first}", f"kv < {first}", f"not ({first} <= kv < {first + self.number(20, 150)})")

    def mask_distance_table(self) -> str:
        near = self.tensor("bool", "heads, 81")
        return f"{near}[h, clamp(qpos - kv, -40, 40) + 40]"

    def mask_empty_rows(self) -> str:
        return self.one_of(
            f"kv < q - {self.number(5, 150)}", f"(kv <= q and q % {self.number(2, 200)} != 0)", f"kv > q + {self.number(0, 99)}"
        )

    def score(self, kind: str) -> str:
        """The statements of a kind of score, lines."""
        return getattr(self, "score_" + kind.replace(" ", "_"))()

    def score_none(self) -> str:
        return ""

    def score_softcap(self) -> str:
        return f"score = softcap(score, {self.number(2, 40)}.0)\n"

    def score_alibi(self) -> str:
        return f"score = score + 0.05 * alibi({self.table('heads')})\n"

    def score_by_distance(self) -> str:
        if self.chance.random() < 0.5:
            return f"score = score + {self.table('heads, len_q + len_kv - 1')}[h, q - kv + len_kv - 1]\n"
        return f"score = score + {self.table('len_q + len_kv - 1')}[q - kv + len_kv - 1]\n"

    def score_clipped_distance(self) -> str:
        reach = self.number(3, 150)
        first, index = self.chance.choice((("heads", "h"), ("kv_heads", "hkv"), ("batch", "b")))
        return (
            f"score = score + {self.table(f'{first}, {2 * reach + 1}')}[{index}, clamp(qpos - kv, -{reach}, {reach}) + {reach}]\n"
        )

    def score_by_key(self) -> str:
        shape, index = self.chance.choice(
            (("batch, len_kv", "b, kv"), ("batch, heads, len_kv", "b, h, kv"), ("kv_heads, len_kv", "hkv, kv"))
        )
        return f"score = score + {self.table(shape)}[{index}]\n"

    def score_by_query(self) -> str:
        shape, index = self.chance.choice((("batch, len_q", "b, q"), ("heads, len_q", "h, q"), ("len_q", "q")))
        return self.one_of("score = score * (1.0 + {}[{}])\n", "score = score + {}[{}] * (kv % 3)\n").format(
            self.table(shape), index
        )

    def score_by_element(self) -> str:
        shape, index = self.chance.choice(
            (("len_q, len_kv", "q, kv"), ("heads, len_q, len_kv", "h, q, kv"), ("batch, len_kv, len_q", "b, kv, q"))
        )
        return f"score = score + {self.table(shape)}[{index}]\n"

    def score_by_kind(self) -> str:
        kinds = self.tensor("i32", *self.chance.choice((("batch, len_kv", " in 0..7"), ("batch, len_q, len_kv", " in 0..7"))))
        place = "b, q, kv" if "len_q" in self.declared[kinds] else "b, kv"
        return f"score = score + {self.table('heads, 8')}[h, {kinds}[{place}]]\n"

    def score_gate(self) -> str:
        gate, bias = self.table("batch, heads, len_q"), self.table("heads, 41")
        return f"score = score + sigmoid({gate}[b, h, q]) * {bias}[h, clamp(kv - qpos, -20, 20) + 20]\n"

    def score_product(self) -> str:
        keys, rows = self.table("batch, len_kv"), self.table("heads, len_q")
        return self.one_of(
            f"score = score + {keys}[b, kv] * {rows}[h, q]\n", f"score = score * (1.0 + {keys}[b, kv] * {rows}[h, q])\n"
        )

    def score_temperature(self) -> str:
        return f"score = score * exp({self.table('heads')}[h]) + {self.table('')}\n"

    def score_bucket(self) -> str:
        bucket = self.one_of("t5_bucket", "t5_bucket_causal")
        return f"score = score + {self.table('heads, 32')}[h, {bucket}(kv - qpos)]\n"

    def score_position(self) -> str:
        return f"score = {self.table('heads, 8')}[h, kv & 7] * {self.table('8')}[q & 7] - 0.01 * abs(q - kv)\n"

    def score_hidden(self) -> str:
        return f"score = score if {self.plain()} else -inf\n"

    def score_conditional(self) -> str:
        return f"score = score if {self.plain()} else score * 0.5 - {self.table('heads')}[h]\n"

    def score_tanh(self) -> str:
        return f"score = score + {self.table('heads')}[h] * tanh(score) * sigmoid(score * 0.5)\n"

    def score_scaled(self) -> str:
        return f"scale {self.one_of('1.0', '-0.4', '0.07', self.tensor('f32', '', ' in 0.05..0.4'))}\n"

    def score_let(self) -> str:
        return "let held = score\nscore = softcap(score, 9.0)\nscore = score + 0.1 * held * held\n"

    def score_two_of_distance(self) -> str:
        one = self.table("len_q + len_kv - 1")
        return f"score = score + {one}[q - kv + len_kv - 1] + 0.5 * {one}[len_q - 1 - q + kv]\n"

    def score_key_and_element(self) -> str:
        every, keys = self.table("len_q, len_kv"), self.table("batch, len_kv")
        return f"score = score + tanh({every}[q, kv]) * {keys}[b, kv]\n"

    def score_far(self) -> str:
        return f"score = score + {self.one_of('300.0', '-300.0', '3000.0')} * ({self.one_of('kv', 'q', 'h')} % 3)\n"

    def sink(self, kind: str) -> str:
        """The statement of a kind of sink."""
        made: dict[str, Callable[[], str]] = {
            "none": lambda: "",
            "learned": lambda: f"{self.table('heads')}[h]",
            "by key head": lambda: f"{self.table('kv_heads')}[hkv] - 0.5",
            "product": lambda: f"{self.table('')} * {self.table('heads')}[h]",
            "constant": lambda: self.one_of("0.0", "1.5", "-inf", "-1000.0", "50.0"),
            "conditional": lambda: f"{self.table('heads')}[h] if h > 0 else -inf",
        }
        text = made[kind]()
        return f"sink = {text}\n" if text else ""
