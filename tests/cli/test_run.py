import pytest
import torch
from attnspec.emulator.errors import KernelFault
from attnspec.runtime import compare as comparing

from tests.cli.command import GOOD, Attnc

SMALL = ("--shape", "b=1,h=2,hkv=1,q=5,kv=7")


def test_an_integer_that_overflows_at_the_sizes_of_a_run_is_named_once_and_placed(attnc: Attnc) -> None:
    done = attnc("run", attnc.write("attention big\nhead_dim 8\nmask = q * 99999999 < kv\n"), "--shape", "b=1,h=1,q=64", "--json")
    assert (done.code, done.err.count("error[")) == (2, 1)
    (fault,) = done.json["errors"]
    assert (fault["name"], fault["line"], fault["column"]) == ("integer-overflow", 3, 8)


def test_a_right_variant_passes_with_every_result_and_its_tolerance(attnc: Attnc) -> None:
    done = attnc("run", attnc.write(GOOD + "learned w: f32[heads]\nsink = w[h]\n"), *SMALL)
    assert done.code == 0
    rows = {line.split()[0]: line for line in done.out.splitlines() if " ok " in line}
    assert list(rows) == ["out", "lse", "dq", "dk", "dv", "dw"]
    assert all("f32 over d=16, n=7" in line for line in rows.values())
    assert done.out.splitlines()[-1] == "pass: forward and backward agree with the float64 oracle"


def test_the_forward_alone_has_no_gradients(attnc: Attnc) -> None:
    done = attnc("run", attnc.write(GOOD), *SMALL, "--forward-only", "--json")
    assert [row["name"] for row in done.json["runs"][0]["results"]] == ["out", "lse"]


def test_wrong_numbers_fail_with_exit_code_1(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> tuple[comparing.Row, ...]:
        return (comparing.Row("out", 0.5, 0.1, 5.0, "so"), comparing.Row("lse", 0.0, 0.1, 0.0, "so"))

    monkeypatch.setattr(comparing, "compare", wrong)
    done = attnc("run", attnc.write(GOOD), *SMALL)
    assert done.code == 1
    assert "WRONG (seed 0)" in done.out
    assert done.out.splitlines()[-1] == "FAIL: out beyond the tolerance"
    assert attnc("run", "small.attn", *SMALL, "--json").json["pass"] is False


def test_a_wrong_oracle_is_noticed(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    solve = comparing.solve

    def off(*arguments: object) -> object:
        answer = solve(*arguments)  # type: ignore[arg-type]
        answer.exact.gradients["k"][...] *= 1.1
        return answer

    monkeypatch.setattr(comparing, "solve", off)
    done = attnc("run", attnc.write(GOOD), *SMALL)
    assert (done.code, done.out.splitlines()[-1]) == (1, "FAIL: dk beyond the tolerance")


def test_seeds_draw_other_inputs_and_the_worst_is_shown(attnc: Attnc) -> None:
    name = attnc.write(GOOD)
    runs = attnc("run", name, *SMALL, "--seeds", "3", "--json").json["runs"]
    assert [run["seed"] for run in runs] == [0, 1, 2]
    assert len({run["results"][0]["error"] for run in runs}) == 3
    one = attnc("run", name, *SMALL, "--seed", "2", "--json").json["runs"]
    assert one[0]["results"] == runs[2]["results"]
    assert "seeds 0 to 2, the worst of each result" in attnc("run", name, *SMALL, "--seeds", "3").out


@pytest.mark.parametrize(
    ("sizes", "shape"),
    [
        ("q=5", [2, 4, 2, 5, 5]),
        ("kv=5", [2, 4, 2, 5, 5]),
        ("b=1,h=6,q=3,kv=4", [1, 6, 3, 3, 4]),
        ("hkv=1,q=2", [2, 2, 1, 2, 2]),
    ],
)
def test_sizes_not_given_go_with_those_given_and_the_group(attnc: Attnc, sizes: str, shape: list[int]) -> None:
    name = attnc.write(GOOD.replace("head_dim 16\n", "head_dim 16\ngroup 2\n"))
    assert list(attnc("run", name, "--shape", sizes, "--json").json["shape"].values()) == shape


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("h=3,hkv=2", "3 heads (h) over 2 key/value heads (hkv): every one must serve as many"),
        ("q", "wanted some of b=, h=, hkv=, q=, kv="),
        ("q=0", "wanted an integer from 1 to"),
        ("q=-1", "wanted an integer from 1 to"),
        ("q=1e3", "wanted an integer from 1 to"),
        (f"q={'9' * 9000}", "wanted an integer from 1 to"),
        ("q=1,q=2", "q is given twice"),
        ("len=5", "wanted some of"),
        ("q=100000,kv=100000", "the oracle holds every score at once"),
    ],
)
def test_sizes_that_cannot_be_are_an_error_that_says_why(attnc: Attnc, sizes: str, said: str) -> None:
    done = attnc("run", attnc.write(GOOD), "--shape", sizes)
    assert (done.code, said in done.err) == (2, True), done.err


