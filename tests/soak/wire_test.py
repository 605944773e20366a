#!/usr/bin/env python3
"""Tests of the soak's clients: answers that come in pieces, and servers that go
away in between.

SPDX-License-Identifier: MIT
"""
import gzip
import socket
import sys
import unittest

import wire


class Readers(unittest.TestCase):
    def pieces(self, reader, stream, expected):
        """Whatever the pieces, the answers are the same."""
        for size in (1, 2, 7, len(stream)):
            data, answers = bytearray(), []
            for at in range(0, len(stream), size):
                data += stream[at:at + size]
                while (answer := reader.take(data)) is not None:
                    answers.append(answer)
            self.assertEqual(repr(answers), repr(expected), size)
            self.assertEqual(data, b"")

    def test_lines(self):
        self.pieces(wire.LineReader(), b"ok 1\nrefused\n\n", ["ok 1", "refused", ""])

    def test_redis(self):
        self.pieces(wire.RespReader(), b"+OK\r\n:42\r\n$-1\r\n$0\r\n\r\n$4\r\na\r\nb\r\n-OOM no\r\n",
                    [("OK",), (42,), (None,), (b"",), (b"a\r\nb",), (RuntimeError("OOM no"),)])

    def test_http(self):
        body = gzip.compress(b"text", mtime=0)
        stream = (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
                  b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n"
                  + b"%x\r\n" % 5 + body[:5] + b"\r\n%x\r\n" % (len(body) - 5) + body[5:] + b"\r\n0\r\n\r\n"
                  + b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n")
        self.pieces(wire.HttpReader(), stream, [(200, b"abc"), (404, body), (500, b"")])


class Exchange(unittest.TestCase):
    def setUp(self):
        self.channels, self.ends = [], []
        for _ in range(2):
            ours, theirs = socket.socketpair()
            channel = wire.Channel.__new__(wire.Channel)
            channel.reader, channel.data, channel.broken, channel.socket = wire.LineReader(), bytearray(), False, ours
            self.channels.append(channel)
            self.ends.append(theirs)

    def tearDown(self):
        for sock in self.ends + [channel.socket for channel in self.channels]:
            sock.close()

    def test_answers_come_in_order_with_their_times(self):
        def serve():
            self.assertEqual(self.ends[0].recv(100), b"a\nb\n")
            self.ends[1].sendall(b"third\n")
            self.ends[0].sendall(b"first\nsecond\n")

        answers = wire.exchange([(self.channels[0], [b"a\n", b"b\n"]), (self.channels[1], [b"c\n"])], serve)
        self.assertEqual([[answer for answer, _ in some] for some in answers], [["first", "second"], ["third"]])
        self.assertTrue(all(taken > 0 for some in answers for _, taken in some))

    def test_a_server_that_goes_away_leaves_what_it_answered(self):
        def serve():
            self.ends[0].sendall(b"first\nsec")
            self.ends[0].close()
            self.ends[1].sendall(b"third\n")

        answers = wire.exchange([(self.channels[0], [b"a\n", b"b\n"]), (self.channels[1], [b"c\n"])], serve)
        self.assertEqual([[answer for answer, _ in some] for some in answers], [["first"], ["third"]])
        self.assertEqual([channel.broken for channel in self.channels], [True, False])

    def test_a_broken_channel_answers_nothing(self):
        self.channels[0].close()
        self.assertEqual(wire.exchange([(self.channels[0], [b"a\n"])]), [[]])


if __name__ == "__main__":
    sys.exit(unittest.main())
