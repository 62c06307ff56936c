"""How fast this machine's time-stamp counter ticks: QEMU without KVM hands it to guests as it is.

A guest's kernel cannot measure it there, so it is given, or its clock runs at another speed than the world's.
"""

import ctypes
import mmap
from time import perf_counter, sleep

_READ_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
_MEASURED_FOR = 0.1


def kilohertz() -> int:
    """Return a thousandth of the ticks of a second."""
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as page:
        page.write(_READ_COUNTER)
        place = ctypes.c_char.from_buffer(page)
        counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(place))
        before, began = int(counter()), perf_counter()
        sleep(_MEASURED_FOR)
        ticks, took = int(counter()) - before, perf_counter() - began
        del counter, place  # the page cannot be given back while somebody points at it
    return round(ticks / took / 1000)
