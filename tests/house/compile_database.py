#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes BUILD/tidy/compile_commands.json: that of BUILD with an entry for each source of a joined file (TENON_UNITY).
Invariant: a source of the build tree's entries has one entry, with the flags it is compiled with but for what is another
compiler's: its memory, and precompiled headers, which also hide what is not included.
"""
import json
import pathlib
import re
import sys

FOREIGN = re.compile(r" --param=ggc-\S+| -Winvalid-pch -include \S+/cmake_pch\.hxx")
JOINED = re.compile(r'^#include "(.+\.cpp)"$', re.MULTILINE)


def entries(entry):
    """The entry itself, or one for each source that it joins."""
    file = pathlib.Path(entry["file"])
    entry = {**entry, "command": FOREIGN.sub("", entry["command"])}
    if file.parent.name != "Unity":
        return [entry]
    sources = JOINED.findall(file.read_text())
    return [{**entry, "file": source, "command": entry["command"].replace(str(file), source)} for source in sources]


def main():
    build = pathlib.Path(sys.argv[1])
    database = json.loads((build / "compile_commands.json").read_text())
    (build / "tidy").mkdir(exist_ok=True)
    text = json.dumps([part for entry in database for part in entries(entry)], indent=1)
    (build / "tidy" / "compile_commands.json").write_text(text)


if __name__ == "__main__":
    main()
