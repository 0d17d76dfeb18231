import pytest
from attnspec.runtime import disassemble

from attnspec.language.load import read_spec
from tests.cli.command import GOOD, Attnc

STARTS = {
    "tree": "Attention",
    "spec": "attention small\nhead_dim 16\n",
    "analysed": "kv of a tile of q, from q_first to q_last\n",
    "dataflow": "dataflow forward: 2 query tiles",
    "schedule": "roles\n",
    "emitted": '"""Forward kernel of `small` for sm_100a',
}


@pytest.mark.parametrize("stage", STARTS)
def test_a_stage_is_printed_as_text_and_in_json(attnc: Attnc, stage: str) -> None:
    name = attnc.write(GOOD)
    done = attnc("show", name, "--stage", stage)
    assert done.code == 0
    assert done.out.startswith(STARTS[stage])
    facts = attnc("show", name, "--stage", stage, "--json").json
    assert (facts["stage"], facts["text"].strip()) == (stage, done.out.strip())


def test_the_spec_printed_is_the_spec(attnc: Attnc) -> None:
    shown = attnc("show", attnc.write(GOOD), "--stage", "spec", "-D", "n=7").out
    assert read_spec(shown) == read_spec(GOOD, {"n": 7})


def test_the_schedule_in_json_has_roles_and_channels(attnc: Attnc) -> None:
    value = attnc("show", "causal", "--stage", "schedule", "--json").json["value"]
    assert {"softmax0", "softmax1", "correction", "mma", "load"} <= {role["name"] for role in value["roles"]}
    assert value["channels"]


def test_the_reference_shows_both_modules(attnc: Attnc) -> None:
    out = attnc("show", attnc.write(GOOD), "--stage", "emitted", "--target", "reference").out
    assert out.startswith("# forward.py\n")
    assert "\n# backward.py\n" in out


def test_the_ptx_is_shown_and_nothing_is_left(attnc: Attnc) -> None:
    assert ".target sm_100a" in attnc("show", attnc.write(GOOD), "--stage", "ptx").out
    assert [path.name for path in attnc.folder.iterdir()] == ["small.attn"]


def test_the_sass_is_shown(attnc: Attnc) -> None:
    assert "MUFU.EX2" in attnc("show", attnc.write(GOOD), "--stage", "sass").out


def test_a_missing_disassembler_is_named(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    name = attnc.write(GOOD)
    assert attnc("compile", name, "--forward-only", "-o", "warm").code == 0
    monkeypatch.setattr(disassemble, "find_disassembler", lambda: None)
    for arguments in (("show", name, "--stage", "sass"), ("compile", name, "--forward-only", "--emit", "sass", "-o", "new")):
        done = attnc(*arguments)
        assert (done.code, "pip install nvidia-cuda-nvdisasm" in done.err) == (3, True)
    assert not (attnc.folder / "new").exists()


@pytest.mark.parametrize("stage", ["dataflow", "schedule", "ptx", "sass"])
def test_a_stage_that_the_reference_does_not_have_is_an_error(attnc: Attnc, stage: str) -> None:
    done = attnc("show", "causal", "--stage", stage, "--target", "reference")
    assert (done.code, "the reference target has no such stage" in done.err) == (2, True)


def test_a_stage_before_the_refusal_of_a_target_is_shown_all_the_same(attnc: Attnc, refuse_varlen: None) -> None:
    assert attnc("show", "packed_varlen", "--stage", "analysed").code == 0
    assert attnc("show", "packed_varlen", "--stage", "schedule").code == 3
