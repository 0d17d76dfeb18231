"""Why a schedule is not made: the variant asks what the target cannot do, or a draft is wrong."""

from attnspec.language.source import NOWHERE, Span


class Unsupported(Exception):
    """A statement of the variant that this target cannot run, and why. For the person who wrote the file."""

    def __init__(self, statement: str, reason: str, span: Span = NOWHERE) -> None:
        self.statement = statement
        self.reason = reason
        self.span = span
        super().__init__(f"`{statement}` cannot run on this target: {reason}")


class ScheduleError(Exception):
    """A draft that `verify` refuses: a stable name of the rule, and what breaks it. A fault of ours, never of the variant."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{name}: {reason}")
