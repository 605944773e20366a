"""Requests to a server over several connections at once, with the time that
each answer took.

`exchange` first sends everything, then lets the caller do something to the
server (kill it, stop it for a while), then collects the answers. A server that
goes away in between leaves a list of answers that is shorter than the list of
requests, and a channel that is `broken`.

SPDX-License-Identifier: MIT
"""
import select
import socket
import time

PATIENCE = 60  # seconds until a silent server counts as hanging


class LineReader:
    """Answers that are lines."""

    def take(self, data):
        end = data.find(b"\n")
        if end < 0:
            return None
        line = bytes(data[:end]).decode(errors="replace")
        del data[:end + 1]
        return line


class RespReader:
    """Answers of Redis: str for a status, int, bytes, None for nil, and an
    Exception for an error. No answer to what is asked here is an array."""

    def take(self, data):
        end = data.find(b"\r\n")
        if end < 0:
            return None
        kind, rest = bytes(data[0:1]), bytes(data[1:end])
        if kind == b"$" and rest != b"-1":
            last = end + 2 + int(rest)
            if len(data) < last + 2:
                return None
            value = bytes(data[end + 2:last])
            del data[:last + 2]
            return (value,)
        del data[:end + 2]
        if kind == b"$":
            return (None,)
        return ({b"+": bytes.decode, b":": int, b"-": lambda text: RuntimeError(text.decode())}[kind](rest),)


class HttpReader:
    """Answers as (status, body as it was sent)."""

    def take(self, data):
        end = data.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = bytes(data[:end]).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        found = self._chunked(data, end + 4) if "chunked" in headers.get("transfer-encoding", "") else \
            self._counted(data, end + 4, int(headers.get("content-length", 0)))
        if found is None:
            return None
        body, last = found
        del data[:last]
        return int(first.split()[1]), body

    @staticmethod
    def _counted(data, at, length):
        return (bytes(data[at:at + length]), at + length) if len(data) >= at + length else None

    @staticmethod
    def _chunked(data, at):
        body = bytearray()
        while (end := data.find(b"\r\n", at)) >= 0:
            length = int(data[at:end], 16)
            at = end + 2 + length + 2
            if len(data) < at:
                return None
            if length == 0:
                return bytes(body), at
            body += data[end + 2:at - 2]
        return None


class Channel:
    """A connection; `address` is a path or (host, port)."""

    def __init__(self, address, reader):
        self.reader, self.data, self.broken = reader, bytearray(), False
        self.socket = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect(address)
        except OSError:
            self.close()

    def close(self):
        self.broken = True
        self.socket.close()


def exchange(batches, midway=None):
    """Sends each of `batches`, which are (channel, [request, ...]), and returns
    for each the list of (answer, microseconds since it was sent)."""
    begun, answers = {}, [[] for _ in batches]
    for i, (channel, requests) in enumerate(batches):
        begun[i] = time.monotonic()
        try:
            if not channel.broken:
                channel.socket.sendall(b"".join(requests))
        except OSError:
            pass  # What it answered before it went away can still be read.
    if midway is not None:
        midway()
    waiting = {channel.socket: i for i, (channel, requests) in enumerate(batches) if not channel.broken and requests}
    deadline = time.monotonic() + PATIENCE
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [], max(0, deadline - time.monotonic()))
        if not ready:
            for i in waiting.values():
                batches[i][0].close()
            break
        for sock in ready:
            i = waiting[sock]
            channel, requests = batches[i]
            try:
                received = sock.recv(1 << 18)
            except OSError:
                received = b""
            now = time.monotonic()
            channel.data += received
            while len(answers[i]) < len(requests) and (answer := channel.reader.take(channel.data)) is not None:
                answers[i].append((answer, (now - begun[i]) * 1e6))
            if len(answers[i]) == len(requests):
                del waiting[sock]
            elif not received:
                channel.close()
                del waiting[sock]
    return answers
