"""Each error is shown by its example, at the place it names; none is without one."""

import re
from pathlib import Path

import pytest

from attnspec import language
from attnspec.language.syntax_errors import EXAMPLES, MESSAGES
from tests.language.catalogue import BEYOND, ELSEWHERE, PAGE, STATEMENTS, TRACED, example, first_fault, page

NAMED = re.compile(r"(?:add|stop|fault|Diagnostic|FoldError)\(\s*\"([a-z0-9-]+)\"|^ +\(r\"[^\n]*?\", \"([a-z-]+)\"", re.M)


@pytest.mark.parametrize("name", STATEMENTS)
def test_an_error_is_shown_by_its_example(name: str) -> None:
    text, start, end = example(name)
    found = first_fault(text)
    assert found.name == name, str(found)
    if start >= 0:
        assert (found.span.start, found.span.end) == (start, end), str(found)


def test_every_error_of_the_code_has_an_example() -> None:
    folder = Path(language.__file__).parent
    code = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    named = {first or second for first, second in NAMED.findall(code)} | set(MESSAGES)
    assert named == {*STATEMENTS, *ELSEWHERE}


def test_every_error_of_the_command_and_of_a_call_is_on_the_page() -> None:
    root = Path(language.__file__).parents[1]
    told = re.findall(r"plain\(\s*\"([a-z-]+)\"", (root / "cli" / "failure.py").read_text("utf-8"))
    assert {*told, "argument", "target", "cache", "not-on-this-target"} == set(BEYOND)


def test_the_names_of_what_cannot_be_traced_are_those_of_the_code() -> None:
    folder = Path(language.__file__).parents[1] / "flex"
    code = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    named = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', code))
    assert named - {*STATEMENTS, *ELSEWHERE} == set(TRACED)


def test_the_page_of_errors_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m tests.language.catalogue"


@pytest.mark.parametrize(("name", "statement"), [(name, text) for name, texts in EXAMPLES.items() for text in texts])
def test_a_wrong_statement_is_named_as_its_example_says(name: str, statement: str) -> None:
    found = first_fault(statement)
    assert found.name in (name, "attention-not-first", "unmatched-parenthesis"), str(found)
