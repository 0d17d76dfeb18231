"""Tokens to kernels: declarations, scopes, labels and instructions."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.ptx.lexer import Token
from attnspec.emulator.ptx.operands import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Label,
    Negated,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Two,
    Variable,
    Vector,
)
from attnspec.emulator.ptx.reader import Reader, number
from attnspec.emulator.ptx.scope import Registers, Scope

BITS = {"pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16}
BITS |= dict.fromkeys(("b32", "u32", "s32", "f32", "f16x2", "bf16x2"), 32)
BITS |= dict.fromkeys(("b64", "u64", "s64", "f64", "f32x2"), 64) | {"b128": 128}
BRANCHES = ("bra", "bra.uni")
SPACES = ("shared", "local", "global", "const")


def parse(text: str) -> tuple[Kernel, ...]:
    """The kernels of a PTX module, in the order of the text."""
    return Parser(text).module()


@dataclass
class Body:
    """What has been read of the kernel at hand."""

    registers: Registers = field(default_factory=Registers)
    variables: list[Variable] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    source: tuple[str, int] | None = None


class Parser(Reader):
    """Recursive descent over the tokens of one module."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.target = ""
        # Their directives may come after the code that names them.
        self.files: dict[str, str] = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.MULTILINE))
        self.variables: list[Variable] = []
        self.body = Body()

    def module(self) -> tuple[Kernel, ...]:
        """All of the text."""
        kernels: list[Kernel] = []
        while self.at < len(self.tokens):
            word = self.take().text
            if word == ".target":
                self.target = self.rest_of_line()[0].text
            elif word in (".version", ".address_size") or word == ".file":
                self.rest_of_line()
            elif word == ".section":
                self.skip_braces()
            elif word == ".entry":
                kernels.append(self.entry())
            elif word == ".func":
                raise EmulatorError(f"PTX line {self.next.line}: functions other than kernels are not supported")
            elif word[1:] in SPACES:
                self.variables.append(self.variable(word[1:]))
            elif word not in (".visible", ".extern", ".weak", ".common"):
                raise EmulatorError(f"PTX line {self.tokens[self.at - 1].line}: unknown directive `{word}`")
        return tuple(kernels)

    def skip_braces(self) -> None:
        """A debug section: from the next { to its }."""
        while self.take().text != "{":
            pass
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.take().text, 0)

    def entry(self) -> Kernel:
        """.entry NAME (PARAMETERS) DIRECTIVES { BODY }"""
        name = self.take().text
        parameters: list[Variable] = []
        self.body = Body(variables=list(self.variables))
        if self.accept("("):
            while not self.accept(")"):
                self.take(".param")
                parameters.append(self.variable("param", end=""))
                self.accept(",")
        directives: dict[str, tuple[int, ...]] = {}
        while self.next.text != "{":
            word = self.take().text
            numbers: list[int] = []
            while self.next.kind == "number" or self.next.text == ",":
                token = self.take()
                if token.text != ",":
                    numbers.append(int(token.text))
            directives[word] = tuple(numbers)
        self.take("{")
        self.statements()
        body = self.body
        threads = directives.get(".reqntid")
        return Kernel(
            name=name,
            target=self.target,
            parameters=tuple(parameters),
            variables=tuple(body.variables),
            instructions=tuple(self.resolve()),
            registers=tuple(body.registers.names),
            threads=None if threads is None else (*threads, 1, 1)[:3],  # pyright: ignore[reportArgumentType]
            max_registers=directives[".maxnreg"][0] if ".maxnreg" in directives else None,
        )

    def resolve(self) -> list[Instruction]:
        """Branches with the position of their labels, each looked up from the scope the branch stands in."""
        found: list[Instruction] = []
        for instruction, scope in zip(self.body.instructions, self.body.scopes, strict=True):
            if instruction.opcode in BRANCHES:
                label = instruction.operands[0]
                position = scope.label(label.name) if isinstance(label, Label) else None
                if not isinstance(label, Label) or position is None:
                    raise EmulatorError(f"PTX line {instruction.line}: `{instruction.text}` goes to no label")
                instruction = replace(instruction, operands=(Label(label.name, position),))
            found.append(instruction)
        return found

    def variable(self, space: str, end: str = ";") -> Variable:
        """[.align N] .TYPE NAME[COUNT] [= {...}], after its space."""
        align, size = 1, 0
        while (word := self.take().text).startswith("."):
            if word == ".align":
                align = int(self.take().text)
            elif word[1:] in BITS:
                size = BITS[word[1:]] // 8
            elif word != ".ptr":
                raise EmulatorError(f"PTX line {self.next.line}: unknown `{word}` in a declaration")
        unit = size
        while self.accept("["):
            size = 0 if self.next.text == "]" else size * int(self.take().text)
            self.take("]")
        initial = b""
        if self.accept("="):
            initial = self.initial(unit)
        if end:
            self.take(end)
        return Variable(word, space, max(align, unit), size, initial)

    def initial(self, unit: int) -> bytes:
        """Values of an initialised variable, little-endian."""
        self.accept("{")
        values: list[bytes] = []
        while self.next.text not in ("}", ";"):
            if not self.accept(","):
                values.append((self.integer() % (1 << 8 * unit)).to_bytes(unit, "little"))
        self.accept("}")
        return b"".join(values)

    def statements(self) -> None:
        """Up to the closing brace; recursion is the nesting of braces."""
        while not self.accept("}"):
            token = self.take()
            if token.text == "{":
                outer, self.body.scope = self.body.scope, Scope(self.body.scope)
                self.statements()
                self.body.scope = outer
            elif token.text.startswith("."):
                self.directive(token)
            elif token.text == ";":
                continue
            elif self.next.text == ":":
                self.take(":")
                self.body.scope.labels[token.text] = len(self.body.instructions)
            else:
                self.instruction(token)

    def directive(self, token: Token) -> None:
        """A directive inside a body."""
        if token.text == ".reg":
            bits = BITS[self.take().text[1:]]
            while not self.accept(";"):
                self.declare(bits)
                self.accept(",")
        elif token.text == ".loc":
            words = self.rest_of_line()
            self.body.source = (self.files.get(words[0].text, "?"), int(words[1].text))
        elif token.text == ".pragma":
            self.take()
            self.take(";")
        elif token.text[1:] in SPACES:
            self.body.variables.append(self.variable(token.text[1:]))
        else:
            raise EmulatorError(f"PTX line {token.line}: unknown directive `{token.text}`")

    def declare(self, bits: int) -> None:
        """One register, or a family `%r<100>`."""
        name = self.take().text
        if self.accept("<"):
            self.body.scope.families[name] = bits
            self.take()
            self.take(">")
        else:
            self.body.scope.names[name] = bits

    def instruction(self, token: Token) -> None:
        """[@[!]p] OPCODE OPERANDS ;"""
        guard: Register | Negated | None = None
        start = token
        if token.text == "@":
            negated = self.accept("!")
            register = self.register(self.take())
            guard = Negated(register) if negated else register
            token = self.take()
        operands: list[Operand] = []
        branch = token.text in BRANCHES
        while self.next.text != ";":
            operands.append(Label(self.take().text, -1) if branch else self.operand())
            self.accept(",")
        end = self.take(";")
        text = " ".join(self.text[start.start : end.start].split())
        self.body.instructions.append(Instruction(token.text, tuple(operands), guard, token.line, text, self.body.source))
        self.body.scopes.append(self.body.scope)

    def register(self, token: Token) -> Register:
        """The register of that name."""
        found = self.body.registers.find(self.body.scope, token.text)
        if found is None:
            raise EmulatorError(f"PTX line {token.line}: `{token.text}` is not a declared register")
        return found

    def operand(self) -> Operand:
        """One operand."""
        token = self.next
        readers: dict[str, Callable[[], Operand]] = {"{": self.vector, "[": self.address, "!": self.negated}
        if token.text in readers:
            return readers[token.text]()
        first = self.simple()
        return Two(first, self.simple()) if self.accept("|") else first

    def simple(self) -> Operand:
        """A register, special register, symbol or number."""
        token = self.next
        if token.kind == "number" or token.text == "-":
            negative = self.accept("-")
            value = number(self.take())
            return Immediate(-value.value, value.bits) if negative else value
        token = self.take()
        if token.text == "_":
            return Sink()
        register = self.body.registers.find(self.body.scope, token.text)
        if register is not None:
            return register
        if token.text.startswith("%") or token.text == "WARP_SZ":
            return Special(token.text)
        return Symbol(token.text, self.offset())

    def offset(self) -> int:
        """+ N or - N or + -N or nothing."""
        if self.accept("+"):
            return self.integer()
        return -self.integer() if self.accept("-") else 0

    def vector(self) -> Vector:
        """{ OPERANDS }"""
        self.take("{")
        items: list[Operand] = []
        while not self.accept("}"):
            items.append(self.operand())
            self.accept(",")
        return Vector(tuple(items))

    def address(self) -> Address:
        """[ BASE +- N , PARTS ]"""
        self.take("[")
        base = self.simple()
        offset = self.offset()
        if isinstance(base, Symbol):
            base, offset = Symbol(base.name), base.offset + offset
        parts: list[Operand] = []
        while not self.accept("]"):
            self.take(",")
            parts.append(self.operand())
        if not isinstance(base, Register | Immediate | Symbol):
            raise EmulatorError(f"PTX line {self.next.line}: an address cannot start with {base}")
        return Address(base, offset, tuple(parts))

    def negated(self) -> Negated:
        """!p"""
        self.take("!")
        return Negated(self.register(self.take()))
