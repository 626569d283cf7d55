"""A hub that is played on this machine: it serves a folder, or whatever it is told to answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORIES = ("/models/", "/datasets/", "/resolve/")


@dataclass
class Hub:
    """What is served and answered.

    Attributes:
        address: of the server.
        folder: a model of any id; nothing else is there.
        refusals: answers before anything is served: (status, headers), one a request.
        always: the answer to every request; None serves the folder.
        asked: the paths asked for, in order.
    """

    address: str
    folder: Path | None = None
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    always: tuple[int, dict[str, str]] | None = None
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body; what the client asks on its own behalf counts as nothing."""
        if not any(place in path for place in REPOSITORIES):
            return 404, {}, b"{}"
        self.asked.append(path)
        if self.refusals or self.always:
            status, headers = self.refusals.pop(0) if self.refusals else self.always or (500, {})
            return status, headers, json.dumps({"error": "played"}).encode()
        return self._served(path.partition("?")[0])

    def _served(self, path: str) -> tuple[int, dict[str, str], bytes]:
        files = sorted(p for p in self.folder.iterdir() if p.is_file()) if self.folder else []
        commit = {"X-Repo-Commit": COMMIT}
        if "/resolve/" in path:
            content = next(p.read_bytes() for p in files if path.endswith("/" + p.name))
            etag = hashlib.sha1(content).hexdigest()
            return 200, commit | {"ETag": f'"{etag}"'}, content
        if "/tree/" in path:
            return 200, commit, json.dumps([_entry(p) for p in files]).encode()
        if path.endswith("/auth-check"):
            return 200, {}, b"{}"
        siblings = [{"rfilename": p.name} for p in files]
        whole: dict[str, Any] = {"id": "o/n", "sha": COMMIT, "siblings": siblings}
        return 200, commit, json.dumps(whole | {"private": False, "tags": []}).encode()


def _entry(path: Path) -> dict[str, Any]:
    oid = hashlib.sha1(path.read_bytes()).hexdigest()
    return {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": oid}


@contextmanager
def playing() -> Iterator[Hub]:
    """A hub on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = hub.answer(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            """Nothing: what was asked is kept."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub = Hub(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
