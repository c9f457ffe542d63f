# SPDX-License-Identifier: Apache-2.0
"""A CUBIN's global memory accesses, read from its instructions: how many of each width each entry has.

A CUBIN is an ELF file whose section .text.NAME holds the code of entry NAME. From sm_70 on an instruction is 16 bytes,
little end first: bits 0 to 11 are the operation (LDG 0x381 or, with a uniform base, 0x981; STG 0x386 or 0x986) and bits
73 to 75 of a memory access its width: 0 and 1 a byte, 2 and 3 two, 4 four, 5 eight, 6 sixteen.
Invariant: what it counts agrees with the PTX of the same source; check_sources.py holds one against the other.
"""
import collections
import struct

LOADS, STORES = {0x381, 0x981}, {0x386, 0x986}
LOCAL = {0x383, 0x983, 0x387, 0x987}  # LDL, STL: spills and arrays that are indexed at run time
BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 8, 6: 16}


class Accesses:
    def __init__(self):
        self.loads, self.stores, self.local = collections.Counter(), collections.Counter(), 0


def sections(image):
    """Name and bytes of every section."""
    if image[:4] != b"\x7fELF" or image[4] != 2:
        raise ValueError("not a 64-bit ELF file")
    table, = struct.unpack_from("<Q", image, 0x28)
    size, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
    text = headers[names][4]
    for header in headers:
        begin = text + header[0]
        name = image[begin:image.index(b"\0", begin)].decode()
        no_bits = header[1] == 8
        yield name, b"" if no_bits else image[header[4]:header[4] + header[5]]


def accesses(image):
    """Accesses by entry."""
    out = {}
    for name, code in sections(image):
        if not name.startswith(".text."):
            continue
        found = out.setdefault(name[len(".text."):], Accesses())
        for low, high in struct.iter_unpack("<QQ", code[:len(code) // 16 * 16]):
            operation, width = low & 0xFFF, BYTES.get(high >> 9 & 7, 0)
            if operation in LOADS:
                found.loads[width] += 1
            elif operation in STORES:
                found.stores[width] += 1
            elif operation in LOCAL:
                found.local += 1
    return out
