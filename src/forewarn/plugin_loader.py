"""How drivers, journals and handlers are found: by entry-point group and name, loaded only when named."""

from importlib.metadata import EntryPoint, entry_points

from forewarn.core.errors import BadInput, nearest


def names(group: str) -> list[str]:
    """Return the names installed in a group such as ``forewarn.drivers``, in order; nothing is imported."""
    return sorted(entry_points(group=group).names)


def load(group: str, name: str) -> object:
    """Import and return what ``name`` stands for in ``group``."""
    kind = group.rpartition(".")[2].removesuffix("s")
    found = sorted(entry_points(group=group, name=name), key=lambda point: point.value)
    values = {point.value for point in found}
    if not found:
        known = names(group)
        raise BadInput(f"there is no {kind} {name!r} (installed: {', '.join(known) or 'none'}){nearest(name, known)}")
    if len(values) > 1:
        raise BadInput(
            f"{kind} {name!r} is offered more than once ({', '.join(sorted(values))}); uninstall all but one"
        )
    try:
        return found[0].load()
    except (Exception, SystemExit) as error:
        # A stranger's module may fail in any way while it is imported; the operator needs to hear of it once.
        said = (str(error) or type(error).__name__).splitlines()[0]
        raise BadInput(f"{kind} {name!r} ({found[0].value}) cannot be loaded: {said}; {_remedy(found[0])}") from error


def _remedy(point: EntryPoint) -> str:
    """Say how what a plugin needs is installed: by the extra that has its name, or begins it, if there is one."""
    extras = (point.dist.metadata.get_all("Provides-Extra") if point.dist else None) or ()
    if point.dist and (extra := next((each for each in extras if point.name.startswith(each)), "")):
        return f"install what it needs with: pip install '{point.dist.name}[{extra}]'"
    return "install what it needs, or name another"
