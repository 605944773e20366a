"""A WSGI application: a page of JSON for each request, compressed."""
import json
import zlib


def application(environ, start_response):
    rows = [{"id": i, "name": f"name {i}", "text": "x" * (i % 900)} for i in range(200)]
    body = zlib.compress(json.dumps(rows).encode(), 1)
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Encoding", "deflate"),
                              ("Content-Length", str(len(body)))])
    return [body]
