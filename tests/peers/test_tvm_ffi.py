"""Functions compiled for TVM-FFI are launched by their own host code, which reads and checks the arguments."""

import pytest
import torch
from attnspec.emulator import launch
from attnspec.emulator.errors import EmulatorError


@pytest.fixture(scope="module")
def doubled(tmp_path_factory):
    import cutlass
    import cutlass.cute as cute

    from tests.peers.doubling import host

    def vector():
        return cute.runtime.make_fake_tensor(cutlass.Float32, (cute.sym_int(),), stride=(1,), assumed_align=16)

    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    options = f"--enable-tvm-ffi --gpu-arch sm_100a --keep-ptx --dump-dir {tmp_path_factory.mktemp('ptx')}"
    return cute.compile(host, vector(), vector(), cutlass.Int32(3), stream, options=options)


def test_it_runs_on_cpu_tensors(doubled):
    source, target = torch.arange(32.0), torch.zeros(32)
    launch(doubled, source, target, 20).check()
    assert torch.equal(target, torch.where(torch.arange(32) < 20, 2 * source, 0))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((torch.zeros(32), torch.zeros(32)), "Expects 3 parameters"),
        ((torch.zeros(32).double(), torch.zeros(32), 3), "expected dtype=float32"),
        ((torch.zeros(32), torch.zeros(32), 3.5), "expected int"),
    ],
)
def test_its_own_checks_refuse_arguments(doubled, arguments, says):
    with pytest.raises(EmulatorError, match=says):
        launch(doubled, *arguments)
