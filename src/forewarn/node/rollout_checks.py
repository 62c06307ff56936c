"""Runs the health gates before a wave of a rollout begins: a program, a URL, a Prometheus query, alerts.

These calls block; call them in a thread. A gate that cannot be run at all raises ``GateUnusable``.
"""

import operator
import os
import re
from pathlib import Path
from urllib.parse import urlencode

import msgspec

from forewarn import child_process
from forewarn.core.errors import Refused
from forewarn.core.redaction import shown_url
from forewarn.core.rollouts.checks import read_threshold
from forewarn.core.rollouts.model import HealthGate, RolloutTerms
from forewarn.core.terms import LONGEST_LINE
from forewarn.http.web_requests import NoWebResponse, WebRequest, WebResponse, send

_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_GRACE = 5.0
_ALERTS_TIMEOUT = 15.0


class GateUnusable(Refused):
    """The gate cannot be run."""


class GateResult(msgspec.Struct, frozen=True):
    """What was found."""

    passed: bool
    detail: str
    firing: tuple[str, ...] = ()
    """The alerts that fire."""


class RolloutChecker:
    """Runs gates, and asks for alerts."""

    def __init__(self, programs: Path | None = None) -> None:
        """``programs``: the directory of the programs that gates may run; none may where it is not set."""
        self.programs = programs

    def check(self, terms: RolloutTerms) -> GateResult:
        """Return whether a wave may begin; a gate that cannot be run keeps it waiting."""
        try:
            if terms.alerts and (firing := self._firing(terms)):
                return GateResult(False, f"alerts fire: {', '.join(firing)}", firing)
            passed, detail = self._run(terms.gate, terms.prometheus) if terms.gate else (True, "no alert fires")
        except GateUnusable as error:
            passed, detail = False, str(error)
        return GateResult(passed, detail[:LONGEST_LINE])

    def try_out(self, terms: RolloutTerms) -> tuple[str, ...]:
        """Run the gate and the query for alerts once; return what would keep a wave back, or raise GateUnusable."""
        found = [f"alert {name} fires now" for name in (self._firing(terms) if terms.alerts else ())]
        if terms.gate:
            passed, detail = self._run(terms.gate, terms.prometheus)
            found += [] if passed else [f"the gate fails now: {detail[:LONGEST_LINE]}"]
        return tuple(found)

    def _run(self, gate: HealthGate, prometheus: str) -> tuple[bool, str]:
        if gate.command:
            return self._run_program(gate)
        if gate.url:
            response = _get(gate.url, gate.timeout)
            return response.is_success, f"{shown_url(gate.url)} answered {response.status}: {response.said}"
        return _run_query(gate, prometheus)

    def _run_program(self, gate: HealthGate) -> tuple[bool, str]:
        if self.programs is None:
            raise GateUnusable(
                "gates may run no programs here; set gate_programs in forewarn.toml to a directory with them"
            )
        name, *arguments = gate.command.split()
        path = self.programs / name
        if Path(name).name != name or not path.is_file():
            raise GateUnusable(f"there is no program {name!r} in {self.programs}; put it there, or name another")
        if not os.access(path, os.X_OK):
            raise GateUnusable(f"{path} is not executable; run 'chmod +x' on it")
        try:
            ended = child_process.run([str(path), *arguments], gate.timeout, _GRACE, _GRACE)
        except (OSError, ValueError) as error:
            raise GateUnusable(f"{path} could not be run: {error}") from None
        said = child_process.last_line(ended.stdout)
        words = [each for each in (ended.problem, said) if each]
        return not ended.problem, f"{name}: {': '.join(words) or 'ended with exit code 0'}"

    def _firing(self, terms: RolloutTerms) -> tuple[str, ...]:
        # Escaped for the regular expression, and then for the string that it is in.
        names = "|".join(map(re.escape, terms.alerts)).replace("\\", "\\\\").replace('"', '\\"')
        query = f'ALERTS{{alertstate="firing",alertname=~"{names}"}}'
        result = _query(terms.prometheus, query, _ALERTS_TIMEOUT)
        return tuple(sorted({str(row.metric.get("alertname", "?")) for row in result}))


class _PrometheusRow(msgspec.Struct):
    metric: dict[str, str] = {}
    value: tuple[float, str] = (0.0, "nan")


class _PrometheusData(msgspec.Struct):
    result: list[_PrometheusRow]


class _PrometheusScalar(msgspec.Struct):
    result: tuple[float, str]


class _PrometheusAnswer(msgspec.Struct):
    data: _PrometheusData


class _PrometheusScalarAnswer(msgspec.Struct):
    data: _PrometheusScalar


def _run_query(gate: HealthGate, prometheus: str) -> tuple[bool, str]:
    comparison, least = read_threshold(gate)
    rows = _query(prometheus, gate.query, gate.timeout)
    if len(rows) != 1:
        raise GateUnusable(
            f"the query has {len(rows)} results, and a gate needs one number; aggregate it, such as with sum()"
        )
    number = float(rows[0].value[1])
    return _COMPARISONS[comparison](number, least), f"the query returned {number:g}; well is {gate.threshold}"


def _query(prometheus: str, query: str, timeout: float) -> list[_PrometheusRow]:
    response = _get(f"{prometheus.rstrip('/')}/api/v1/query?{urlencode({'query': query})}", timeout)
    if not response.is_success:
        raise GateUnusable(f"Prometheus at {shown_url(prometheus)} answered {response.status}: {response.said}")
    try:
        return msgspec.json.decode(response.body, type=_PrometheusAnswer).data.result
    except msgspec.DecodeError:
        pass
    try:
        scalar = msgspec.json.decode(response.body, type=_PrometheusScalarAnswer).data.result
    except msgspec.DecodeError:
        raise GateUnusable(f"{shown_url(prometheus)} does not answer like Prometheus: {response.said}") from None
    return [_PrometheusRow(value=scalar)]


def _get(url: str, timeout: float) -> WebResponse:
    try:
        return send(WebRequest(url, b"", {}, "GET"), timeout)
    except NoWebResponse as error:
        raise GateUnusable(
            f"{shown_url(url)}, which waves depend on, does not answer: {error}; see that it runs, or name another"
        ) from None
