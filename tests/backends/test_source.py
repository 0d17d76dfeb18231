import pytest
from attnspec.backends.source import Names, Source, identifier

HOSTILE = 'x"""\nimport os\x1b[2J\\'


def test_a_docstring_holds_whatever_a_person_wrote_and_stays_one():
    source = Source()
    with source.block("def f():"):
        source.docstring(HOSTILE, "second " + HOSTILE)
        source.line("return 1")
    namespace = {}
    exec(str(source), namespace)
    assert namespace["f"]() == 1
    assert "os" not in namespace


def test_a_comment_holds_whatever_a_person_wrote_and_stays_one_line():
    source = Source()
    source.comment(HOSTILE)
    assert len(str(source).splitlines()) == 1


def test_a_line_break_inside_a_line_is_refused():
    with pytest.raises(ValueError, match="one line at a time"):
        Source().line("a = 1\nimport os")


def test_identifiers_are_prefixed_and_of_plain_letters():
    assert identifier("été-1; import os", "u_") == "u__t__1__import_os"
    assert identifier("exec", "u_") == "u_exec"
    assert len(identifier("x" * 1000, "u_")) == 42


def test_names_that_would_meet_are_told_apart():
    names = Names()
    assert [names.new(name, "u_") for name in ("a b", "a_b", "a-b")] == ["u_a_b", "u_a_b_2", "u_a_b_3"]


def test_a_line_knows_the_span_it_came_from(span_of_mask):
    source = Source()
    source.line("first = 1")
    source.line("second = 2", span_of_mask)
    assert source.spans == {2: span_of_mask}


@pytest.fixture
def span_of_mask():
    import attnspec

    return attnspec.build("attention spans\nhead_dim 8\nmask = kv <= q\n").spec.mask_span
