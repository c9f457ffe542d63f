#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the table of codes in docs/conformance.md against the headers and the cases.
Invariant: each code that a function's comment documents has one row, each row a comment, and each case that a row names is
one that the kit has; a code that no case provokes says why in its row.
  check_codes.py HEADERS DOCUMENT TOOL PLUGIN.so
  check_codes.py HEADERS                        prints what the headers document
"""
import pathlib
import re
import subprocess
import sys

CODES = ("INVALID UNSUPPORTED NO_MEMORY NOT_FOUND TIMEOUT BUSY ABORTED DEVICE_LOST PEER_LOST MISMATCH VERSION INTERNAL").split()
STRUCT = re.compile(r"^struct tn_(\w+?)(?:_api)? \{(.*?)^\};|^typedef struct tn_(\w+?)(?:_api)? \{(.*?)^\} ", re.M | re.S)
FUNCTION = re.compile(r"/\*((?:(?!\*/).)*?)\*/\s*int32_t \(\*(\w+)\)", re.S)
ENTRY = re.compile(r"/\*((?:(?!\*/).)*?)\*/\s*TN_EXPORT const tn_plugin\* (tn_plugin_entry)\(", re.S)
# What a struct with functions is not about: services that the host offers.
HOSTS = {"host", "store"}
ROW = re.compile(r"^\| `(\w+\.\w+)` \| (TN_\w+) \| (.+) \|$", re.M)


def documented(folder):
    """{(function, code)} of every comment that stands before a function of a table."""
    found = set()
    for header in sorted(pathlib.Path(folder).rglob("*.h")):
        text = header.read_text()
        tables = [(match[1] or match[3], FUNCTION.findall(match[2] or match[4])) for match in STRUCT.finditer(text)]
        for table, functions in [*tables, ("plugin", ENTRY.findall(text))]:
            if table in HOSTS:
                continue
            for comment, function in functions:
                comment = re.sub(r"NULL: TN_UNSUPPORTED", "", comment)  # a function that is not there is not called
                for code in CODES:
                    if re.search(rf"\bTN_{code}\b", comment):
                        found.add((f"{table}.{function}", f"TN_{code}"))
    return found


def rows(document):
    return {(function, code): what for function, code, what in ROW.findall(pathlib.Path(document).read_text())}


def main(headers, document=None, tool=None, plugin=None):
    there = documented(headers)
    if document is None:
        print("\n".join(f"{function} {code}" for function, code in sorted(there)))
        return
    table = rows(document)
    listed = subprocess.run([tool, "conform", plugin, "--list"], capture_output=True, text=True, check=True).stdout
    wrong = [f"no row for {function} {code}" for function, code in sorted(there - set(table))]
    wrong += [f"no comment of the headers documents {function} {code}" for function, code in sorted(set(table) - there)]
    for (function, code), what in sorted(table.items()):
        case = re.fullmatch(r"`([^`]+)`", what)
        if case and case[1] not in listed:
            wrong.append(f"{function} {code}: there is no case '{case[1]}'")
        if not case and not what.startswith("no case: "):
            wrong.append(f"{function} {code}: '{what}' is neither a case in backquotes nor 'no case: WHY'")
    if wrong or not there:
        sys.exit("\n".join(wrong or ["the headers document no code: this check has gone blind"]))
    print(f"{len(table)} codes, each with its case or its reason")


if __name__ == "__main__":
    main(*sys.argv[1:])
