"""``make demo``: real guests are warned, approve, and are rebooted, frozen, moved and evicted; hosts are rebooted.

    needs ──▶ cloud (network, guests, service) ──▶ play, each claim checked ──▶ all taken away, which is checked too

With ``--stay`` nothing is played: the guests are there to be played with, until Ctrl-C.

Exit codes: 0 every claim held; 1 one did not, or something is missing or left behind; 130 interrupted.
"""

import argparse
import shutil
import signal
import sys
from contextlib import suppress
from types import FrameType

from demo import needs, traces
from demo.cloud import Cloud, DemoProblem
from demo.initramfs import NoInitramfs
from demo.kernel import NoKernel, cache, has_kernel
from demo.scenes import ClaimFailed, DemoRun
from demo.view import View
from forewarn.core.errors import ForewarnError

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INTERRUPTED = 130
_EXPECTED = (ClaimFailed, DemoProblem, NoKernel, NoInitramfs, ForewarnError, RuntimeError, TimeoutError, OSError)
"""What can go wrong on a machine; each says so in a sentence."""


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m demo", description="Show events happen to real guests.")
    options.add_argument("--stay", action="store_true", help="play nothing; leave the guests to you, until Ctrl-C")
    stays = options.parse_args().stay
    if lacking := list(needs.missing()):
        print("\n".join(lacking), file=sys.stderr)
        return 1
    traces.adopt_orphans()
    for each in _SIGNALS:
        signal.signal(each, _interrupt)
    with View() as view:
        return _run(view, stays=stays)


def _run(view: View, *, stays: bool) -> int:
    traces.sweep()
    directory = traces.make_directory()
    cloud = Cloud(directory, view)
    play = DemoRun(cloud, view)
    code = 1
    ending = ""
    # Two, so that an interruption in the first "finally" still meets the second.
    try:
        try:
            view.show(cloud.guests)
            cloud.open()
            if stays:
                view.begin_stay(cloud.data)
                cloud.stay()
            else:
                play.go()
            code, ending = 0, f"All {play.claims} claims held, in {view.elapsed:.0f} s."
        except KeyboardInterrupt:
            code, ending = (0, "It is over.") if stays else (_INTERRUPTED, "Interrupted.")
        except _EXPECTED as error:
            ending = f"The demo failed: {str(error).rstrip('.')}."
        finally:
            _hush()
    finally:
        with suppress(OSError):  # the terminal may be gone, and that keeps nothing else from going
            view.end(ending, is_good=code == 0)
        try:
            cloud.close()
        finally:
            shutil.rmtree(directory, ignore_errors=True)
            traces.bury()
    left = list(traces.left(cloud.site.name, directory))
    with suppress(OSError):
        _tell_left(view, left)
    return 1 if left else code


def _tell_left(view: View, left: list[str]) -> None:
    if left:
        view.add(f"Left behind: {', '.join(left)}.")
        return
    view.add("Nothing is left behind: no process, no network, no file.")
    if has_kernel():
        view.add(f"The guests' kernel is kept in {cache()}, for the next time.")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    _hush()
    raise KeyboardInterrupt


def _hush() -> None:
    """From now on nothing interrupts us; what is being taken away is taken away whole."""
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
