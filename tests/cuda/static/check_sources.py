#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sources.py [FOLDER] [--writer PROGRAM] [--chips 90,…] [--self-test]: what NVRTC makes of generated sources.

Every source becomes a CUBIN for every chip; the assembler's log must tell of no spill and of at most 160 registers
(63 loads of 8 bytes are in flight at once in the widest group), and the instructions of an entry called …_wide must hold
the wide accesses that its text asks for. Sources come from FOLDER (the plugin keeps what it compiles where option
cuda.keep says) or from the writer of examples. TENON_TEST_FULL=1 takes every chip and every example, else sm_90 and a part
of them. Of a FOLDER's sources, which come in every size, the widths are not asked; they are thousands, so at most 600 of
them are compiled, evenly chosen, for sm_90 and in a full run for one other chip, in turn. Invariant: a check that finds nothing to check fails.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import cubin
import nvrtc

CHIPS = [75, 80, 86, 89, 90, 100, 120]
REGISTERS = 160
MOST = 600   # of a folder
SHORT = 12  # every so many sources in a short run; the first of each kind always
# What is found in a column takes 16 bytes of registers, so a thread takes 8 columns, which of 1-byte types are 8 bytes.
EIGHT = re.compile(r"argmax_[iu]8_\w*columns")
FUNCTION = re.compile(r"Compiling entry function '(\w+)'(.*?)Used (\d+) registers", re.S)
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
ENTRY = re.compile(r"^TN_ENTRY\((\w+), \w+\) \{\n(.*?)^\}", re.S | re.M)
WIDE_LOAD, WIDE_STORE = re.compile(r"\bload<\d+, (\d+), "), re.compile(r"\bstore<\d+, (\d+)>")


def check_log(log):
    """Spills and registers, by entry."""
    findings, seen = [], 0
    for name, properties, registers in FUNCTION.findall(log):
        seen += 1
        spill = SPILL.search(properties)
        if spill is None:
            findings.append(f"{name}: the assembler's log has no line about spills")
        elif spill.groups() != ("0", "0"):
            findings.append(f"{name}: spills {spill[1]} bytes")
        if int(registers) > REGISTERS:
            findings.append(f"{name}: takes {registers} registers, at most {REGISTERS} are meant")
    return findings if seen else ["the assembler's log names no entry"]


def narrowed(text):
    """Whether all that is loaded in words are integers of 64 bits of which a cast keeps the lower part: of those the
    assembler loads that part alone."""
    wide = re.findall(r"x(\d+)\[u\] = [^;]*?\bload<\d+, (?:8|16), ", text)
    for number in set(wide):
        whole = re.search(rf"Lanes<[iu]64, \d+> x{number}\[", text)
        uses = re.findall(rf"\bt{number}\b(?! =)", text)
        casts = re.findall(rf"cast<[iu](?:8|16|32)>\(t{number}\)", text)
        if not whole or len(uses) != len(casts):
            return False
    return bool(wide)


def check_widths(source, image, least):
    """Words that the text of a wide entry names are words of its code; the widest has `least` bytes."""
    findings, code = [], cubin.accesses(image)
    for name, text in ENTRY.findall(source):
        if name not in code:
            findings.append(f"{name}: not in the CUBIN")
        if not name.endswith("_wide") or name not in code:
            continue
        loads, stores = ({int(width) for width in wanted.findall(text)} for wanted in (WIDE_LOAD, WIDE_STORE))
        if max(loads | stores, default=0) < least:
            findings.append(f"{name}: its text asks for no access of {least} bytes")
        if narrowed(text):
            loads = set()
        for kind, wanted, found in (("loads", loads, code[name].loads), ("stores", stores, code[name].stores)):
            for width in sorted(wanted & {8, 16}):
                if found[width] == 0:
                    findings.append(f"{name}: {kind} of {width} bytes are asked for; the code has {dict(found)}")
    return findings


def check_source(compiler, source, name, chip, least=16):
    """`least` 0: of any size, so the code may be narrower than its text, and values may go unused."""
    made = compiler.compile(source, name, chip)
    if not made.good:
        return [f"{name} for sm_{chip} does not compile: {made.log.strip()[:400]}"]
    findings = check_log(made.log) if ENTRY.search(source) else []  # nothing to launch where nothing is computed
    if least:
        findings += check_widths(source, made.cubin, least)
    if least and "warning" in made.log:
        findings.append(made.log[made.log.index("warning"):][:200])
    return [f"{name} for sm_{chip}: {finding}" for finding in findings]


def part(files):
    """One of each kind (the name's first word) and every twelfth of the rest, for a short run."""
    kinds, out = set(), []
    for i, file in enumerate(files):
        kind = file.stem.split("_")[0]
        if kind not in kinds or i % SHORT == 0:
            out.append(file)
        kinds.add(kind)
    return out


