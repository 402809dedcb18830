"""Two clocks and the kernel's receive stamps.

Everything is told in CLOCK_MONOTONIC. Linux stamps received segments in CLOCK_REALTIME (SO_TIMESTAMPNS): with 8
streams on a loaded machine those stamps are exact to 10 µs where user space is late by 30 ms at p99. The stamp of a
read is that of the last segment merged into it.
"""

import platform
import socket
import struct
import sys
import threading
import time
import weakref
from typing import Protocol

# asm-generic/socket.h; these machines use the generic numbers, alpha, mips, parisc and sparc do not.
_SO_TIMESTAMPNS = 35
_GENERIC_NUMBERS = ("x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "loongarch64")
_TIMESPEC = struct.Struct("@ll")
ANCILLARY_BYTES = 64

LARGEST_CLOCK_MOVE_NS = 100_000  # beyond this the clocks moved against each other and kernel stamps say nothing
_OFFSET_TRIES = 5


class _SocketLike(Protocol):
    def setsockopt(self, level: int, option: int, value: int, /) -> object: ...


def stamping_supported() -> bool:
    """Whether this platform's kernel stamps are known here."""
    return sys.platform == "linux" and platform.machine() in _GENERIC_NUMBERS


def ask_for_stamps(sock: _SocketLike) -> bool:
    """Ask the kernel to stamp what this socket receives; whether it will."""
    if not stamping_supported():
        return False
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    except OSError:
        return False
    return True


def kernel_stamp(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    """The receive stamp among a read's ancillary data, in ns of CLOCK_REALTIME; None where there is none."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(data)
            return int(seconds) * 10**9 + int(nanoseconds)
    return None


def realtime_offset_ns() -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC now: of several tries the one that was bracketed most closely."""
    best_width, best_offset = sys.maxsize, 0
    for _ in range(_OFFSET_TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        if after - before < best_width:
            best_width, best_offset = after - before, wall - (before + after) // 2
    return best_offset


class StampKeeper:
    """Keeps the kernel stamping from its first use on.

    The kernel begins to stamp packets some time after the first socket asked; without a socket that goes on asking,
    the first reads of a connection could have no stamp.
    """

    def __init__(self) -> None:
        """Opens nothing yet."""
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[[], StampKeeper] | None = None

    def begin(self) -> None:
        """Opens a datagram socket that never receives anything, if none is open."""
        with self._lock:
            if self._finalizer is None:
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                ask_for_stamps(sock)
                self._finalizer = weakref.finalize(self, sock.close)

    def close(self) -> None:
        """Lets go."""
        with self._lock:
            if self._finalizer is not None:
                self._finalizer()
                self._finalizer = None
