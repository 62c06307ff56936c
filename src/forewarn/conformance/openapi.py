"""Generates the OpenAPI document of the metadata endpoint from the wire tables."""

from typing import Any

import msgspec

from forewarn.conformance.rules import BY_NAME as RULES_BY_NAME
from forewarn.conformance.rules import ProtocolRule
from forewarn.conformance.server import EVENTS, INSTANCE, VERSIONS
from forewarn.core.model import EventStatus
from forewarn.wire import error_responses, versions
from forewarn.wire.azure_names import SOURCES, STATUSES, TYPES
from forewarn.wire.bodies import JSON, TEXT
from forewarn.wire.document import shown_fields
from forewarn.wire.versions import API_VERSIONS, NEWEST

Part = dict[str, Any]

_ABOUT = """\
Azure's Scheduled Events, as served by Forewarn: what is announced to a VM before an impact, and how the VM approves \
it. The reference of the protocol describes every rule.

Requests come straight from the VM, never through a proxy, with the header `Metadata: true`, at most 5 a second.\
"""
_EVENT: dict[str, Part] = {
    "EventId": {
        "type": "string",
        "format": "uuid",
        "description": "A GUID in upper case; the same from Scheduled to the event's end.",
    },
    "EventStatus": {"type": "string", "enum": [STATUSES[EventStatus.SCHEDULED], STATUSES[EventStatus.STARTED]]},
    "EventType": {"type": "string", "enum": list(TYPES.values())},
    "ResourceType": {"type": "string", "const": "VirtualMachine"},
    "Resources": {"type": "array", "items": {"type": "string"}, "description": "The names of the VMs it impacts."},
    "NotBefore": {
        "type": "string",
        "description": "RFC 1123 in GMT; empty once the event is Started. It starts earlier only if approved.",
        "examples": ["Mon, 19 Sep 2016 18:29:47 GMT", ""],
    },
    "Description": {"type": "string"},
    "EventSource": {"type": "string", "enum": list(SOURCES.values())},
    "DurationInSeconds": {
        "type": "integer",
        "minimum": -1,
        "description": "The expected interruption; -1 where it is not known.",
    },
}
_REFUSALS_OF_ALL = (
    "refused-stranger",
    "refused-deallocated",
    "refused-rate",
    "refused-without-header",
    "refused-forwarded",
    "refused-duplicate",
)


def describe() -> Part:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Scheduled Events",
            "version": NEWEST.name,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://169.254.169.254", "description": "From inside a VM"}],
        "paths": {
            EVENTS: {
                "parameters": [_version_parameter(versions.SCHEDULED_EVENTS.names)],
                "get": _get_events(),
                "post": _post_events(),
            },
            INSTANCE: {
                "parameters": [_version_parameter(versions.INSTANCE.names), _METADATA],
                "get": _get_instance(),
            },
            VERSIONS: {"parameters": [_METADATA], "get": _get_versions()},
        },
        "components": {"schemas": _schemas()},
    }


def _get_events() -> Part:
    return {
        "operationId": "getScheduledEvents",
        "summary": "What is about to happen to the VMs of the caller's group",
        "parameters": [
            _METADATA,
            _header("If-None-Match", "The ETag of the document that is known: 304 while it has not changed."),
            _header("Prefer", "`wait=N` beside If-None-Match: answer when it changes, or after N seconds. Ours."),
        ],
        "responses": {
            "200": {
                "description": "The document. Its shape depends on the api-version.",
                "headers": {"ETag": {"schema": {"type": "string"}}},
                "content": {
                    JSON: {"schema": {"anyOf": [_ref(_document(each.name)) for each in reversed(API_VERSIONS)]}}
                },
            },
            "304": {"description": "It has not changed."},
        }
        | _refusals(*_REFUSALS_OF_ALL, "refused-version", "refused-while-failing"),
    }


def _post_events() -> Part:
    optional = [each.name for each in API_VERSIONS if not each.header_required_on_post]
    return {
        "operationId": "approveScheduledEvents",
        "summary": "Say that events may start before their time",
        "parameters": [
            _METADATA | {"required": False, "description": f"Required except with {', '.join(optional)}."}
        ],
        "requestBody": {"required": True, "content": {JSON: {"schema": _ref("Approval")}}},
        "responses": {"200": {"description": "They may start, as far as the caller is concerned."}}
        | _refusals(
            *_REFUSALS_OF_ALL, "refused-version", "refused-body", "refused-large-body", "refused-while-failing"
        ),
    }


