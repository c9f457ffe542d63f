#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plugin class with one method missing or misspelt does not compile, and the first error says in one
sentence what is needed. Usage: concepts_test.py COMPILER SDK_INCLUDE
Invariant: the untouched plugin compiles, so a mistake is what makes the others fail.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]
HEADER = "#include <tenon/author/plugin.hpp>\n"
SOURCE = (pathlib.Path(__file__).parent / "concepts_plugin.cpp").read_text(encoding="utf-8")

# (text to find in the plugin, what to put there, what the first error must say)
REQUIRED = [
    ("Result<uint32_t> device_count()", "Plugin needs: Result<uint32_t> device_count()"),
    ("Status describe(", "Plugin needs: Status describe(uint32_t ordinal, tn_device_info& out)"),
    ("Made<Device> open(", "Plugin needs: Result<std::unique_ptr<Device>> open("),
    ("void limits(tn_device_limits&", "Device needs: void limits(tn_device_limits& out) const"),
    ("Status memory_info(", "Device needs: Status memory_info(tn_memory_info& out)"),
    ("Made<Memory> allocate(", "Device needs: Result<std::unique_ptr<Memory>> allocate("),
    ("Made<Stream> create_stream(", "Device needs: Result<std::unique_ptr<Stream>> create_stream"),
    ("Status supports(", "Device needs, with Kernel: Status supports("),
    ("Made<Kernel> compile(", "Device needs, with Kernel: Result<std::unique_ptr<Kernel>> compile"),
    ("uint64_t bytes()", "Memory needs: uint64_t bytes() const"),
    ("Status copy(", "Stream needs: Status copy(const tn_span& dst, const tn_span& src)"),
    ("Status fill(", "Stream needs: Status fill("),
    ("Result<uint64_t> record(", "Stream needs: Result<uint64_t> record(uint32_t flags)"),
    ("Status wait(", "Stream needs: Status wait(Stream& other, uint64_t value)"),
    ("Result<uint64_t> completed()", "Stream needs: Result<uint64_t> completed()"),
    ("Status sync(", "Stream needs: Status sync(uint64_t value, uint64_t timeout_ns)"),
    ("Status finish(uint32_t", "Stream needs: Status finish(uint32_t mode)"),
    ("void info(", "Kernel needs: void info(tn_kernel_info& out) const"),
    ("Status launch(", "Kernel needs: Status launch("),
    ("Result<uint64_t> comm_id_bytes()", "Device needs, with Comm: Result<uint64_t> comm_id_bytes()"),
    ("Status make_comm_id(", "Device needs, with Comm: Status make_comm_id("),
    ("Made<Comm> create_comm(",
     "Device needs, with Comm: Result<std::unique_ptr<Comm>> create_comm("),
    ("void limits(tn_comm_limits&", "Comm needs: void limits(tn_comm_limits& out) const"),
    ("Status submit(", "Comm needs: Status submit(Stream& stream, std::span<const tn_comm_op> ops)"),
    ("Status abort()", "Comm needs: Status abort()"),
    ("Status health()", "Comm needs: Status health()"),
    ("Status finish(uint64_t", "Comm needs: Status finish(uint64_t timeout_ns)"),
]
MISSPELT = [
    ("Result<uint64_t> record(", "uint64_t record(", "Stream needs: Result<uint64_t> record("),
    ("Result<uint64_t> timestamp(uint64_t)", "Result<double> timestamp(uint64_t)",
     "Stream may have: Result<uint64_t> timestamp("),
    ("Result<uint64_t> address()", "Status address()", "Memory may have: Result<uint64_t> address()"),
    ("Result<bool> peer(Device&)", "bool peer(Device&)", "Device may have: Result<bool> peer(Device& other)"),
    ("Status signal(", "Status signalled(", "Stream has promise and signal together, or neither"),
    ('.name = "whole"', '.name = "Whole"', "Plugin::identity.name: lower-case letters"),
    ("explicit Plugin(author::Host)", "explicit Plugin(int)",
     "Plugin needs: explicit Plugin(tenon::author::Host host)"),
]


def without(line_start):
    """The plugin with the one-line method that starts so taken away."""
    pattern = re.compile(r"^ *" + re.escape(line_start) + r".*\n", re.MULTILINE)
    text, count = pattern.subn("", SOURCE)
    assert count == 1, f"{count} lines start with {line_start!r}"
    return text


def changed(find, put):
    assert SOURCE.count(find) == 1, f"{SOURCE.count(find)} times {find!r}"
    return SOURCE.replace(find, put)


def precompiled(compiler, include, folder):
    """What the plugin includes, compiled once for all mistakes. Returns the compiler's words that make use of it."""
    header = pathlib.Path(folder) / "author.hpp"
    header.write_text(HEADER, encoding="utf-8")
    assert HEADER in SOURCE, f"the plugin does not say {HEADER!r}"
    subprocess.run([compiler, *FLAGS, f"-I{include}", "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    return ["-include", str(header), "-Winvalid-pch"]


def errors_of(compiler, words, text):
    command = [compiler, *FLAGS, "-fsyntax-only", *words, "-x", "c++", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if "error:" in line], done.returncode


def verdict(compiler, words, name, text, sentence):
    errors, code = errors_of(compiler, words, text)
    if code == 0:
        return f"{name}: compiles, but should say '{sentence}'"
    if not errors or sentence not in errors[0]:
        return f"{name}: the first error is '{errors[0] if errors else ''}', not '{sentence}'"
    if len(errors) > 3:
        return f"{name}: {len(errors)} errors drown the sentence; the second is '{errors[1]}'"
    return None


def main():
    compiler, include = sys.argv[1:]
    jobs = [(f"without {start}", without(start), sentence) for start, sentence in REQUIRED]
    jobs += [(f"with {put}", changed(find, put), sentence) for find, put, sentence in MISSPELT]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        words = [f"-I{include}", *precompiled(compiler, include, folder)]
        errors, code = errors_of(compiler, words, SOURCE)
        if code != 0:
            print(f"the whole plugin does not compile: {errors[:3]}")
            return 1
        verdicts = list(pool.map(lambda job: verdict(compiler, words, *job), jobs))
    findings = [finding for finding in verdicts if finding]
    print("\n".join(findings) or f"{len(jobs)} mistakes, each named in the first error")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
