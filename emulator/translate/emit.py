"""Operations of a block to the text of a Python function.

Pure operations of one shape that are ready at the same time become one numpy operation on an array of shape (n, 32): a block
that treats 128 registers alike costs as much as one that treats a few. Acts keep their order; a pure operation is placed before
the first act that needs it, together with all others that are ready by then, also those that stand later in the text.
"""

from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from attnspec.emulator.errors import KernelFault
from attnspec.emulator.instructions.rule import BITS, DTYPES, LANES
from attnspec.emulator.translate.build import Built
from attnspec.emulator.translate.order import Queue, batch_of
from attnspec.emulator.translate.values import (
    Action,
    Constant,
    Given,
    Half,
    LiveIn,
    Many,
    Operation,
    Pair,
    Perhaps,
    Result,
    Value,
)

SMALLEST_GROUP = 3


@dataclass(frozen=True, eq=False)
class Group:
    """An array whose rows are results. members: position of each in it."""

    name: str
    type: str


@dataclass
class Emitter:
    """Lines of one function. namespace: what its text refers to by name."""

    namespace: dict[str, Any]
    interned: dict[Hashable, str]
    lines: list[str] = field(default_factory=list)
    names: dict[tuple[Value, str], str] = field(default_factory=dict)
    rows: dict[Result, tuple[Group, int]] = field(default_factory=dict)
    held: list[Action] = field(default_factory=list)
    count: int = 0

    def body(self, built: Built) -> None:
        """All operations of a block, acts in order."""
        queue = Queue(built.operations)
        actions = [operation for operation in built.operations if isinstance(operation, Action)]
        while actions:
            action = actions[0]
            if queue.waits_for(action):
                self.flush(queue)
            if queue.waits_for(action):
                self.settle(queue)
                self.flush(queue)
            batch = batch_of(actions, queue)
            if len(batch) > 1:
                self.batch(batch)
            else:
                self.act(action)
            if action.settles:
                self.release(queue)
            for one in batch:
                actions.remove(one)
                if one.pending:
                    self.held.append(one)
                else:
                    queue.done(one)
        self.flush(queue)
        if queue.is_incomplete():
            self.settle(queue)
            self.flush(queue)

    def settle(self, queue: Queue) -> None:
        """Results that are still on their way are needed now."""
        self.lines.append("w.settle_loads()")
        self.release(queue)

    def release(self, queue: Queue) -> None:
        """What was on its way has arrived."""
        for action in self.held:
            queue.done(action)
        self.held.clear()

    def flush(self, queue: Queue) -> None:
        """Every pure operation whose inputs are there."""
        while ready := queue.take():
            shapes: dict[Any, list[Operation]] = defaultdict(list)
            for operation in ready:
                single = operation.merges or len(operation.outputs) != 1
                shapes[operation if single else shape_of(operation)].append(operation)
            for group in shapes.values():
                if len(group) < SMALLEST_GROUP:
                    for operation in group:
                        self.single(operation)
                else:
                    self.group(group)
            for operation in ready:
                queue.done(operation)

    def fresh(self, letter: str) -> str:
        """A new name."""
        self.count += 1
        return f"{letter}{self.count}"

    def bind(self, letter: str, text: str) -> str:
        """A new name for an expression."""
        name = self.fresh(letter)
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, array: np.ndarray) -> str:
        """A name for an array known now; equal arrays share one."""
        array.flags.writeable = False
        return self.intern(("constant", array.dtype.str, array.shape, array.tobytes()), array)

    def intern(self, key: Hashable, thing: Any) -> str:
        """A name for a thing in the namespace, one for all of a key."""
        name = self.interned.get(key)
        if name is None:
            name = self.interned[key] = f"K{len(self.interned)}"
            self.namespace[name] = thing
        return name

    def single(self, operation: Operation) -> None:
        """One operation on (32,) arrays."""
        text = operation.code.format(*(self.input(value, type) for value, type in operation.inputs))
        names = [self.fresh("v") for _ in operation.outputs]
        self.lines.append(f"{', '.join(names)} = {text}")
        for result, name in zip(operation.outputs, names, strict=True):
            self.names[result, result.type] = name

    def group(self, operations: list[Operation]) -> None:
        """Many operations of one shape at once."""
        inputs: list[str] = []
        for position, (_, type) in enumerate(operations[0].inputs):
            values = (operation.inputs[position][0] for operation in operations)
            inputs.append(self.packed(tuple(value for value in values if isinstance(value, Value)), type))
        output = operations[0].outputs[0]
        name = self.bind("g", operations[0].code.format(*inputs))
        columns = zip(*(operation.inputs for operation in operations), strict=True)
        if all(all(value is column[0][0] or isinstance(value, Constant) for value, _ in column) for column in columns):
            # No input has a row an operation, so neither has the result.
            name = self.bind("g", f"np.array(np.broadcast_to({name}, ({len(operations)}, {LANES})))")
        group = Group(name, output.type)
        for row, operation in enumerate(operations):
            self.rows[operation.outputs[0]] = (group, row)

    def input(self, value: Value | Many, type: str) -> str:
        """An operation's input as an expression."""
        return self.packed(value.items, type, whole=True) if isinstance(value, Many) else self.value(value, type)

    def value(self, value: Value, type: str) -> str:
        """A name for a value seen as a type of its width."""
        name = self.names.get((value, type))
        if name is None:
            name = self.names[value, type] = self.make(value, type)
        return name

    def make(self, value: Value, type: str) -> str:
        """Compute a value that has no name of that type yet."""
        match value:
            case Constant(bits, number):
                dtype = np.uint8 if bits == 1 else DTYPES[f"u{bits}"]
                bits_of = np.full(LANES, number, dtype)
                return self.constant(bits_of.astype(np.bool_) if type == "pred" else bits_of.view(DTYPES[type]))
            case LiveIn(bits, index):
                if type != unsigned(bits):
                    return self.view(self.value(value, unsigned(bits)), type)
                name = self.bind("v", f"R[{index}]")
                self.lines.append(f"if {name} is None: {name} = undefined(w, {index}, T_{unsigned(bits)})")
                return name
            case Perhaps(bits, index):
                return self.bind("v", f"R[{index}]")
            case Given(bits, given):
                return self.bind("v", f"S[{given!r}].astype(T_{type}, copy=False)")
            case Pair(bits, low, high):
                half = bits // 2
                text = f"join{half}({self.value(low, f'u{half}')}, {self.value(high, f'u{half}')})"
                return self.view(self.bind("v", text), type)
            case Half(bits, whole, which):
                return self.view(self.bind("v", f"{self.value(whole, f'u{whole.bits}')}.view(T_u{bits})[..., {which}::2]"), type)
            case Result():
                if value in self.rows:
                    group, row = self.rows[value]
                    self.names[value, value.type] = self.bind("v", f"{group.name}[{row}]")
                return self.view(self.names[value, value.type], type) if type != value.type else self.names[value, type]
            case _:
                raise TypeError(f"{value} has no text")

    def view(self, name: str, type: str) -> str:
        """The same bits as another type."""
        return self.bind("v", f"{name}.view(T_{type})")

    def packed(self, values: tuple[Value, ...], type: str, whole: bool = False) -> str:
        """Values as the rows of one array; a single shared value is left to broadcasting, unless `whole` asks for all rows."""
        first = values[0]
        if not whole and all(value is first for value in values):
            return self.value(first, type)
        if all(isinstance(value, Constant) for value in values):
            numbers = np.array([value.value for value in values if isinstance(value, Constant)], DTYPES[f"u{BITS[type]}"])
            column = numbers[:, None].view(DTYPES[type])
            return self.constant(np.repeat(column, LANES, 1) if whole else column)
        places = [self.rows.get(value) for value in values if isinstance(value, Result)]
        groups = {place[0] for place in places if place is not None}
        if len(places) == len(values) and None not in places and len(groups) == 1:
            return self.rows_of(groups.pop(), [place[1] for place in places if place is not None], type)
        pieces = [self.piece(run, type) for run in self.runs(values)]
        if len(pieces) > len(values) // 2:
            return self.bind("g", f"np.array(({', '.join(self.value(value, type) for value in values)},))")
        return self.bind("g", f"np.concatenate(({', '.join(pieces)},))")

    def runs(self, values: tuple[Value, ...]) -> list[list[Value]]:
        """Values cut where one is not the next row of the array that its forerunner is a row of."""
        found: list[list[Value]] = []
        for value in values:
            here = self.rows.get(value) if isinstance(value, Result) else None
            last = found[-1][-1] if found else None
            before = self.rows.get(last) if isinstance(last, Result) else None
            if here is not None and before is not None and here == (before[0], before[1] + 1):
                found[-1].append(value)
            else:
                found.append([value])
        return found

    def piece(self, run: list[Value], type: str) -> str:
        """A run as an array of rows."""
        if len(run) == 1:
            return f"{self.value(run[0], type)}[None]"
        places = [self.rows[value] for value in run if isinstance(value, Result)]
        return self.rows_of(places[0][0], [place[1] for place in places], type)

    def rows_of(self, group: Group, rows: list[int], type: str) -> str:
        """Some rows of a group, by slice where they are evenly spaced."""
        step = rows[1] - rows[0] if len(rows) > 1 else 1
        if step > 0 and rows == list(range(rows[0], rows[-1] + 1, step)):
            text = f"{group.name}[{rows[0]}:{rows[-1] + 1}:{step}]"
        else:
            text = f"{group.name}[{self.constant(np.array(rows))}]"
        return self.bind("g", text if type == group.type else f"{text}.view(T_{type})")

    def batch(self, actions: list[Action]) -> None:
        """Acts that commute, as one; should it fail, they are done one by one to find the culprit."""
        first = actions[0]
        call, name = self.intern(first.call, first.call), self.fresh("g")
        values = tuple(value for action in actions for value, _ in action.inputs if isinstance(value, Value))
        packed = self.packed(values, first.inputs[0][1], whole=True)
        places = self.constant(np.array([action.at for action in actions]))
        self.lines.append(f"{name} = together(w, m, {call}, {packed}, {places})")
        group = Group(name, first.outputs[0].type)
        self.rows |= {action.outputs[0]: (group, row) for row, action in enumerate(actions)}

    def act(self, action: Action) -> None:
        """A call into the machine; with a guard, only if a lane takes part."""
        call = self.intern(action.call, action.call)
        inputs = "".join(f", {self.input(value, type)}" for value, type in action.inputs)
        names = [self.fresh("g" if action.rows else "v") for _ in (action.outputs[:1] if action.rows else action.outputs)]
        target = f"{', '.join(names)} = " if names else ""
        self.lines.append(f"w.at = {action.at}")
        if action.guard is None:
            lines = [f"{target}{call}(w, m{inputs})"]
        else:
            guard = self.value(action.guard, "pred")
            self.lines.append(f"a = {guard} if m is None else {guard} & m")
            lines = ["if a.any():", f"    {target}{call}(w, a{inputs})"]
            if names:
                zero = f"np.zeros(({len(action.outputs)}, {LANES}), T_{action.outputs[0].type})"
                lines += ["else:", f"    {target}{zero}" if action.rows or len(names) > 1 else f"    {target}{zero}[0]"]
        self.lines += lines
        if action.blocking:
            tested = names[0] if names else self.fresh("b")
            if not names:
                self.lines[-1] = self.lines[-1].replace(f"{call}(", f"{tested} = {call}(", 1)
                if action.guard is not None:
                    self.lines.insert(-2, f"{tested} = None")
            self.lines.append(f"if {tested} is BLOCKED: return -2")
        if action.rows:
            group = Group(names[0], action.outputs[0].type)
            self.rows |= {result: (group, row) for row, result in enumerate(action.outputs)}
        else:
            self.names |= {(result, result.type): name for result, name in zip(action.outputs, names, strict=True)}


def together(warp: Any, mask: Any, call: Any, rows: Any, places: Any) -> Any:
    """An act on all rows at once."""
    warp.at = int(places[0])
    try:
        return call(warp, mask, rows)
    except KernelFault:
        for row, warp.at in zip(rows, places.tolist(), strict=True):
            call(warp, mask, row)
        raise


def unsigned(bits: int) -> str:
    """The type in which a register is kept between blocks."""
    return "pred" if bits == 1 else f"u{bits}"


def shape_of(operation: Operation) -> tuple[Any, ...]:
    """What operations must share to be done at once."""
    return operation.code, tuple(type for _, type in operation.inputs), operation.outputs[0].type
