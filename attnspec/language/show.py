"""A spec as a file that says the same: `check(parse(show(spec))) == spec`."""

import math

from attnspec.language.expr import Expr, Name, Number, nodes
from attnspec.language.names import RESERVED
from attnspec.language.show_expr import QPOS, Printer
from attnspec.language.spec import Spec, Tensor


def show(spec: Spec) -> str:
    """The canonical text of a spec: functions written out, names of `const` and `let` kept."""
    lets = _lets(spec)
    plain = Printer({item.name: item.value for item in spec.constants})
    named = Printer(plain.constants, lets)
    lines = _header(spec)
    lines += [f"const {item.name} = {item.value!r}" for item in spec.constants]
    lines += [_declaration(tensor, plain) for tensor in spec.tensors]
    if spec.scale != Number(1 / math.sqrt(spec.head_dim), "float"):
        lines.append(f"scale {plain.show(spec.scale, as_float=True)}")
    lines += [f"let {name} = {named.define(expr)}" for expr, name in lets.items()]
    if spec.score != Name("score", "float"):
        lines.append(f"score = {named.show(spec.score, as_float=True)}")
    if spec.mask is not None:
        lines.append(f"mask = {named.show(spec.mask)}")
    if spec.sink is not None:
        lines.append(f"sink = {named.show(spec.sink, as_float=True)}")
    return "\n".join(lines) + "\n"


def _header(spec: Spec) -> list[str]:
    widths = f"{spec.head_dim}" if spec.head_dim == spec.head_dim_v else f"{spec.head_dim}, {spec.head_dim_v}"
    lines = [f"attention {spec.name}", f"head_dim {widths}"]
    lines += [f"group {spec.group}"] if spec.group is not None else []
    lines += [f"dtype {spec.dtype}"] if spec.dtype != "bf16" else []
    return lines + (["varlen"] if spec.is_varlen else [])


def _declaration(tensor: Tensor, printer: Printer) -> str:
    word = "learned" if tensor.is_learned else "input"
    text = f"{word} {tensor.name}: {tensor.dtype}"
    if tensor.shape:
        text += f"[{', '.join(map(printer.show, tensor.shape))}]"
    if tensor.low is not None and tensor.high is not None:
        ends = (printer.show(end, 9, as_float=True) for end in (tensor.low, tensor.high))  # the grammar's `sum`
        text += f" in {'..'.join(ends)}"
    return text + (" sorted" if tensor.is_sorted else "")


def _lets(spec: Spec) -> dict[Expr, str]:
    """Named expressions, operands before users; a name that stands for two, or is taken, is kept for the first at most."""
    taken = {*RESERVED, *(item.name for item in spec.constants), *(tensor.name for tensor in spec.tensors)}
    found: dict[Expr, str] = {}
    for root in (spec.score, spec.mask, spec.sink):
        for at in nodes(root) if root is not None else ():
            label = at.label
            if label is None or label in taken or isinstance(at, Number | Name) or at == QPOS:
                continue
            found[at] = label
            taken.add(label)
    return found
