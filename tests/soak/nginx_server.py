"""nginx under soak: files plain, compressed, rewritten and through a proxy, with
the configuration of the program test.

SPDX-License-Identifier: MIT
"""
import getpass
import signal
import zlib

import member
import plan
import record
import wire

CONNECTIONS = 12
LINES = {"empty.txt": 0, "small.html": 3, "medium.txt": 1500, "large.txt": 20000}
PLACES = ("", "packed/", "changed/", "through/")


class Nginx(member.Member):
    name = "nginx"
    kinds = [plan.KILL, "pause", "reload", "limit-data", "limit-address-space"]
    workers_are_server = True

    def prepare(self):
        member.harness.require("nginx")
        files = self.runner.directory / "files"
        files.mkdir()
        self.runner.directory.parent.chmod(0o755)  # for workers that give up root
        self.contents = {}
        for name, lines in LINES.items():
            text = "".join(f"line {i * 7919 % 1000} of {name}\n" for i in range(lines)).encode()
            (files / name).write_bytes(text)
            for place in PLACES:
                self.contents[place + name] = text
            self.contents["changed/" + name] = text.replace(b"line", b"LINE-OF-TEXT")
        self.port = member.harness.free_port()
        text = (member.harness.FIXTURES / "nginx.conf").read_text()
        text = text.replace("PORT", str(self.port)).replace("USER", getpass.getuser())
        (self.runner.directory / "nginx.conf").write_text(text)

    def launch(self):
        process = self.runner.start("nginx", "-p", self.runner.directory, "-c", "nginx.conf", "-e", "stderr")
        member.harness.wait_until(lambda: member.harness.can_connect(self.port), process, "it listens")
        return process

    def connect(self):
        return wire.Channel(("127.0.0.1", self.port), wire.HttpReader())

    def step(self, midway=None):
        requests = [[self.request(self.draw.choice(list(self.contents)))] for _ in range(CONNECTIONS)]
        channels = self.refresh(CONNECTIONS)
        outcomes = member.ask(channels, requests, self.judge, midway)
        # nginx may close a connection that waits for its next request, as when it
        # reloads; HTTP's clients then ask again on a new one.
        again = [i for i, outcome in enumerate(outcomes) if outcome.kind == record.FAILED and not channels[i].data]
        if again and not self.gone():
            fresh = [self.connect() for _ in again]
            for i, outcome in zip(again, member.ask(fresh, [requests[i] for i in again], self.judge)):
                outcomes[i] = outcome
            for channel in fresh:
                channel.close()
        return outcomes

    @staticmethod
    def request(path):
        return f"GET /{path} HTTP/1.1\r\nHost: soak\r\nAccept-Encoding: gzip\r\n\r\n".encode(), path

    def judge(self, path, answer, microseconds):
        status, body = answer
        if status != 200:
            kind = record.REFUSED if status in (500, 502, 503) else record.FAILED
            return record.Outcome(kind, microseconds, f"/{path} is answered with {status}")
        if body.startswith(b"\x1f\x8b"):
            try:
                body = zlib.decompress(body, 31)
            except zlib.error:
                body = None
        if body != self.contents[path]:
            return record.Outcome(record.WRONG, microseconds, f"/{path} has a wrong body")
        return record.Outcome(record.OK, microseconds)

    def kill(self):
        result = super().kill()
        (self.runner.directory / "nginx.pid").unlink(missing_ok=True)
        return result

    def event(self, kind):
        # New workers replace the old ones, which end when their connections do.
        self.process.signal(signal.SIGHUP)
        return []

    def drop(self):
        self.hang_up()
        return []

    def trickle(self):
        return member.ask(self.refresh(1), [[self.request("small.html")]], self.judge)

    def end(self):
        self.process.signal(signal.SIGQUIT)
        return 0
