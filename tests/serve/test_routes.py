"""Every route, and who is refused: methods, hosts, tokens, paths."""
import json
import re

import jsonschema
import pytest

from cuzk_cli.status import schema

from .common import TOKEN, ask, raw, serving

UPSTREAM = ("uptime_secs", "memory", "synthesis", "pipelines", "gpu_workers", "allocations", "counters")


def test_status_is_what_cuzk_status_says(server):
    got = ask(server)
    answer = json.loads(got.body)
    assert got.status == 200 and got.headers["Content-Type"] == "application/json" and got.body.count(b"\n") == 1
    jsonschema.Draft202012Validator(schema.ANSWER).validate(answer)
    assert set(UPSTREAM) < set(answer) and answer["gpu_workers"][0]["current_partition"] == 3
    assert [epoch["partition"] for epoch in answer["epochs"]] == [2]


def test_status_with_a_query_as_pollers_add_it(server):
    assert ask(server, "/status?t=1796138481").status == 200


def test_metrics(server):
    got = ask(server, "/metrics")
    assert got.status == 200 and got.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"\ncuzk_gpu_workers_proving 1\n" in got.body and got.body.endswith(b"\n")


def test_healthz(server, folder, tmp_path):
    got = ask(server, "/healthz")
    assert (got.status, got.body) == (200, b"fresh\n")
    empty = serving(tmp_path / "none")
    assert ask(empty, "/healthz").body == b"absent\n"
    empty.close()
    next(folder.iterdir()).write_text("{")
    half = serving(folder)
    assert (ask(half, "/healthz").status, ask(half, "/healthz").body) == (503, b"unreadable\n")
    assert ask(half).status == 200
    half.close()


def test_page(server):
    got = ask(server, "/")
    policy = got.headers["Content-Security-Policy"]
    assert got.status == 200 and got.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy
    assert len(re.findall("'sha256-[A-Za-z0-9+/=]{44}'", policy)) == 2


@pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/healthz"])
def test_no_route_lets_other_sites_in(server, path):
    got = ask(server, path, Origin="https://evil.example")
    assert not [name for name in got.headers if name.lower().startswith("access-control-")]
    assert got.headers["X-Content-Type-Options"] == "nosniff" and got.headers["Cache-Control"] == "no-store"
    assert got.headers["Cross-Origin-Resource-Policy"] == "same-origin" and "Server" not in got.headers


@pytest.mark.parametrize("path", ["/", "/status", "/metrics", "/healthz", "/nothing"])
def test_head_is_get_without_the_body(server, path):
    got, whole = ask(server, path, "HEAD"), ask(server, path)
    assert got.status == whole.status and got.body == b"" and got.headers["Content-Type"] == whole.headers["Content-Type"]
    assert abs(int(got.headers["Content-Length"]) - len(whole.body)) < 50      # ages grow


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "get", "PRI"])
def test_other_methods_are_refused(server, method):
    got = ask(server, method=method)
    assert got.status == 405 and got.headers["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/x", "/status/", "/status/..", "//status", "/%73tatus", "/../etc/passwd", "/page.html"])
def test_other_paths_are_not_there(server, path):
    assert ask(server, path).status == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9821", "localhost.evil.example", "127.0.0.1.evil.example",
                                  "", "localhost:", "[::1", "[evil]", "a b", "localhost:123456", "user@localhost", "0x7f.1"])
def test_hosts_of_others_are_refused(server, host):
    assert ask(server, host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9821", "localhost.", "127.0.0.1", "127.0.0.1:80", "[::1]:9821",
                                  "192.168.1.7:9821"])
def test_addresses_and_localhost_are_known(server, host):
    assert ask(server, host=host).status == 200


def test_host_by_name(folder):
    server = serving(folder, hosts=("Prover-1.example",))
    assert ask(server, host="prover-1.example:9821").status == 200 and ask(server, host="other.example").status == 403
    server.close()


def test_without_a_host_only_in_http_1_0(server):
    assert raw(server, b"GET /status HTTP/1.0\r\n\r\n").status == 200
    assert raw(server, b"GET /status HTTP/1.1\r\n\r\n").status == 400


@pytest.fixture
def guarded(folder):
    found = serving(folder, token=TOKEN)
    yield found
    found.close()


@pytest.mark.parametrize("path", ["/status", "/metrics", "/healthz"])
def test_token(guarded, path):
    refused = ask(guarded, path)
    assert refused.status == 401 and refused.headers["WWW-Authenticate"] == "Bearer" and b"pipelines" not in refused.body
    for value in (f"Bearer {TOKEN}", f"bearer {TOKEN}", f"BEARER  {TOKEN} "):
        assert ask(guarded, path, Authorization=value).status == 200


@pytest.mark.parametrize("value", ["", "Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}",
                                   f"Bearer {TOKEN}x", f"Bearer {TOKEN.upper()}", "Bearer \xff" * 9])
def test_wrong_tokens(guarded, value):
    assert ask(guarded, Authorization=value).status == 401


def test_a_token_stands_nowhere_else(guarded):
    assert ask(guarded, f"/status?token={TOKEN}").status == 401
    assert ask(guarded, Cookie=f"token={TOKEN}").status == 401
    two = f"GET /status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    assert raw(guarded, two.encode()).status == 400


def test_the_page_itself_holds_no_data_and_needs_no_token(guarded):
    got = ask(guarded, "/")
    assert got.status == 200 and b"0123456789ab" not in got.body
