# SPDX-License-Identifier: Apache-2.0
"""Reads Markdown as this repository writes it: fenced blocks with their marks, quotes and generated parts.

    ```cpp run                                 a fence: its language, then its mark (tests/docs says which)
    <!-- quote: FILE # PHRASE -->              the next fence shows FILE, from PHRASE to where its brackets close
    <!-- generated: NAME --> … <!-- end -->    a table made from the headers
Invariant: a line inside a fence is never read as anything but text.
"""
import dataclasses
import re

FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<language>[\w+-]*)[ \t]*(?P<mark>.*)$")
QUOTE = re.compile(r"^<!-- quote: (?P<file>\S+)(?: # (?P<phrase>.+?))? -->$")
GENERATED = re.compile(r"^<!-- generated: (?P<name>.+?) -->$")
END = "<!-- end -->"


@dataclasses.dataclass
class Block:
    """One fenced block. `first` and `last` delimit its text in the document's lines, as a slice does."""
    language: str
    mark: str
    first: int
    last: int
    text: str
    quote: re.Match | None = None

    @property
    def line(self):
        return self.first  # of the opening fence, counted from 1


class Malformed(Exception):
    """A document that breaks its own syntax; the text names file, line and remedy."""


def fences(text, name="document"):
    """Every fenced block, in order."""
    lines, found, at = text.splitlines(), [], 0
    while at < len(lines):
        opening = FENCE.match(lines[at])
        if not opening:
            at += 1
            continue
        ticks = opening["ticks"]
        closing = next((i for i in range(at + 1, len(lines)) if lines[i].rstrip() == ticks), None)
        if closing is None:
            raise Malformed(f"{name}:{at + 1}: this fence is never closed")
        found.append(Block(opening["language"], opening["mark"].strip(), at + 1, closing,
                           "\n".join(lines[at + 1:closing]) + "\n", QUOTE.match(lines[at - 1]) if at else None))
        at = closing + 1
    return found


def generated(text, name="document"):
    """(name, first, last) of every generated part, as a slice of the document's lines."""
    lines = text.splitlines()
    hidden = {i for block in fences(text, name) for i in range(block.first - 1, block.last + 1)}
    found = []
    for at, line in enumerate(lines):
        opening = GENERATED.match(line) if at not in hidden else None
        if opening:
            closing = next((i for i in range(at + 1, len(lines)) if lines[i] == END), None)
            if closing is None:
                raise Malformed(f"{name}:{at + 1}: '{opening[0]}' has no '{END}'")
            found.append((opening["name"], at + 1, closing))
    return found


def replace(text, parts):
    """`text` with each (first, last, new text) put in place of its lines."""
    lines = text.splitlines()
    for first, last, new in sorted(parts, key=lambda part: part[0], reverse=True):
        lines[first:last] = new.splitlines()
    return "\n".join(lines) + "\n"


COMMENT = ("//", "/*", "*", "# ")
STRINGS = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|//.*|(?:(?<=\s)|^)# .*')


def statement(lines, phrase):
    """The statement that first says `phrase`: (first, last), comments right above it included."""
    start = next((i for i, line in enumerate(lines)
                  if phrase in line and (phrase.startswith(COMMENT) or not line.lstrip().startswith(COMMENT))), None)
    if start is None:
        raise LookupError(f"'{phrase}' is not in it")
    depth, last = 0, start
    for last in range(start, len(lines)):
        code = STRINGS.sub("", lines[last]).rstrip()
        depth += sum(code.count(c) for c in "([{") - sum(code.count(c) for c in ")]}")
        if depth <= 0 and (not code or code.endswith((";", "}", ")")) or code.startswith("#")):
            break
    indent = len(lines[start]) - len(lines[start].lstrip())
    while start > 0 and lines[start - 1].lstrip().startswith(COMMENT) \
            and len(lines[start - 1]) - len(lines[start - 1].lstrip()) == indent:
        start -= 1
    return start, last + 1


def extract(text, phrase):
    """The quoted part of a file, unindented: all of it, one statement, or 'FROM -> TO' for several."""
    lines = text.splitlines()
    if phrase:
        first, _, until = phrase.partition(" -> ")
        begin, end = statement(lines, first)
        if until:
            end = begin + statement(lines[begin:], until)[1]
        lines = lines[begin:end]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines).rstrip() + "\n"
