"""The language's pages say what is so: their examples are checked, their tables are whole."""

import re
from pathlib import Path

import pytest

from attnspec.language import limits
from attnspec.language.canonical import canonical
from attnspec.language.functions import BUILTINS
from attnspec.language.load import read_spec
from attnspec.language.names import GIVEN
from attnspec.language.parse import STATEMENTS
from attnspec.language.standard import standard_library

DOCS = Path(__file__).parents[2] / "docs"
HEAD = "attention example\nhead_dim 64\n"


def blocks(page: str) -> list[str]:
    text = (DOCS / page).read_text("utf-8")
    return re.findall(r"^```attn\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.parametrize("block", [*blocks("language.md"), *blocks("contract.md")])
def test_an_example_of_the_pages_is_a_spec(block: str) -> None:
    read_spec(block if block.startswith("attention") else HEAD + block)


def test_the_two_files_of_the_contract_mean_the_same() -> None:
    one, other = blocks("contract.md")[-2:]
    assert canonical(read_spec(one)) == canonical(read_spec(other))


def named(page: str) -> set[str]:
    """Words in code marks."""
    text = re.sub(r"^```.*?^```$", "", (DOCS / page).read_text("utf-8"), flags=re.M | re.S)
    marked = " ".join(re.findall(r"`([^`]+)`", text))
    return set(re.findall(r"[a-z_0-9]+", marked))


@pytest.mark.parametrize("names", [STATEMENTS, GIVEN, tuple(BUILTINS), tuple(standard_library()), ("true", "false", "none")])
def test_the_reference_names_all_there_is(names: tuple[str, ...]) -> None:
    assert set(names) <= named("language.md")


def test_the_reference_gives_the_limits_that_are_checked() -> None:
    table = (DOCS / "language.md").read_text("utf-8").partition("## Limits")[2]
    numbers = {int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*\d|\d", table)}
    assert numbers >= {
        limits.MAX_FILE // 1024,
        limits.MAX_TOKENS,
        limits.MAX_STATEMENTS,
        limits.MAX_STATEMENT,
        limits.MAX_NAME,
        limits.MAX_DEPTH,
        limits.MAX_NODES,
        limits.MAX_RANK,
        limits.MAX_LENGTH,
        limits.MAX_BATCH,
        limits.MAX_HEADS,
        limits.MAX_FAULTS,
    }
