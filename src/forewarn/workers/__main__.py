"""``python -m forewarn.workers RELEASE NUMBER WORKERS CHANNEL MEMORY [SOCKET …]``: one worker process.

The leader starts it, and names its own release; the last arguments are descriptors that it inherits.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
from itertools import count

from forewarn import __version__
from forewarn.runtime import loop_factory
from forewarn.workers.channel import SocketChannel
from forewarn.workers.environment import ProcessEnvironment
from forewarn.workers.messages import OtherRelease
from forewarn.workers.shared_memory import SharedMemory
from forewarn.workers.worker import Worker


async def _run(number: int, workers: int, channel: int, memory: int, sockets: list[int]) -> None:
    environment = ProcessEnvironment(number, [socket.socket(fileno=each) for each in sockets])
    worker = Worker(number, SharedMemory(memory, workers), environment)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(worker.handle)
    loop.add_signal_handler(signal.SIGTERM, worker.terminate)
    # A terminal interrupts all processes: the first time, the leader stops its workers in order.
    interrupts = count(1)
    loop.add_signal_handler(signal.SIGINT, lambda: os._exit(130) if next(interrupts) > 1 else None)
    worker.channel = await SocketChannel.open(socket.socket(fileno=channel), worker.receive, worker.lose_leader)
    await worker.run()


async def _refuse(channel: int) -> None:
    """Tell a leader of another release why this worker ends: an upgrade replaced its files."""
    is_closed = asyncio.Event()
    opened = await SocketChannel.open(socket.socket(fileno=channel), lambda _: None, is_closed.set)
    opened.send(OtherRelease(__version__))
    opened.close()
    await is_closed.wait()


def main() -> None:
    """Run one worker until it is stopped."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the leader passes changed settings on
    release = sys.argv[1]
    number, workers, channel, memory, *sockets = map(int, sys.argv[2:])
    sys.setswitchinterval(0.0005)
    gc.disable()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        if release == __version__:
            runner.run(_run(number, workers, channel, memory, sockets))
        else:
            runner.run(_refuse(channel))


if __name__ == "__main__":
    main()
