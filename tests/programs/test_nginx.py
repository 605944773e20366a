"""nginx serves files plainly, compressed, rewritten and through a proxy, from
two worker processes with a pool of threads each, while `ab` loads it."""
import getpass
import http.client
import os
import re
import signal

import harness

REQUESTS = 4000


def fetch(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
    response = connection.getresponse()
    headers = sorted((name, value) for name, value in response.getheaders() if name != "Date")
    body = response.read()
    connection.close()
    return repr((response.status, headers)).encode() + body


def test(runner):
    harness.require("nginx", "ab")
    files = runner.directory / "files"
    files.mkdir()
    runner.directory.parent.chmod(0o755)  # for workers that give up root
    sizes = {"empty.txt": 0, "small.html": 3, "medium.txt": 1500, "large.txt": 60000}
    for name, lines in sizes.items():
        (files / name).write_text("".join(f"line {i * 7919 % 1000} of {name}\n" for i in range(lines)))
        os.utime(files / name, (1700000000, 1700000000))

    port = harness.free_port()
    text = (harness.FIXTURES / "nginx.conf").read_text()
    text = text.replace("PORT", str(port)).replace("USER", getpass.getuser())
    (runner.directory / "nginx.conf").write_text(text)
    server = runner.start("nginx", "-p", runner.directory, "-c", "nginx.conf", "-e", "stderr")
    harness.wait_until(lambda: harness.can_connect(port), server, "it listens")
    runner.check_server(server)

    outputs = {f"GET /{place}{name}": fetch(port, f"/{place}{name}")
               for place in ("", "packed/", "changed/", "through/") for name in (*sizes, "missing.txt")}
    for path in ("small.html", "packed/medium.txt", "changed/medium.txt", "through/medium.txt"):
        report = runner.run("ab", "-q", "-k", "-n", REQUESTS, "-c", 20, "-H", "Accept-Encoding: gzip",
                            f"http://127.0.0.1:{port}/{path}").text
        figures = dict(re.findall(r"(?m)^(Complete requests|Failed requests|Non-2xx responses): +(\d+)", report))
        if figures != {"Complete requests": str(REQUESTS), "Failed requests": "0"}:
            raise server.failure(f"fails requests for /{path}:\n{harness.last_lines(report)}")

    server.signal(signal.SIGHUP)  # new workers replace the old ones
    outputs["GET /large.txt after a reload"] = fetch(port, "/large.txt")
    server.signal(signal.SIGQUIT)
    outputs["error log"] = re.sub(r"(?m)^\S+ \S+ |\d+#\d+: (\*\d+ )?|127.0.0.1:\d+", "",
                                  runner.wait(server).errors)
    return outputs


if __name__ == "__main__":
    harness.main(test)