def check_files(compiler, files, chips_of, least):
    """The findings of all files; chips_of tells the chips of the i-th."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(check_source, compiler, file.read_text(), file.name, chip,
                            min(least, 8) if EIGHT.match(file.stem) else least)
                for i, file in enumerate(files) for chip in chips_of(i)]
        return [finding for job in jobs for finding in job.result()]


def in_turn(chips):
    """sm_90, and each time another of the others."""
    others = [chip for chip in chips if chip != 90]
    return lambda i: [90, *others[i % len(others):][:1]] if others else [90]


def check_folder(compiler, folder, chips, everything, least):
    files = sorted(pathlib.Path(folder).glob("*.cu"))
    if not files:
        return [f"{folder} holds no source"]
    chosen = files[::-(-len(files) // MOST)] if not least else files if everything else part(files)
    findings = check_files(compiler, chosen, (lambda _: chips) if least else in_turn(chips), least)
    print(f"{len(chosen)} of {len(files)} sources for {', '.join(f'sm_{chip}' for chip in chips)}, NVRTC {compiler.version()}")
    return findings


def written(writer, folder, word=""):
    subprocess.run([writer, folder, *([word] if word else [])], check=True, stdout=subprocess.DEVNULL)


def check_decoder(compiler, source):
    """The instructions hold as many wide accesses as the PTX of the same source, entry by entry."""
    code = cubin.accesses(compiler.compile(source, "decoder.cu", 90).cubin)
    findings, ptx = [], compiler.ptx(source, "decoder.cu", 90)
    for name, body in re.findall(r"\.entry (\w+)\(.*?\{(.*?)\n\}", ptx, re.S):
        wanted = collections.Counter()
        for kind, vector, bits in re.findall(r"\b(ld|st)\.global\S*?(?:\.v([24]))?\.[busf](8|16|32|64)\b", body):
            wanted[kind, int(vector or 1) * int(bits) // 8] += 1
        found = {("ld", width): n for width, n in code[name].loads.items()}
        found.update({("st", width): n for width, n in code[name].stores.items()})
        if wanted != found or not wanted:
            findings.append(f"{name}: PTX has {dict(wanted)}, the decoded code {found}")
    return findings if ptx else ["no PTX"]


SPILLING = """
TN_ENTRY(step0_any, Addresses) {
  const f32* const from = static_cast<const f32*>(p.at[0]);
  f32 kept[200];
  for (int i = 0; i < 200; ++i) kept[i] = from[i * 256 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 200; ++i) static_cast<f32*>(p.at[3])[i * 256 + threadIdx.x] = kept[199 - i] * kept[i];
}
"""


def faults(source):
    """Name, planted source, and what must be said of it."""
    head = source[:source.index("TN_ENTRY(step0_wide")]
    tight = head.replace("__launch_bounds__(256, 1)", "__launch_bounds__(256, 4)")
    narrow = re.sub(r'asm\("ld\.global\.nc\.L1::no_allocate.*?\(from\)\);',
                    "out = {__ldg(&from->a), __ldg(&from->b), __ldg(&from->c), __ldg(&from->d)};", source, flags=re.S)
    slow = source.replace("load<4, 16, true>(", "load<4, 4, true>(").replace("store<4, 16>(", "store<4, 4>(")
    return [("a spill", tight + SPILLING + "}\n", "spills"),
            ("registers past the limit", head + SPILLING + "}\n", "registers, at most"),
            ("scalar loads under a wide name", narrow, "loads of 16 bytes are asked for"),
            ("a wide entry that asks for words of 4", slow, "no access of 16 bytes"),
            ("what does not compile", source.replace("add(t0", "add(unknown"), "does not compile")]


def self_test(compiler, writer):
    """The planted faults are found, and the decoder agrees with PTX, for every type that add3 is written in."""
    findings = []
    with tempfile.TemporaryDirectory() as folder:
        written(writer, folder, "add3_")
        for file in sorted(pathlib.Path(folder).glob("*.cu")):
            findings += [f"{file.name}: {finding}" for finding in check_decoder(compiler, file.read_text())]
        source = (pathlib.Path(folder) / "add3_f32.cu").read_text()
    findings += check_source(compiler, source, "good.cu", 90)
    for name, planted, wanted in faults(source):
        if planted == source:
            findings.append(f"{name} could not be planted")
        found = check_source(compiler, planted, "planted.cu", 90)
        if not any(wanted in finding for finding in found):
            findings.append(f"{name} was not found: {found}")
    return findings


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", nargs="?")
    options.add_argument("--writer")
    options.add_argument("--chips", type=lambda text: [int(chip) for chip in text.split(",")])
    options.add_argument("--self-test", action="store_true")
    chosen = options.parse_args()
    try:
        compiler = nvrtc.Nvrtc()
    except OSError as error:
        required = {"nvrtc", "all"} & set(os.environ.get("TENON_REQUIRE", "").split(","))
        print(f"SKIPPED: nvrtc: {error}")
        return 1 if required else 77
    full = os.environ.get("TENON_TEST_FULL") == "1"
    chips = chosen.chips or (CHIPS if full else [90])
    if chosen.self_test:
        findings = self_test(compiler, chosen.writer)
    elif chosen.folder:
        findings = check_folder(compiler, chosen.folder, chips, True, 0)
    else:
        with tempfile.TemporaryDirectory() as folder:
            written(chosen.writer, folder)
            findings = check_folder(compiler, folder, chips, full, 16)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
