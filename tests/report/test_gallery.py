"""The gallery in docs/ shows what the analyses find today."""

from importlib.util import module_from_spec, spec_from_file_location
from xml.etree import ElementTree

from attnspec import variants
from tests.house.tree import ROOT


def test_the_gallery_is_what_its_command_draws() -> None:
    spec = spec_from_file_location("draw_gallery", ROOT / "tools/draw_gallery.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.gallery()
    assert {f"gallery/{name}.svg" for name in variants.names()} | {"gallery.md"} == set(found)
    on_disk = {f"gallery/{path.name}" for path in (ROOT / "docs/gallery").iterdir()} | {"gallery.md"}
    assert on_disk == set(found)
    for name, text in found.items():
        assert (ROOT / "docs" / name).read_text("utf-8") == text, f"docs/{name}: run python tools/draw_gallery.py"
        if name.endswith(".svg"):
            ElementTree.fromstring(text)
