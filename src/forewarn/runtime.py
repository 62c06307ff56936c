"""How a process of the service runs: its event loop, and what the garbage collector looks at."""

import asyncio
import gc
from collections.abc import Callable

_YOUNG_OBJECTS = 20_000
"""How many new objects may be alive before the garbage collector looks at them: far more than one request makes."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes an event loop; None for the one of asyncio."""
    try:
        import uvloop  # noqa: PLC0415 - it does not exist everywhere
    except ImportError:
        return None
    return uvloop.new_event_loop


def exempt_fleet_from_collection() -> None:
    """Keep the garbage collector from the fleet: it lives as long as the process, and is large."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 20)
    gc.enable()
