"""Random variants, as text: masks and scores of every kind of expression, drawn from a seed."""

import random

HEADER = "attention random\nhead_dim {head_dim}\ndtype fp16\n{varlen}"
TENSORS = """input ids_q: i32[batch, len_q] sorted
input ids_kv: i32[batch, len_kv] sorted
input see: bool[heads, len_kv]
learned bias: f32[heads, len_q + len_kv]
learned row: f32[batch, len_q]
"""
PACKED_TENSORS = "input first: i32[batch]\n"
SCALARS = "learned t: f32\nlearned slopes: f32[heads]\n"


class Draw:
    """One variant's random choices."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.is_packed = self.random.random() < 0.2

    def pick(self, *choices: str) -> str:
        """One of the texts."""
        return self.random.choice(choices)

    def number(self, low: int, high: int) -> int:
        """An int, both ends included."""
        return self.random.randint(low, high)

    def position(self) -> str:
        """An int expression near the positions."""
        side = self.pick("q", "qpos", "kv")
        return self.pick(
            side,
            f"({side} + {self.number(-90, 90)})",
            f"{side} // {self.number(2, 60)}",
            f"{side} % {self.number(2, 60)}",
            f"abs(qpos - kv - {self.number(-20, 40)})",
            f"min({side}, {self.number(0, 250)})",
            f"(q - kv) // {self.number(2, 30)}",
            f"({side} ^ {self.number(1, 31)})",
        )

    def condition(self, depth: int) -> str:
        """A bool expression."""
        if depth == 0 or self.random.random() < 0.3:
            return self.leaf()
        left, right = self.condition(depth - 1), self.condition(depth - 1)
        return self.pick(f"({left} and {right})", f"({left} or {right})", f"not {left}", f"({left} if {right} else kv <= q)")

    def leaf(self) -> str:
        """A comparison, or a read of a tensor."""
        position = self.position()
        plain = (
            f"kv <= qpos + {self.number(-30, 60)}",
            f"kv > q - {self.number(0, 200)}",
            f"{position} {self.pick('<', '<=', '==', '!=', '>', '>=')} {self.position()}",
            f"{position} {self.pick('<', '>=')} {self.number(-40, 200)}",
            f"h % 2 == {self.number(0, 1)}",
        )
        if self.is_packed:
            return self.pick(*plain, "kv >= first[b]")
        return self.pick(*plain, "document(ids_q, ids_kv)", "see[h, kv]", f"ids_kv[b, kv] > {self.number(0, 200)}")

    def score(self) -> str:
        """A float expression in `score`."""
        distance = "(qpos - kv)" if self.random.random() < 0.5 else "abs(q - kv)"
        plain = (
            f"softcap(score, {self.number(1, 20)}.0)",
            "score * t",
            "score + t * sigmoid(score)",
            f"score - slopes[h] * {distance} * 0.01",
            f"(score if {self.leaf()} else score * 0.5 - t)",
            f"max(score, -{self.number(1, 3)}.0 - exp(t))",
            f"(score if {self.leaf()} else -inf)",
            "score / sqrt(abs(t) + 0.5)",
        )
        if self.is_packed:
            return self.pick(*plain)
        return self.pick(*plain, "score + bias[h, q - kv + len_kv]", "score * tanh(row[b, q])", "score + row[b, q] * slopes[h]")


def random_variant(seed: int) -> str:
    """The text of a variant; it may be one that the language refuses."""
    draw = Draw(seed)
    lines = [HEADER.format(head_dim=draw.pick("8", "16", "24, 8"), varlen="varlen" if draw.is_packed else "")]
    lines.append((PACKED_TENSORS if draw.is_packed else TENSORS) + SCALARS)
    lines += [f"score = {draw.score()}" for _ in range(draw.number(1, 3))]
    lines.append("score = score + t * 0.5 + slopes[h]")
    if not draw.is_packed:
        lines.append("score = score + bias[h, q - kv + len_kv] * 0.1 + row[b, q] * 0.1")
    lines.append(f"mask = {draw.condition(draw.number(0, 3))}")
    if draw.random.random() < 0.4:
        lines.append(f"sink = {draw.pick('slopes[h]', 't * slopes[h]', '0.5', 'exp(t)')}")
    return "\n".join(lines) + "\n"