def _get_instance() -> Part:
    return {
        "operationId": "getInstance",
        "summary": "What the caller's VM knows of itself",
        "parameters": [
            {
                "name": "format",
                "in": "query",
                "schema": {"type": "string", "enum": ["json", "text"], "default": "json"},
            }
        ],
        "responses": {
            "200": {
                "description": "The VM.",
                "content": {JSON: {"schema": _ref("Instance")}, TEXT: {"schema": {"type": "string"}}},
            }
        }
        | _refusals(*_REFUSALS_OF_ALL, "refused-version", "refused-format"),
    }


def _get_versions() -> Part:
    return {
        "operationId": "getVersions",
        "summary": "Every api-version there is",
        "responses": {"200": {"description": "Oldest first.", "content": {JSON: {"schema": _ref("Versions")}}}}
        | _refusals(*_REFUSALS_OF_ALL),
    }


def _schemas() -> dict[str, Part]:
    schemas: dict[str, Part] = {}
    for version in API_VERSIONS:
        fields = {name: _EVENT[name] for name in shown_fields(version)}
        fields["EventType"] = {
            "type": "string",
            "enum": [word for kind, word in TYPES.items() if kind in version.types],
        }
        schemas[_event(version.name)] = _object(fields) | {"title": f"An event in {version.name}"}
        schemas[_document(version.name)] = _object(
            {
                "DocumentIncarnation": {"type": "integer", "description": "Changes with the events; compare with =."},
                "Events": {"type": "array", "items": _ref(_event(version.name))},
            }
        )
    start = _object({"EventId": {"type": "string", "description": "In any case."}})
    schemas["Approval"] = _object({"StartRequests": {"type": "array", "items": start}})
    schemas["Versions"] = _object({"apiVersions": {"type": "array", "items": {"enum": list(versions.ALL.names)}}})
    schemas["Instance"] = _object({"compute": {"type": "object"}, "network": {"type": "object"}})
    newest = {"type": "array", "items": {"type": "string"}}
    refusal = _object({"error": {"type": "string"}})
    schemas["Refusal"] = refusal | {"properties": refusal["properties"] | {"newest-versions": newest}}
    return schemas


def _refusals(*names: str) -> dict[str, Part]:
    """Tell the refusals of these names, those of one status together."""
    rules_by_status: dict[str, list[ProtocolRule]] = {}
    for name in names:
        rule = RULES_BY_NAME[name]
        if rule.problem:
            rules_by_status.setdefault(str(rule.problem.status), []).append(rule)
    return {status: _describe_refusal(rules) for status, rules in sorted(rules_by_status.items())}


def _describe_refusal(rules: list[ProtocolRule]) -> Part:
    reason = error_responses.REASONS[rules[0].problem.status] if rules[0].problem else ""
    bodies = {rule.name: msgspec.json.decode(rule.problem.body) if rule.problem else None for rule in rules}
    examples = {name: {"value": body} for name, body in bodies.items()}
    return {
        "description": f"{reason}: {'; or '.join(rule.promise for rule in rules)}.",
        "content": {JSON: {"schema": _ref("Refusal"), "examples": examples}},
    }


def _object(properties: dict[str, Part]) -> Part:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _event(version: str) -> str:
    return f"Event-{version}"


def _document(version: str) -> str:
    return f"Document-{version}"


def _ref(name: str) -> Part:
    return {"$ref": f"#/components/schemas/{name}"}


def _version_parameter(names: tuple[str, ...]) -> Part:
    schema = {"type": "string", "enum": list(names)}
    return {"name": "api-version", "in": "query", "required": True, "schema": schema}


def _header(name: str, description: str) -> Part:
    return {"name": name, "in": "header", "schema": {"type": "string"}, "description": description}


_METADATA: Part = {
    "name": "Metadata",
    "in": "header",
    "required": True,
    "schema": {"type": "string", "const": "true"},
}
