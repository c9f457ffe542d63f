#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the fenced blocks of a document. What follows the language says how a block is checked:

    cpp, c   run          a whole program: compiled, linked, run; must exit with 0
             compile      a whole translation unit: compiled
             part=NAME    pieces of one function body; all of one name make a program that is run
    cmake    configure    a whole CMakeLists.txt: configured and built against an installed Tenon
    sh       run          run by bash in an empty folder, the `tenon` command in PATH
    toml, json            parsed (no mark needed)
    text     output       what the program or commands before it print; '…' stands for anything
    any      no-check: REASON
Invariant: a block of code that nobody checks is a finding, and so is a mark that nobody knows.
"""
import argparse
import json
import pathlib
import sys
import tempfile
import tomllib

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "docs" / "gen")]
import blocks  # noqa: E402
import runner  # noqa: E402

MARKS = {"cpp": ("run", "compile", "part="), "c": ("run", "compile"), "cmake": ("configure",), "sh": ("run",),
         "toml": ("",), "json": ("",), "text": ("", "output")}


def unknown(block):
    """Why nobody would check this block, or None."""
    if block.quote:
        return None  # docs/generate.py --check keeps it equal to a source that is built
    if block.mark.startswith("no-check"):
        reason = block.mark.removeprefix("no-check").removeprefix(":").strip()
        return None if reason else "no-check needs its reason: 'no-check: why'"
    if block.language not in MARKS:
        return f"the language '{block.language}' is not one of {', '.join(MARKS)}"
    if any(block.mark == mark or (mark.endswith("=") and block.mark.startswith(mark)) for mark in MARKS[block.language]):
        return None
    said = f"the mark '{block.mark}' is not known" if block.mark else "this block is not checked"
    return f"{said}: use {', '.join(mark or 'none' for mark in MARKS[block.language])} or 'no-check: REASON'"


def single(block):
    """What runs this block on its own, as a function of a Setting, or None."""
    key = f"line{block.line}"
    if block.quote or block.mark.startswith("no-check"):
        return None
    if block.mark == "run" and block.language == "sh":
        return lambda setting: runner.shell(setting, key, block.text)
    if block.mark == "run":
        return lambda setting: runner.program(setting, key, block.language, block.text)
    if block.mark == "compile":
        return lambda setting: runner.compiled(setting, key, block.language, block.text, link=False) and None
    if block.mark == "configure":
        return lambda setting: runner.project(setting, key, block.text)
    if block.language in ("toml", "json"):
        return lambda setting: parsed(block)
    return None


def pieces(blocks_of_program, document):
    """What runs several blocks as one program; errors name the document's own lines."""
    text = "".join(f'#line {block.line + 1} "{document}"\n{block.text}' for block in blocks_of_program)
    key = f"line{blocks_of_program[0].line}"
    return lambda setting: runner.program(setting, key, "cpp", runner.PRELUDE + text + runner.EPILOGUE)


def jobs(found, document):
    """Every program of the document: where it starts, what runs it, and the output it states, or None."""
    programs, parts, latest = [], {}, None
    for block in found:
        if block.language == "text" and block.mark == "output":
            if latest is None:
                raise runner.Failed(f"{block.line}: this output follows no program")
            latest["expected"] = (latest["expected"] or "") + block.text
        elif block.mark.startswith("part=") and block.mark in parts:
            latest = parts[block.mark]
            latest["blocks"].append(block)
        elif block.mark.startswith("part="):
            latest = parts[block.mark] = {"line": block.line, "expected": None, "blocks": [block]}
            programs.append(latest)
        elif job := single(block):
            latest = {"line": block.line, "expected": None, "job": job}
            programs.append(latest)
    for program in parts.values():
        program["job"] = pieces(program["blocks"], document)
    return programs


def parsed(block):
    try:
        (tomllib if block.language == "toml" else json).loads(block.text)
    except ValueError as why:
        raise runner.Failed(f"does not parse: {why}") from why


def check(path, setting, show=False):
    """Every finding of one document, and how many programs were run."""
    name = path.name
    try:
        found = blocks.fences(path.read_text(encoding="utf-8"), name)
        todo = jobs(found, name)
    except (blocks.Malformed, runner.Failed) as why:
        return [f"{name}: {why}"], 0
    findings = [f"{name}:{block.line}: {why}" for block in found if (why := unknown(block))]
    for entry in todo:
        try:
            output = entry["job"](setting)
            if show:
                print(f"{name}:{entry['line']} prints:\n{output or ''}", end="")
            why = runner.compare(entry["expected"], output or "") if entry["expected"] is not None else None
        except runner.Failed as failure:
            why = str(failure)
        if why:
            findings.append(f"{name}:{entry['line']}: {why}")
    return findings, len(todo)


def fence(head, body):
    return f"```{head}\n{body}\n```\n"


HELLO = '#include <cstdio>\nint main() { std::puts("hello 7"); }'
CLEAN = "# A\n" + fence("cpp run", HELLO) + "prints\n" + fence("text output", "hello …") + fence("toml", "a = 1") \
    + fence("text", "anything") + fence("cpp no-check: a sketch", "auto x = ...;") + fence("sh run", "echo a; echo b") \
    + fence("text output", "…\nb") + fence("c compile", "int f(void);\nint f(void) { return 1; }")
PLANTS = [
    (fence("cpp", "int x;"), "this block is not checked"),
    (fence("cpp runn", "int x;"), "the mark 'runn' is not known"),
    (fence("rust", "fn"), "the language 'rust'"),
    (fence("cpp no-check", "x"), "no-check needs its reason"),
    (fence("cpp run", "int main() { return 1 }"), "does not compile"),
    (fence("cpp run", "int main() { return 3; }"), "exit status 3"),
    (fence("cpp run", HELLO) + fence("text output", "hello 8"), "the output differs"),
    (fence("cpp run", HELLO) + fence("text output", "hello 7\nand more"), "the output differs"),
    (fence("text output", "x"), "this output follows no program"),
    (fence("toml", "a = "), "does not parse"),
    (fence("sh run", "false | cat\ntrue"), "the commands failed"),
    ("```cpp run\nint main() {}\n", "never closed"),
]


def self_test(setting):
    failures = []
    for text, expected in [(CLEAN, None)] + PLANTS:
        path = setting.work / "doc.md"
        path.write_text(text, encoding="utf-8")
        findings, _ = check(path, setting)
        if expected is None and findings:
            failures.append(f"the clean document was reported: {findings}")
        if expected and not any(expected in finding for finding in findings):
            failures.append(f"no finding says '{expected}', only {findings}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--show", action="store_true", help="print what each program prints")
    parser.add_argument("--build", type=pathlib.Path, help="a build of this tree, with bin/ and lib/")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--flags", default="", help="compiler flags the build was made with")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="snippets-") as work:
        setting = runner.Setting(HERE.parents[2], options.build and options.build.resolve(), pathlib.Path(work),
                                 options.cxx, options.cc, tuple(options.flags.split()))
        if options.self_test:
            findings, told = self_test(setting), f"{len(PLANTS)} planted mistakes caught"
        else:
            results = [check(path, setting, options.show) for path in options.documents]
            findings = [finding for found, _ in results for finding in found]
            told = f"{len(results)} documents, {sum(count for _, count in results)} snippets: all as stated"
    for finding in findings:
        print(finding)
    print(told if not findings else f"{len(findings)} findings")
    return 1 if findings or (not options.documents and not options.self_test) else 0


if __name__ == "__main__":
    sys.exit(main())
