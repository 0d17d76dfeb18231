"""A cursor over the tokens of a PTX text."""

from attnspec.emulator.errors import EmulatorError
from attnspec.emulator.ptx.lexer import Token, tokens
from attnspec.emulator.ptx.operands import Immediate


class Reader:
    """at: index of the token at hand."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokens(text)
        self.at = 0

    @property
    def next(self) -> Token:
        """The token at hand."""
        if self.at >= len(self.tokens):
            raise EmulatorError("the PTX text ends in the middle of a statement")
        return self.tokens[self.at]

    def take(self, text: str | None = None) -> Token:
        """The token at hand, which must be `text` if that is given."""
        token = self.next
        if text is not None and token.text != text:
            raise EmulatorError(f"PTX line {token.line}: wanted `{text}`, found `{token.text}`")
        self.at += 1
        return token

    def accept(self, text: str) -> bool:
        """Take the token at hand if it is `text`."""
        if self.at < len(self.tokens) and self.tokens[self.at].text == text:
            self.at += 1
            return True
        return False

    def rest_of_line(self) -> list[Token]:
        """Take all that stands on the line of the last token taken."""
        line, start = self.tokens[self.at - 1].line, self.at
        while self.at < len(self.tokens) and self.tokens[self.at].line == line:
            self.at += 1
        return self.tokens[start : self.at]

    def integer(self) -> int:
        """A signed integer or the bits of a float."""
        negative = self.accept("-")
        value = number(self.take())
        return -value.value if negative else value.value


def number(token: Token) -> Immediate:
    """A literal; of floats the bits."""
    text = token.text.rstrip("U")
    if token.kind != "number":
        raise EmulatorError(f"PTX line {token.line}: wanted a number, found `{token.text}`")
    if text[:2] in ("0f", "0F"):
        return Immediate(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D"):
        return Immediate(int(text[2:], 16), 64)
    return Immediate(int(text, 0))
