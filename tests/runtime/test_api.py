import subprocess
import sys

import pytest
import torch

import attnspec
from attnspec import stages

TEXT = "attention small\nhead_dim 16\nconst n = 2\nmask = kv % n == 0\n"


def program(text):
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_loads_no_part_of_it_and_is_quick():
    text = (
        "import sys, time; before = set(sys.modules); start = time.perf_counter(); import attnspec\n"
        "seconds = time.perf_counter() - start\n"
        "print([name for name in set(sys.modules) - before if 'attnspec.' in name or name == 'torch'], seconds < 0.05)\n"
    )
    assert program(text) == "[] True"


def test_every_exported_name_is_there():
    assert all(getattr(attnspec, name) is not None for name in attnspec.__all__)
    assert set(attnspec.__all__) <= set(dir(attnspec))
    with pytest.raises(AttributeError, match="no attribute 'bild'"):
        _ = attnspec.bild


def test_a_path_a_text_and_a_spec_build_the_same_variant(tmp_path):
    path = tmp_path / "small.attn"
    path.write_text(TEXT)
    by_text = attnspec.build(TEXT)
    assert attnspec.build(path).spec == attnspec.build(str(path)).spec == attnspec.build(by_text.spec).spec == by_text.spec


def test_constants_are_overridden_by_keyword():
    assert attnspec.build(TEXT, n=3).spec.constants[0].value == 3
    with pytest.raises(attnspec.SpecError, match="no constant `m`"):
        attnspec.build(TEXT, m=3)


@pytest.mark.parametrize("spec", [None, 3, TEXT.encode(), ["attention x"]])
def test_what_is_no_spec_is_an_error_that_says_what_is_wanted(spec):
    with pytest.raises(attnspec.ArgumentError, match=f"spec: a path, the text.* wanted, got {type(spec).__name__}"):
        attnspec.build(spec)


def test_the_name_of_a_standard_variant_is_told_how_to_build_it(tmp_path, monkeypatch):
    with pytest.raises(attnspec.ArgumentError, match=r"no file .causal. here; .* attnspec\.build\(attnspec\.variants\.path"):
        attnspec.build("causal")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "causal").write_text(TEXT)
    assert attnspec.build("causal").spec.name == "small"


def test_modules_are_there_without_an_import_of_their_own():
    text = "import attnspec; print(attnspec.variants.path('causal').name, attnspec.nn.Attention.__name__)"
    assert program(text) == "causal.attn Attention"


def test_a_variant_says_what_it_is():
    attention = attnspec.build("attention shown\nhead_dim 64\nlearned w: f32\nscore = score * w\n")
    assert repr(attention) == "<attnspec.Attention shown: head_dim 64, bf16, w: f32>"
    assert attention.learned == ("w",)


def test_variants_of_one_meaning_share_a_kernel():
    renamed = TEXT.replace("small", "other").replace(" n ", " m ").replace("% n", "% m")
    first, second = attnspec.build(TEXT), attnspec.build(renamed)
    assert stages.kernel(first, "reference") is stages.kernel(second, "reference")


def test_a_variant_with_other_tensor_names_but_one_kernel_gets_its_own_tensors():
    text = "attention named\nhead_dim 16\ninput {0}: f32\ninput {1}: f32\nscore = score * 0.0 + {0} - {1}\n"
    texts = [text.format(*names) for names in ("xy", "yx")]
    q = torch.zeros(1, 1, 1, 16, dtype=torch.bfloat16)
    lse = [attnspec.build(text)(q, q, q, return_lse=True, x=3.0, y=1.0)[1].item() for text in texts]
    assert lse == [2.0, -2.0]


def test_a_call_on_another_device_is_an_error_that_names_it():
    q = torch.zeros(1, 1, 1, 16, dtype=torch.bfloat16, device="meta")
    with pytest.raises(attnspec.TargetError, match="q is on meta: attnspec runs on CUDA GPUs"):
        attnspec.build(TEXT)(q, q, q)


def test_without_gradients_nothing_is_kept():
    q = torch.zeros(1, 1, 1, 16, dtype=torch.bfloat16, requires_grad=True)
    with torch.no_grad():
        assert not attnspec.build(TEXT)(q, q, q).requires_grad


@pytest.mark.parametrize("wanted", ["out", "lse"])
def test_either_result_alone_can_be_differentiated(wanted):
    q = torch.ones(1, 3, 1, 16, dtype=torch.bfloat16, requires_grad=True)
    out, lse = attnspec.build(TEXT)(q, q.detach(), q.detach(), return_lse=True)
    (out if wanted == "out" else lse).float().sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()
