# SPDX-License-Identifier: Apache-2.0
"""NVRTC by ctypes: a source becomes a CUBIN, PTX and the assembler's log. No GPU and no driver are needed.
Invariant: the options are the plugin's own, and the log's wish is the only one added.
"""
import ctypes
import os

PLACES = ["libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13", "/usr/local/cuda/lib64/libnvrtc.so.12"]
OPTIONS = ["--std=c++17", "--fmad=false", "--ptxas-options=-v"]


class Compiled:
    def __init__(self, good, log, cubin=b"", ptx=""):
        self.good, self.log, self.cubin, self.ptx = good, log, cubin, ptx


class Nvrtc:
    """Raises OSError where there is none, with the places that were tried."""

    def __init__(self):
        wanted = os.environ.get("TENON_NVRTC")
        tried = []
        for place in [wanted] if wanted else PLACES:
            try:
                self.library = ctypes.CDLL(place)
                return
            except OSError as error:
                tried.append(str(error))
        raise OSError("; ".join(tried))

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def _bytes(self, program, what):
        size = ctypes.c_size_t()
        if getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) != 0:
            return b""
        data = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, data)
        return data.raw

    def _build(self, source, name, options):
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
        words = [option.encode() for option in options]
        result = self.library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
        out = Compiled(result == 0, self._bytes(program, "ProgramLog").decode(errors="replace").rstrip("\0"))
        if out.good:
            out.cubin, out.ptx = self._bytes(program, "CUBIN"), self._bytes(program, "PTX").decode().rstrip("\0")
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return out

    def compile(self, source, name, chip, more=()):
        return self._build(source, name, [f"--gpu-architecture=sm_{chip}", *OPTIONS, *more])

    def ptx(self, source, name, chip):
        return self._build(source, name, [f"--gpu-architecture=compute_{chip}", *OPTIONS[:2]]).ptx
