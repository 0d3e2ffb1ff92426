"""`cuzk serve` and `--serve` as processes."""
import json
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from cuzk_cli.status import Tracker, Writer

from .common import FAKE, REAL, answer_of, cuzk, environment

TOKEN = "0123456789abcdef-TOKEN"


def running(folder, *arguments, command=REAL):
    """A process that serves, and its URL."""
    process = subprocess.Popen([*command, *map(str, arguments)], cwd=folder, env=environment(folder), text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return process, url_of(process)


def url_of(process):
    line = process.stderr.readline()
    match = re.fullmatch(r"cuzk: the status is at (\S+)\n", line)
    assert match, line + process.stderr.read()
    return match[1]


def get(url, **headers):
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=20) as response:
        return response.read()


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_until_a_signal(tmp_path, number, code):
    tracker = Tracker(Writer(tmp_path / "status", fsync=False))
    tracker.job_started("A", "snap", [0])
    process, url = running(tmp_path, "serve", "--listen", "127.0.0.1:0")
    answer = json.loads(get(url + "status"))
    assert answer["state"] == "fresh" and answer["pipelines"][0]["job_id"] == "A"
    assert get(url + "healthz") == b"fresh\n" and b"cuzk_up 1" in get(url + "metrics")
    process.send_signal(number)
    out, err = process.communicate(timeout=5)
    assert process.returncode == code and out == "" and err == ""


def test_unix_socket(tmp_path):
    process, url = running(tmp_path, "serve", "--listen", "unix:s")
    assert url == "unix:s" and stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    process.terminate()
    assert process.wait(5) == 143 and not (tmp_path / "s").exists()


def test_token_and_names(tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    process, url = running(tmp_path, "serve", "--listen", "0.0.0.0:0", "--token-file", "token", "--allow-host", "a.example")
    url = url.replace("0.0.0.0", "127.0.0.1")
    for host, code in (("a.example", 401), ("b.example", 403)):
        with pytest.raises(urllib.error.HTTPError) as caught:
            get(url + "status", Host=host)
        assert caught.value.code == code
    assert json.loads(get(url + "status", Host="a.example", Authorization=f"Bearer {TOKEN}"))["state"] == "absent"
    process.terminate()
    process.communicate(timeout=5)


@pytest.mark.parametrize("command, before", [(REAL, ["serve", "--listen"]), (FAKE, ["prove", "snap", "s-t01000-1", "--serve"])])
def test_port_in_use_is_one_line(tmp_path, command, before):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = cuzk(tmp_path, *before, address, command=command)
    found = answer_of(done)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and "in use" in found["errors"][0]["message"]
    assert not (tmp_path / "status").exists()       # before anything was begun


@pytest.mark.parametrize("arguments", [
    ("serve", "--listen", "0.0.0.0:0"), ("serve", "--listen", "nonsense"), ("serve", "--token-file", "none"),
    ("prove", "snap", "s-t01000-1", "--serve", "0.0.0.0:0"), ("prove", "snap", "s-t01000-1", "--token-file", "none")])
def test_refused(tmp_path, arguments):
    done = cuzk(tmp_path, *arguments)
    assert answer_of(done)["exit"] == 2 and done.stderr.count(b"\n") == 1


def test_prove_serves_meanwhile(tmp_path):
    process, url = running(tmp_path, "prove", "snap", "s-t01000-60", "--serve", "127.0.0.1:0", command=FAKE)
    assert process.stderr.readline() == "proving\n"
    answer = json.loads(get(url + "status"))
    assert answer["gpu_workers"][0]["current_job"] == "snap-1000-60-000000000000"
    assert answer["processes"][0]["pid"] == process.pid
    process.terminate()
    out, err = process.communicate(timeout=5)
    assert process.returncode == 143 and json.loads(out)["exit"] == 143 and "Traceback" not in err


def test_prove_ends_though_a_client_stays(tmp_path):
    process, url = running(tmp_path, "prove", "snap", "s-t01000-60", "--serve", "127.0.0.1:0", command=FAKE)
    with socket.create_connection(("127.0.0.1", int(re.search(":([0-9]+)/", url)[1]))) as client:
        client.sendall(b"GET")
        process.terminate()
        process.communicate(timeout=5)
    assert process.returncode == 143


def test_serving_needs_no_prover_and_status_no_server():
    code = ("import sys, cuzk_cli.serve, cuzk_cli.cli.main\n"
            "assert not {'jax', 'numpy', 'numba'} & set(sys.modules), sorted(sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
    code = "import sys, cuzk_cli.cli.main, cuzk_cli.cli.status\nassert 'asyncio' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
