"""The TextMate grammar of .attn files, run as an editor runs it: line by line, at each place the rule that matches first."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnspec import variants
from attnspec.language.declare import DTYPES
from attnspec.language.functions import BUILTINS
from attnspec.language.names import GIVEN
from attnspec.language.parse import STATEMENTS
from attnspec.language.standard import standard_library
from attnspec.language.syntax_errors import statement_parser
from tests.house.tree import ROOT

FOLDER = ROOT / "editors/vscode"
GRAMMAR = json.loads((FOLDER / "syntaxes/attn.tmLanguage.json").read_text("utf-8"))
FILES = [*(variants.path(name) for name in variants.names()), ROOT / "attnspec/std.attn"]
Scoped = tuple[str, str]  # text, scope


def rules(patterns: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Rules in the order in which they are tried."""
    for pattern in patterns:
        if "include" in pattern:
            yield from rules([GRAMMAR["repository"][pattern["include"].removeprefix("#")]])
        elif "patterns" in pattern:
            yield from rules(pattern["patterns"])
        else:
            yield pattern


RULES = [(re.compile(rule["match"]), rule) for rule in rules(GRAMMAR["patterns"])]


def scopes(line: str) -> list[Scoped]:
    """Pieces of a line with their scopes; what no rule takes has the scope "" (blanks apart)."""
    found: list[Scoped] = []
    at = 0
    while at < len(line):
        matches = [(regex.search(line, at), rule) for regex, rule in RULES]
        first = min(((match.start(), index) for index, (match, _) in enumerate(matches) if match), default=None)
        if first is None:
            break
        start, (match, rule) = first[0], matches[first[1]]
        assert match is not None
        found += [(line[at:start].strip(), "")] if line[at:start].strip() else []
        if "name" in rule:
            found.append((match.group(), rule["name"]))
        for group, capture in rule.get("captures", {}).items():
            found.append((match.group(int(group)), capture["name"]))
        at = match.end()
    return [*found, *([(line[at:].strip(), "")] if line[at:].strip() else [])]


def of(line: str) -> dict[str, str]:
    """Scope by text, without the end that all share."""
    return {text: scope.removesuffix(".attn") for text, scope in scopes(line)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sign_of_a_file_has_a_scope(path: Path) -> None:
    assert [piece for line in path.read_text("utf-8").splitlines() for piece in scopes(line) if not piece[1]] == []


NAMES = ("variable", "entity", "support", "constant", "storage")
KINDS = {"INT": "constant.numeric.integer", "FLOAT": "constant.numeric.float", "NAME": NAMES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_numbers_and_names_are_those_of_the_language_s_own_lexer(path: Path) -> None:
    compared = 0
    for line in path.read_text("utf-8").splitlines():
        code = line.partition("#")[0]
        if not code.strip() or code.strip().split()[0] not in STATEMENTS:
            continue  # the rest of a statement that goes on over lines
        found = iter([piece for piece in scopes(code) if piece[1]])
        for token in statement_parser().lex(code, dont_ignore=False) if code.count("(") == code.count(")") else ():
            scope = next(scope for text, scope in found if text == str(token))
            wanted = KINDS.get(token.type)
            assert wanted is None or scope.startswith(wanted), (line, token, scope)
            compared += wanted is not None
    assert compared >= 2


def test_every_word_of_the_language_has_the_scope_of_its_kind() -> None:
    assert {word: of(f"x = {word}")[word] for word in GIVEN} == {
        word: "constant.language" if word == "inf" else "variable.language" for word in GIVEN
    }
    assert {name: of(f"let x = {name}(1)")[name] for name in BUILTINS} == dict.fromkeys(BUILTINS, "support.function.builtin")
    standard = standard_library()
    assert {name: of(f"mask = {name}(1)")[name] for name in standard} == dict.fromkeys(standard, "support.function")
    assert {name: of(f"input x: {name}")[name] for name in DTYPES} == dict.fromkeys(DTYPES, "storage.type")


@pytest.mark.parametrize("word", STATEMENTS)
def test_every_statement_starts_with_a_word_of_its_own(word: str) -> None:
    rest = {"dtype": "bf16", "head_dim": "128, 64", "group": "any", "scale": "0.5", "varlen": ""}
    line = f"{word} x: f32" if word in ("input", "learned") else f"{word} = 1" if word in ("score", "mask", "sink") else ""
    scope = of(line or f"{word} {rest.get(word, 'x = 1')}")[word]
    assert scope.startswith(("keyword", "storage.modifier"))


def test_a_line_is_coloured_as_it_is_meant() -> None:
    assert of("score = score + 0x1F if kv >= 2.5e3 and not flags[b] else -.5  # why")  == {
        "score": "variable.language", "=": "keyword.operator.assignment", "+": "keyword.operator",
        "0x1F": "constant.numeric.integer",
        "if": "keyword.control", "kv": "variable.language", ">=": "keyword.operator", "2.5e3": "constant.numeric.float",
        "and": "keyword.operator.word", "not": "keyword.operator.word", "flags": "variable.other", "[": "punctuation",
        "b": "variable.language", "]": "punctuation", "else": "keyword.control", "-": "keyword.operator",
        ".5": "constant.numeric.float", "# why": "comment.line.number-sign",
    }  # fmt: skip
    assert of("input ids: i32[batch, len_kv] in 0..len_kv - 1 sorted")["0"] == "constant.numeric.integer"
    assert of("input ids: i32[batch, len_kv] in 0..len_kv - 1 sorted")[".."] == "keyword.operator.range"


def test_a_score_on_the_left_is_a_statement_and_on_the_right_a_value() -> None:
    assert [scope for text, scope in scopes("score = score") if text == "score"] == [
        "keyword.control.attn",
        "variable.language.attn",
    ]


def test_the_extension_names_the_files_that_are_there() -> None:
    package = json.loads((FOLDER / "package.json").read_text("utf-8"))
    parts = package["contributes"]
    named = [parts["grammars"][0]["path"], parts["languages"][0]["configuration"]]
    assert all((FOLDER / path).is_file() for path in named)
    assert parts["grammars"][0]["scopeName"] == GRAMMAR["scopeName"]
    json.loads((FOLDER / "language-configuration.json").read_text("utf-8"))


def test_expressions_hold_nothing_that_only_python_s_regexes_know() -> None:
    """Oniguruma, which editors use, knows no named groups of the form `(?P<` and no `\\Z`."""
    assert [regex.pattern for regex, _ in RULES if re.search(r"\(\?P|\\Z|\(\?\(", regex.pattern)] == []
