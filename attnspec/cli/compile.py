"""attnc compile: a file to readable source, PTX and cubin, on any machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from attnspec.cli.json_text import json_text
from attnspec.cli.options import (
    NamedPath,
    constants_option,
    ctas_option,
    file_argument,
    json_option,
    query_tiles_option,
    target_option,
)

if TYPE_CHECKING:
    from attnspec.cli.walk import Made, Walk
    from attnspec.runtime.binary import Binary

KINDS = ("source", "ptx", "cubin", "sass")


class Kinds(click.ParamType):
    """Names of what to write, with commas between them."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names."""
        names = value if isinstance(value, tuple) else tuple(part.strip() for part in value.split(","))
        for name in names:
            if name not in KINDS:
                self.fail(f"{name!r}: the kinds are {', '.join(KINDS)}", param, ctx)
        return names


@click.command("compile")
@file_argument
@click.option("-o", "folder", type=NamedPath(), help="Folder to write to.  [default: ./NAME_TARGET]")
@target_option("sm100")
@ctas_option
@query_tiles_option
@constants_option
@click.option("--emit", "kinds", type=Kinds(), help="Of source, ptx, cubin, sass.  [default: source,ptx,cubin]")
@click.option("--forward-only", is_flag=True, help="Compile no backward kernel.")
@json_option
def command(
    file: str,
    folder: Path | None,
    target: str,
    ctas: Literal[1, 2] | None,
    query_tiles: Literal[1, 2] | None,
    constants: tuple[tuple[str, Any], ...],
    kinds: tuple[str, ...] | None,
    forward_only: bool,
    as_json: bool,
) -> int:
    """Compile FILE for a target. Needs no GPU and no driver.

    Writes forward.py and backward.py (the emitted source), their .ptx and .cubin, and manifest.json; for the reference the two in
    torch. Files appear all at once, or not at all.
    """
    from attnspec.cli.output_folder import draft_folder, publish
    from attnspec.cli.walk import Walk, walk_to_source

    kinds = kinds or (("source",) if target == "reference" else ("source", "ptx", "cubin"))
    if target == "reference" and kinds != ("source",):
        raise click.BadOptionUsage("--emit", "the reference target is source alone: torch runs it as it is")
    if target == "reference" and ctas is not None:
        raise click.BadOptionUsage("--ctas", "the reference target runs no CTAs")
    if target == "reference" and query_tiles is not None:
        raise click.BadOptionUsage("--query-tiles", "the reference target has no work tiles")
    walk = Walk()
    made = walk_to_source(walk, file, constants, target, forward_only, ctas, query_tiles)
    notes = [made.refused] if made.refused else []
    folder = folder or Path(f"{made.spec.name}_{target}")
    with draft_folder(folder) as draft:
        facts = fill(draft, made, walk, kinds, forward_only, notes)
        files = publish(draft, folder)
    if as_json:
        click.echo(json_text({"folder": str(folder), **facts}))
    else:
        click.echo(report(made, walk, files, notes))
    return 0


def fill(draft: Path, made: "Made", walk: "Walk", kinds: tuple[str, ...], forward_only: bool, notes: list[str]) -> dict[str, Any]:
    """Write all files; returns the facts in manifest.json."""
    from attnspec.cli.facts import facts_of
    from attnspec.cli.output_folder import MANIFEST, settled
    from attnspec.cli.walk import walk_to_binary
    from attnspec.runtime.toolchain import known_against

    binaries = {}
    if made.schedule is not None and set(kinds) != {"source"}:
        for emitted in (made.emitted, made.backward):
            if emitted is not None:
                binaries[emitted.modules[0].name] = walk_to_binary(walk, emitted, draft, "sass" in kinds)
    notes += dict.fromkeys(note for binary in binaries.values() for note in known_against(binary.cubin))
    files = contents(made, binaries, kinds, forward_only)
    for path in draft.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        files[name] = settled(data, draft)
        (draft / name).write_bytes(files[name])
    facts = facts_of(made, walk, binaries, files, notes)
    (draft / MANIFEST).write_text(json_text(facts) + "\n", encoding="utf-8")
    return facts


def contents(made: "Made", binaries: "dict[str, Binary]", kinds: tuple[str, ...], forward_only: bool) -> dict[str, bytes]:
    """Files to write, by name."""
    files: dict[str, bytes] = {}
    if "source" in kinds:
        modules = [module for module in made.emitted.modules if module.name == "forward" or not forward_only]
        modules += made.backward.modules if made.backward is not None else ()
        files |= {module.file_name: module.text.encode() for module in modules}
    for name, binary in binaries.items():
        found = {"ptx": binary.ptx.encode(), "cubin": binary.cubin, "sass": (binary.sass or "").encode()}
        files |= {f"{name}.{kind}": data for kind, data in found.items() if kind in kinds}
    return files


def report(made: "Made", walk: "Walk", files: list[Path], notes: list[str]) -> str:
    """The stage table, the files, and what is to be known."""
    from attnspec.cli.summary import spec_title
    from attnspec.cli.table import table

    rows = [(stage.name, f"{stage.seconds:.2f}", stage.made) for stage in walk.done]
    rows.append(("total", f"{sum(stage.seconds for stage in walk.done):.2f}", ""))
    lines = [f"{spec_title(made.spec)}, for {made.emitted.target}", ""]
    lines += [table(("stage", "seconds", "made"), rows, right=(1,)), ""]
    lines += ["wrote " + " ".join(map(str, files))]
    return "\n".join([*lines, *(f"note: {note}" for note in notes)])
