#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TN_TRY stays out of initialiser lists. Invariant: no TN_TRY stands between the braces that build an object: GCC
does not destroy what was built before it when it returns, and clang-format cannot lay such a list out.
"""
import re
import sys

import house

SOURCE = {".cpp", ".hpp"}
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
MARK = re.compile(r"[{}();]|\bTN_TRY\(")
# What may stand before the brace of a list, but for these words, which open a block.
BEFORE_LIST = re.compile(r"(?:=|\breturn|,|\(|[A-Za-z0-9_>\]{])$")
BEFORE_BLOCK = re.compile(r"\b(?:else|do|try|const|noexcept|override|final|mutable)$")


def blanked(text):
    """Comments and strings made into spaces, so that offsets and lines stay."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    return STRING.sub(blank, COMMENT.sub(blank, text))


def is_list(text, at):
    """Whether the brace at `at` opens an initialiser list: no statement ends directly inside."""
    before = text[:at].rstrip()[-40:]
    if not BEFORE_LIST.search(before) or BEFORE_BLOCK.search(before):
        return False
    depth = 0
    for match in re.compile(r"[{}();]").finditer(text, at):
        if match.group() == ";" and depth == 1:
            return False
        depth += {"{": 1, "(": 1, "}": -1, ")": -1}.get(match.group(), 0)
        if depth == 0:
            break
    return True


def tries_in_lists(text):
    """The offset of every TN_TRY in an initialiser list; a block inside, a lambda's, starts afresh."""
    text = blanked(text)
    open_marks = []
    for match in MARK.finditer(text):
        mark = match.group()
        if mark == "{":
            open_marks.append("list" if is_list(text, match.start()) else "block")
        elif mark in "})":
            open_marks = open_marks[:-1]
        elif mark != ";":
            since_block = open_marks[::-1].index("block") if "block" in open_marks else len(open_marks)
            if mark != "(" and "list" in open_marks[len(open_marks) - since_block:]:
                yield match.start()
            open_marks.append("call")


def check(root):
    findings = []
    for path in house.files(root):
        if path.suffix not in SOURCE:
            continue
        text = house.read(root, path)
        findings += [f"{path}:{text.count(chr(10), 0, at) + 1}: TN_TRY inside an initialiser list: take the value "
                     "first, in a statement of its own" for at in tries_in_lists(text)]
    return findings


CLEAN = {"core/a.cpp": """
Result<Pair> pair() {
  if (ready()) return TN_TRY(ready_pair());
  Pair out{.first = 1};
  out.second = TN_TRY(second());  // Pair{TN_TRY(first()), "TN_TRY("}
  const auto later = Later{[&]() -> Status { TN_TRY(second()); return {}; }};
  return out;
}
"""}
PLANTS = [({"core/a.cpp": f"Result<Pair> pair() {{\n  {line}\n}}\n"}, "core/a.cpp:2: TN_TRY")
          for line in ("return Pair{TN_TRY(first()), 2};", "Pair out{.first = 1, .second = TN_TRY(second())};",
                       "all.push_back({1, TN_TRY(second())});", "auto made = make<Pair>(Pair { TN_TRY(first()) });")]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS))
