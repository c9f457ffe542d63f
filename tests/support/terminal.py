# SPDX-License-Identifier: Apache-2.0
"""terminal.py: a program on a terminal of its own.
Invariant: it is read until the program has let go of it, so nothing that was written is missing.
"""
import fcntl
import os
import pty
import struct
import subprocess
import termios


def on_terminal(words, streams, columns=80, **how):
    """The status of a program whose `streams` ("stdin", "stdout", "stderr") are a terminal, and what it wrote there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    running = subprocess.Popen([str(word) for word in words], **dict.fromkeys(streams, theirs), **how)
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65536):
            written += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return running.wait(timeout=100), written.decode()
