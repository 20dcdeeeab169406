"""A payload codec for tests: an HTTP server on a free loopback port that speaks Temporal's remote codec protocol. It turns
each bit over. A payload is encoded as a whole, as SDKs do it, so that its encoding is encoded, too."""

import base64
import http.server
import json
import ssl
import threading

ENCODING = b'binary/turned'


def turn_over(data):
    return bytes(255 - byte for byte in data)


def _varint(number):
    out = b''
    while number > 127:
        out, number = out + bytes((number & 127 | 128,)), number >> 7
    return out + bytes((number,))


def _field(number, data):
    return bytes((number << 3 | 2,)) + _varint(len(data)) + data


def pack(payload):
    """The bytes of the message Payload."""
    metadata = [_field(1, _field(1, key.encode()) + _field(2, base64.b64decode(value)))
                for key, value in payload.get('metadata', {}).items()]
    return b''.join(metadata) + _field(2, base64.b64decode(payload.get('data', '')))


def _fields(data):
    while data:
        number, length, shift, at = data[0] >> 3, 0, 0, 1
        while True:
            length |= (data[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if data[at - 1] < 128:
                break
        yield number, data[at:at + length]
        data = data[at + length:]


def unpack(data):
    payload = {'metadata': {}, 'data': ''}
    for number, value in _fields(data):
        if number == 1:
            entry = dict(_fields(value))
            payload['metadata'][entry[1].decode()] = base64.b64encode(entry.get(2, b'')).decode()
        else:
            payload['data'] = base64.b64encode(value).decode()
    return payload


def encode(payload):
    return {'metadata': {'encoding': base64.b64encode(ENCODING).decode()},
            'data': base64.b64encode(turn_over(pack(payload))).decode()}


def decode(payload):
    if base64.b64decode(payload.get('metadata', {}).get('encoding', '')) != ENCODING:
        return payload
    return unpack(turn_over(base64.b64decode(payload['data'])))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        codec = self.server.codec
        body = self.rfile.read(int(self.headers['Content-Length']))
        status, answer = codec.status[self.path], b'no such payload'
        codec.requests.append((self.path, self.headers['X-Namespace'], self.headers['Authorization']))
        if codec.token is not None and self.headers['Authorization'] != f'Bearer {codec.token}':
            status = 401
        if self.path in codec.holds:
            codec.held.set()
            codec.released.wait()
        if status == 200:
            work = {'/encode': encode, '/decode': decode}[self.path]
            payloads = [work(payload) for payload in json.loads(body)['payloads']]
            answer = json.dumps({'payloads': payloads}).encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Codec:
    """Set `status` (by path) and `token` at any time; `requests` has (path, namespace, authorization) of each call. Calls
    of the paths in `holds` are answered once `released` is set; `held`: there was one."""

    def __init__(self, certificate=None, key=None):
        self.status, self.token, self.requests = {'/encode': 200, '/decode': 200}, None, []
        self.holds, self.held, self.released = set(), threading.Event(), threading.Event()
        self.certificate, self.key, self.port = certificate, key, 0
        self.start()

    def start(self):
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', self.port), Handler)
        self.server.daemon_threads, self.server.codec = True, self
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate, self.key)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.url = f'{"http" if self.certificate is None else "https"}://127.0.0.1:{self.port}'
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
