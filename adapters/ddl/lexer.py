"""Splits MySQL statements into tokens: enough to read table definitions and to find the tables a statement names.

sqlglot was tried and lost: it drops executable comments (`/*!80023 INVISIBLE */`, which the server obeys), keeps what
it does not know as options, and takes a quarter of a second to import.  Here a statement that is not wholly understood
is refused.
"""

from __future__ import annotations

import enum
import re

import msgspec


class Mark(enum.Enum):
    """The kind of a token.  QUOTED: in double quotes; a string, or a name where the session had ANSI_QUOTES."""

    WORD = enum.auto()
    NAME = enum.auto()
    STRING = enum.auto()
    QUOTED = enum.auto()
    NUMBER = enum.auto()
    SIGN = enum.auto()


class Token(msgspec.Struct, frozen=True):
    """One token.  `text`: a WORD as it was written, a NAME or STRING without its quotes, one character of a SIGN.
    `end`: the offset behind it in the statement.  `certain`: whether `text` is the value of a string; where it begins
    and ends is certain all the same.
    """

    mark: Mark
    text: str
    end: int = 0
    certain: bool = True

    @property
    def upper(self) -> str:
        """The keyword that it may be; '' for quoted names and strings."""
        return self.text.upper() if self.mark is Mark.WORD else self.text if self.mark is Mark.SIGN else ""


class NotPlain(Exception):
    """A statement is not wholly understood; `args[0]` says where that begins."""


_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*|--(?=\s|$)[^\n]*|/\*(?!M?!).*?\*/)
    |(?P<executable>/\*M?!(?:\d{5,6})?)
    |(?P<closing>\*/)
    |`(?P<name>(?:[^`]|``)+)`
    |(?P<quoted>"(?:[^"\\]|""|\\.)*")
    |(?P<string>(?:_[A-Za-z0-9]+\s*|[nNxXbB])?(?:'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"))
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w$]))
    |(?P<word>[\w$@]+)
    |(?P<sign>.)""",
    re.DOTALL | re.VERBOSE,
)


def tokens(statement: str, lenient: bool = False) -> list[Token]:
    """Splits a statement.  Raises NotPlain.

    Executable comments are read as plain text, as the server did: those that it did not execute it logs as plain
    comments.  `lenient`: takes a string to end where it does with backslashes that escape.  Otherwise one of which that
    is not certain raises NotPlain.
    """
    out: list[Token] = []
    for found in _TOKEN.finditer(statement):
        end = found.end()
        match found.lastgroup:
            case "name":
                out.append(Token(Mark.NAME, found["name"].replace("``", "`"), end))
            case "string":
                out.append(_string(Mark.STRING, found["string"], end, lenient))
            case "quoted":
                out.append(_string(Mark.QUOTED, found["quoted"], end, lenient))
            case "number":
                out.append(Token(Mark.NUMBER, found["number"], end))
            case "word":
                out.append(Token(Mark.WORD, found["word"], end))
            case "sign" if found["sign"] in "'\"`" and not lenient:
                raise NotPlain("a quote that nothing closes")
            case "sign":
                out.append(Token(Mark.SIGN, found["sign"], end))
    while out and out[-1].upper == ";":
        out.pop()
    return out


def without_settings(statement: str) -> str:
    """Returns the statement inside MariaDB's `SET STATEMENT variable=value, … FOR statement`; any other statement as it
    is.
    """
    if statement.lstrip()[:3].upper() != "SET":
        return statement
    reader = Reader(tokens(statement, lenient=True))
    if not reader.take("SET", "STATEMENT"):
        return statement
    while not reader.ended:
        if reader.peek() == "(":
            reader.skip_group()
        elif (token := reader.next()).upper == "FOR":
            return without_settings(statement[token.end :])
    return statement


def _string(mark: Mark, text: str, end: int, lenient: bool) -> Token:
    """Returns a string.  Whether a backslash escapes depends on the session, which a statement does not show; of one
    before a quote that decides where the string ends.
    """
    quote = text[-1]
    if "\\" + quote in text[:-1] and not lenient:
        raise NotPlain("a string with a backslash before a quote")
    value = text[text.index(quote) + 1 : -1].replace(quote * 2, quote)
    return Token(mark, value, end, lenient or (text[0] == quote and "\\" not in text))


