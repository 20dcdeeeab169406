#!/usr/bin/env python3
"""What hostile clients may send to the listener: smuggled requests, alone and behind nginx, JSON bombs, odd values.

usage: http_security_test.py BINARY [TEST ...]
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading

from harness import run_tests
from http_client import MEMORY_FACTOR, Listener, code_of, read_answer, read_until
from ports import free_port
from waiting import SHORT, wait_for

SECONDS = 60
PATH = '/v1/workspaces/acme/executions'
NGINX = shutil.which('nginx') or '/usr/sbin/nginx'


def post(body, *fields, path=PATH):
    lines = b''.join(field + b'\r\n' for field in fields)
    return (b'POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n' % path.encode() + lines + b'\r\n' +
            body)


def keyed(key):
    return json.dumps({'workflow': 'hello', 'idempotency_key': key}).encode()


def whole(key):
    body = keyed(key)
    return post(body, b'Content-Length: %d' % len(body))


#: Must never be executed: it is the body of each of the cases.
SMUGGLED = whole('smuggled')
N = b'%d' % len(SMUGGLED)
HEX = b'%x' % len(SMUGGLED)
CHUNKED = b'Transfer-Encoding: chunked'
#: A body in chunks, whose end hides the request from a program that reads chunks.
HIDDEN = b'0\r\n\r\n' + SMUGGLED


def _lengths():
    """One Content-Length that is no number, or none that fits."""
    for value in (b'+' + N, b'-' + N, b'-0', b'+0', b'0x' + HEX, b'0X' + HEX, HEX + b'h', N + b';', N + b',' + N,
                  N + b', ' + N, N + b' ' + N, b'', N + b'.0', N + b'e0', b'"' + N + b'"', b"'" + N + b"'", b'\x0b' + N,
                  N + b'\x0b', b'\x0c' + N, b'\xb2', '٣'.encode(), N + b'_0', N + b'/1', N + b'L', b'0b11', b'0o17',
                  b'(' + N + b')', N + b'=', b'0 ' + N, b',' + N, N + b',', b'0,' + N, b'\xc2\xa0' + N, N + b'\x7f',
                  b'\x01' + N, b'nan', b'inf', b'true', b'null', b'[]', N + b'\0', N + b'\0x', b'\0' + N, b'$' + N, b'*',
                  b'%30', b'0;' + N, N + b'#', b'%d' % (2**64), b'%d' % (2**64 + len(SMUGGLED)), b'%d' % (2**63), b'9' * 40,
                  b'9' * 400, b'%d' % (2**32 * 2**33)):
        yield b'Content-Length: ' + value, None


def _double_lengths():
    for name in (b'Content-Length', b'content-length', b'CONTENT-LENGTH', b'Content-length'):
        for one, two in ((b'0', N), (N, b'0'), (N, N), (N, b'0' + N)):
            yield b'Content-Length: ' + one, name + b': ' + two
    yield b'Content-Length: 0', b'X: y', b'Content-Length: ' + N
    yield b'Content-Length: ' + N, b'X: y', b'Content-Length: 0'


def _encodings():
    for value in (b'chunked', b'Chunked', b'CHUNKED', b'identity', b'gzip', b'gzip, chunked', b'chunked, gzip',
                  b'xchunked', b'chunkedx', b'"chunked"', b'\x0bchunked', b'chunked\x0b', b'chunked;q=1',
                  b'chunked, chunked', b',chunked', b'chunked,', b'chunked, identity', b'identity, chunked', b'',
                  b'ch\xc3\xbcnked', b'chunked\0', b'x: chunked', b'[chunked]'):
        encoding = b'Transfer-Encoding: ' + value
        yield encoding, None
        yield encoding, b'Content-Length: ' + N
        yield b'Content-Length: ' + N, encoding
        yield b'Content-Length: 0', encoding


def _lines():
    """Fields that two programs may find in different lines."""
    for field in (b'Content-Length: ' + N, CHUNKED):
        name, _, value = field.partition(b': ')
        for ending in (b' : ', b'\t: ', b'\x0b: ', b'\0: ', b'\r\n : '):
            yield name + ending + value, None
        for before in (b'X: a\n', b'X: a\r', b'X: a\n\r', b'X: a\r\r\n', b'X: a\r\n ', b'X: a\r\n\t',
                       b'X:\r\n ', b'\n', b' ', b'\t', b'\x0b', b'X: a\x0c'):
            yield before + field, None
        yield name + b':\r\n ' + value, None
        yield name + b':\r\n\t' + value, None
        yield name + b':\r\n ' + value, b'X: y'
        yield field + b'\r\n ', None
        yield field + b'\r\n 0', None
        yield field + b'\r\n 0', b'X: y'
        yield field + b'\n', None
        yield field + b'\r', None
        yield name, None
        yield name.replace(b'-', b'-\r\n ') + b': ' + value, None
    yield b'X: y', b' ', b'Content-Length: ' + N


def malformed():
    """Each is refused, and ends the connection: what follows its head is read by nobody."""
    cases = []
    for make in (_lengths, _double_lengths, _encodings, _lines):
        for fields in make():
            fields = [field for field in fields if field is not None]
            body = HIDDEN if any(b'hunked' in field.lower() for field in fields) else SMUGGLED
            cases.append(post(body, *fields))
    return list(dict.fromkeys(cases))


def hidden():
    """Requests with one meaning, whose body is the smuggled request: the answer is a refusal of the body alone."""
    for fields in ((b'Content-Length: ' + N,), (b'Content-Length: 000' + N,), (b'Content-Length:' + N,),
                   (b'content-length: \t' + N,), (b'Content-Length: ' + N, b'Connection: Content-Length'),
                   (b'Content-Length: ' + N, b'X-Transfer-Encoding: chunked'), (b'Content-Length: ' + N, b'TE: chunked'),
                   (b'Content-Length: ' + N, b'Trailer: Content-Length'), (b'Content-Length: ' + N, b'Content_Length: 0'),
                   (b'Content-Length: ' + N, b'Transfer_Encoding: chunked'),
                   (b'Content-Length: ' + N, b'Upgrade: h2c', b'Connection: Upgrade'),
                   (b'Content-Length: ' + N, b'X-HTTP-Method-Override: GET'), (b'X:', b'Content-Length: ' + N)):
        yield post(SMUGGLED, *fields)


def read_to_end(connection):
    data = b''
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def statuses_of(data):
    return [int(status) for status in re.findall(rb'^HTTP/1\.1 (\d+)', data, re.MULTILINE)]


def _keys(weir):
    with weir.database() as database:
        return {row[0] for row in database.execute('SELECT idempotency_key FROM executions')}


# --- smuggling ---


def no_request_is_smuggled_in_a_malformed_one(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    cases = malformed()
    assert len(cases) >= 200, len(cases)
    for case in cases:
        with listener.connect() as connection:
            connection.sendall(case)
            statuses = statuses_of(read_to_end(connection))
            assert len(statuses) <= 1 and all(400 <= status for status in statuses), (case, statuses)
    assert _keys(weir) == set(), _keys(weir)
    listener.stop()


def a_request_in_a_body_is_a_body(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    for number, case in enumerate(hidden()):
        with listener.connect() as connection:
            connection.sendall(case + whole(f'next {number}'))
            first = read_answer(connection)
            assert first.status == 400 and first.json()['code'] == 'invalid_argument', (case, first)
            assert read_answer(connection, data=first.rest).status == 202, case
            assert _keys(weir) == {f'next {i}' for i in range(number + 1)}, case
    listener.stop()


def half_a_body_is_no_request(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    for missing in (1, 10, len(keyed('half 00'))):
        request = whole(f'half {missing:02}')
        with listener.connect() as connection:
            connection.sendall(request[:-missing])
            assert listener.ask(PATH, 'POST', body={'workflow': 'hello'}).status == 202
            assert f'half {missing:02}' not in _keys(weir), _keys(weir)
            connection.sendall(request[-missing:])
            assert read_answer(connection).status == 202
            assert f'half {missing:02}' in _keys(weir), _keys(weir)
    listener.stop()


class Nginx:
    """Two doors to a listener: on TCP with bodies that nginx reads first, on a file with bodies that it passes on."""

    def __init__(self, weir, port, path, patience):
        """`patience`: how long it waits for a client's next byte."""
        assert os.path.exists(NGINX), 'there is no nginx: install the package nginx (./dev test does)'
        self.ports = free_port(), free_port()
        folders = ''.join(f'{name}_temp_path {weir.path("nginx-" + name)};\n'
                          for name in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        servers = ''.join(
            f'upstream weir{number} {{ server {address}; keepalive 4; }}\n'
            f'server {{ listen 127.0.0.1:{self.ports[number]}; location / {{ proxy_pass http://weir{number};\n'
            f'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost;\n'
            f'proxy_request_buffering {buffering}; proxy_next_upstream off; }} }}\n'
            for number, (address, buffering) in enumerate(((f'127.0.0.1:{port}', 'on'), (f'unix:{path}', 'off'))))
        weir.write('nginx.conf', f'daemon off; master_process off; pid {weir.path("nginx.pid")};\n'
                                 f'error_log {weir.path("nginx.log")};\nevents {{ worker_connections 1000; }}\n'
                                 f'http {{ access_log off; underscores_in_headers on; {folders}\n'
                                 f'client_header_timeout {patience}; client_body_timeout {patience};\n'
                                 f'keepalive_timeout {patience}; {servers} }}\n')
        words = [NGINX, '-p', weir.folder, '-e', weir.path('nginx.log'), '-c', weir.path('nginx.conf')]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        weir.background.append(self.process)
        wait_for('nginx', self._answers, pause=SHORT)

    def _answers(self):
        assert self.process.poll() is None, 'nginx has ended'
        try:
            for door in (0, 1):
                self.connect(door).close()
            return True
        except ConnectionRefusedError:
            return False

    def connect(self, door):
        connection = socket.create_connection(('127.0.0.1', self.ports[door]), SECONDS)
        connection.settimeout(SECONDS)
        return connection

    def stop(self):
        self.process.terminate()
        assert self.process.wait(SECONDS) == 0


def _behind_nginx(weir, patience='2m'):
    weir.make_store()
    path = weir.path('http.sock')
    listener = Listener(weir, listen=f'127.0.0.1:0,unix:{path}').ready()
    return listener, Nginx(weir, listener.port, path, patience)


def _has_one_meaning_for_nginx(case):
    """Chunks that nginx reads rightly, or no body at all: what follows is a request of its own."""
    head = case.partition(b'\r\n\r\n')[0].lower()
    lines = head.split(b'\r\n')[3:]
    return not any(line.startswith(b'content-length') for line in lines)


def nothing_is_smuggled_through_nginx(weir):
    listener, nginx = _behind_nginx(weir, patience='1s')  # each of the cases is cut at the end
    chunks = HEX + b'\r\n' + SMUGGLED + b'\r\n0\r\n\r\n'
    # For nginx some end with the head or with the first chunk, and what follows is a request. These have chunks that are
    # right, and hold the request.
    cases = [case.partition(b'\r\n\r\n')[0] + b'\r\n\r\n' + chunks if _has_one_meaning_for_nginx(case) else case
             for case in malformed()]
    cases += [post(chunks, CHUNKED, *more)
              for more in ((), (b'X: y',), (b'Trailer: X',), (b'TE: trailers',), (b'Content-Length: ' + N,))]
    cases += list(hidden())
    cases = list(dict.fromkeys(cases))
    assert len(cases) >= 200, len(cases)
    for door in (0, 1):
        connections = []
        for case in cases:
            connections.append(nginx.connect(door))
            connections[-1].sendall(case)
        for case, connection in zip(cases, connections, strict=True):
            statuses = statuses_of(read_to_end(connection))
            assert all(status >= 400 for status in statuses), (door, case, statuses)
            connection.close()
    assert _keys(weir) == set(), _keys(weir)
    nginx.stop()
    listener.stop()


def events_of_a_stream_pass_nginx_at_once(weir):
    """By both doors, while the answer has no end."""
    listener, nginx = _behind_nginx(weir)
    connections = [nginx.connect(door) for door in (0, 1)]
    for connection in connections:
        connection.sendall(b'GET /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n')
        assert not read_until(connection, b'{"reason":"new"}')[1]
    id = weir.enqueue('-w', 'acme', 'hello').encode()
    for connection in connections:
        assert not read_until(connection, id)[1]
    listener.stop()  # ends the streams
    nginx.stop()


def answers_behind_nginx_reach_those_who_asked(weir):
    """Clients share the connections of nginx to the node, and some of them send malformed requests meanwhile."""
    listener, nginx = _behind_nginx(weir)
    ended = threading.Event()
    problems = []
    bad = [case for case in malformed() if not _has_one_meaning_for_nginx(case)] + list(hidden())

    def ask(worker):
        try:
            with nginx.connect(worker % 2) as connection:
                for number in range(25):
                    body = json.dumps({'workflow': 'hello', 'params': {'of': f'{worker} {number}'}}).encode()
                    connection.sendall(post(body, b'Content-Length: %d' % len(body)))
                    made = read_answer(connection)
                    assert made.status == 202, made
                    connection.sendall(f'GET {made.head["location"]} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
                    shown = read_answer(connection)
                    assert shown.json()['params'] == {'of': f'{worker} {number}'}, shown
        except Exception as problem:
            problems.append(problem)

    def attack():
        place = 0
        while not ended.is_set():
            with nginx.connect(place % 2) as connection:
                connection.sendall(bad[place % len(bad)])
            place += 1
    attacker = threading.Thread(target=attack)
    attacker.start()
    clients = [threading.Thread(target=ask, args=(worker,)) for worker in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(SECONDS)
    ended.set()
    attacker.join(SECONDS)
    assert problems == [], problems
    with weir.database() as database:
        assert database.execute('SELECT count(*) FROM executions').fetchone() == (200,)
    nginx.stop()
    listener.stop()


# --- bodies ---


def _peak_kib(process):
    with open(f'/proc/{process.pid}/status') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('VmHWM'))


def json_bombs_are_refused_in_bounded_memory(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    assert listener.ask(PATH, 'POST', body={'workflow': 'hello'}).status == 202
    before = _peak_kib(listener.process)
    size = 1024 * 1024

    def params(text):
        return b'{"workflow": "hello", "params": ' + text + b'}'
    bombs = {
        'deep arrays': params(b'[' * (size // 2) + b']' * (size // 2)), 'open arrays': b'[' * size,
        'deep objects': params(b'{"a":' * (size // 8) + b'1' + b'}' * (size // 8)),
        'digits': params(b'9' * size), 'fraction': params(b'0.' + b'1' * size), 'exponent': params(b'1e999999999'),
        'twice': b'{"workflow": "hello", "workflow": "other"}', 'twice inside': params(b'{"a": 1, "a": 2}'),
        'bad UTF-8': params(b'"\xff\xfe"'), 'overlong': params(b'"\xc0\xaf"'), 'surrogate': params(b'"\xed\xa0\x80"'),
        'half a pair': params(b'"\\ud800"'), 'NUL': params(b'"a\0b"'), 'raw newline': params(b'"a\nb"'),
        'NUL as the workflow': b'{"workflow": "hel\\u0000lo"}', 'half': b'{"workflow": "hel', 'no object': b'[]',
        'NUL as the key': b'{"workflow": "hello", "idempotency_key": "\\u0000"}', 'text': b'"x"',
        'two': b'{"workflow": "hello"}{"workflow": "hello"}', 'long name': b'{"workflow": "' + b'a' * size + b'"}',
        'many names': b'{' + b','.join(b'"%d":0' % i for i in range(90000)) + b'}',
        'comment': b'{"workflow": "hello"} // x', 'NaN': params(b'NaN'), 'single quotes': b"{'workflow': 'hello'}",
    }
    for name, bomb in bombs.items():
        for _ in range(3):
            answer = listener.ask(PATH, 'POST', body=bomb, content_type='application/json')
            assert answer.status in (400, 404, 413, 422), (name, answer.status, answer.body[:300])
    largest = params(b'{"a": "' + b'a' * (size - 9) + b'"}')
    assert listener.ask(PATH, 'POST', body=largest, content_type='application/json').status == 202
    grown = _peak_kib(listener.process) - before
    assert grown < 64 * 1024 * MEMORY_FACTOR, f'{grown} KiB more'
    with weir.database() as database:
        assert database.execute('SELECT count(*) FROM executions').fetchone() == (2,)
    listener.stop()


# --- values that come back, pages of other origins ---


def no_value_becomes_a_field_of_the_answer_or_a_line_of_the_log(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    evil = '%0d%0aSet-Cookie:%20a=b%0d%0a%0d%0a{"event":"forged"}%0a'
    for target in (f'/v1/executions/{evil}', f'/v1/executions?{evil}=1', f'/v1/executions?workspace={evil}',
                   f'/v1/executions?cursor={evil}', f'/docs/problems/{evil}', f'/{evil}', f'/v1/executions?where={evil}'):
        answer = listener.ask(target)
        assert 'set-cookie' not in answer.head and answer.status >= 400 or answer.json()['items'] == [], (target, answer)
        assert b'\r\n' not in answer.body, (target, answer)
    for workspace in (evil, "x'%20OR%20'1'='1", '%22%3e%3cscript%3e', '%00', '%ff', '..', '%2e%2e%2f%2e%2e', '%1b[31m'):
        answer = listener.ask(f'/v1/workspaces/{workspace}/executions', 'POST', body={'workflow': 'hello'})
        assert answer.status in (400, 404), (workspace, answer)
    for key in (b'a\rb', b'a\nb', b'a\0b', b'a\x1bb', b'\xff\xfe', b'a' * 5000):
        with listener.connect() as connection:
            connection.sendall(post(keyed('x')[:-1].replace(b', "idempotency_key": "x"', b'') + b'}', b'Content-Length: 21',
                                    b'Idempotency-Key: ' + key))
            statuses = statuses_of(read_to_end(connection) if key[:1] == b'a' and len(key) == 3 else
                                   b'HTTP/1.1 %d' % read_answer(connection).status)
            assert all(status == 400 for status in statuses), (key, statuses)
    answer = listener.ask(PATH, 'POST', body={'workflow': 'hello'}, weir_reason='ok', idempotency_key='clé')
    assert answer.status == 202 and _keys(weir) == {'clé'}, answer
    listener.stop()
    with open(weir.path('node.err')) as file:
        assert 'forged' not in file.read()
    with open(weir.path('node.out')) as file:
        assert 'forged' not in {json.loads(line)['event'] for line in file}  # the name is text of a field alone


def paths_stay_in_the_table(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    for path in ('/../../../etc/passwd', '/docs/../../etc/passwd', '/docs/problems/..%2f..%2f..%2fetc%2fpasswd',
                 '/docs/problems/%2e%2e', '/docs/..%5c..%5cetc', '/%2e%2e/%2e%2e/weir.db', '/docs/problems/....//weir.yaml',
                 '/docs//problems', '/./livez', '/livez/.', '/docs/problems/%252e%252e%252f'):
        answer = listener.ask(path)
        assert answer.status == 404 and answer.json()['code'] == 'not_found', (path, answer)
    listener.stop()


def other_origins_get_nothing(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    answers = []
    document = listener.api().document
    for path, methods in document['paths'].items():
        target = path.replace('{id}', 'x').replace('{workspace}', 'acme').replace('{code}', 'not_found')
        target = re.sub(r'{\w+}', 'x', target)
        preflight = listener.ask(target, 'OPTIONS', origin='http://evil.example', access_control_request_method='POST',
                                 access_control_request_headers='content-type')
        assert preflight.status == 405, (path, preflight)
        answers.append(preflight)
        for method in methods:
            if method == 'get':
                if path != '/v1/stream':
                    answers.append(listener.ask(target, origin='http://evil.example'))
                    head = listener.ask(target, 'HEAD')
                    assert head.status == answers[-1].status, (path, head)
            else:
                for body in (None, {'workflow': 'hello'}):
                    refused = listener.ask(target, method.upper(), body=body, origin='http://evil.example')
                    assert refused.status in (403, 415) and code_of(refused) == 'cross_origin', (path, refused)
                    answers.append(refused)
    for answer in answers:
        assert not any(name.startswith('access-control') for name in answer.head), answer
        assert answer.head['x-content-type-options'] == 'nosniff' and answer.head['cache-control'] == 'no-store', answer
        assert "default-src 'none'" in answer.head['content-security-policy'] and 'set-cookie' not in answer.head, answer
    assert _keys(weir) == set()
    listener.stop()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
