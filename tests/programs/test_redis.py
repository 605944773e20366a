"""redis-server takes writes and a benchmark, forks to save, and shuts down."""
import re
import socket

import harness

KEYS = 8000


def configuration(runner):
    return ["--port", "0", "--unixsocket", runner.directory / "socket", "--dir", runner.directory,
            "--save", "", "--daemonize", "no", "--io-threads", "2", "--enable-debug-command", "local"]


def start(runner):
    # A socket in our own directory disturbs no other server and needs no port.
    server = runner.start("redis-server", *configuration(runner))
    harness.wait_until((runner.directory / "socket").exists, server, "it listens")
    harness.wait_until(lambda: "PONG" in cli(runner, "PING", status=None), server, "it answers")
    runner.check_server(server)
    return server


def cli(runner, *command, status=0):
    return runner.run("redis-cli", "-s", "socket", *command, status=status).text.strip()


def stop(runner, server):
    # The server closes the connection without an answer.
    runner.run("redis-cli", "-s", "socket", "SHUTDOWN", "SAVE", status=None)
    log = runner.wait(server).text
    # WARNINGs are about the machine's settings.
    if re.search(r"# (?!WARNING).*(?i:error|fail|crash|bug report)", log):
        raise harness.Failure(f"{runner.title}: redis-server reports a fault in its log:\n{harness.last_lines(log)}")


def fill(runner):
    """Writes keys of all kinds and sizes, deletes some, over one connection."""
    def request(*words):
        parts = [str(word).encode() for word in words]
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)

    requests = []
    for i in range(KEYS):
        requests.append(request("SET", f"string:{i}", "v" * (i * 37 % 3000)))
        requests.append(request("HSET", f"hash:{i % 500}", f"field{i}", i, "same", "x" * (i % 200)))
        requests.append(request("RPUSH", f"list:{i % 100}", f"item{i}" * (i % 20)))
        requests.append(request("ZADD", f"sorted:{i % 50}", i * 7 % 1000, f"member{i}"))
        if i % 3 == 0:
            requests.append(request("APPEND", f"string:{i // 2}", "y" * (i % 5000)))
        if i % 4 == 0:
            requests.append(request("DEL", f"string:{i // 4}"))
    requests.append(request("SET", "huge", "z" * 5_000_000))
    requests.append(request("ECHO", "the end"))
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(120)
        connection.connect(str(runner.directory / "socket"))
        answers = bytearray()
        for first in range(0, len(requests), 1000):
            connection.sendall(b"".join(requests[first:first + 1000]))
            connection.setblocking(False)
            try:
                while chunk := connection.recv(1 << 20):
                    answers += chunk
            except BlockingIOError:
                pass
            connection.settimeout(120)
        while not answers.endswith(b"the end\r\n"):
            chunk = connection.recv(1 << 20)
            if not chunk:
                raise harness.Failure(f"{runner.title}: redis-server closed the connection after {len(answers)} bytes")
            answers += chunk
    return bytes(answers)


def test(runner):
    harness.require("redis-server", "redis-cli", "redis-benchmark")
    server = start(runner)
    outputs = {"answers": fill(runner)}
    cli(runner, "BGSAVE")  # the child walks the heap while the parent changes it
    runner.run("redis-benchmark", "-s", "socket", "-q", "-n", "8000", "-c", "30", "-P", "8", "-r", "5000", "-d", "300",
               "-t", "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,mset")
    harness.wait_until(lambda: "rdb_bgsave_in_progress:0" in cli(runner, "INFO", "persistence"), server,
                       "it ended its background save")
    persistence = cli(runner, "INFO", "persistence")
    if "rdb_last_bgsave_status:ok" not in persistence:
        raise harness.Failure(f"{runner.title}: redis-server's background save failed:\n{persistence}")
    # What the benchmark wrote is random; the rest has to be as it was.
    cli(runner, "EVAL", "for _, key in ipairs(redis.call('KEYS', '*')) do "
        "if key:find('__rand_int__') or key:match('%d%d%d%d%d%d%d%d%d%d%d%d$') or key == 'mylist' or key == 'myset' "
        "or key == 'myzset' or key == 'myhash' then redis.call('UNLINK', key) end end", "0")
    outputs["DBSIZE"] = cli(runner, "DBSIZE")
    outputs["digest of the data"] = cli(runner, "DEBUG", "DIGEST")
    stop(runner, server)

    server = start(runner)
    outputs["digest after a restart"] = cli(runner, "DEBUG", "DIGEST")
    stop(runner, server)
    return outputs


if __name__ == "__main__":
    harness.main(test)
