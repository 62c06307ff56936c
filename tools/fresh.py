"""Tries this checkout's HEAD on machines that nobody has prepared: ``make test-fresh``, as root.

Each machine is a bare Debian in a directory of its own: git, make, python3 and certificates, with empty caches. From
a clone in it, ``make run`` must answer and ``make test`` must pass. It has mount, process and IPC namespaces of its
own, so that whatever ends this program also ends every process and every mount in there. The machine's network is
shared: everything is fetched through it. What the machine needs to reach its package archives (addresses, proxies,
certificates) is taken from its own settings of apt and pip, and nothing else is.
"""

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from types import FrameType

ROOT = Path(__file__).parents[1]
RELEASES = ("bookworm", "trixie")
CLONE = "/srv/forewarn"
_PACKAGES = "ca-certificates,git,make,python3"
_PORT = 8254
_DOCUMENT = f"http://127.0.0.1:{_PORT}/metadata/scheduledevents?api-version=2020-07-01"
_LONGEST_START = 600.0
_SETTINGS = re.compile(r"PIP_\w+|\w+_proxy|SSL_CERT_(FILE|DIR)|(REQUESTS|CURL)_CA_BUNDLE", re.IGNORECASE)
_APT_SETTINGS = re.compile(r'Acquire::(?:https?|Retries|Check-Valid-Until|ForceIPv)\b[^"]*"(.*)";')
_PIP_FILES = (Path("/etc/pip.conf"), Path("~/.config/pip/pip.conf"), Path("~/.pip/pip.conf"))
_PIP_PLACES = re.compile(r'(?:file://)?(/[^\s"\']+?)(?:/simple)?/?(?=[\s"\']|$)')
# Whatever ends this program, be it kill -9, ends every process in them too.
_NAMESPACES = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child")

# pivot_root and not chroot: in a chroot nobody may make a user namespace.
_ENTER = """
set -eu
cd "$1"; shift
mount --bind . .
cd "$PWD"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
while [ "$1" != -- ]; do
    mkdir -p ".$1"
    mount -o bind,ro "$1" ".$1"
    shift
done
shift
mkdir -p machine
pivot_root . machine
umount -l /machine
rmdir /machine
exec "$@"
"""


class Failed(Exception):
    """A step failed; the message says which."""


class Interrupted(BaseException):
    """Somebody ended this program."""


def main() -> int:
    options = argparse.ArgumentParser(prog="make test-fresh", description="Try HEAD on bare Debian machines.")
    options.add_argument("releases", nargs="*", metavar="RELEASE", help=f"default: {' '.join(RELEASES)}")
    options.add_argument("--keep", action="store_true", help="leave the directories, for a look")
    options.add_argument("--enter", metavar="DIRECTORY", type=Path, help="run a shell in a directory that was kept")
    given = options.parse_args()
    if wrong := set(given.releases) - set(RELEASES):
        options.error(f"{', '.join(sorted(wrong))}: the releases are {' and '.join(RELEASES)}")
    if os.geteuid() != 0:
        print("A bare Debian is made and entered by root only: sudo make test-fresh", file=sys.stderr)
        return 1
    if given.enter:
        return subprocess.run(inside(given.enter, "sh", "-c", f"cd {CLONE}; exec bash"), check=False).returncode
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _interrupt)
    if _run("git", "status", "--porcelain", cwd=ROOT):
        say("what is not committed is not in the clone, and not tested")
    try:
        results = {release: try_release(release, keep=given.keep) for release in given.releases or RELEASES}
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    except Interrupted:
        say("interrupted; everything that was made is removed" if not given.keep else "interrupted")
        return 130
    for release, (problem, took) in results.items():
        say(f"{release}: {problem or 'passed'} ({', '.join(f'{what} {seconds:.0f} s' for what, seconds in took)})")
    return int(any(problem for problem, _ in results.values()))


def try_release(release: str, *, keep: bool) -> tuple[str, list[tuple[str, float]]]:
    """Make one machine and try everything in it; return what failed and how long each step took."""
    took: list[tuple[str, float]] = []

    @contextmanager
    def step(what: str) -> Iterator[None]:
        say(f"{release}: {what}")
        began = monotonic()
        try:
            yield
        finally:
            took.append((what, monotonic() - began))
            say(f"{release}: {what} took {took[-1][1]:.0f} s")

    directory = Path(tempfile.mkdtemp(prefix=f"forewarn-{release}-", dir="/var/tmp"))
    try:
        with step("debootstrap"):
            make(release, directory)
        with step("make run"):
            answer(directory)
        with step("make test"):
            test(directory)
    except Failed as error:
        return str(error), took
    else:
        return "", took
    finally:
        if keep:
            say(f"{release}: kept; enter it with: python3 tools/fresh.py --enter {directory}")
        else:
            _remove(directory)


def _remove(directory: Path) -> None:
    """Remove it, also while processes in it are still ending."""
    for _ in range(50):
        subprocess.run(["rm", "-rf", "--one-file-system", directory], check=False, stderr=subprocess.DEVNULL)
        if not directory.exists():
            return
        sleep(0.1)
    say(f"{directory} could not be removed; remove it by hand")


