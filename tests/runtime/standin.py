"""What stands for the GPU where there is none: the emulator runs the launches of the very host function that a GPU is given."""

from pathlib import Path
from tempfile import TemporaryDirectory

from attnspec.backends.emitted import Emitted
from attnspec.emulator.launch import launch
from attnspec.runtime.assemble import compile_for_launch, load_file, quiet_settings


def function_in_emulator(emitted: Emitted):
    """As `stored_function.function_of`. The arguments are read and checked by the compiled host function itself."""
    (module,) = emitted.modules
    folder = TemporaryDirectory(prefix="attnspec-test-")
    path = Path(folder.name) / module.file_name
    path.write_text(module.text)
    with quiet_settings(folder.name):
        live = load_file(module, path)
        compiled = compile_for_launch(getattr(live, module.name), emitted.manifest, folder.name)

    def call(*arguments) -> None:
        assert folder.name
        launch(compiled, *arguments).check()

    return call
