"""When operations of a block can be placed: pure ones as soon as their inputs are there, acts in the order of the text."""

from collections import defaultdict

from attnspec.emulator.translate.values import Action, Operation, Result, Value, parts_of


def batch_of(actions: list[Action], queue: "Queue") -> list[Action]:
    """The first act, and those of its batch that follow at once and have their inputs."""
    first = actions[0]
    found = [first]
    for action in actions[1:] if first.batch is not None else ():
        if action.batch != first.batch:
            break
        if not queue.waits_for(action):
            found.append(action)
    return found


class Queue:
    """Pure operations that wait for their inputs."""

    def __init__(self, operations: list[Operation]) -> None:
        self.missing: dict[Operation, int] = {}
        self.users: dict[Operation, list[Operation]] = defaultdict(list)
        self.ready: list[Operation] = []
        self.emitted: set[Operation] = set()
        for operation in operations:
            if not isinstance(operation, Action):
                sources = self.sources(operation)
                self.missing[operation] = len(sources)
                for source in sources:
                    self.users[source].append(operation)
                if not sources:
                    self.ready.append(operation)

    @staticmethod
    def sources(operation: Operation) -> set[Operation]:
        """Operations whose results it takes."""
        values: list[Value] = [part for value, _ in operation.inputs for part in parts_of(value)]
        if isinstance(operation, Action) and operation.guard is not None:
            values += parts_of(operation.guard)
        return {value.operation for value in values if isinstance(value, Result)}

    def waits_for(self, action: Action) -> bool:
        """Whether something the act needs is not there yet."""
        return not self.sources(action) <= self.emitted

    def is_incomplete(self) -> bool:
        """Whether some operation still lacks an input."""
        return any(self.missing.values())

    def take(self) -> list[Operation]:
        """All that are ready."""
        ready, self.ready = self.ready, []
        return ready

    def done(self, operation: Operation) -> None:
        """Its results are there."""
        self.emitted.add(operation)
        for user in self.users[operation]:
            self.missing[user] -= 1
            if not self.missing[user]:
                self.ready.append(user)
