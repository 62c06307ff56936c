"""The kernel of the guests: Debian's own for clouds, fetched once and kept uncompressed, so that guests boot fast.

``python -m demo.kernel`` fetches it before it is needed: tests boot guests where nothing can be fetched.
"""

import lzma
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

_META_PACKAGE = "linux-image-cloud-amd64"
_PAYLOAD_AT = 0x248
"""Where a bzImage tells the place and the length of what is compressed in it."""
_SETUP_SECTORS_AT = 0x1F1
_PROGRAMS = {b"\x02\x21\x4c\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zX": "xz"}
"""What unpacks a kernel, by how what is packed in it begins; each release of Debian has its own."""
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")
"""Where a module tells which others it needs."""


class NoKernel(Exception):
    """No kernel for the guests could be had."""


@dataclass(frozen=True)
class Kernel:
    """An uncompressed kernel and its modules."""

    image: Path
    modules: Path

    def module(self, name: str) -> Path | None:
        """Return a module, unpacked where it was packed; None for what the kernel has built in."""
        plain = self.modules / name
        packed = plain.with_name(f"{plain.name}.xz")
        if not plain.exists() and packed.exists():
            unpacked = plain.with_name(f"{plain.name}.{os.getpid()}")
            unpacked.write_bytes(lzma.decompress(packed.read_bytes()))
            unpacked.rename(plain)
        return plain if plain.exists() else None

    def load_order(self, names: tuple[str, ...]) -> list[Path]:
        """Return those of the modules that are not built in, each after the ones that it depends on.

        The dependencies are read from the modules: they differ between kernels.
        """
        found = {path.stem.replace("-", "_"): path for name in names if (path := self.module(name)) is not None}
        return [found[name] for name in TopologicalSorter(_dependencies(found)).static_order() if name in found]


def _dependencies(modules: dict[str, Path]) -> dict[str, list[str]]:
    depends = {}
    for name, path in modules.items():
        result = _DEPENDS.search(path.read_bytes())
        depends[name] = [each for each in (result[1].decode() if result else "").split(",") if each]
    return depends


def cache() -> Path:
    """Return where what took long to make is kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forewarn"


def has_kernel() -> bool:
    """Return whether one was fetched already."""
    return any(cache().glob("linux-image-*/vmlinux"))


def kernel() -> Kernel:
    """Return the kernel; the first time it is fetched from Debian's archive."""
    package = _package()
    kept = cache() / package
    if not kept.is_dir():
        try:
            _fetch(package, kept)
        except OSError as error:
            reason = f"the guests' kernel cannot be kept in {cache()}: {error.strerror or error}"
            raise NoKernel(f"{reason}; name a directory that can be written: XDG_CACHE_HOME=/path") from None
    return Kernel(kept / "vmlinux", kept / "modules")


def _package() -> str:
    result = _run("apt-cache", "depends", _META_PACKAGE)
    for line in result.splitlines():
        word, _, name = line.strip().partition(": ")
        if word == "Depends" and name.startswith("linux-image-"):
            return name
    raise NoKernel(f"apt-cache knows no package {_META_PACKAGE}; run apt-get update")


def _fetch(package: str, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as name:
        there = Path(name)
        _run("apt-get", "-q", "download", package, cwd=there)
        (archive,) = there.glob("*.deb")
        _run("dpkg", "-x", str(archive), "unpacked", cwd=there)
        made = there / "made"
        made.mkdir()
        lay_out(there / "unpacked", made)
        try:
            made.rename(kept)
        except OSError:
            if not kept.is_dir():  # else somebody else was first
                raise


def prepare() -> None:
    """Have the kernel in the cache; a machine that has not read apt's lists yet reads them first."""
    try:
        package = _package()
    except NoKernel:
        _run("apt-get", "-q", "-o", "DPkg::Lock::Timeout=600", "update")
        package = _package()
    if not (cache() / package).is_dir():
        print(f"Fetching {package}, the kernel of the guests, into {cache()}", flush=True)
        kernel()


def lay_out(unpacked: Path, made: Path) -> None:
    """Take from an unpacked package what guests need."""
    images = list((unpacked / "boot").glob("vmlinuz-*"))
    modules = [*unpacked.glob("lib/modules/*/kernel"), *unpacked.glob("usr/lib/modules/*/kernel")]
    if not images or not modules:
        raise NoKernel("the kernel's package does not hold what Debian 12 and 13 put there")
    (made / "vmlinux").write_bytes(_uncompressed(images[0].read_bytes()))
    shutil.move(modules[0], made / "modules")


def _uncompressed(image: bytes) -> bytes:
    offset, length = struct.unpack_from("<II", image, _PAYLOAD_AT)
    start = (image[_SETUP_SECTORS_AT] + 1) * 512 + offset
    payload = image[start : start + length - 4]  # the last four bytes tell how long it will be
    program = _PROGRAMS.get(payload[:4])
    if program is None:
        raise NoKernel(f"the kernel is packed in a way that is not known here; it begins with {payload[:4].hex()}")
    done = subprocess.run([program, "-dc"], input=payload, capture_output=True, check=False)
    if done.returncode or not done.stdout.startswith(b"\x7fELF"):
        raise NoKernel(f"the kernel could not be unpacked: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _run(*words: str, cwd: Path | None = None) -> str:
    try:
        return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        raise NoKernel(f"there is no {words[0]} here; the guests need Debian") from None
    except subprocess.CalledProcessError as error:
        lines = error.stderr.strip().splitlines()
        wrong = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")] or lines
        raise NoKernel(f"{' '.join(words)}: {'; '.join(wrong)}") from None


if __name__ == "__main__":
    try:
        prepare()
    except NoKernel as error:
        sys.exit(f"The guests of the tests have no kernel: {error}")
