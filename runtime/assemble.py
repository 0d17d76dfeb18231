"""Emitted CuTe-DSL source to PTX and cubin; needs no driver and no GPU."""

import contextlib
import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from attnspec.backends.emitted import Emitted, Module
from attnspec.runtime.binary import Binary, read_resources
from attnspec.runtime.disassemble import disassemble, require_disassembler

from attnspec.language.diagnostics import InternalError

COMPILER = "nvidia-cutlass-dsl"
FUNCTION = "attnspec"  # the host function of an object file
DIALECTS = ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL")  # each looks for settings of its own; importing the compiler starts both
ALIGNMENT = 16  # bytes, of the start of q, k, v and out, and of their strides (TMA)


def assemble(emitted: Emitted, folder: Path, sass: bool = False) -> Binary:
    """Compile a module, whose file is written to `folder` and stays there: the compiler reads it, and so do people.

    sass: disassemble too; needs the package nvidia-cuda-nvdisasm (ModuleNotFoundError says so).
    """
    (module,) = emitted.modules
    path = folder / module.file_name
    path.write_text(module.text, encoding="utf-8")
    if sass:
        require_disassembler()
    with tempfile.TemporaryDirectory(prefix="attnspec-") as scratch, quiet_settings(scratch):
        from attnspec.backends.cute.kernel.lines import telling_lines  # loads the compiler

        live = load_file(module, path)
        with telling_lines(str(path), module.spans):
            compiled = _compile(getattr(live, module.name), emitted.manifest, scratch)
        artifacts = compiled.artifacts
        ptx, cubin = _text(artifacts.PTX), bytes(artifacts.CUBIN)
        text = disassemble(cubin, Path(scratch)) if sass and cubin else None
    if not ptx or not cubin:
        raise InternalError("the kernel compiler gave no PTX or no cubin")
    registers, frame = read_resources(cubin)
    return Binary(emitted.manifest["name"], ptx, cubin, text, registers, frame, compiled)


def load_file(module: Module, path: Path) -> ModuleType:
    """Import an emitted file from where it lies, under a name of its own text."""
    digest = hashlib.sha256(module.text.encode()).hexdigest()[:16]
    name = f"attnspec_emitted_{module.name}_{digest}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise InternalError(f"the emitted file {path} cannot be imported")
    live = importlib.util.module_from_spec(found)
    sys.modules[name] = live
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        found.loader.exec_module(live)
    finally:
        sys.dont_write_bytecode = writes
    return live


@contextlib.contextmanager
def quiet_settings(scratch: str) -> Iterator[None]:
    """The compiler's own disk cache off, its folder in `scratch`: it would make one that users of the machine share.

    It must hold while the compiler is imported, too: that is when it looks.
    """
    values = {"DISABLE_FILE_CACHING": "1", "CACHE_DIR": scratch}
    settings = {f"{dialect}_{name}": value for dialect in DIALECTS for name, value in values.items()}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def assemble_object(emitted: Emitted, folder: Path) -> bytes:
    """An object file: a module's kernels with their host function, for `load_object` of this process or another."""
    (module,) = emitted.modules
    path = folder / module.file_name
    path.write_text(module.text, encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="attnspec-") as scratch, quiet_settings(scratch):
        from attnspec.backends.cute.kernel.lines import telling_lines

        live = load_file(module, path)
        with telling_lines(str(path), module.spans):
            compiled = compile_for_launch(getattr(live, module.name), emitted.manifest, scratch)
        made = Path(scratch) / "kernel.o"
        compiled.export_to_c(str(made), function_name=FUNCTION, export_only_tvm_ffi_symbols=True)
        return made.read_bytes()


def load_object(path: Path) -> Callable[..., Any]:
    """The host function of an object file: takes torch's tensors, and launches on torch's current stream of their device."""
    with tempfile.TemporaryDirectory(prefix="attnspec-") as scratch, quiet_settings(scratch):
        from cutlass.cute.runtime import load_module

        return getattr(load_module(str(path), enable_tvm_ffi=True), FUNCTION)


def compile_for_launch(function: Any, manifest: Mapping[str, Any], scratch: str) -> Any:
    """A host function that costs a call microseconds: tensors are read by TVM-FFI, and the stream is torch's own."""
    import cutlass.cute as cute
    from cutlass import Int32
    from cutlass.cute.runtime import make_fake_stream

    options = ["--enable-tvm-ffi", f"--gpu-arch {manifest['architecture']}", "--generate-line-info", "--keep-ptx"]
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    options += [f"--dump-dir {scratch}"]
    return cute.compile(function, *fake_arguments(manifest["arguments"]), Int32(1), stream, options=" ".join(options))


def _compile(function: Any, manifest: Mapping[str, Any], scratch: str) -> Any:
    import cutlass.cute as cute
    from cutlass import Int32
    from cutlass.cute.runtime import make_fake_stream

    options = [
        f"--gpu-arch {manifest['architecture']}",
        "--keep-ptx",
        "--keep-cubin",
        "--generate-line-info",
        f"--dump-dir {scratch}",
    ]
    arguments = fake_arguments(manifest["arguments"])
    return cute.compile(function, *arguments, Int32(1), make_fake_stream(), options=" ".join(options))


def fake_arguments(rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Tensors without memory: any lengths, any strides that TMA takes, 64-bit strides; and numbers."""
    import cutlass
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_fake_tensor

    types = {
        "bf16": cutlass.BFloat16,
        "fp16": cutlass.Float16,
        "f32": cutlass.Float32,
        "i32": cutlass.Int32,
        "i64": cutlass.Int64,
        "bool": cutlass.Uint8,
    }

    def fake(row: Mapping[str, Any]) -> Any:
        if row["rank"] == 0:
            return cutlass.Int32(1)
        free = row["rank"] - (1 if row["width"] else 0)
        by_tma, dtype = row["width"] is not None or row.get("boxed", False), types[row["dtype"]]
        shape = [cute.sym_int() for _ in range(free)] + ([row["width"]] if row["width"] else [])
        step = ALIGNMENT * 8 // dtype.width if by_tma else 1
        strides = [cute.sym_int64(divisibility=step) for _ in range(row["rank"] - 1)] + [1]
        align = ALIGNMENT if by_tma else dtype.width // 8  # with less an element would be loaded and stored byte by byte
        return make_fake_tensor(dtype, tuple(shape), tuple(strides), assumed_align=align)

    return [fake(row) for row in rows]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
