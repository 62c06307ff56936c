"""The service and nginx side by side, giving the same answers in as many bytes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench import nginx
from bench.figures import Figure, ratios, spread_of
from bench.server import Server, field


@contextmanager
def beside_nginx(
    ours: Server, directory: Path, core: int, etags: Mapping[str, str], *, closing: bool
) -> Iterator[dict[str, Server]]:
    """Run nginx twice beside the service: as the measure, and to see how far nginx strays from itself."""
    caller = next(iter(etags))
    fields = {"Connection": "close"} if closing else {}
    answer = ours.ask(caller, fields)
    body = answer.partition(b"\r\n\r\n")[2]
    with nginx.serving(directory, core, etags, body) as bare:
        stretch = len(answer) - len(bare.ask(caller, fields))
    with (
        nginx.serving(directory, core, etags, body, stretch) as one,
        nginx.serving(directory, core, etags, body, stretch) as other,
    ):
        for theirs in (one, other):
            _check_alike(ours, theirs, caller, fields)
        yield {"forewarn": ours, "nginx": one, "nginx again": other}


def _check_alike(ours: Server, theirs: Server, caller: str, fields: dict[str, str]) -> None:
    """Refuse to compare servers that do not answer alike."""
    one, other = ours.ask(caller, fields), theirs.ask(caller, fields)
    assert len(one) == len(other), (one, other)
    assert one.partition(b"\r\n\r\n")[2] == other.partition(b"\r\n\r\n")[2], (one, other)
    assert field(one, "ETag") == field(other, "ETag"), (one, other)
    for trial in ({"If-None-Match": field(one, "ETag")}, {"X-Forwarded-For": "10.0.0.1"}):
        assert ours.ask(caller, trial)[:12] == theirs.ask(caller, trial)[:12], trial


def compared(name: str, limit: float, costs: Mapping[str, list[float]]) -> Figure:
    """Set our cost against nginx's, and nginx's against its own."""
    ratio = spread_of(ratios(costs["nginx"], costs["forewarn"]))
    return Figure(
        name=name,
        asked=f"at least {limit} of our CPU",
        limit=limit,
        measured=ratio.median,
        spread=ratio,
        noise=spread_of(ratios(costs["nginx"], costs["nginx again"])),
        detail=f"CPU per request: ours {spread_of(costs['forewarn']).median:.1f} µs,"
        f" nginx {spread_of(costs['nginx']).median:.1f} µs",
    )
