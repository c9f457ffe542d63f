# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs one snippet as a reader would: against the headers and libraries it is given, in an empty folder.

Invariant: nothing of the caller's Tenon environment reaches a snippet, and nothing it writes outlives the run.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
SECONDS = 240
PRELUDE = """#include <tenon/tenon.hpp>
#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>
tenon::Status run() {
"""
EPILOGUE = """
return {};
}
int main() {
  const tenon::Status status = run();
  if (!status.ok()) std::fprintf(stderr, "%s\\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}
"""
MAIN = '#include <tenon/tenon.hpp>\n#include <cstdio>\nint main() { std::puts(tenon::version()); }\n'


class Failed(Exception):
    """What went wrong with a snippet, in words."""


@dataclasses.dataclass
class Setting:
    """What snippets are built with: the tree being documented, a build of it, and the compilers that made it."""
    source: pathlib.Path
    build: pathlib.Path | None
    work: pathlib.Path
    cxx: str = "c++"
    cc: str = "cc"
    flags: tuple = ()

    def environment(self):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("TENON_")}
        flags = " ".join(self.flags)
        kept |= {"CC": self.cc, "CXX": self.cxx, "CFLAGS": flags, "CXXFLAGS": flags, "LDFLAGS": flags}
        if self.build:
            kept["PATH"] = f"{self.build}/bin:{self.source}:{kept['PATH']}"
        return kept


def run(setting, command, folder, what, **more):
    try:
        done = subprocess.run(command, cwd=folder, env=setting.environment() | more, capture_output=True, text=True,
                              timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired as why:
        raise Failed(f"{what}: no end after {SECONDS} s") from why
    if done.returncode != 0:
        raise Failed(f"{what}: exit status {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def fresh(setting, name):
    folder = setting.work / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def compiled(setting, name, language, text, link):
    """Compiles `text`; links a program when `link`. Returns its folder."""
    folder = fresh(setting, name)
    source = folder / ("snippet.c" if language == "c" else "snippet.cpp")
    source.write_text(text, encoding="utf-8")
    command = [setting.cc, "-std=c11"] if language == "c" else [setting.cxx, "-std=c++20"]
    command += [*setting.flags, *WARNINGS, f"-I{setting.source}/sdk/include", f"-I{setting.source}/core/include"]
    command += [str(source), "-o", "snippet"] if link else ["-fPIC", "-c", str(source)]
    if link and setting.build:
        command += [f"-L{setting.build}/lib", f"-Wl,-rpath,{setting.build}/lib", "-ltenon", "-pthread"]
    run(setting, command, folder, "does not compile")
    return folder


def program(setting, name, language, text):
    folder = compiled(setting, name, language, text, link=True)
    return run(setting, [str(folder / "snippet")], folder, "the program failed")


def shell(setting, name, text):
    folder = fresh(setting, name)
    more = {"CMAKE_PREFIX_PATH": str(installed(setting))} if "cmake" in text else {}
    return run(setting, ["bash", "-euo", "pipefail", "-c", text], folder, "the commands failed", **more)


def installed(setting):
    """A prefix with this build installed, made once per work folder."""
    prefix = setting.work / "prefix"
    if not prefix.is_dir():
        run(setting, ["cmake", "--install", str(setting.build), "--prefix", str(prefix)], setting.work,
            "cmake --install failed")
    return prefix


def project(setting, name, text):
    """Configures and builds a CMakeLists.txt against an installed Tenon; main.cpp is supplied."""
    folder = fresh(setting, name)
    (folder / "CMakeLists.txt").write_text(text, encoding="utf-8")
    for source in set(re.findall(r"\b[\w/]+\.cpp\b", text)):
        (folder / source).write_text(MAIN, encoding="utf-8")
    prefix = {"CMAKE_PREFIX_PATH": str(installed(setting))}
    run(setting, ["cmake", "-S", ".", "-B", "build"], folder, "cmake failed", **prefix)
    return run(setting, ["cmake", "--build", "build"], folder, "the build failed", **prefix)


def compare(expected, actual):
    """None when `actual` is as stated, else the difference. '…' stands for any text; alone on a line, for any lines."""
    pattern = ""
    for line in expected.rstrip("\n").splitlines():
        line = line.rstrip()
        pattern += r"(?:[^\n]*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", "[^\n]*") + r"[ \t]*\n"
    if re.fullmatch(pattern, actual.rstrip("\n") + "\n" if actual.strip() else ""):
        return None
    return f"the output differs\n--- stated\n{expected}--- printed\n{actual}"
