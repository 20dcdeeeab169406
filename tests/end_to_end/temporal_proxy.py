"""A proxy between weir and a real Temporal service that goes wrong on purpose. It reads the frames of HTTP/2, so it knows
which streams are starts and loses the answers of some after the service has given them: what was asked for is done, and
weir does not hear of it.

Header blocks of the service can be dropped one by one because the proxy has it use no table for them: it adds
HEADER_TABLE_SIZE 0 to the settings that the client sends.
"""

import asyncio
import collections
import random
import struct
import threading

PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
DATA, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INTERNAL_ERROR, CANCEL = 2, 8
START_MARK = b'weir_execution'  # the memo's key: of all that weir sends, only starts have it
UNAVAILABLE_HEADERS = (b'\x88'  # :status 200
                       b'\x0f\x10\x10application/grpc' b'\x00\x0bgrpc-status\x0214' b'\x00\x0cgrpc-message\x04gone')
# What becomes of a start whose answer is lost.
FATES = ('silence', 'reset', 'cancel', 'cut', 'no_trailers', 'unavailable')


def frame(kind, flags, stream, payload=b''):
    return struct.pack('>I', len(payload))[1:] + bytes((kind, flags)) + struct.pack('>I', stream) + payload


def send(side, data):
    if not side.transport.is_closing():
        side.write(data)


class Frames:
    """Takes bytes as they come, gives whole frames: (type, flags, stream, payload, all bytes)."""

    def __init__(self):
        self.bytes = b''

    def take(self, data):
        self.bytes += data
        while len(self.bytes) >= 9:
            length = int.from_bytes(self.bytes[:3], 'big')
            if len(self.bytes) < 9 + length:
                return
            whole, self.bytes = self.bytes[:9 + length], self.bytes[9 + length:]
            yield whole[3], whole[4], int.from_bytes(whole[5:9], 'big') & 0x7fffffff, whole[9:], whole


class Link:
    """One connection of a client, and its own to the service."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.fates = {}  # stream -> what becomes of the answer
        self.has_settings = False
        self.is_half_open = False  # both ends think that it lives; nothing comes through

    def from_client(self, kind, flags, stream, payload, whole):
        if kind == SETTINGS and not flags & ACK and not self.has_settings:
            self.has_settings = True
            whole = frame(SETTINGS, 0, 0, payload + struct.pack('>HI', 1, 0))
        if kind == DATA and self.proxy.mark in payload:
            self.proxy.starts += 1
            if self.proxy.holds:
                return
            if self.proxy.chance.random() < self.proxy.loses:
                self.fates[stream] = self.proxy.next_fate()
        send(self.server, whole)

    def from_server(self, kind, flags, stream, payload, whole):
        fate = self.fates.get(stream)
        if fate is None or kind not in (DATA, HEADERS, RST_STREAM, CONTINUATION):
            send(self.client, whole)
            return
        is_end = kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM)
        if kind == DATA and payload:
            send(self.server, frame(WINDOW_UPDATE, 0, 0, struct.pack('>I', len(payload))))
        if fate == 'no_trailers' and not is_end:
            send(self.client, whole)
        if is_end:
            del self.fates[stream]
            self.proxy.lost[fate] += 1
            self.end(fate, stream)

    def end(self, fate, stream):
        if fate == 'reset':
            send(self.client, frame(RST_STREAM, 0, stream, struct.pack('>I', INTERNAL_ERROR)))
        elif fate == 'cancel':
            send(self.client, frame(RST_STREAM, 0, stream, struct.pack('>I', CANCEL)))
        elif fate == 'no_trailers':
            send(self.client, frame(DATA, END_STREAM, stream))
        elif fate == 'unavailable':
            send(self.client, frame(HEADERS, END_STREAM | END_HEADERS, stream, UNAVAILABLE_HEADERS))
        elif fate == 'cut':
            self.cut()

    def cut(self):
        for side in (self.client, self.server):
            side.transport.abort()

    async def pump(self, reader, writer, take, preface):
        frames = Frames()
        try:
            if preface:
                writer.write(await reader.readexactly(len(PREFACE)))
            while data := await reader.read(65536):
                if self.is_half_open or self.proxy.swallows:
                    self.is_half_open = True  # what is lost of a connection never comes back
                    continue
                if self.proxy.delay_seconds:
                    await asyncio.sleep(self.proxy.delay_seconds * self.proxy.chance.random())
                for one in frames.take(data):
                    take(*one)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.cut()


class Proxy:
    """Listens on a free loopback port, on a thread of its own. Set these at any time:

    mark           bytes of the calls that are counted, lost and held; those of starts
    loses          share of the starts whose answer is lost
    holds          no start gets to the service; everything else does
    delay_seconds  most that a piece of bytes is held back
    refuses        new connections are ended at once; `taken` are those that were not
    swallows       no byte comes through, and a connection of that time is lost for ever
    """

    def __init__(self, server_port, seed, fates=FATES):
        self.server_port, self.chance, self.fates = server_port, random.Random(seed), fates
        self.loses, self.delay_seconds, self.refuses, self.swallows, self.holds = 0.0, 0.0, False, False, False
        self.mark = START_MARK
        self.starts, self.taken, self.lost, self.dealt = 0, 0, collections.Counter(), []
        self.links = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.listener = self.call(asyncio.start_server(self.serve, '127.0.0.1', 0))
        self.address = '127.0.0.1:%d' % self.listener.sockets[0].getsockname()[1]

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(60)

    def next_fate(self):
        """By chance, but each once before any comes again, so that few losses are enough for all of them."""
        self.dealt = self.dealt or self.chance.sample(self.fates, len(self.fates))
        return self.dealt.pop()

    async def serve(self, reader, writer):
        try:
            if self.refuses:
                raise ConnectionRefusedError
            server_reader, server_writer = await asyncio.open_connection('127.0.0.1', self.server_port)
        except OSError:
            writer.transport.abort()
            return
        self.taken += 1
        link = Link(self, writer, server_writer)
        self.links.add(link)
        await asyncio.gather(link.pump(reader, server_writer, link.from_client, True),
                             link.pump(server_reader, writer, link.from_server, False))
        self.links.discard(link)

    def cut(self):
        """Every connection that is open now."""
        async def cut_all():
            for link in list(self.links):
                link.cut()
        self.call(cut_all())

    def lead_to(self, server_port):
        """To another service from now on, as after a change of DNS or of a load balancer."""
        self.server_port = server_port
        self.cut()

    def half_open(self):
        """Nothing comes through any more on the connections that are open now, and nobody is told."""
        for link in list(self.links):
            link.is_half_open = True

    def close(self):
        async def end():
            self.listener.close()
            for link in list(self.links):
                link.cut()
            # Their pumps see it and end.
            while self.links:
                await asyncio.sleep(0.01)
        self.call(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
