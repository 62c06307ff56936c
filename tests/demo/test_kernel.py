"""The guests' kernel, as releases of Debian pack it."""

import lzma
import struct
import subprocess
from pathlib import Path

import pytest

from demo import kernel as kernels
from demo.kernel import Kernel, NoKernel, lay_out

ELF = b"\x7fELF" + bytes(1000)


def image(packed: bytes) -> bytes:
    """Return what a boot loader is given: a setup part that tells where the packed kernel is, and that."""
    head = bytearray(1024)
    head[0x1F1] = 1
    struct.pack_into("<II", head, 0x248, 0, len(packed) + 4)
    return bytes(head) + packed + struct.pack("<I", len(ELF))


def package(directory: Path, modules: str, packed: bytes) -> Path:
    (directory / "boot").mkdir(parents=True)
    (directory / "boot" / "vmlinuz-1").write_bytes(image(packed))
    (directory / modules / "1" / "kernel" / "net").mkdir(parents=True)
    (directory / "made").mkdir()
    return directory


@pytest.mark.end_to_end
@pytest.mark.parametrize(
    ("modules", "words"),
    [("lib/modules", ["lz4", "-l", "-c"]), ("usr/lib/modules", ["zstd", "-c"]), ("lib/modules", ["xz", "-c"])],
)
def test_a_kernel_is_unpacked_however_it_is_packed(tmp_path: Path, modules: str, words: list[str]) -> None:
    """Debian 12 and 13 do it differently, and put modules elsewhere."""
    packed = subprocess.run(words, input=ELF, capture_output=True, check=True).stdout
    unpacked = package(tmp_path, modules, packed)
    lay_out(unpacked, unpacked / "made")

    assert (unpacked / "made" / "vmlinux").read_bytes() == ELF
    assert (unpacked / "made" / "modules" / "net").is_dir()


def test_a_kernel_that_cannot_be_unpacked_is_said(tmp_path: Path) -> None:
    """So is a package that is none of a kernel."""
    with pytest.raises(NoKernel, match="begins with 6e6f6e65"):
        lay_out(package(tmp_path, "lib/modules", b"none"), tmp_path / "made")
    with pytest.raises(NoKernel, match="does not hold"):
        lay_out(tmp_path / "boot", tmp_path / "made")


def test_a_module_is_there_plain_or_packed_or_built_in(tmp_path: Path) -> None:
    """Packed ones are unpacked once."""
    (tmp_path / "plain.ko").write_bytes(b"plain")
    (tmp_path / "packed.ko.xz").write_bytes(lzma.compress(b"packed"))
    kernel = Kernel(tmp_path / "vmlinux", tmp_path)

    found = [kernel.module(name) for name in ("plain.ko", "packed.ko", "packed.ko", "built-in.ko")]
    assert [path and path.read_bytes() for path in found] == [b"plain", b"packed", b"packed", None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["packed.ko", "packed.ko.xz", "plain.ko"]


@pytest.mark.parametrize(("virtio", "ring"), [(b"virtio_ring", b""), (b"", b"virtio")])
def test_modules_are_loaded_after_the_ones_that_they_depend_on(tmp_path: Path, virtio: bytes, ring: bytes) -> None:
    """Which of the two depends on the other differs between kernels; what is built in is not waited for."""
    depends = {"virtio.ko": virtio, "virtio_ring.ko": ring, "virtio-net.ko": b"virtio,built_in"}
    for name, others in depends.items():
        (tmp_path / name).write_bytes(b"\x7fELF\0depends=" + others + b"\0name=x\0")
    order = [path.name for path in Kernel(tmp_path / "vmlinux", tmp_path).load_order(("built_in.ko", *depends))]

    both = ["virtio_ring.ko", "virtio.ko"] if virtio else ["virtio.ko", "virtio_ring.ko"]
    assert [name for name in order if name != "virtio-net.ko"] == both
    assert order.index("virtio-net.ko") > order.index("virtio.ko")


def test_a_kernel_is_fetched_before_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine whose apt has read no lists yet they are read first; what is there is not fetched again."""
    asked: list[str] = []

    def run(*words: str) -> str:
        asked.append(words[1] if words[0] == "apt-cache" else words[-1])
        if words[0] == "apt-cache" and "update" not in asked:
            raise NoKernel("no such package")
        return "  Depends: linux-image-1\n"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "_run", run)
    monkeypatch.setattr(kernels, "_fetch", lambda _, kept: kept.mkdir(parents=True))
    kernels.prepare()
    kernels.prepare()

    assert asked.count("update") == 1
    assert (tmp_path / "forewarn" / "linux-image-1").is_dir()
    assert capsys.readouterr().out.count("Fetching linux-image-1") == 1


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to set instead."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(kernels, "_run", lambda *_: "  Depends: linux-image-1\n")

    with pytest.raises(NoKernel, match=r"cannot be kept in .*/file/forewarn: Not a directory; .*XDG_CACHE_HOME="):
        kernels.prepare()
