"""Caching, recompiles and messages: public bug reports as cases (J2 to J8)."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from attnspec.runtime.cache_key import cache_key
from attnspec.runtime.draw_inputs import Shape, draw_inputs

import attnspec
from attnspec import stages

PARTS = "attention parts\nhead_dim 16\nconst parts = 2\nmask = kv % parts == 0\n"
WORKER = """
import sys
from pathlib import Path
from attnspec.runtime.cache import Cache
cache = Cache(Path(sys.argv[1]))
blobs = {"kernel.cubin": bytes(range(256)) * 4096, "forward.py": b"x = 1"}
for number in range(40):
    entry = cache.find_or_store(f"key{number % 4}", lambda: (blobs, {"registers": 128}))
    assert entry.blobs == blobs and entry.facts == {"registers": 128}
"""


def test_j2_a_number_of_the_spec_is_in_the_key():
    two, three = attnspec.build(PARTS), attnspec.build(PARTS, parts=3)
    assert cache_key(two.spec, "sm100", {}) != cache_key(three.spec, "sm100", {})
    assert stages.kernel(two, "reference") is not stages.kernel(three, "reference")


def test_j3_processes_that_write_one_key_at_once_read_whole_entries(tmp_path):
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path)]) for _ in range(2)]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key0", "key1", "key2", "key3"]


def test_j3_another_architecture_is_another_key():
    found = attnspec.build(PARTS).spec
    assert cache_key(found, "sm100", {"arch": "sm_100a"}) != cache_key(found, "sm100", {"arch": "sm_103a"})


def test_j4_lengths_of_any_integer_type_compile_once(monkeypatch):
    attention = attnspec.build("attention lengths\nhead_dim 8\nmask = causal and kv > 1\n")
    made = []
    make = stages.make_kernel
    monkeypatch.setattr(stages, "make_kernel", lambda *arguments: made.append(1) or make(*arguments))
    for length in range(1, 51):
        inputs = draw_inputs(attention.spec, Shape(1, 1, 1, length, length))
        whole = [length + 3, torch.tensor(length + 3), np.int64(length + 3)][length % 3]
        attention(inputs.q, inputs.k, inputs.v, len_kv=whole)
    assert len(made) == 1


def test_j5_a_target_that_cannot_run_is_an_error_and_never_a_fallback():
    q = torch.zeros(1, 1, 1, 16, dtype=torch.bfloat16)
    for target in ("sm100", "sm90"):
        with pytest.raises(attnspec.TargetError):
            attnspec.build(PARTS, target=target)(q, q, q)
    wide = torch.zeros(1, 1, 1, 256, dtype=torch.bfloat16)
    with pytest.raises(attnspec.TargetError, match="head_dim 256"):
        attnspec.build("attention wide\nhead_dim 256\n", on="emulator", ctas=2)(wide, wide, wide)


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("mask = kw <= q", ["unknown", "kw", "<text>:3:8"]),
        ("score = softcap(score, 5.0", ["<text>:3"]),
        ("mask = q + kv", ["<text>:3:8", "bool"]),
        ("score = softcap(score, 0.0)", ["<text>:3", "cap > 0"]),
        ("score = softcap(score, -2.0)", ["<text>:3", "cap > 0"]),
        ("mask = window(-1, 0)", ["<text>:3", "left"]),
        ("learned bias", ["<text>:3"]),
    ],
)
def test_j7_a_wrong_statement_is_named_with_its_place(statement, words):
    text = f"attention wrong\nhead_dim 16\n{statement}\n"
    with pytest.raises(attnspec.SpecError) as error:
        attnspec.build(text)
    assert all(word in str(error.value) for word in words)


def test_j7_a_head_dim_that_no_kernel_has_is_an_error():
    with pytest.raises(attnspec.SpecError, match="head_dim"):
        attnspec.build("attention wrong\nhead_dim 12\n")


def test_j7_q_of_double_precision_is_an_error_with_both_types():
    q = torch.zeros(1, 1, 1, 16, dtype=torch.float64)
    with pytest.raises(attnspec.ArgumentError, match=r"q: dtype torch\.float64, wanted torch\.bfloat16"):
        attnspec.build(PARTS)(q, q, q)


def test_j7_q_and_k_of_two_types_are_an_error():
    q = torch.zeros(1, 1, 1, 16, dtype=torch.bfloat16)
    with pytest.raises(attnspec.ArgumentError, match=r"k: dtype torch\.float16, wanted torch\.bfloat16"):
        attnspec.build(PARTS)(q, q.half(), q)


def test_j7_an_unknown_target_is_an_error_that_lists_the_known():
    with pytest.raises(attnspec.ArgumentError, match="'sm75', wanted one of sm100, sm90, reference"):
        attnspec.build(PARTS, target="sm75")


def test_j7_nothing_heavy_is_imported_before_a_spec_is_known_to_be_good():
    program = (
        "import sys, attnspec\n"
        "try: attnspec.build('attention wrong\\nhead_dim 12\\n')\n"
        "except attnspec.SpecError: pass\n"
        "print([name for name in ('torch', 'numpy', 'cutlass', 'networkx') if name in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
