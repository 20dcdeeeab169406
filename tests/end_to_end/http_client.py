"""A node with an HTTP listener, and a client that reads answers byte by byte."""

import json
import os
import re
import signal
import socket

from openapi_check import Api
from waiting import SHORT, wait_for

SECONDS = 60
# For nodes that a test does not kill: one that stands still for some seconds on a busy machine loses nothing. Where a node
# of this machine is killed, the others notice it without its lease.
LONG_LEASE = {'WEIR_NODE_LEASE': '2m'}
# A sanitizer needs many times as much memory.
MEMORY_FACTOR = 8 if {'ASAN_OPTIONS', 'TSAN_OPTIONS'} & set(os.environ) else 1


class Answer:
    def __init__(self, status, head, body):
        self.status, self.head, self.body = status, head, body

    def __repr__(self):
        return f'{self.status} {self.head} {self.body!r}'

    def json(self):
        return json.loads(self.body)

    def is_page(self):
        return self.head['content-type'].startswith('text/html')


class Listener:
    """A node with an HTTP listener. Its lease is a long one, unless the environment of the test has another."""

    def __init__(self, weir, *words, listen='127.0.0.1:0', verb='serve', output='node'):
        """`output`: the name of the files with its output, so that a test can have several."""
        self.errors, self.out = weir.path(f'{output}.err'), weir.path(f'{output}.out')
        with open(self.errors, 'w') as errors, open(self.out, 'w') as out:
            self.process = weir.spawn(verb, '--allow-exec' if verb == 'serve' else '-q', '--listen', listen, *words,
                                      stdout=out, stderr=errors, env={**LONG_LEASE, **weir.environment})
        self.weir = weir
        self.described = None
        said = wait_for('the line of the listener', self._said, pause=SHORT)
        self.addresses = re.search(r'http at (.*): /livez', said).group(1).split(', ')
        self.port = int(self.addresses[0].rpartition(':')[2])

    def _said(self):
        with open(self.errors) as file:
            text = file.read()
        assert self.process.poll() is None, text
        return text if 'http at' in text else None

    def connect(self):
        connection = socket.create_connection(('127.0.0.1', self.port), SECONDS)
        connection.settimeout(SECONDS)
        return connection

    def ask(self, path, method='GET', host='localhost', body=None, **fields):
        """`body`: bytes, or a value that is sent as JSON. A field is named with _ for -."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            fields = {'content_type': 'application/json', **fields}
        if body is not None:
            fields['content_length'] = len(body)
        lines = ''.join(f'{name.replace("_", "-")}: {value}\r\n' for name, value in fields.items())
        with self.connect() as connection:
            connection.sendall(f'{method} {path} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n'.encode() + (body or b''))
            answer = read_answer(connection, has_body=method != 'HEAD')
        if answer is not None and answer.status in (429, 503):
            assert re.fullmatch('[1-9][0-9]*', answer.head.get('retry-after', '')), answer
        if answer is not None and method != 'HEAD' and path != '/openapi.json':
            self.api().check_answer(method, path, answer.status, answer.head.get('content-type', ''), answer.body)
            self.api().check_fields(method, path, answer.status, answer.head)
            if body and answer.status < 300 and not has_refused_items(answer):
                self.api().check_body(method, path, fields['content_type'], body)
        return answer

    def api(self):
        """The description of the API; each answer, and the body of each request that was accepted, is compared with it."""
        if self.described is None:
            self.described = Api(self.ask('/openapi.json').body)
        return self.described

    def ready(self):
        wait_for('readiness', lambda: self.ask('/readyz').status == 200, pause=SHORT)
        return self

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(SECONDS) == 0


def has_refused_items(answer):
    """The answer to a batch of which a part is not of the form that is described."""
    return b'"refused":' in answer.body and answer.json().get('refused', 0) > 0


def read_until(connection, mark, data=b''):
    while mark not in data:
        piece = connection.recv(65536)
        if not piece:
            return data, True
        data += piece
    return data, False


def read_answer(connection, has_body=True, data=b''):
    """One answer, of a stream the head; None when the connection ended before."""
    data, ended = read_until(connection, b'\r\n\r\n', data)
    if ended:
        return None
    head, _, body = data.partition(b'\r\n\r\n')
    first, *lines = head.decode().split('\r\n')
    fields = {name.lower(): value for name, _, value in (line.partition(': ') for line in lines)}
    has_body = has_body and 'transfer-encoding' not in fields
    length = int(fields['content-length']) if has_body else 0
    while len(body) < length:
        piece = connection.recv(65536)
        assert piece, 'the body is cut'
        body += piece
    answer = Answer(int(first.split()[1]), fields, body[:length])
    answer.rest = body[length:]
    return answer


def is_closed(connection):
    """Waits for the end that the other side makes."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def code_of(answer):
    """Of the problem; a page for people has a link to its explanation."""
    return re.search(rb'/docs/problems/(\w+)"', answer.body)[1].decode() if answer.is_page() else answer.json()['code']


def problem(answer, status, code):
    assert (answer.status, answer.head['content-type']) == (status, 'application/problem+json'), answer
    body = answer.json()
    assert (body['status'], body['code']) == (status, code), answer
    assert body['type'] == f'/docs/problems/{code}' and body['request_id'] == answer.head['weir-request-id'], answer
    return body
