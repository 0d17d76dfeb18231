"""What the emulator refuses, and how a kernel goes wrong."""


class EmulatorError(Exception):
    """The emulator cannot run this: an instruction, a launch or an argument it does not know. Not a fault of the kernel."""


class UnknownInstruction(EmulatorError):
    """An instruction, or a form of one, that no family describes."""

    def __init__(self, text: str, line: int, reason: str = "") -> None:
        super().__init__(f"PTX line {line}: `{text}` is not known to the emulator{': ' + reason if reason else ''}")
        self.text = text
        self.line = line


class KernelFault(Exception):
    """The kernel did what no kernel may do; the run stops. kind: a stable name, lower case, with dashes."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
