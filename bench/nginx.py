"""nginx as the measure: one worker that makes the same checks and answers with the same bytes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template

from bench.processes import free_port, running, wait_until_listening
from bench.server import Server
from forewarn.wire import error_responses
from forewarn.wire.bodies import JSON
from forewarn.wire.versions import API_VERSIONS, SCHEDULED_EVENTS

EMPTY = "/empty"
"""A path with no checks, which answers all requests, POST too, with 200 and an empty body."""
_CONFIG = Template("""\
daemon off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid $prefix/nginx.pid;
error_log stderr crit;
events {
    worker_connections 32768;
    multi_accept on;
}
http {
    access_log off;
    server_tokens off;
    keepalive_timeout 3600s;
    keepalive_requests 1000000000;
    client_body_temp_path $prefix/body;
    proxy_temp_path $prefix/proxy;
    fastcgi_temp_path $prefix/fastcgi;
    uwsgi_temp_path $prefix/uwsgi;
    scgi_temp_path $prefix/scgi;
    map_hash_max_size 262144;
    map_hash_bucket_size 128;
    map $$remote_addr $$etag {
        default "";
$etags
    }
    map $$http_metadata $$is_metadata {
        default 0;
        true 1;
    }
    map $$args $$is_version {
        default 0;
$versions
    }
    server {
        listen 127.0.0.1:$port backlog=4096;
        default_type "$content_type";
        location = /metadata/scheduledevents {
            if ($$etag = "") { return 403 '$forbidden'; }
            if ($$is_metadata = 0) { return 400 '$header_missing'; }
            if ($$http_x_forwarded_for) { return 400 '$forwarded'; }
            if ($$is_version = 0) { return 400 '$version_invalid'; }
            if ($$http_if_none_match = $$etag) { return 304; }
            add_header ETag $$etag;
            return 200 '$body';
        }
        location = $empty { return 200; }
        location / { return 404 '$not_found'; }
    }
}
""")


def render_config(prefix: Path, port: int, etags: Mapping[str, str], body: bytes, stretch: int = 0) -> str:
    """Write a configuration that knows the callers by address, each with the ETag of its group's document.

    The Content-Type is made longer or shorter by ``stretch`` bytes, which is the one way for both servers to send
    equally many that costs nginx nothing.
    """
    invalid = error_responses.version_invalid(SCHEDULED_EVENTS.newest)
    return _CONFIG.substitute(
        prefix=prefix,
        port=port,
        empty=EMPTY,
        etags="\n".join(f"        {address} '{etag}';" for address, etag in etags.items()),
        versions="\n".join(f"        api-version={version.name} 1;" for version in API_VERSIONS),
        content_type=(JSON + "." * stretch)[: len(JSON) + stretch],
        body=body.decode(),
        forbidden=error_responses.FORBIDDEN.body.decode(),
        header_missing=error_responses.METADATA_HEADER_MISSING.body.decode(),
        forwarded=error_responses.FORWARDED.body.decode(),
        version_invalid=invalid.body.decode(),
        not_found=error_responses.NOT_FOUND.body.decode(),
    )


@contextmanager
def serving(directory: Path, core: int, etags: Mapping[str, str], body: bytes, stretch: int = 0) -> Iterator[Server]:
    """Run nginx with a directory of its own for as long as the block lasts."""
    port = free_port()
    prefix = directory / f"nginx-{port}"
    prefix.mkdir()
    config, log = prefix / "nginx.conf", prefix / "log"
    config.write_text(render_config(prefix, port, etags, body, stretch), "utf-8")
    with running(["nginx", "-p", str(prefix), "-c", str(config)], core, log) as process:
        wait_until_listening(port, process, log, 30)
        yield Server("nginx", port, process.pid)
