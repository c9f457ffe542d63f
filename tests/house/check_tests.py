#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How tests are written: each case is named "object: sentence", once per file, without what ctest cannot
carry in a name; nothing waits by sleeping (but a script's `wait_until`, which has a limit); nothing fakes a skip
by printing. Invariant: a case that ctest would lose or split is found here, before it silently does not run.
"""
import re
import sys

import house

CASE = re.compile(r'^\s*TEST_CASE(?:_FIXTURE\(\s*[\w:<>, ]+,|\()\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', re.MULTILINE)
SLEEP = re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(")
PYTHON_SLEEP = re.compile(r"\bsleep[ (]\s*([\d.]+)")  # of a program that a script starts, too
HANGS = 60  # seconds: who sleeps so long is a program that hangs on purpose
FAKE_SKIP = re.compile(r'(puts|printf|cout)[^;\n]*"SKIPPED')


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def cases(text):
    """(line, name) of every test case; adjacent literals are one name."""
    for match in CASE.finditer(text):
        name = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match[1]))
        yield line_of(text, match.start()), name


def check_file(path, text):
    findings, seen = [], set()
    for line, name in cases(text):
        if not re.match(r"^[^:]+: \S", name):
            findings.append(f"{path}:{line}: \"{name}\" is not named 'object: sentence'")
        if ";" in name or "\\" in name:
            findings.append(f"{path}:{line}: \"{name}\": ctest cannot carry ; and \\ in a name")
        if name in seen:
            findings.append(f"{path}:{line}: \"{name}\" is there twice")
        seen.add(name)
    if not seen:
        return []  # a plugin made for a test may well hang
    for pattern, why in ((SLEEP, "a test waits for something, never for a while"),
                         (FAKE_SKIP, "use TENON_SKIP of support/skip.hpp: printing alone counts as passed")):
        findings += [f"{path}:{line_of(text, match.start())}: {why}" for match in pattern.finditer(text)]
    return findings


def check_script(path, text):
    findings = []
    for match in PYTHON_SLEEP.finditer(text):
        function = re.findall(r"^\s*def (\w+)", text[:match.start()], re.MULTILINE)[-1:]
        if float(match[1]) < HANGS and function != ["wait_until"]:
            findings.append(f"{path}:{line_of(text, match.start())}: a test waits for something, never for a while: use wait_until")
    return findings


def check(root):
    findings = []
    for path in house.files(root):
        if path.parts[:2] in (("tests", "bench"), ("tests", "support")) or path.parts[0] != "tests":
            continue
        if path.suffix in (".cpp", ".hpp", ".c"):
            findings += check_file(path, house.read(root, path))
        elif path.suffix == ".py" and path.parts[1] != "house":
            findings += check_script(path, house.read(root, path))
    return findings


TEST = 'TEST_CASE("a: b") {}\n'
CLEAN = {"tests/a.py": "import time\nHANGS = 'time.sleep(300)'\ndef wait_until(true):\n    time.sleep(0.01)\n",
         "tests/fault/hang.c": "int main(void) { for (;;) sleep(1); }\n",
         "tests/unit/pool_test.cpp": 'TEST_CASE("pool: frees, then allocates") {}\nTEST_CASE("pool: two "\n  "parts") {}\n'}
PLANTS = [
    ({"tests/unit/a_test.cpp": 'TEST_CASE("frees") {}\n'}, "is not named 'object: sentence'"),
    ({"tests/unit/a_test.cpp": 'TEST_CASE("a: b; c") {}\n'}, "ctest cannot carry"),
    ({"tests/unit/a_test.cpp": 'TEST_CASE("a: b") {}\nTEST_CASE("a: b") {}\n'}, "is there twice"),
    ({"tests/unit/a_test.cpp": TEST + "void f() { std::this_thread::sleep_for(1ms); }\n"}, "never for a while"),
    ({"tests/a.py": "def run():\n    time.sleep(0.5)\n"}, "use wait_until"),
    ({"tests/unit/a_test.cpp": TEST + 'void f() { std::puts("SKIPPED: no gpu"); }\n'}, "use TENON_SKIP"),
]

if __name__ == "__main__":
    sys.exit(house.main(check, CLEAN, PLANTS))
