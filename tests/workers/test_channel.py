"""Channels: messages arrive whole and in order, and the other end learns of a close."""

import asyncio
import socket

from forewarn.workers.channel import SocketChannel
from forewarn.workers.messages import Answer, Show, decode_for_worker, encode


def test_messages_arrive_whole_and_in_order() -> None:
    """Short ones that come together, and one longer than any buffer."""

    async def story() -> None:
        ours, theirs = socket.socketpair()
        heard: asyncio.Queue[bytes] = asyncio.Queue()
        sender = await SocketChannel.open(ours, lambda _: None, lambda: None)
        receiver = await SocketChannel.open(theirs, heard.put_nowait, lambda: None)
        sender.send(Answer(1))
        sender.send_encoded(encode(Show()))
        sender.send(Answer(2, "Refused", "x" * 3_000_000))
        assert decode_for_worker(await heard.get()) == Answer(1)
        assert decode_for_worker(await heard.get()) == Show()
        assert decode_for_worker(await heard.get()) == Answer(2, "Refused", "x" * 3_000_000)
        for each in (sender, receiver):
            each.close()

    asyncio.run(story())


def test_a_message_in_pieces_is_one_message() -> None:
    """Wherever the pieces are cut."""
    heard: list[bytes] = []
    channel = SocketChannel(heard.append, lambda: None)
    sent = b"".join(len(body).to_bytes(4, "big") + body for body in (b"first", b"", b"second"))

    for at in range(len(sent)):
        channel.data_received(sent[at : at + 1])

    assert heard == [b"first", b"", b"second"]


def test_the_end_of_the_other_side_is_noticed_after_its_last_message() -> None:
    """What was sent before a close arrives; what is sent to a closed channel is dropped."""

    async def story() -> None:
        ours, theirs = socket.socketpair()
        heard: list[bytes] = []
        is_closed = asyncio.Event()
        sender = await SocketChannel.open(ours, lambda _: None, lambda: None)
        receiver = await SocketChannel.open(theirs, heard.append, is_closed.set)
        sender.send(Show())
        sender.close()
        await is_closed.wait()
        assert heard == [encode(Show())]
        receiver.send(Show())

    asyncio.run(story())