_WORDS = {Mark.NAME: "`{}`", Mark.STRING: "'{}'"}


def _escaped(token: Token) -> str:
    quote = {Mark.NAME: "`", Mark.STRING: "'"}.get(token.mark, "")
    return token.text.replace(quote, quote * 2) if quote else token.text


class Reader:
    """A cursor in a list of tokens."""

    def __init__(self, items: list[Token]) -> None:
        self._items = items
        self._at = 0

    @property
    def ended(self) -> bool:
        """Tells whether all tokens are read."""
        return self._at >= len(self._items)

    def peek(self, ahead: int = 0) -> str:
        """Returns the keyword or sign `ahead` tokens from here, '' at the end."""
        at = self._at + ahead
        return self._items[at].upper if at < len(self._items) else ""

    def mark(self) -> int:
        """Returns the place where it is, for `return_to`."""
        return self._at

    def return_to(self, mark: int) -> None:
        """Goes back to a place."""
        self._at = mark

    def next(self) -> Token:
        """Returns the next token and goes past it.  Raises NotPlain at the end."""
        if self.ended:
            raise NotPlain("the end")
        self._at += 1
        return self._items[self._at - 1]

    def take(self, *words: str) -> bool:
        """Goes past `words` if they come next, and returns whether they did."""
        if all(self.peek(n) == word for n, word in enumerate(words)):
            self._at += len(words)
            return True
        return False

    def expect(self, *words: str) -> None:
        """Goes past `words`.  Raises NotPlain where they do not come next."""
        if not self.take(*words):
            raise NotPlain(self.rest())

    def name(self) -> str:
        """Reads a name.  Raises NotPlain."""
        token = self.next()
        if token.mark not in (Mark.WORD, Mark.NAME, Mark.QUOTED) or not token.certain:
            raise NotPlain(token.text)
        return token.text

    def number(self) -> int:
        """Reads a whole number.  Raises NotPlain."""
        token = self.next()
        if token.mark is not Mark.NUMBER or not token.text.isdigit():
            raise NotPlain(token.text)
        return int(token.text)

    def string(self) -> str:
        """Reads a string.  Raises NotPlain, also where its value is not certain."""
        token = self.next()
        if token.mark not in (Mark.STRING, Mark.QUOTED):
            raise NotPlain(token.text)
        if not token.certain:
            raise NotPlain("a string with a backslash or a prefix")
        return token.text

    def name_or_string(self) -> str:
        """Reads what may stand in quotes of either kind, as a character set.  Raises NotPlain."""
        at = self._at
        if at < len(self._items) and self._items[at].mark is Mark.STRING:
            return self.string()
        return self.name()

    def past_string(self) -> None:
        """Goes past a string whose value means nothing here, as that of a comment.  Raises NotPlain."""
        token = self.next()
        if token.mark not in (Mark.STRING, Mark.QUOTED):
            raise NotPlain(token.text)

    def skip_group(self) -> None:
        """Goes past a group in parentheses that comes next."""
        self.expect("(")
        depth = 1
        while depth:
            match self.next().upper:
                case "(":
                    depth += 1
                case ")":
                    depth -= 1

    def group(self) -> str:
        """Reads a group in parentheses and returns it as MySQL takes it; '' where the value of a text in it is not
        certain."""
        begin = self._at
        self.skip_group()
        inside = self._items[begin:self._at]
        if not all(token.certain for token in inside) or any(token.mark is Mark.QUOTED for token in inside):
            return ""
        text, before = "", 0
        for token in inside:
            apart = token.mark is not Mark.SIGN or token.end != before + 1
            text += (" " if apart and text else "") + _WORDS.get(token.mark, "{}").format(_escaped(token))
            before = token.end
        return text

    def rest(self) -> str:
        """Returns the text of the next few tokens, for an error."""
        return " ".join(t.text for t in self._items[self._at : self._at + 4]) or "the end"
