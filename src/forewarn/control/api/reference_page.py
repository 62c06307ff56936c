"""Renders the API reference as one HTML page, without scripts or external resources."""

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

from forewarn.control.api.openapi import operations_of
from forewarn.control.problems import MEDIA_TYPE

_Document = dict[str, Any]
_EXAMPLE = """\
# On this machine, as the user who runs the service
curl --unix-socket forewarn-data/control.sock http://localhost/v1/vms?group=web

# From elsewhere, with a token of 'forewarn token create'
curl -H "Authorization: Bearer $TOKEN" -H "Idempotency-Key: $(uuidgen)" \\
     -d '{"operation": "restart"}' https://forewarn.example.org:8255/v1/vms/web-0/operations

# Every change, as it happens
curl -N -H "Authorization: Bearer $TOKEN" https://forewarn.example.org:8255/v1/changes"""


def render(document: _Document) -> str:
    style = (files("forewarn.control.api") / "reference_page.css").read_text(encoding="utf-8")
    return "".join(_page(document, style))


def _page(document: _Document, style: str) -> Iterator[str]:
    info = document["info"]
    yield "<!doctype html><html lang=en><head><meta charset=utf-8>"
    yield '<meta name=viewport content="width=device-width,initial-scale=1">'
    yield f"<title>{escape(info['title'])}</title><style>{style}</style></head><body>"
    yield from _contents(document)
    yield f"<main><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    yield from (f"<p>{_text(paragraph)}</p>" for paragraph in info["description"].split("\n\n"))
    yield '<p>The same, for programs: <a href="/openapi.json"><code>/openapi.json</code></a></p>'
    yield f"<pre>{escape(_EXAMPLE)}</pre>"
    for tag in document["tags"]:
        operations = _tagged(document, tag["name"])
        if operations:
            yield f"<h2 id={_anchor(tag['name'])}>{escape(tag['name'])}</h2><p>{_text(tag['description'])}</p>"
            for path, method, operation in operations:
                yield from _operation(path, method, operation)
    yield "<h2 id=records>Records</h2>"
    for name, schema in sorted(document["components"]["schemas"].items(), key=lambda each: _short(each[0])):
        yield from _record(name, schema)
    yield "</main></body></html>"


def _contents(document: _Document) -> Iterator[str]:
    yield "<nav><a class=home href=#>Forewarn</a>"
    for tag in document["tags"]:
        operations = _tagged(document, tag["name"])
        if operations:
            yield f"<a class=tag href=#{_anchor(tag['name'])}>{escape(tag['name'])}</a>"
            for _, _, operation in operations:
                yield f"<a href=#{_anchor(operation['operationId'])}>{escape(operation['summary'])}</a>"
    yield "<a class=tag href=#records>Records</a></nav>"


def _tagged(document: _Document, tag: str) -> list[tuple[str, str, _Document]]:
    return [each for each in operations_of(document) if tag in each[2].get("tags", ())]


def _operation(path: str, method: str, operation: _Document) -> Iterator[str]:
    roles = ", ".join(operation["x-roles"]) or "public"
    yield f"<section id={_anchor(operation['operationId'])}><h3>{escape(operation['summary'])}</h3>"
    yield f"<p class=line><b class={method}>{method.upper()}</b> <code>{_path(path)}</code>"
    yield f"<span class=roles>{escape(roles)}</span></p>"
    yield from (f"<p>{_text(part)}</p>" for part in operation.get("description", "").split("\n\n") if part)
    rows = [_parameter(each) for each in operation.get("parameters", ())]
    if body := operation.get("requestBody"):
        rows += [("body", kind, _type(each["schema"]), "") for kind, each in body["content"].items()]
    yield from _table(("", "takes", "", ""), rows)
    yield from _table(("", "answers", "", ""), list(_answers(operation)))
    yield "</section>"


def _parameter(each: _Document) -> tuple[str, str, str, str]:
    schema = each.get("schema", {})
    usual = schema.get("default")
    text = each.get("description") or schema.get("description") or ""
    text += f" Usually {usual}." if usual not in (None, "") else ""
    return each["in"], each["name"], _type(schema), text


def _answers(operation: _Document) -> Iterator[tuple[str, str, str, str]]:
    problems = []
    for status, answer in operation["responses"].items():
        content = answer.get("content", {})
        if MEDIA_TYPE in content:
            problems.append(status)
            continue
        kinds = ", ".join(dict.fromkeys(_type(each.get("schema", {})) for each in content.values()))
        yield "", status, kinds, answer.get("description", "")
    if problems:
        yield "", " ".join(problems), _type({"$ref": "/ProblemDetails"}), "The problem and its remedy."


def _record(name: str, schema: _Document) -> Iterator[str]:
    yield f"<section id={_anchor(name)}><h3>{escape(_short(name))}</h3>"
    if text := schema.get("description"):
        yield f"<p>{_text(text)}</p>"
    if words := schema.get("enum"):
        yield f"<p>{' | '.join(f'<code>{escape(str(word))}</code>' for word in words)}</p>"
    needed = schema.get("required", ())
    rows = [
        ("needed" if field in needed else "", field, _type(kind), kind.get("description", ""))
        for field, kind in schema.get("properties", {}).items()
    ]
    yield from _table(("", "field", "", ""), rows)
    yield "</section>"


def _table(head: tuple[str, ...], rows: list[tuple[str, str, str, str]]) -> Iterator[str]:
    if not rows:
        return
    yield f"<table><tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"
    for kind, name, type_, text in rows:
        yield f"<tr><td class=kind>{escape(kind)}</td><td><code>{escape(name)}</code></td><td>{type_}</td>"
        yield f"<td>{_text(text)}</td></tr>"
    yield "</table>"


def _type(schema: _Document) -> str:
    """Return the type of a value, with links to records."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"<a href=#{_anchor(name)}>{escape(_short(name))}</a>"
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[choice]))
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(word))}</code>" for word in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}" + _limits(schema)
    kind = schema.get("type", "")
    words = " or ".join(kind) if isinstance(kind, list) else str(kind)
    return escape(f"{words} {schema.get('format', '')}".strip() + _limits(schema))


def _limits(schema: _Document) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least:g} to {most:g}" if most < 10_000 else f", {least:g} to {int(most):,}"
    return f", up to {schema['maxLength']} characters" if "maxLength" in schema else ""


def _short(name: str) -> str:
    """Return the title of a record; a generic one is named after its parameters."""
    whole, _, parts = name.rstrip("_").partition("_")
    return f"{whole} of {parts.replace('_', ', ')}" if parts else whole


def _path(path: str) -> str:
    return escape(path).replace("{", "<i>{").replace("}", "}</i>")


def _text(text: str) -> str:
    """Return text with backticks rendered as code."""
    parts = escape(" ".join(text.split())).split("`")
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _anchor(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name.lower())
