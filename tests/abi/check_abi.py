#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The C ABI against the committed baseline, with libabigail.

The headers are turned into a small library that refers to every public struct and constant; abidw writes
what it sees to baseline-<major>.abi (--update), abidiff compares a later tree with that (default).
Invariant: within one major version structs that begin with their size grow at the end only, all others are
frozen and named so in base.h, and no constant changes its value. The baseline freezes with the library's first
release; before it a change on purpose renews it (docs/versioning.md). --self-test plants each of these mistakes in a copy of the headers.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STRUCT = re.compile(r"^(?:typedef )?struct (tn_\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
CONSTANT = re.compile(r"^#define (TN_[A-Z0-9_]+) +((?:\(?-?[0-9]|UINT\d+_MAX|INT\d+_MAX)[^/\n]*)", re.MULTILINE)
MAY_CHANGE = {"TN_ABI_MINOR", "TN_CODE_COUNT", "TN_OP_MANY"}  # counts and versions grow by design
GROWS = re.compile(r"\s*(?:/\*.*?\*/\s*)*(?:uint32_t size;|tn_header header;)", re.DOTALL)
ABIDW = ["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs"]


def strip_comments(text):
    return re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)


def public_text(include):
    # layout.h only asserts, and would stop the self-test's wrong headers before abidiff sees them.
    headers = sorted(set((include / "tenon").rglob("*.h")) - {include / "tenon" / "layout.h"})
    return {header: header.read_text(encoding="utf-8").replace("\\\n", "") for header in headers}


def describe(include):
    """(every struct name, the ones that may grow, every constant name) of the headers."""
    structs, growing, constants = [], [], []
    for text in public_text(include).values():
        for name, body in STRUCT.findall(text):
            structs.append(name)
            if GROWS.match(body):
                growing.append(name)
        constants += [name for name, _ in CONSTANT.findall(strip_comments(text))]
    return structs, growing, [name for name in dict.fromkeys(constants) if name not in MAY_CHANGE]


def members_of(body):
    """The names of a struct's members: `tn_span send;`, `int32_t (*wait)(…);`, `const uint64_t *a, *b;`, `char name[96];`."""
    out = []
    for declaration in re.sub(r"\s+", " ", strip_comments(body)).split(";"):
        function = re.search(r"\(\*(\w+)\)\(", declaration)
        names = [function[1]] if function else re.findall(r"(\w+)(?:\[\w+\])*(?= *(?:,|$))", declaration.strip())
        out += names
    return out


def without_layout(include):
    """Structs and members that layout.h does not hold."""
    layout = (include / "tenon" / "layout.h").read_text(encoding="utf-8")
    missing = []
    for text in public_text(include).values():
        for name, body in STRUCT.findall(text):
            if f"TN_SIZE({name}, " not in layout:
                missing.append(f"TN_SIZE({name}, …)")
            missing += [f"TN_AT({name}, {member}, …)" for member in members_of(body) if f"TN_AT({name}, {member}, " not in layout]
    return missing


def without_word(include):
    """Structs that do not begin with their size and that base.h does not name among the frozen ones."""
    structs, growing, _ = describe(include)
    head = (include / "tenon" / "base.h").read_text(encoding="utf-8").split("#ifndef", 1)[0]
    named = set(re.findall(r"tn_\w+", head))
    return [name for name in structs if name not in growing and name not in named]


def dump_source(include):
    """C source that refers to everything the ABI consists of."""
    structs, _, constants = describe(include)
    headers = [header.relative_to(include) for header in public_text(include)]
    lines = [f"#include <{header}>" for header in headers]
    lines += [f"struct {name}* dump_{name};" for name in structs]
    lines.append("tn_plugin_entry_fn dump_entry;")
    # One enum a constant: abidiff overlooks a changed enumerator whose old value another one still has.
    lines.append("#define DUMP(name, value) enum dump_##name { DUMP_##name = value } dump_##name;")
    lines += [f"DUMP({name}, ({name}))" for name in constants]
    lines += ["#define TN_DTYPE(number, name, ...) DUMP(DTYPE_##name, number)", "#include <tenon/dtypes.def>",
              "#define TN_OP(number, name, ...) DUMP(OP_##name, number)", "#include <tenon/ops.def>"]
    return "\n".join(lines) + "\n"


def run(command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)


def build_dump(include, folder):
    source, library = folder / "abi_dump.c", folder / "abi_dump.so"
    source.write_text(dump_source(include), encoding="utf-8")
    done = run(["cc", "-std=gnu11", "-g", "-gdwarf-4", "-shared", "-fPIC", f"-I{include}", source, "-o", library])
    if done.returncode != 0:
        raise SystemExit(f"abi: the headers do not compile:\n{done.stderr}")
    return library


def major(include):
    text = (include / "tenon" / "base.h").read_text(encoding="utf-8")
    return int(re.search(r"#define TN_ABI_MAJOR (\d+)", text)[1])


def baseline_of(include):
    return HERE / f"baseline-{major(include)}.abi"


def update(include, target):
    with tempfile.TemporaryDirectory() as name:
        done = run(["abidw", *ABIDW, "--out-file", target, build_dump(include, pathlib.Path(name))])
        if done.returncode != 0:
            raise SystemExit(f"abi: abidw failed: {done.stderr}")
    # abidw names the compiler and its flags; neither belongs to the contract.
    text = target.read_text(encoding="utf-8")
    target.write_text(re.sub(r" (producer|path|comp-dir-path)='[^']*'", "", text), encoding="utf-8")


