"""One connection of a program: what is sent once it ends."""

import asyncio

from forewarn.agent.local.connection import LocalConnection


class RecordingTransport(asyncio.Transport):
    """Keeps what is written; says that it is closing once it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self._is_closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True


def test_nothing_is_sent_once_a_connection_ends() -> None:
    """Neither after the error that ends it, nor after the program has left."""

    async def story() -> list[bytes]:
        transport = RecordingTransport()
        connection = LocalConnection(lambda _: None, lambda *_: None, lambda _: None, close_timeout=60.0)
        connection.connection_made(transport)
        connection.send_line(b"first\n")
        connection.close_with_error("why")
        connection.send_line(b"second\n")
        connection.connection_lost(None)
        connection.send_line(b"third\n")
        return transport.written

    assert asyncio.run(story()) == [b"first\n", b'{"error":"why"}\n']
