"""Checks of a webhook receiver: whether it can be reached, and can call back. Nothing is sent."""

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
from forewarn.http.tls import make_client_context

_LONGEST = 5.0
"""Timeout of a connection in seconds; a DNS lookup may take longer and is not waited for."""


def find_problems(
    urls: Iterable[str], secret_file: Path, callback: ListenAddress | None, *, is_running: bool
) -> Iterator[str]:
    """Yield problems in either direction; a running service may use the callback port already."""
    yield from _of_secret(secret_file)
    if callback is not None:
        yield from _of_callback(callback, is_running=is_running)
    places = {(parts.scheme, parts.hostname or "", parts.port) for parts in map(urlsplit, urls)}
    for attempt in [_ConnectionAttempt(*place) for place in sorted(places, key=str)]:
        if problem := attempt.problem():
            yield f"cannot connect to {attempt.place}: {problem}"


class _ConnectionAttempt:
    """A connection that is opened and closed, in a daemon thread."""

    def __init__(self, scheme: str, host: str, port: int | None) -> None:
        port = port or (443 if scheme == "https" else 80)
        self.place = f"{host}:{port}"
        self._problem = ""
        self._is_over = threading.Event()
        threading.Thread(target=self._run, args=(scheme, host, port), name="webhook-check", daemon=True).start()

    def problem(self) -> str:
        """Return what is wrong; empty if nothing is."""
        if self._is_over.wait(2 * _LONGEST):
            return self._problem
        return "the DNS lookup timed out; check the DNS configuration of this machine"

    def _run(self, scheme: str, host: str, port: int) -> None:
        try:
            self._problem = _try_connection(scheme, host, port)
        finally:
            self._is_over.set()


def _try_connection(scheme: str, host: str, port: int, longest: float = _LONGEST) -> str:
    try:
        with socket.create_connection((host, port), longest) as line:
            if scheme == "https":
                with make_client_context().wrap_socket(line, server_hostname=host):
                    pass
    except (socket.gaierror, UnicodeError):
        return f"there is no host {host}; check 'url' of driver 'webhook'"
    except ConnectionRefusedError:
        return "connection refused; start the receiver, or change 'url' of driver 'webhook'"
    except TimeoutError:
        return f"no answer within {longest:.0f} s; check packet filters in between"
    except ssl.SSLCertVerificationError as error:
        return f"its certificate is not trusted ({error.verify_message}); use another, or install its authority"
    except ssl.SSLError:
        return "it does not support TLS; use http:// if that is intended"
    except OSError as error:
        return f"{error.strerror or error}; check that it can be reached from this machine"
    return ""


def _of_secret(path: Path) -> Iterator[str]:
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXO | stat.S_IWGRP):
        yield f"the secret in {path} is accessible to other users; run 'chmod 600' on it"


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
            yield f"cannot listen for callbacks on {endpoint}: {what}; change 'callback' of driver 'webhook'"
            return
    if is_running and endpoint.port:
        yield f"the running service does not listen for callbacks on {endpoint}; restart it with these settings"
