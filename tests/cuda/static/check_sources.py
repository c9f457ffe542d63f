#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_sources.py [FOLDER] [--writer PROGRAM] [--found FOLDER] [--chips 90,…] [--self-test]: what NVRTC makes of generated sources.

Every source becomes a CUBIN for every chip; the assembler's log must tell of no spill and of at most 168 registers
(what 384 threads may have; 63 loads of 8 bytes are in flight at once in the widest group), and the instructions of an entry called …_wide must hold
the wide accesses that its text asks for. Sources come from FOLDER (the plugin keeps what it compiles where option
cuda.keep says) or from the writer of examples. TENON_TEST_FULL=1 takes every chip and every example, else sm_90 and a part
of them. A FOLDER's sources are thousands, of every size: a full run compiles each distinct one for sm_90, and evenly chosen
600 of them for one other chip in turn; a short run those 600 for sm_90. What they load may go unused: a width that is not
in the code is no finding when the PTX still has it, from which the assembler takes only what is dead. A source of which
something is found stays in --found's FOLDER.
Invariant: a check that finds nothing to check fails.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import cubin
import nvrtc

CHIPS = [75, 80, 86, 89, 90, 100, 120]
REGISTERS = 168
MOST = 600   # of a folder, where not all are meant
worker_compiler = None
SHORT = 16  # every so many sources in a short run; the first of each kind always
# What is found in a column takes 16 bytes of registers, so a thread takes 8 columns, which of 1-byte types are 8 bytes.
EIGHT = re.compile(r"argmax_[iu]8_\w*columns")
FUNCTION = re.compile(r"Compiling entry function '(\w+)'(.*?)Used (\d+) registers", re.S)
SPILL = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
ENTRY = re.compile(r"^TN_(?:CROWDED_|LIGHT_)?ENTRY\((\w+), \w+\) \{\n(.*?)^\}", re.S | re.M)
LOAD = re.compile(r'\basm\((?="ld\.global)')
PLAIN = "read_only ? load_read_only(words + i) : words[i]"  # of the prelude: what may alias is loaded without a word of its own
PTX_ENTRY = re.compile(r"\.entry (\w+)\(.*?\{(.*?)\n\}", re.S)
PTX_ACCESS = re.compile(r"\b(ld|st)\.global\S*?(?:\.v([24]))?\.[busf](8|16|32|64)\b")
WIDE_LOAD, WIDE_STORE = re.compile(r"\bload(?:_again)?<\d+, (\d+)[,>]"), re.compile(r"\bstore<\d+, (\d+)>")


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


def ptx_accesses(ptx):
    """By entry, how many accesses of each kind and width."""
    return {name: collections.Counter((kind, int(vector or 1) * int(bits) // 8)
                                      for kind, vector, bits in PTX_ACCESS.findall(body))
            for name, body in PTX_ENTRY.findall(ptx)}


def check_widths(source, code, least):
    """Words that the text of a wide entry names are words of its code; the widest has `least` bytes. An entry of no
    element is asked for nothing."""
    findings = []
    for name, text in ENTRY.findall(source):
        if name not in code:
            findings.append(f"{name}: not in the CUBIN")
        if not name.endswith("_wide") or name not in code or "< 0u)" in text:
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


def keeping_loads(source):
    """The source with loads that the compiler must keep, used or not."""
    return LOAD.sub("asm volatile(", source.replace(PLAIN, "load_read_only(words + i)"))


def code_of(compiler, made, source, name, chip, least):
    """Accesses by entry. Where values may go unused, loads that are only in the PTX of a source that keeps them count."""
    code = cubin.accesses(made.cubin)
    if least or not check_widths(source, code, least):
        return code
    for entry, counts in ptx_accesses(compiler.ptx(keeping_loads(source), name, chip)).items():
        for (kind, width), count in counts.items():
            if kind == "ld" and entry in code:
                code[entry].loads[width] += count
    return code


def check_source(compiler, source, name, chip, least=16):
    """`least` 0: of any size and content, so there may be no wide word, and values may go unused."""
    made = compiler.compile(source, name, chip)
    if not made.good:
        return [f"{name} for sm_{chip} does not compile: {made.log.strip()[:400]}"]
    findings = check_log(made.log) if ENTRY.search(source) else []  # nothing to launch where nothing is computed
    findings += check_widths(source, code_of(compiler, made, source, name, chip, least), least)
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


def start_worker():
    """NVRTC compiles one source at a time in a process, so each worker is one."""
    global worker_compiler  # pylint: disable=global-statement
    worker_compiler = nvrtc.Nvrtc()


def check_file(file, chip, least):
    least = min(least, 8) if EIGHT.match(file.stem) else least
    return check_source(worker_compiler, file.read_text(), file.name, chip, least)


def check_files(jobs, least, found):
    """The findings of (file, chip) pairs; what they are of goes to folder `found`."""
    files, chips = zip(*jobs)
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), initializer=start_worker) as pool:
        told = list(pool.map(check_file, files, chips, [least] * len(jobs), chunksize=4))
    for file in {file for file, findings in zip(files, told) if findings and found}:
        pathlib.Path(found).mkdir(parents=True, exist_ok=True)
        print(f"{file.name} is kept as {shutil.copy(file, found)}")
    return [finding for findings in told for finding in findings]


