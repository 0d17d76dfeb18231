"""The page in a browser, where there is one: light and dark, narrow and wide, nothing beyond the edge of the screen."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from attnspec import stages, variants
from attnspec.cli.shape import CallShape
from attnspec.report.gather import gather
from attnspec.report.page import page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LOOK = """<script>
const style = getComputedStyle(document.body);
const boxes = [...document.querySelectorAll("math, svg, .tile, .bar")].map((at) => at.getBoundingClientRect());
const line = document.querySelector(".emitted .line[data-spec]");
line.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
document.documentElement.dataset.found = [
  document.documentElement.scrollWidth, innerWidth, style.backgroundColor, boxes.length,
  boxes.filter((box) => box.width === 0).length, document.querySelectorAll(".line.linked").length,
].join(";");
</script>"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with all of it, and a script that tells what the browser made of it."""
    analysed = stages.analyse(stages.read(variants.path("gemma2_local")))
    text = variants.path("gemma2_local").read_text("utf-8")
    path = tmp_path_factory.mktemp("page") / "page.html"
    made = page(gather(text, analysed, CallShape(1, 2, 1, 8192, 8192), "sm100", compiles=False))
    path.write_text(made.replace("</body>", f"{LOOK}</body>"), "utf-8")
    return path


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no chromium here")
@pytest.mark.parametrize("width", [500, 1280])
@pytest.mark.parametrize(("scheme", "background"), [(1, "rgb(255, 255, 255)"), (0, "rgb(18, 22, 28)")])
def test_the_page_fits_the_screen_and_links_its_lines(
    file: Path, tmp_path: Path, width: int, scheme: int, background: str
) -> None:
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900", f"--user-data-dir={tmp_path}"]
    scheme_option = f"--blink-settings=preferredColorScheme={scheme}"
    command = [str(BROWSER), *options, scheme_option, "--virtual-time-budget=2000", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    scroll, inner, colour, boxes, empty, linked = found.group(1).split(";")
    assert int(scroll) <= int(inner)
    assert colour == background
    assert int(boxes) > 200 and empty == "0"
    assert int(linked) >= 2
