#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the built libraries need and show.

Invariant: libtenon.so needs only libc, libstdc++, libm, libgcc and libdl, has the promised soname and shows
only tenon:: and tn_ symbols; a plugin exports tn_plugin_entry and nothing else, and one that opens its vendor's
libraries at run time needs none of them. With --self-test, wrong libraries are built and each must be found out.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

NEEDED = re.compile(r"^(libc|libstdc\+\+|libm|libgcc_s|libdl|ld-linux-x86-64|ld-linux-aarch64)\.so(\.\d+)?$")
SANITIZER = re.compile(r"^lib(asan|ubsan|tsan|lsan|clang_rt\..*)\.so")
CLOSED = ("tenon-cuda.so",)  # plugins that load on a machine without their vendor's libraries
SHOWN = re.compile(r"^(tn_|_ZN[KRO]*5tenon|_ZT[VIST]N5tenon)")


def run(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def dynamic(library, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", run("readelf", "-dW", library))


def exports(library):
    """Names of the symbols a program could bind to; version nodes (type A) are no symbols."""
    lines = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    return sorted(words[-1].split("@")[0] for words in lines if len(words) >= 3 and words[-2] != "A")


def check_needed(library, sanitized):
    return [f"{library.name}: needs {name}" for name in dynamic(library, "NEEDED")
            if not NEEDED.match(name) and not (sanitized and SANITIZER.match(name))]


def check_host(library, soname, sanitized):
    findings = check_needed(library, sanitized)
    if dynamic(library, "SONAME") != [soname]:
        findings.append(f"{library.name}: soname is {dynamic(library, 'SONAME')}, not {soname}")
    if dynamic(library, "RUNPATH") or dynamic(library, "RPATH"):
        findings.append(f"{library.name}: has a run path")
    shown = exports(library)
    if not shown:
        findings.append(f"{library.name}: shows no symbol at all")
    return findings + [f"{library.name}: shows {name}" for name in shown if not SHOWN.match(name)]


def check_plugin(library, sanitized):
    findings, shown = [], exports(library)
    if library.name in CLOSED:
        findings += check_needed(library, sanitized)
    if shown != ["tn_plugin_entry"]:
        findings.append(f"{library.name}: exports {', '.join(shown) or 'nothing'}; exactly tn_plugin_entry is expected")
    return findings


def check(folder, soname, sanitized):
    plugins = sorted((folder / "tenon" / "plugins").glob("tenon-*.so"))
    findings = check_host(folder / "libtenon.so", soname, sanitized)
    if not plugins:
        findings.append(f"no plugin was built in {folder}/tenon/plugins")
    return findings + [finding for plugin in plugins for finding in check_plugin(plugin, sanitized)]


def build(folder, name, source, *flags):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    code = folder / "source.c"
    code.write_text(source, encoding="utf-8")
    run("cc", "-shared", "-fPIC", code, "-o", path, *flags)
    return path


# (source of libtenon.so, its soname, source of the plugin, what the finding must say)
GOOD = ("int tn_host(void) { return 1; }", "libtenon.so.0", "int tn_plugin_entry(void) { return 1; }")
PLANTS = [
    (GOOD[0] + "int other(void) { return 1; }", GOOD[1], GOOD[2], "shows other"),
    ("static int tn_host;", GOOD[1], GOOD[2], "shows no symbol"),
    (GOOD[0], "libtenon.so.7", GOOD[2], "soname is"),
    ("int foreign(void); int tn_host(void) { return foreign(); }", GOOD[1], GOOD[2], "needs libforeign.so"),
    (GOOD[0], GOOD[1], GOOD[2] + "int more;", "exports more, tn_plugin_entry"),
    (GOOD[0], GOOD[1], "static int none;", "exports nothing"),
    (GOOD[0], GOOD[1], "int foreign(void); int tn_plugin_entry(void) { return foreign(); }",
     "tenon-cuda.so: needs libforeign.so"),
]


def self_test():
    failures = []
    for host, soname, plugin, expected in [(*GOOD, None)] + PLANTS:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            build(folder, "libforeign.so", "int foreign(void) { return 1; }")
            link = [f"-L{folder}", "-lforeign"] if "foreign" in host else []
            build(folder, "libtenon.so", host, f"-Wl,-soname,{soname}", *link)
            for library in ("tenon-x.so", *CLOSED):
                link = [f"-L{folder}", "-lforeign"] if "foreign" in plugin else []
                build(folder, f"tenon/plugins/{library}", plugin, *link)
            found = check(folder, GOOD[1], False)
        if (expected is None and found) or (expected and not any(expected in text for text in found)):
            failures.append(f"expected '{expected}', found {found}")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path, nargs="?", help="the folder of libtenon.so")
    parser.add_argument("--soname", default="libtenon.so.0")
    parser.add_argument("--sanitized", action="store_true", help="sanitizer run-times may be needed too")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if not options.self_test and not options.folder:
        parser.error("say the folder of libtenon.so, or --self-test")
    findings = self_test() if options.self_test else check(options.folder, options.soname, options.sanitized)
    print("\n".join(findings) or "check_binaries: as promised")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
