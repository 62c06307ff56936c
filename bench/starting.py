"""How long ``forewarn events`` takes to start, and for what: the interpreter, libraries, our modules, the request.

Each is a process of its own, on a core of its own; all take turns.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import median
from time import perf_counter

from bench.figures import Figure, ratios, spread_of
from bench.machine import cores, staying_on
from bench.rounds import alternate
from bench.server import Server

_LIBRARIES = "import click, msgspec"
_MODULES = "import forewarn.cli.root, forewarn.cli.events, forewarn.client.client"
_STANDARD = "import argparse, http.client, json"
_REQUEST = """
import sys, time
import forewarn.client.client
from forewarn.cli.vm_commands import name_of, open_client
began = time.perf_counter()
with open_client(sys.argv[1], None) as client:
    document = client.document()
    name_of(client, document)
print(time.perf_counter() - began)
"""


def starting(server: Server, environment: Mapping[str, str], *, rounds: int) -> Iterator[Figure]:
    """Measure the whole command against an interpreter that does nothing, and its parts."""
    _, load = cores()
    url = f"http://127.0.0.1:{server.port}"
    programs = {
        "nothing": ["-c", "pass"],
        "again": ["-c", "pass"],
        "libraries": ["-c", _LIBRARIES],
        "modules": ["-c", _MODULES],
        "standard": ["-c", _STANDARD],
        "events": ["-m", "forewarn", "events", "--url", url],
    }
    measures = {name: partial(_seconds, words, environment) for name, words in programs.items()}
    with staying_on(load):
        for measure in measures.values():
            measure()
        took = alternate(measures | {"request": partial(_request, url, environment)}, rounds)
    yield figure_of(took)


def figure_of(took: Mapping[str, list[float]]) -> Figure:
    """Sum up what was measured: what is left of the command without its request, in terms of an empty program."""
    nothing = took["nothing"]
    without_request = [whole - request for whole, request in zip(took["events"], took["request"], strict=True)]
    spread = spread_of(ratios(without_request, nothing))
    middle = {name: median(series) * 1e3 for name, series in took.items()}
    times = {name: median(ratios(series, nothing)) for name, series in took.items()}
    return Figure(
        name="start of `forewarn events`, its request not counted",
        asked="within 3 times `python -c pass`",
        limit=3.0,
        is_at_least=False,
        measured=spread.median,
        unit="times",
        spread=spread,
        noise=spread_of(ratios(took["again"], nothing)),
        detail=f"`python -c pass` {middle['nothing']:.0f} ms; importing click and msgspec makes it"
        f" {times['libraries']:.1f} times that, our modules {times['modules']:.1f}, the whole command"
        f" {times['events']:.1f}; its requests take {middle['request']:.1f} ms of {middle['events']:.0f} ms. For"
        f" comparison, importing argparse, http.client and json of the standard library: {times['standard']:.1f}",
    )


def _seconds(words: list[str], environment: Mapping[str, str]) -> float:
    began = perf_counter()
    subprocess.run([sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - began


def _request(url: str, environment: Mapping[str, str]) -> float:
    """Return the seconds that the command's requests take, in a process that has imported everything."""
    done = subprocess.run(
        [sys.executable, "-c", _REQUEST, url], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout)