def evenly(files):
    return files[::-(-len(files) // MOST)]


def distinct(files):
    """One file of each content."""
    return list({file.read_bytes(): file for file in reversed(files)}.values())[::-1]


def check_kept(folder, chips, full, found):
    """What the plugin has compiled and kept. (file, chip) pairs: sm_90 always, another chip in turn in a full run."""
    files = distinct(sorted(pathlib.Path(folder).glob("*.cu")))
    if not files:
        return [f"{folder} holds no source"]
    others = [chip for chip in chips if chip != 90] if full else []
    jobs = [(file, 90) for file in (files if full else evenly(files))]
    jobs += [(file, others[i % len(others)]) for i, file in enumerate(evenly(files)) if others]
    return report(jobs, len(files), check_files(jobs, 0, found))


def check_written(folder, chips, full, found):
    files = sorted(pathlib.Path(folder).glob("*.cu"))
    if not files:
        return [f"{folder} holds no source"]
    jobs = [(file, chip) for file in (files if full else part(files)) for chip in chips]
    return report(jobs, len(files), check_files(jobs, 16, found))


def report(jobs, there, findings):
    counts = collections.Counter(chip for _, chip in jobs)
    told = ", ".join(f"{count} for sm_{chip}" for chip, count in sorted(counts.items()))
    print(f"{len({file for file, _ in jobs})} of {there} distinct sources: {told}; NVRTC {nvrtc.Nvrtc().version()}")
    return findings


def written(writer, folder, word=""):
    subprocess.run([writer, folder, *([word] if word else [])], check=True, stdout=subprocess.DEVNULL)


def check_decoder(compiler, source):
    """The instructions hold as many wide accesses as the PTX of the same source, entry by entry."""
    code = cubin.accesses(compiler.compile(source, "decoder.cu", 90).cubin)
    findings, ptx = [], compiler.ptx(source, "decoder.cu", 90)
    for name, wanted in ptx_accesses(ptx).items():
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
    unused = re.sub(r"add\((t\d+), t\d+\)", r"add(\1, \1)", source)
    plain = unused.replace("16, true>(", "16, false>(")
    if len({source, unused, plain}) != 3 or PLAIN not in source:
        findings.append("values that go unused could not be planted")
    for text in (unused, plain):
        findings += [f"values that go unused are told: {told}" for told in check_source(compiler, text, "unused.cu", 90, 0)]
    for name, planted, wanted in faults(source):
        if planted == source:
            findings.append(f"{name} could not be planted")
        for least in (16, 0):
            found = check_source(compiler, planted, "planted.cu", 90, least)
            if not any(wanted in finding for finding in found) and (least or "no access of" not in wanted):
                findings.append(f"{name} was not found (least {least}): {found}")
    return findings


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", nargs="?")
    options.add_argument("--writer")
    options.add_argument("--found")
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
        findings = check_kept(chosen.folder, chips, full, chosen.found)
    else:
        with tempfile.TemporaryDirectory() as folder:
            written(chosen.writer, folder)
            findings = check_written(folder, chips, full, chosen.found)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
