"""The pictures say what is true of the mask and of the schedule."""

import itertools
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from attnspec.lowering.analysis.evaluate import Env, evaluate, names_for

from attnspec import stages, variants
from attnspec.cli.count import draw, extents_of, sizes_of, tensors_of_mask
from attnspec.cli.shape import CallShape
from attnspec.report.elements import markup
from attnspec.report.formulas import formula
from attnspec.report.gather import gather, machine_of
from attnspec.report.mask_picture import mask_svg, picture_of
from attnspec.report.memory_maps import blocks_of
from attnspec.report.page import KernelFacts, page
from attnspec.report.png import write_png
from attnspec.report.timeline import timeline_of
from attnspec.report.write import write_whole

SHAPE = CallShape(2, 4, 2, 700, 900)
LENGTHS = [(700, 900), (900, 300), (1, 1), (128, 4096)]
SOME = ("causal", "gemma2_local", "dense", "relative_bias", "document_causal", "gpt_oss", "mla")


def analysed_of(name: str):
    return stages.analyse(stages.read(variants.path(name)))


def visible_elements(analysed, shape: CallShape) -> np.ndarray:
    """The mask of the first head, element by element."""
    arrays = {t.name: draw(t, extents_of(t, shape), sizes_of(shape))[0] for t in tensors_of_mask(analysed)}
    env = Env(names_for(0, 0, **sizes_of(shape)), arrays)
    q, kv = np.meshgrid(np.arange(shape.len_q), np.arange(shape.len_kv), indexing="ij")
    return np.broadcast_to(evaluate(analysed.spec.mask, env.with_names(q=q, kv=kv)), q.shape)


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", [n for n in variants.names() if n not in ("packed_varlen",)])
def test_every_tile_has_the_class_that_its_elements_have(name: str, lengths: tuple[int, int]) -> None:
    analysed = analysed_of(name)
    if analysed.spec.mask is None:
        return
    heads = analysed.spec.group or 2
    shape = CallShape(2, heads, 1, *lengths)
    picture = picture_of(analysed, shape)
    visible = visible_elements(analysed, shape)
    covered = np.zeros((picture.rows, picture.columns), int)
    for strip in picture.strips:
        covered[strip.row, strip.first : strip.last] += 1
        rows = slice(strip.row * picture.tile, (strip.row + 1) * picture.tile)
        seen = visible[rows, strip.first * picture.tile : strip.last * picture.tile]
        assert strip.kind != "full" or seen.all()
        assert strip.kind != "empty" or not seen.any()
    assert (covered == 1).all()


def test_a_long_axis_is_drawn_with_larger_tiles() -> None:
    picture = picture_of(analysed_of("causal"), CallShape(1, 1, 1, 1_000_000, 1_000_000))
    assert max(picture.rows, picture.columns) <= 64
    assert picture.count("full") + picture.count("partial") == 62 * 63 / 2


def test_a_tile_tells_why_it_is_skipped_masked_or_seen_whole() -> None:
    text = markup(mask_svg(picture_of(analysed_of("causal"), SHAPE)), "xml")
    titles = [str(found.text) for found in ElementTree.fromstring(text).iter("{http://www.w3.org/2000/svg}title")]
    assert any("empty: no key here is visible" in title for title in titles)
    assert any("partial" in title and "causal" in title for title in titles)


@pytest.mark.parametrize(("direction", "ctas"), [("forward", 1), ("backward", 1), ("backward", 2)])
def test_the_timeline_shows_every_role_of_the_loop_and_steps_at_the_schedules_interval(direction, ctas) -> None:
    analysed = analysed_of("causal")
    schedule = stages.place(stages.draw(analysed, direction, ctas=ctas), analysed)
    found = timeline_of(schedule)
    loop = {role.name for role in schedule.roles for step in role.program
            if schedule.dataflow.operation(step.operation).rate == "step"}  # fmt: skip
    assert set(found.roles) <= loop
    assert {"mma", "load"} <= set(found.roles)
    for bar in found.bars:
        twin = [at for at in found.bars if (at.operation, at.step) == (bar.operation, bar.step + 1) and bar.is_critical]
        assert all(at.start - bar.start == pytest.approx(found.step_cycles, rel=0.02) for at in twin)
    for role in found.roles:
        bars = sorted((bar for bar in found.bars if bar.role == role), key=lambda bar: bar.start)
        assert all(one.start + one.cycles <= two.start + 1e-6 for one, two in itertools.pairwise(bars))


