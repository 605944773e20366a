"""A Python server answers from two worker processes with four threads each, which are replaced after some
hundred requests and once for a signal, while `ab` loads it: gunicorn or uwsgi, Python's own allocator left out, so that
all objects are hakmem's."""
import http.client
import re
import shutil
import signal
import sys

import harness

REQUESTS = 400
PATHS = ["text/10", "text/5000", "json/300", "packed/4000", "kept/50", "nothing/1"]
EVERYTHING = {"PYTHONMALLOC": "malloc"}


def command(kind, port):
    if kind == "gunicorn":
        return ["gunicorn", "--bind", f"127.0.0.1:{port}", "--workers", 2, "--threads", 4, "--max-requests", 400,
                "--preload", "--graceful-timeout", 1, "--keep-alive", 0, "--log-level", "error", "wsgi_app:application"]
    return ["uwsgi", "--plugin", "python3", "--http-socket", f"127.0.0.1:{port}", "--master", "--processes", 2,
            "--threads", 4, "--max-requests", 400, "--wsgi-file", "wsgi_app.py", "--die-on-term", "--disable-logging"]


def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", f"/{path}")
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return repr(response.status).encode() + body


def end(server):
    """uwsgi's master loses a signal that comes while it begins anew, under any allocator."""
    for _ in range(30):
        server.signal(signal.SIGTERM)
        if server.ended(2):
            return


def test(runner):
    kind = sys.argv[1]
    harness.require(kind, "ab")
    shutil.copy(harness.FIXTURES / "wsgi_app.py", runner.directory)
    port = harness.free_port()
    server = runner.start(*command(kind, port), env=EVERYTHING)
    harness.wait_until(lambda: harness.can_connect(port), server, "it listens")
    runner.check_server(server)

    outputs = {f"GET /{path}": fetch(port, path) for path in PATHS}
    for path in PATHS[1:5]:
        # -r: a worker that is replaced drops connections, under any allocator
        report = runner.run("ab", "-q", "-r", "-n", REQUESTS, "-c", 8, f"http://127.0.0.1:{port}/{path}").text
        figures = dict(re.findall(r"(?m)^(Complete requests|Non-2xx responses): +(\d+)", report))
        if figures != {"Complete requests": str(REQUESTS)}:
            raise server.failure(f"fails requests for /{path}:\n{harness.last_lines(report)}")

    server.signal(signal.SIGHUP)  # new workers replace the old ones, and in uwsgi a new program the old one
    harness.wait_until(lambda: harness.can_connect(port), server, "it listens again")
    outputs["after a reload"] = fetch(port, "json/300")
    end(server)
    runner.wait(server)
    return outputs


if __name__ == "__main__":
    harness.main(test)