def only_grows(report, growing):
    """True when a leaf report of abidiff tells of nothing but members appended to structs that may grow."""
    blocks = re.split(r"^(?=')", report, flags=re.MULTILINE)
    if re.search(r"[1-9]\d* (Removed|Changed)", blocks[0]):
        return False
    for block in blocks[1:]:
        head = re.match(r"'struct (\w+)' changed:\n  type size changed from (\d+) to \d+ \(in bits\)\n"
                        r"  \d+ data member insertions?:\n((?:    '.*', at offset \d+ \(in bits\)\s*\n)+)\s*$",
                        block)
        if not head or head[1] not in growing:
            return False
        if any(int(offset) < int(head[2]) for offset in re.findall(r"at offset (\d+)", head[3])):
            return False
    return True


def compare(include, baseline):
    """What abidiff objects to, or an empty string."""
    if not baseline.exists():
        return f"{baseline.name} is missing: ./dev abi --update makes it, once per major version that is released"
    with tempfile.TemporaryDirectory() as name:
        current = pathlib.Path(name) / "current.abi"
        update(include, current)
        done = run(["abidiff", "--leaf-changes-only", "--no-added-syms", baseline, current])
    if done.returncode == 0 or only_grows(done.stdout, describe(include)[1]):
        return ""
    return done.stdout + done.stderr


def edit(include, file, old, new):
    path = include / "tenon" / file
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise SystemExit(f"abi: the self-test expects '{old}' in {file}; adapt PLANTS")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


# (what, file, text, its replacement, whether the result is compatible)
PLANTS = [
    ("a table that grows at its end", "stream.h", "int32_t code, tn_error* error);\n};",
     "int32_t code, tn_error* error);\n  int32_t (*more)(tn_stream*);\n};", True),
    ("a new constant", "base.h", "#define TN_OK 0", "#define TN_OK 0\n#define TN_NEW 77", True),
    ("a slot in the middle of a table", "stream.h", "  int32_t (*wait)(",
     "  int32_t (*sudden)(tn_stream*);\n  int32_t (*wait)(", False),
    ("a grown array element", "base.h", "  uint32_t reserved; /* zero */\n} tn_span;",
     "  uint32_t reserved; /* zero */\n  uint64_t more;\n} tn_span;", False),
    ("a grown list", "base.h", "  uint64_t count;\n} tn_string_list;", "  uint64_t count;\n  uint64_t more;\n} tn_string_list;", False),
    ("a changed type of the same size", "base.h", "  int64_t native_code;", "  double native_code;", False),
    ("a changed constant", "base.h", "#define TN_TIMEOUT 5", "#define TN_TIMEOUT 55", False),
    ("a changed signature", "device.h", "(*count)(", "(*count)(void* extra, ", False),
    ("a reused op number", "ops.def", "TN_OP( 40, add,", "TN_OP( 41, add,", False),
    ("a removed op", "ops.def", "TN_OP( 41, sub,", "TN_OP( 41, minus,", False),
]


def self_test(include):
    failures = []
    with tempfile.TemporaryDirectory() as name:
        baseline = pathlib.Path(name) / "baseline.abi"
        update(include, baseline)
        for what, file, old, new, compatible in PLANTS:
            copy = pathlib.Path(name) / "include"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(include, copy)
            edit(copy, file, old, new)
            if (compare(copy, baseline) == "") != compatible:
                failures.append(f"abi: {what}: should be {'accepted' if compatible else 'refused'}")
        copy = pathlib.Path(name) / "include"
        shutil.rmtree(copy)
        shutil.copytree(include, copy)
        edit(copy, "layout.h", "  TN_AT(tn_link, next, 0) ", "")
        edit(copy, "layout.h", "TN_SIZE(tn_span, 32)", "")
        edit(copy, "stream.h", "  int32_t (*wait)(", "  int32_t (*sudden)(tn_stream*);\n  int32_t (*wait)(")
        left_out = ["TN_AT(tn_link, next, …)", "TN_AT(tn_stream_api, sudden, …)", "TN_SIZE(tn_span, …)"]
        if sorted(without_layout(copy)) != left_out:
            failures.append(f"abi: layout.h without {left_out}: found {without_layout(copy)}")
        edit(copy, "base.h", " tn_string_list,", "")
        if without_word(copy) != ["tn_string_list"]:
            failures.append(f"abi: base.h without tn_string_list: found {without_word(copy)}")
    return failures


def main():
    parser = argparse.ArgumentParser(description="compare the C ABI with the committed baseline")
    parser.add_argument("--include", type=pathlib.Path, default=ROOT / "sdk" / "include")
    parser.add_argument("--update", action="store_true", help="write the baseline, which is frozen once it is released")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if not shutil.which("abidiff"):
        print("SKIPPED: abi: abidiff is not installed (package abigail-tools)")
        return 77  # ctest counts it as skipped
    if options.self_test:
        failures = self_test(options.include)
        print("\n".join(failures) or f"abi: {len(PLANTS)} planted changes judged rightly")
        return 1 if failures else 0
    baseline = baseline_of(options.include)
    if options.update:
        update(options.include, baseline)
        print(f"abi: wrote {baseline.relative_to(ROOT)}")
        return 0
    report = compare(options.include, baseline)
    report += "".join(f"abi: layout.h lacks {line}\n" for line in without_layout(options.include))
    report += "".join(f"abi: {name} has no size, and base.h does not name it as frozen\n" for name in without_word(options.include))
    print(report or f"abi: compatible with {baseline.name}")
    return 1 if report else 0


if __name__ == "__main__":
    sys.exit(main())
