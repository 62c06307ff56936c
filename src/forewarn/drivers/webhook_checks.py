"""Whether an operator's web service could be asked, and could call back. Nothing is sent: an impact is no trial."""

import errno
import os
import socket
import ssl
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from forewarn.config.values import ListenAddress

_LONGEST = 5.0
"""Seconds for a connection; looking a name up may take longer, and is not waited for."""


def find_problems(
    urls: Iterable[str], secret_file: Path, callback: ListenAddress | None, *, is_running: bool
) -> Iterator[str]:
    """Yield what keeps us from the receiver, or the receiver from us; a service that runs may listen already."""
    yield from _of_secret(secret_file)
    if callback is not None:
        yield from _of_callback(callback, is_running=is_running)
    places = {(parts.scheme, parts.hostname or "", parts.port) for parts in map(urlsplit, urls)}
    for knock in [_ConnectionAttempt(*place) for place in sorted(places, key=str)]:
        if said := knock.said():
            yield f"{knock.place} cannot be asked: {said}"


class _ConnectionAttempt:
    """A connection that is opened and closed, in a thread that nobody has to wait for."""

    def __init__(self, scheme: str, host: str, port: int | None) -> None:
        port = port or _usual(scheme)
        self.place = f"{host}:{port}"
        self._said = ""
        self._is_over = threading.Event()
        threading.Thread(target=self._run, args=(scheme, host, port), name="knocking", daemon=True).start()

    def said(self) -> str:
        """Return what is wrong there; empty if nothing is."""
        if self._is_over.wait(2 * _LONGEST):
            return self._said
        return "its name is not looked up in time; see to the name service of this machine"

    def _run(self, scheme: str, host: str, port: int) -> None:
        try:
            self._said = _try_connection(scheme, host, port)
        finally:
            self._is_over.set()


def _usual(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _try_connection(scheme: str, host: str, port: int) -> str:
    try:
        with socket.create_connection((host, port), _LONGEST) as line:
            if scheme == "https":
                with ssl.create_default_context().wrap_socket(line, server_hostname=host):
                    pass
    except (socket.gaierror, UnicodeError):
        return f"there is no host {host}; see that 'url' of driver 'webhook' is right"
    except ConnectionRefusedError:
        return "nobody listens there; start the receiver, or set 'url' of driver 'webhook'"
    except TimeoutError:
        return f"no answer within {_LONGEST:.0f} s; see that no packet filter is between"
    except ssl.SSLCertVerificationError as error:
        return (
            f"its certificate is not trusted ({error.verify_message}); give it one that is, or install its authority"
        )
    except ssl.SSLError:
        return "it does not speak TLS; write http:// if that is meant"
    except OSError as error:
        return f"{error.strerror or error}; see that it can be reached from here"
    return ""


def _of_secret(path: Path) -> Iterator[str]:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXO | stat.S_IWGRP):
        yield f"others than the service's user can get at the secret in {path}; chmod 600 it"


def _of_callback(endpoint: ListenAddress, *, is_running: bool) -> Iterator[str]:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        if os.name == "posix":
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((endpoint.host, endpoint.port))
            trial.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and is_running:
                return
            what = (
                "another program listens there" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            )
            yield f"nobody can call back on {endpoint}: {what}; set 'callback' of driver 'webhook' elsewhere"
            return
    if is_running and endpoint.port:
        yield f"a service runs, but does not listen for callbacks on {endpoint}; restart it with these settings"
