"""`attnc check --format`: what editors and code hosts read."""

import pytest

from attnspec import __version__
from tests.cli.command import GOOD, Attnc, run_apart

FAULTY = GOOD.replace("score * n", "scor * n") + "let a = m\nlet c = score + (true)\n"


def test_text_is_the_default(attnc: Attnc) -> None:
    name = attnc.write(GOOD)
    assert attnc("check", name, "--format", "text").out == attnc("check", name).out


def test_json_is_what_the_option_of_that_name_prints(attnc: Attnc) -> None:
    for name in (attnc.write(GOOD), attnc.write(FAULTY, "faulty.attn")):
        one, other = attnc("check", name, "--format", "json"), attnc("check", name, "--json")
        assert (one.code, one.out, one.err) == (other.code, other.out, other.err)


def test_json_says_where_a_fault_starts_and_ends(attnc: Attnc) -> None:
    first = attnc("check", attnc.write(FAULTY), "--format", "json").json["errors"][0]
    assert {key: first[key] for key in ("name", "file", "line", "column", "end_line", "end_column")} == {
        "name": "unknown-name", "file": "small.attn", "line": 4, "column": 9, "end_line": 4, "end_column": 13
    }  # fmt: skip


def test_sarif_of_a_good_file_has_no_results(attnc: Attnc) -> None:
    done = attnc("check", attnc.write(GOOD), "--format", "sarif")
    assert (done.code, done.err) == (0, "")
    assert done.json["version"] == "2.1.0"
    (run,) = done.json["runs"]
    assert run["results"] == []
    assert run["tool"]["driver"] == {"name": "attnc", "version": __version__, "rules": []}


def test_sarif_has_a_result_for_each_fault_and_a_rule_for_each_kind(attnc: Attnc) -> None:
    done = attnc("check", attnc.write(FAULTY), "--format", "sarif")
    assert (done.code, done.err) == (2, "")
    (run,) = done.json["runs"]
    assert run["tool"]["driver"]["rules"] == [{"id": "unknown-name"}, {"id": "kind-mismatch"}]
    assert [result["ruleIndex"] for result in run["results"]] == [0, 0, 1]
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("unknown-name", "error")
    assert first["message"]["text"] == "there is no `scor` here (help: did you mean `score`?)"
    assert first["locations"] == [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "small.attn"},
                "region": {"startLine": 4, "startColumn": 9, "endLine": 4, "endColumn": 13},
            }
        }
    ]


def test_sarif_names_files_by_uris(attnc: Attnc) -> None:
    name = attnc.write(FAULTY, "my variant.attn")
    for given, wanted in ((name, "my%20variant.attn"), (str(attnc.folder / name), (attnc.folder / name).as_uri())):
        (run,) = attnc("check", given, "--format", "sarif").json["runs"]
        places = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]]
        assert set(places) == {wanted}


def test_sarif_of_a_file_that_is_not_there_is_a_result_too(attnc: Attnc) -> None:
    done = attnc("check", "nowhere.attn", "--format", "sarif")
    assert done.code == 2
    assert [result["ruleId"] for result in done.json["runs"][0]["results"]] == ["cannot-read"]


def test_sarif_lays_a_fault_of_the_command_line_to_the_file_as_a_whole(attnc: Attnc) -> None:
    (result,) = attnc("check", attnc.write(GOOD), "-D", "m=1", "--format", "sarif").json["runs"][0]["results"]
    assert result["locations"] == [{"physicalLocation": {"artifactLocation": {"uri": "small.attn"}}}]


def test_sarif_of_standard_input_names_no_file(attnc: Attnc) -> None:
    for arguments, text in ((["-"], FAULTY), (["-", "-D", "m=1"], GOOD)):
        done = run_apart("check", *arguments, "--format", "sarif", cwd=attnc.folder, stdin=text)
        results = done.json["runs"][0]["results"]
        assert results and all(result["locations"] == [] for result in results)


@pytest.mark.parametrize(
    ("arguments", "said"), [(["--format", "xml"], "'xml'"), (["--format", "sarif", "--json"], "two formats")]
)
def test_a_format_that_there_is_not_is_a_wrong_command_line(attnc: Attnc, arguments: list[str], said: str) -> None:
    done = attnc("check", attnc.write(GOOD), *arguments)
    assert done.code == 2
    assert said in done.err
