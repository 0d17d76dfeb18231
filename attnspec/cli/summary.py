"""A spec in a few lines, and in JSON types."""

from typing import Any

from attnspec.language.show import show
from attnspec.language.spec import Spec


def spec_title(spec: Spec) -> str:
    """`name: head_dim 128, bf16, group 2`."""
    width = f"{spec.head_dim}" if spec.head_dim == spec.head_dim_v else f"{spec.head_dim}, {spec.head_dim_v}"
    parts = [f"head_dim {width}", spec.dtype]
    parts += [f"group {spec.group}"] if spec.group is not None else []
    parts += ["varlen"] if spec.is_varlen else []
    return f"{spec.name}: {', '.join(parts)}"


def spec_summary(spec: Spec) -> str:
    """The title, then a line for the constants and one a tensor."""
    lines = [spec_title(spec)]
    if spec.constants:
        lines.append("    const " + ", ".join(f"{item.name} = {item.value}" for item in spec.constants))
    return "\n".join([*lines, *(f"    {text}" for text in declarations(spec))])


def declarations(spec: Spec) -> list[str]:
    """Declared tensors, a statement each."""
    return [line for line in show(spec).splitlines() if line.split()[0] in ("input", "learned")]


def spec_as_dict(spec: Spec) -> dict[str, Any]:
    """The same for machines."""
    return {
        "name": spec.name,
        "head_dim": [spec.head_dim, spec.head_dim_v],
        "dtype": spec.dtype,
        "group": spec.group,
        "is_varlen": spec.is_varlen,
        "constants": {item.name: item.value for item in spec.constants},
        "tensors": [
            {"name": tensor.name, "declaration": text, "dtype": tensor.dtype, "rank": len(tensor.shape),
             "is_learned": tensor.is_learned, "is_sorted": tensor.is_sorted}
            for tensor, text in zip(spec.tensors, declarations(spec), strict=True)
        ],
        "has_mask": spec.mask is not None,
        "has_sink": spec.sink is not None,
    }  # fmt: skip
