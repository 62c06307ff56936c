"""Whether an object has the members of a handler: asked when the configuration is read, not when an event comes."""

import inspect
from collections.abc import Iterator

_CALLS = {"do": 1, "undo": 1, "outcome_of": 1, "close": 0}
"""The methods, each with the number of its arguments."""
_CLAIMS = ("repeats", "shared")


def find_faults(handler: object) -> Iterator[str]:
    """Yield what a handler lacks, as parts of one sentence."""
    for name, count in _CALLS.items():
        call = _member(handler, name)
        if call is None:
            yield f"has no {_shown(name)}"
        elif not callable(call):
            yield f"{name} is no method"
        elif inspect.iscoroutinefunction(call):
            yield f"{name} is a coroutine; handlers are called in threads, write def without async"
        elif not _takes(call, count):
            yield f"{name} cannot be called as {_shown(name)}"
    for name in _CLAIMS:
        value = _member(handler, name)
        if not isinstance(value, bool):
            yield f"{name} must be True or False" if value is not None else f"has no {name} = True or False"


def source_location(kind: object) -> str:
    """Return where a handler's class or function is defined, such as ``health.py:12``; empty where unknown."""
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def _member(handler: object, name: str) -> object:
    try:
        return getattr(handler, name, None)
    except Exception:  # noqa: BLE001 - a property of a stranger's class
        return None


def _takes(call: object, count: int) -> bool:
    try:
        inspect.signature(call).bind(*range(count))  # type: ignore[arg-type]
    except TypeError:
        return False
    except ValueError:
        return True  # what is written in C does not always tell
    return True


def _shown(name: str) -> str:
    return f"{name}({'task' if _CALLS[name] else ''})"