def test_heads_that_do_not_fit_the_group_are_an_error_that_names_it(attnc: Attnc) -> None:
    done = attnc("run", "gemma2_local", "--shape", "h=4,hkv=1")
    assert (done.code, "gemma2_local has `group 2`" in done.err) == (2, True)


def test_packed_sequences_are_drawn_with_several_lengths(attnc: Attnc) -> None:
    done = attnc("run", "packed_varlen", "--shape", "b=3,h=4,hkv=1,q=6,kv=6", "--json")
    assert (done.code, done.json["shape"]["batch"]) == (0, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "sm100"), "--target sm100: torch finds no CUDA GPU here; --on emulator runs the kernels of a GPU"),
        (("--target", "sm90"), "--target sm90: torch finds no CUDA GPU here"),
        (("--on", "gpu"), "--on gpu: torch finds no CUDA GPU here"),
    ],
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_what_cannot_run_here_is_exit_code_3_with_the_reason(attnc: Attnc, arguments: tuple[str, ...], said: str) -> None:
    done = attnc("run", "causal", *arguments)
    assert (done.code, said in done.err) == (3, True), done.err


def test_the_emulator_runs_forward_and_backward(attnc: Attnc) -> None:
    done = attnc("run", attnc.write(GOOD), "--shape", "b=1,h=2,hkv=1,q=130,kv=140", "--on", "emulator")
    assert done.code == 0, done.err
    assert "on sm100 in the emulator" in done.out
    assert done.out.splitlines()[-1] == "pass: forward and backward agree with the float64 oracle"


def test_the_forward_is_run_alone_where_the_backward_is_refused(attnc: Attnc, refuse_backward: None) -> None:
    done = attnc("run", "mla", "--shape", "b=1,h=1,hkv=1,q=20,kv=30", "--on", "emulator", "--target", "sm90")
    assert done.code == 0, done.err
    assert "pass: forward agrees with the float64 oracle" in done.out
    assert "backward has no kernel: `head_dim 192, 128` cannot run on this target" in done.out.splitlines()[-1]


def test_a_statement_that_the_emulated_target_cannot_run_is_shown(attnc: Attnc, refuse_varlen: None) -> None:
    done = attnc("run", "packed_varlen", "--on", "emulator")
    assert (done.code, "packed_varlen.attn:6:1" in done.err) == (3, True)


def test_a_fault_that_the_emulator_finds_in_a_kernel_is_wrong_and_named(attnc: Attnc, monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: object) -> None:
        raise KernelFault("deadlock", "warp 3 waits for a barrier that nobody arrives at")

    monkeypatch.setattr(comparing, "run", faulty)
    done = attnc("run", "causal", "--on", "emulator", "--forward-only")
    assert (done.code, done.err.splitlines()[0]) == (
        1,
        "error[deadlock]: the emulator found a fault of the kernel: warp 3 waits for a barrier that nobody arrives at",
    )


def test_the_reference_needs_no_emulator(attnc: Attnc) -> None:
    assert attnc("run", "causal", "--target", "reference", "--on", "emulator").code == 2


def test_a_bad_spec_is_exit_code_2(attnc: Attnc) -> None:
    assert attnc("run", attnc.write("attention x\nhead_dim 12\n")).code == 2


def test_one_seed_or_several_but_not_both(attnc: Attnc) -> None:
    assert attnc("run", "causal", "--seed", "1", "--seeds", "2").code == 2


def test_a_seed_beyond_what_generators_take_is_a_usage_error(attnc: Attnc) -> None:
    assert attnc("run", "dense", "--seed", str(2**63)).code == 2