def make(release: str, directory: Path) -> None:
    """Make a bare Debian, able to reach what this machine can reach, with a clone of HEAD in it."""
    uris = archives()
    directory.chmod(0o755)
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", release, str(directory), uris["Debian"]]
    # In namespaces too: when it is interrupted, the mounts that it made are gone with it.
    done = _run_guarded([*_NAMESPACES, "--mount-proc", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        raise Failed(f"debootstrap failed:\n{done.stdout[-2000:]}")
    suites = [(uris["Debian"], release), (uris["Debian"], f"{release}-updates")]
    if "Debian-Security" in uris:
        suites.append((uris["Debian-Security"], f"{release}-security"))
    (directory / "etc/apt/sources.list").write_text("".join(f"deb {uri} {suite} main\n" for uri, suite in suites))
    dumped = _run("apt-config", "dump").splitlines()
    kept = [line for line in dumped if _APT_SETTINGS.match(line)]
    (directory / "etc/apt/apt.conf.d/90machine").write_text("\n".join([*kept, ""]))
    named = [_APT_SETTINGS.sub(r"\1", line) for line in kept]
    files = [Path(each) for each in (*named, *settings().values()) if each.startswith("/")]
    for path in (Path("/etc/resolv.conf"), *(each.expanduser() for each in _PIP_FILES), *files):
        if path.is_file():
            there = directory / path.relative_to("/")
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, there)
    _run("git", "clone", "--quiet", "--no-hardlinks", str(ROOT), f"{directory}{CLONE}")
    if _run("git", "rev-parse", "HEAD", cwd=ROOT) != _run("git", "-C", f"{directory}{CLONE}", "rev-parse", "HEAD"):
        raise Failed(f"the clone of {ROOT} has another HEAD")


def archives() -> dict[str, str]:
    """Return where this machine's apt finds Debian, and Debian's security updates, by their labels."""
    result = _run(
        "apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages", "Origin: Debian"
    )
    found = dict(line.split(" ", 1) for line in reversed(result.splitlines()))
    if "Debian" not in found:
        raise Failed("apt knows no archive of Debian; run apt-get update, or name one in its sources")
    return found


def answer(directory: Path) -> None:
    """Have ``make run`` answer in there."""
    with socket.socket() as trial:
        if trial.connect_ex(("127.0.0.1", _PORT)) == 0:
            raise Failed(f"something else answers on port {_PORT} of this machine; end it first")
    ending = monotonic() + _LONGEST_START
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        service = subprocess.Popen(inside(directory, "make", "-C", CLONE, "run"), stdout=log, stderr=log)
        try:
            while not _is_answered():
                if service.poll() is not None or monotonic() > ending:
                    log.seek(0)
                    raise Failed(f"make run does not answer; it said:\n{log.read()[-2000:]}")
                sleep(0.2)
        finally:
            service.kill()
            service.wait()


def _is_answered() -> bool:
    request = urllib.request.Request(_DOCUMENT, headers={"Metadata": "true"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answered:
            return b"DocumentIncarnation" in answered.read()
    except urllib.error.HTTPError as error:
        raise Failed(f"make run answers {error.code} instead of a document") from None
    except OSError:
        return False


def test(directory: Path) -> None:
    """Have every test pass in there."""
    if _run_guarded(inside(directory, "make", "-C", CLONE, "test")).returncode:
        raise Failed("make test failed")


def inside(directory: Path, *words: str) -> list[str]:
    """Return the command that runs the given one in there."""
    environment = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **settings()}
    enter = [*_NAMESPACES, "sh", "-c", _ENTER, "enter", str(directory), *pip_places(), "--"]
    return [*enter, "env", "-i", *(f"{key}={value}" for key, value in environment.items()), *words]


def settings() -> dict[str, str]:
    """Return the variables by which package archives are reached."""
    return {key: value for key, value in os.environ.items() if _SETTINGS.fullmatch(key)}


def pip_places(pip_files: Sequence[Path] = _PIP_FILES) -> list[str]:
    """Return the directories that pip's settings name: indexes and wheels that lie on this machine."""
    files = [path.expanduser() for path in pip_files]
    result = [*settings().values(), *(path.read_text(encoding="utf-8") for path in files if path.is_file())]
    return sorted({place for each in result for place in _PIP_PLACES.findall(each) if _is_outside(Path(place))})


def _is_outside(place: Path) -> bool:
    return place.is_dir() and place.parts[1] not in ("etc", "usr")


def _run_guarded(command: list[str], **more: object) -> "subprocess.CompletedProcess[str]":
    """Run a command; when this program is interrupted, kill it first."""
    process = subprocess.Popen(command, text=True, **more)  # type: ignore[call-overload]
    try:
        said, _ = process.communicate()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(command, process.returncode, said)


def _run(*words: str, cwd: Path | None = None) -> str:
    try:
        return subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=True).stdout.strip()
    except FileNotFoundError:
        raise Failed(f"there is no {words[0]} here; a bare Debian is made on Debian") from None
    except subprocess.CalledProcessError as error:
        raise Failed(f"{' '.join(words)}: {error.stderr.strip()}") from None


def say(what: str) -> None:
    print(f"test-fresh: {what}", flush=True)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise Interrupted


if __name__ == "__main__":
    sys.exit(main())
