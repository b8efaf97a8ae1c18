"""A wire between client and server that is cut after so many messages."""

import socket
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Self


class Proxy:
    """Passes on what is sent to a port of its own, counts the pieces, and hangs up in place of the chosen one."""

    def __init__(self, port: int, *, cut: int) -> None:
        """Stand before a port of loopback."""
        self.passed = 0
        self.heard = bytearray()  # all that the server said
        self._cut = cut
        self._behind = port
        self._lock = Lock()
        self._ends: list[socket.socket] = []
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        self._threads = [Thread(target=self._welcome, daemon=True)]
        self._threads[0].start()

    def _welcome(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._door.accept()
                server = socket.create_connection(("127.0.0.1", self._behind))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._ends += [client, server]
                for source, sink, heard in ((client, server, bytearray()), (server, client, self.heard)):
                    self._threads.append(Thread(target=self._carry, args=(source, sink, heard), daemon=True))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, sink: socket.socket, heard: bytearray) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                with self._lock:
                    self.passed += 1
                    heard += piece
                    if self.passed >= self._cut:
                        break
                    sink.sendall(piece)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        """Return the proxy."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take the wire down."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=5)
        for end in self._ends:
            end.close()
