"""What a spec means, as one string: equal for files that ask for the same kernel. Cache keys are made of it."""

from attnspec.language.expr import Convert, Expr, Name, Number, Read, Search, Truth, children
from attnspec.language.spec import Spec, Tensor

VERSION = "spec/1"


def canonical(spec: Spec) -> str:
    """The string: constants as their values, tensors as t0, t1, ... in the order of the file, no name, no spans."""
    renamed = {tensor.name: f"t{index}" for index, tensor in enumerate(spec.tensors)}
    known: dict[int, str] = {}  # by identity: 0.0 and -0.0 are equal

    def text(expr: Expr | None) -> str:
        if expr is None:
            return "-"
        if id(expr) not in known:
            known[id(expr)] = _node(expr, tuple(text(child) for child in children(expr)), renamed)
        return known[id(expr)]

    def declaration(tensor: Tensor) -> str:
        shape = ",".join(map(text, tensor.shape))
        marks = f"{'learned' if tensor.is_learned else 'input'} {'sorted' if tensor.is_sorted else 'unsorted'}"
        return f"{marks} {tensor.dtype}[{shape}] in {text(tensor.low)}..{text(tensor.high)}"

    lines = [
        VERSION,
        f"head_dim {spec.head_dim},{spec.head_dim_v} group {spec.group} {spec.dtype} varlen {spec.is_varlen}",
        *map(declaration, spec.tensors),
        f"scale {text(spec.scale)}",
        f"score {text(spec.score)}",
        f"mask {text(spec.mask)}",
        f"sink {text(spec.sink)}",
    ]
    return "\n".join(lines)


def _node(expr: Expr, operands: tuple[str, ...], renamed: dict[str, str]) -> str:
    """A node in prefix form; numbers bit for bit."""
    match expr:
        case Number():
            return float(expr.value).hex() if expr.kind == "float" else str(expr.value)
        case Truth():
            return str(expr.value)
        case Name():
            return expr.name
        case Read():
            head = renamed[expr.tensor]
        case Search():
            head = f"search-{expr.side} {renamed[expr.tensor]}"
        case Convert():
            head = "float"
        case _:
            head = getattr(expr, "op", None) or getattr(expr, "function", None) or "if"
            head = f"{head}:{expr.kind}"
    return f"({' '.join((head, *operands))})"
