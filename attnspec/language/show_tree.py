"""A tree as text, one node a line, for `attnc show --stage tree` and for golden tests."""

from dataclasses import fields

from attnspec.language.syntax import Tree, Word


def show_tree(tree: Tree) -> str:
    """Each node by its kind and its plain fields, what it holds indented below it."""
    lines: list[str] = []
    for statement in tree.statements:
        _add(statement, "", 0, lines)
    return "\n".join(lines) + "\n"


def _add(node: object, role: str, level: int, lines: list[str]) -> None:
    parts = {item.name: getattr(node, item.name) for item in fields(node) if item.name != "span"}  # type: ignore[arg-type]
    plain = [f"{name}={_text(value)}" for name, value in parts.items() if _is_plain(value)]
    lines.append("  " * level + " ".join([f"{role}{type(node).__name__}", *plain]))
    for name, value in parts.items():
        if _is_plain(value):
            continue
        for inner in value if isinstance(value, tuple) else (value,):
            _add(inner, f"{name}: ", level + 1, lines)


def _is_plain(value: object) -> bool:
    """Whether a field is shown on its node's own line."""
    if isinstance(value, tuple):
        return all(isinstance(item, Word | str) for item in value)
    return value is None or isinstance(value, Word | str | int | float)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return value.text if isinstance(value, Word) else str(value)