def test_blocks_of_memory_lie_apart_unless_one_is_over_another() -> None:
    analysed = analysed_of("causal")
    schedule = stages.place(stages.draw(analysed), analysed)
    for space in ("shared", "tensor"):
        flat = sorted((block for block in blocks_of(schedule, space) if block.level == 0), key=lambda block: block.first)
        assert all(one.first + one.size <= two.first for one, two in itertools.pairwise(flat))


class Checker(HTMLParser):
    """Tags that are opened are closed, and nothing is fetched from elsewhere."""

    VOID = ("meta", "br", "img", "link", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [str(given["id"])] if "id" in given else []
        self.links += [str(given[name]) for name in ("href", "src") if name in given]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", SOME)
def test_the_page_is_whole_and_needs_no_other_file(name: str) -> None:
    analysed = analysed_of(name)
    text = variants.path(name).read_text()
    heads = analysed.spec.group or 2
    found = page(gather(text, analysed, CallShape(1, heads, 1, 700, 900), "sm100", compiles=False))
    checker = Checker()
    checker.feed(found)
    assert not checker.open
    assert len(set(checker.ids)) == len(checker.ids)
    assert checker.links and all(link.startswith("#") and link[1:] in checker.ids for link in checker.links)
    assert not re.search(r"url\(|@import|<link|<img", found)


def test_lines_of_the_source_name_the_line_of_the_spec_that_they_came_from() -> None:
    text = variants.path("gemma2_local").read_text()
    found = page(gather(text, analysed_of("gemma2_local"), SHAPE, "sm100", compiles=False))
    spec_line = 1 + text.split("\n").index("score = softcap(score, cap)")
    emitted = re.findall(rf'data-spec="{spec_line}" data-n="\d+">([^<]*)', found.split("forward.py</h3>")[1])
    assert any("tanh" in line for line in emitted)


def test_what_a_person_wrote_cannot_break_the_page() -> None:
    text = "attention x  # </script><script>alert(1)</script> & <b>\nhead_dim 64\nmask = kv <= q and 1 < 2\n"
    found = page(gather(text, stages.analyse(stages.read(text)), SHAPE, "sm100", compiles=False))
    assert "<script>alert" not in found
    assert "&lt;b&gt;" in found


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("score / 2.0", "<mfrac>"),
        ("score - (1.0 - score)", "<mo>(</mo>"),
        ("exp(score)", "<msup>"),
        ("sqrt(abs(score))", "<msqrt>"),
        ("score if q < kv else 0.0", '<mtable columnalign="left" class="cases">'),
        ("score if q < kv else 0.0", "<mtext>if\N{NO-BREAK SPACE}</mtext>"),
    ],
)
def test_formulas_are_set_as_formulas(expression: str, expected: str) -> None:
    spec = stages.read(f"attention x\nhead_dim 64\nscore = {expression}\n")
    assert expected in markup(formula("s", spec.score), "xml")


def test_spills_that_the_ptx_does_not_show_are_on_the_page() -> None:
    text = "attention x\nhead_dim 64\n"
    facts = gather(text, stages.analyse(stages.read(text)), SHAPE, "sm100", compiles=False)
    kernel = next(kernel for kernel in facts.kernels if isinstance(kernel, KernelFacts))
    for frame, said in ((296, "128 registers a thread at launch, spills: 296 bytes of local memory a thread"), (0, "no spills")):
        shown = page(replace(facts, kernels=(replace(kernel, machine=machine_of(128, frame)),)))
        assert said in shown


@pytest.mark.parametrize("name", ["mask.png", "mask.SVG", "mask"])
def test_a_picture_is_written_as_its_name_says_and_nothing_is_left_beside_it(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `pictures` is not installed")
    text = "attention x\nhead_dim 64\n"
    facts = replace(gather(text, stages.analyse(stages.read(text)), SHAPE, "sm100", compiles=False), kernels=())
    write_whole(tmp_path / name, "--png", lambda path: write_png(facts, path))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes().startswith(b"<?xml" if name.endswith("SVG") else b"\x89PNG")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("before")

    def fail(draft: Path) -> None:
        draft.write_text("half")
        raise KeyError

    with pytest.raises(KeyError):
        write_whole(path, "--html", fail)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
