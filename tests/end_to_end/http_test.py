#!/usr/bin/env python3
"""The listener of a node: probes and metrics, and what hostile and slow clients can do.

usage: http_test.py BINARY [TEST ...]
"""

import contextlib
import glob
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'tools'))

import print_routes
from harness import run_tests
from http_client import SECONDS, Listener, is_closed, problem, read_answer
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

WAITING_MAX = 1024  # HTTP_WAITING_MAX
OK_HEAD = b'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n'


def _checks(answer):
    return {row['check']: row.get('reason') for row in answer.json()['checks'] if not row['ok']}


def _ready_answer(listener, path):
    """The first answer of readiness: a node may be without a scheduler for a moment at any time."""
    def ready():
        answer = listener.ask(path)
        return answer.json() if answer.status == 200 else None
    return wait_for('readiness', ready, pause=SHORT)


# --- probes ---


def probes_answer_on_tcp_and_on_a_socket_file(weir):
    weir.make_store()
    path = weir.path('http.sock')
    listener = Listener(weir, listen=f'127.0.0.1:0,unix:{path}').ready()
    assert listener.addresses[1] == f'unix:{path}'
    live = listener.ask('/livez')
    assert (live.status, live.body, live.head['cache-control']) == (200, b'ok\n', 'no-store')
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(OK_HEAD)
        assert read_answer(connection).status == 200
    ready = _ready_answer(listener, '/readyz')
    assert ready == {'ready': True, 'checks': []}, ready
    verbose = _ready_answer(listener, '/readyz?verbose')
    assert {row['check'] for row in verbose['checks']} == {'schema', 'store', 'scheduler', 'health', 'state', 'lease',
                                                           'engine'}
    assert all(row['ok'] for row in verbose['checks']), verbose
    assert listener.ask('/livez', method='HEAD').status == 200
    listener.stop()
    assert not os.path.exists(path)


def metrics_count_the_acts_of_the_process_and_the_queue(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    for _ in range(3):
        weir.good('enqueue', '-w', 'acme', 'hello', '--wait')

    def counted():
        answer = listener.ask('/metrics')
        assert answer.status == 200 and answer.head['content-type'].startswith('text/plain; version=0.0.4')
        samples = dict(line.rsplit(' ', 1) for line in answer.body.decode().splitlines() if not line.startswith('#'))
        return samples if samples['weir_executions_completed_total'] == '3' else None
    samples = wait_for('the count of three ends', counted, pause=SHORT)
    assert samples['weir_executions_dispatched_total'] == '3'
    assert samples['weir_ended_executions_total{status="COMPLETED"}'] == '3', samples
    assert samples['weir_nodes'] == '1'
    listener.stop()


def a_stopping_node_is_not_ready_and_lives(weir):
    weir.make_store()
    program = 'echo > began; while [ ! -e end ]; do sleep 0.02; done'
    weir.write('slow.yaml', f'name: slow\nsteps:\n  only:\n    exec: [sh, -c, "{program}"]\n    cwd: {weir.folder}\n')
    weir.good('workflow', 'apply', 'slow.yaml', '-q')
    weir.environment['WEIR_STOP_GRACE'] = '10m'  # only the end of the step ends the stop
    listener = Listener(weir).ready()
    weir.enqueue('-w', 'acme', 'slow')
    wait_for('the step', lambda: os.path.exists(weir.path('began')), pause=SHORT)
    listener.process.send_signal(signal.SIGTERM)

    def is_stopping():
        answer = listener.ask('/readyz')
        return answer if 'process' in _checks(answer) else None
    answer = wait_for('the end of readiness', is_stopping, pause=SHORT)
    assert answer.status == 503 and answer.head['retry-after'] == '1', answer
    assert _checks(answer)['process'] == 'it is stopping', answer
    assert listener.ask('/livez').status == 200
    weir.write('end', '')
    assert listener.process.wait(SECONDS) == 0


def a_store_that_is_away_is_a_reason(weir):
    server = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = server.url()
        weir.make_store()
        listener = Listener(weir, '--node', 'one').ready()
        server.stop()

        def reason():
            return _checks(listener.ask('/readyz')).get('store')  # a loop of the node may notice it first
        said = wait_for('the reason', reason, pause=SHORT)
        assert said == 'The store does not answer.', said  # everybody may read it: no address
        assert listener.ask('/livez').status == 200
        assert b'weir_build_info' in listener.ask('/metrics').body
        server.start()
        listener.ready()
        listener.stop()
    finally:
        server.close()


def answers_that_have_come(connections):
    """Waits for the first ones. Connections that are not answered yet have none."""
    poll = select.poll()
    by_file = {connection.fileno(): connection for connection in connections}
    for file in by_file:
        poll.register(file, select.POLLIN)
    ready = [by_file[file] for file, _ in poll.poll(1000 * SECONDS)]
    return {connection: read_answer(connection) for connection in ready}


def requests_beyond_the_queue_are_refused_at_once(weir):
    """A frozen server of the database holds both threads, and what waits for them is bounded. All connections are made
    before, because on a busy machine that takes longer than a call to the store may."""
    server = PostgresServer()
    connections = []
    try:
        weir.environment['WEIR_STORE'] = server.url()
        weir.make_store()
        weir.environment['WEIR_NODE_LEASE'] = '60s'
        listener = Listener(weir).ready()
        while len(connections) < WAITING_MAX + 20:
            connections.append(listener.connect())
        server.signal_all(signal.SIGSTOP)
        for connection in connections:
            connection.sendall(b'GET /v1/executions HTTP/1.1\r\nHost: localhost\r\n\r\n')
        answers = answers_that_have_come(connections)
        refused = [answer for answer in answers.values() if answer.json().get('code') == 'overloaded']
        assert refused, [answer.json() for answer in answers.values()]
        assert {(answer.status, answer.head['retry-after']) for answer in refused} == {(503, '1')}, refused
        assert listener.ask('/livez').status == 200
        server.signal_all(signal.SIGCONT)
        statuses = [read_answer(connection).status for connection in connections if connection not in answers]
        assert len(statuses) >= WAITING_MAX // 2 and set(statuses) <= {200, 503} and 200 in statuses, statuses
        listener.ready().stop()
    finally:
        server.signal_all(signal.SIGCONT)
        for connection in connections:
            connection.close()
        server.close()


# --- the document ---


def the_table_of_routes_is_in_the_document(weir):
    with open(print_routes.DOCUMENT) as file:
        text = file.read()
    assert print_routes.document_with_table(weir.binary, text) == text, 'renew it: tools/print_routes.py build/weir'
    assert '`/v1/executions/{id}/cancel`' in text


def every_code_of_a_problem_is_explained(weir):
    """The codes that the sources name, and those of the document, are in the table that /docs/problems shows."""
    weir.make_store()
    listener = Listener(weir)
    described = listener.api().document['components']['schemas']['Problem']['properties']['code']['enum']
    used = set()
    for path in glob.glob(os.path.join(os.environ['WEIR_SOURCE_ROOT'], 'src', 'server', '**', '*.c'), recursive=True):
        with open(path) as file:
            calls = re.findall(r'\b(?:respond_problem|exchange_refuse|refuse)\(([^;{]*);', file.read())
        used.update(code for call in calls for code in re.findall(r'"([a-z]+(?:_[a-z]+)*)"', call))
    assert {'wrong_host', 'length_required', 'precondition_failed', 'overloaded'} <= used, used
    assert used <= set(described), f'problem_table.c lacks {sorted(used - set(described))}'
    with open(print_routes.DOCUMENT) as file:
        rows = re.findall(r'^\| (`[a-z_`, .]+) \| (\d{3})(?:, \d{3})? \|', file.read(), re.MULTILINE)
    pages = listener.ask('/docs/problems').body.decode()
    assert len(rows) > 15, rows
    for names, status in rows:
        for name in re.findall('`([a-z_]+)`', names):
            assert re.search(rf'<td>{status}</td><td><a href="/docs/problems/{name}">', pages), (name, status)
    for code in described:
        assert code in listener.ask(f'/docs/problems/{code}').body.decode(), code
    listener.stop()


# --- what clients may do ---


def _post(*fields, body=b'', version=b'1.1'):
    lines = b''.join(field + b'\r\n' for field in fields)
    return b'POST /livez HTTP/' + version + b'\r\nHost: localhost\r\n' + lines + b'\r\n' + body


def _get(*fields, line=b'GET /livez HTTP/1.1', host=b'Host: localhost'):
    return line + b'\r\n' + host + b'\r\n' + b''.join(f + b'\r\n' for f in fields) + b'\r\n'


CHUNKED = b'Transfer-Encoding: chunked'
SMUGGLED = b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'
#: Heads that two programs may read differently, or that no program should send. The answer is an error, and the connection
#: ends: what stands behind the head is never read as a request.
MALFORMED = [
    _post(b'Content-Length: 3', b'Content-Length: 5', body=b'abc' + SMUGGLED),
    _post(b'Content-Length: 3', b'Content-Length: 3', body=b'abc' + SMUGGLED),
    _post(b'Content-Length: 3, 3', body=b'abc' + SMUGGLED),
    _post(b'Content-Length: 3', CHUNKED, body=b'0\r\n\r\n' + SMUGGLED),
    _post(CHUNKED, b'Content-Length: 3', body=b'0\r\n\r\n' + SMUGGLED),
    _post(b'Content-Length : 3', body=b'abc' + SMUGGLED),
    *(_post(b'Content-Length: ' + value, body=b'abc' + SMUGGLED)
      for value in (b'+3', b'-3', b'0x3', b'3 x', b'3;', b'', b'3.0', b'1e1', b'99999999999999999999999', b'\xb3', b'"3"')),
    *(_post(b'Transfer-Encoding: ' + value, body=b'0\r\n\r\n' + SMUGGLED)
      for value in (b'identity', b'gzip, chunked', b'chunked, gzip', b'xchunked', b'CHUNKED', b'"chunked"', b'\x0bchunked',
                    b'chunked;q=1', b'chunked, chunked', b',chunked')),
    *(_post(CHUNKED, body=body + SMUGGLED)
      for body in (b'0\r\n\r\n', b'0x1\r\na\r\n0\r\n\r\n', b'-1\r\n', b'ffffffffffffffffff\r\na\r\n',
                   b' 1\r\na\r\n0\r\n\r\n',
                   b'1\r\naX0\r\n\r\n', b'1\na\n0\n\n', b'1;a\nb\r\na\r\n0\r\n\r\n',
                   b'\r\na\r\n0\r\n\r\n',
                   b'0\r\nContent-Length: 5\r\n\r\n', b'1;ext="\r\n"\r\na\r\n0\r\n\r\n')),
    _post(CHUNKED, CHUNKED, body=b'0\r\n\r\n' + SMUGGLED),
    _post(b'Transfer-Encoding:\r\n chunked', body=b'0\r\n\r\n' + SMUGGLED),
    _post(b'Transfer-Encoding\n: chunked', body=b'0\r\n\r\n' + SMUGGLED),
    _post(b'Transfer-Encoding : chunked', body=b'0\r\n\r\n' + SMUGGLED),
    _post(b'X: a\rContent-Length: 3', body=b'abc' + SMUGGLED),
    _post(b'X: a\rTransfer-Encoding: chunked', body=b'0\r\n\r\n' + SMUGGLED),
    _post(CHUNKED, body=b'0\r\n\r\n' + SMUGGLED, version=b'1.0'),
    _get(b'Content-Length: 3') + b'abc' + SMUGGLED,
    _get(host=b'X: y'), _get(b'Host: localhost'), _get(b'Host: other'), _get(host=b'Host : localhost'),
    _get(host=b' Host: localhost'), _get(host=b'Host: evil.example'), _get(host=b'Host: localhost.evil.example'),
    _get(host=b'Host: '), _get(host=b'Host: localhost, localhost'), _get(host=b'Host: evil.example/localhost'),
    *(_get(field) for field in (b'foo', b'X\0y: a', b'X: a\rb', b'X\xff: a', b'X(: a', b'X: a\x7f', b'X: a\x01', b'X y: a',
                                b'X,y: a', b'"X": a', b'X\t: a', b'X: ' + b'a' * 65536, b'\x01: a', b'X/y: a', b'X[: a',
                                b'X=y: a', b'X@y: a', b'X?y: a', b'X\\y: a', b'X{y: a', b'X;y: a', b'X<y: a', b'X>y: a')),
    _get(*(b'X%d: a' % i for i in range(1000))),
    *(_get(line=line) for line in (b'GET /livez', b'GET /livez HTTP/2.0', b'GET /livez HTTP/1.2', b'GET /livez HTTP/1.10',
                                   b'GET /livez http/1.1', b'GET /livez HTTP/0.9', b'GET /livez HTTP/1.1 ',
                                   b'GET /livez HTTP/01.1', b'GET /livez HTTQ/1.1',
                                   b'GET /livez HTTP/1,1', b'GET /livez HTTP/1.', b'GET /livez HTTP/1.x',
                                   b'GET /' + b'a' * 60000 + b' HTTP/1.1', b'PRI * HTTP/2.0', b'GET /livez HTTP/1.0',
                                   b'GET /a b HTTP/1.1', b'GET\t/livez\tHTTP/1.1', b'GET')),
    b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' + os.urandom(64) + b'\r\n\r\n',
    b'\0' * 200 + b'\r\n\r\n', b'\x80' * 200 + b'\r\n\r\n', b':' * 200 + b'\r\n\r\n', b' ' * 200 + b'\r\n\r\n',
]
#: Answered with an error, and the connection may go on.
UNKNOWN = [
    (_get(line=b'GET /livez/ HTTP/1.1'), 404), (_get(line=b'GET //livez HTTP/1.1'), 404),
    (_get(line=b'GET /LIVEZ HTTP/1.1'), 404), (_get(line=b'GET / HTTP/1.1'), 404),
    (_get(line=b'GET /../livez HTTP/1.1'), 404), (_get(line=b'GET /%2e%2e/etc/passwd HTTP/1.1'), 404),
    (_get(line=b'GET http://localhost/livez HTTP/1.1'), 400), (_get(line=b'GET * HTTP/1.1'), 400),
    (_get(line=b'BREW /livez HTTP/1.1'), 405), (_get(line=b'get /livez HTTP/1.1'), 405),
    (_get(line=b'CONNECT /livez HTTP/1.1'), 405), (_get(line=b'DELETE /livez HTTP/1.1'), 405),
    (_get(line=b'TRACE /livez HTTP/1.1'), 405), (_get(line=b'PUT /metrics HTTP/1.1'), 405),
    (_get(line=b'OPTIONS /readyz HTTP/1.1'), 405),
]


def _assert_problem(listener, data, status, known):
    """The first answer, as a client reads it. `known`: the pages of the codes that were read, by status."""
    head, _, rest = data.partition(b'\r\n\r\n')
    assert b'application/problem+json' in head, data
    problem = json.loads(rest[:int(re.search(rb'(?i)content-length: (\d+)', head).group(1))])
    assert problem['status'] == int(status) and problem['code'] and problem['detail'], problem
    assert problem['request_id'].encode() in head, data
    if problem['status'] not in known:
        known[problem['status']] = problem['type']
        assert listener.ask(problem['type']).status == 200, problem


def malformed_requests_are_refused_and_smuggle_nothing(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    answered, known = 0, {}
    for head in MALFORMED:
        with listener.connect() as connection:
            data = b''
            try:
                connection.sendall(head)  # the refusal may come, and cut the connection, before the last byte
                while piece := connection.recv(65536):
                    data += piece
            except ConnectionResetError:
                pass
            statuses = re.findall(rb'^HTTP/1\.1 (\d+)', data, re.MULTILINE)
            assert len(statuses) <= 1 and all(status[:1] in b'45' for status in statuses), (head[:200], data)
            assert b'weir_build_info' not in data, (head[:200], data)
            assert b'<html' not in data.lower(), (head[:200], data)
            # None if the first line has less than two words, or the system has thrown the answer away: bytes of the request
            # came after it.
            if statuses:
                _assert_problem(listener, data, statuses[0], known)
                answered += 1
    assert answered >= 80, (answered, len(MALFORMED))
    assert {400, 411, 413, 414, 431, 505} <= set(known), known
    for head, status in UNKNOWN:
        with listener.connect() as connection:
            connection.sendall(head)
            answer = read_answer(connection)
            assert answer.status == status, (head, answer)
            assert answer.head['content-type'] == 'application/problem+json' and answer.json()['status'] == status
            assert status != 405 or answer.head['allow'] == 'GET, HEAD'
    assert listener.ask('/livez').status == 200
    listener.stop()


def a_misspelt_request_gets_the_right_spelling(weir):
    """In the body, because a person with curl alone sees no field of the head."""
    weir.make_store()
    listener = Listener(weir).ready()
    for lost in ('/', '/v1', '/v2/execution', '/v1/' + 'x' * 4000, '/v1/executions/a/b/c'):
        assert problem(listener.ask(lost), 404, 'not_found')['hint'].startswith('GET /docs lists the paths'), lost
    for lost, near in (('/v1/execution', '/v1/executions'), ('/v1/executions/a/step', '/v1/executions/{id}/steps'),
                       ('/v1/workspace/acme/pause', '/v1/workspaces/{workspace}/pause'),
                       ('/v1/excutions:batch?x', '/v1/executions:batch'), ('/v1/executions/', '/v1/executions'),
                       ('/executions', '/v1/executions'), ('/workspace/acme/pause/', '/v1/workspaces/{workspace}/pause')):
        assert problem(listener.ask(lost), 404, 'not_found')['hint'].startswith(f'did you mean {near}? GET /docs '), lost
    for argument, near in (('stauts=FAILED', 'status'), ('tenant=acme', 'workspace'), ('lmit=1', 'limit')):
        refused = problem(listener.ask(f'/v1/executions?{argument}'), 400, 'invalid_argument')
        assert refused['hint'] == f'did you mean "{near}"?', refused
    for path, methods in (('/v1/executions', 'GET, HEAD'), ('/v1/workspaces/acme/executions', 'POST')):
        refused = problem(listener.ask(path, 'PATCH', body={}), 405, 'method_not_allowed')
        assert refused['detail'] == f'this path takes {methods} and no other method', refused
    refused = problem(listener.ask('/v1/pause', 'POST', body={'reason': 'x'}), 400, 'invalid_argument')
    assert 'Weir-Reason' in refused['hint'], refused
    twice = b'GET /v1/plans HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n'
    with listener.connect() as connection:
        connection.sendall(twice)
        refused = problem(read_answer(connection), 400, 'invalid_request')
    assert refused['detail'] == 'the field Authorization of the head is there twice', refused
    refused = problem(listener.ask('/v1/workspaces/acme/executions', 'POST', body=b'', content_type='application/json'),
                      400, 'invalid_argument')
    assert refused['detail'].startswith('the body is empty') and '"workflow"' in refused['hint'], refused
    listener.stop()


def a_connection_takes_many_requests(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    with listener.connect() as connection:
        for path in ('/livez', '/v1/status', '/nothing', '/metrics') * 3:
            connection.sendall(f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
            assert read_answer(connection).status == (404 if path == '/nothing' else 200)
        paths = ('/v1/plans', '/livez', '/v1/plans')
        connection.sendall(b''.join(_get(line=f'GET {path} HTTP/1.1'.encode()) for path in paths))
        first = read_answer(connection)
        second = read_answer(connection, data=first.rest)
        third = read_answer(connection, data=second.rest)
        assert first.json()['items'] and second.body == b'ok\n' and third.json()['items']
    listener.stop()


def slow_clients_are_cut_and_others_do_not_notice(weir):
    """Some never send a head, some send it a byte at a time, some never read what they asked for."""
    weir.make_store()
    listener = Listener(weir).ready()
    silent = [listener.connect() for _ in range(50)]
    dribbling = [listener.connect() for _ in range(50)]
    endless = []
    for _ in range(5):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(('127.0.0.1', listener.port))
        connection.setblocking(False)
        endless.append(connection)
    ended = threading.Event()
    request = b'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n'

    def dribble():
        line = b'GET /livez HTTP/1.1\r\nX: ' + b'a' * 100000
        for place in range(len(line)):
            if ended.wait(0.2):
                return
            for connection in dribbling:
                try:
                    connection.send(line[place:place + 1])
                except OSError:
                    pass
            for connection in endless:
                try:
                    connection.send(request * 100)
                except OSError:
                    pass
    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        assert all(listener.ask('/livez').status == 200 for _ in range(100))
        assert all(is_closed(connection) for connection in silent + dribbling)
        # These are cut while bytes for them wait: the cut is a reset or an end, once they are asked for.
        wait_for('the cut of those that do not read', lambda: not _server_ends(listener), pause=SHORT)
        listener.ready()
    finally:
        ended.set()
        thread.join()
        for connection in silent + dribbling + endless:
            connection.close()
    listener.stop()


def _server_ends(listener):
    """Sockets of the node's process that are connected."""
    with open(f'/proc/{listener.process.pid}/net/tcp') as table:
        rows = [line.split() for line in list(table)[1:]]
    return [row for row in rows if int(row[1].split(':')[1], 16) == listener.port and row[3] == '01']


# --- what people may get wrong ---


def an_address_that_cannot_be_served_ends_the_start(weir):
    weir.make_store()
    for address, code, word, hint in (('0.0.0.0:7717', 2, 'open to other machines', 'https://HOST:PORT'),
                                      ('nonsense', 2, 'is no address', '127.0.0.1:7717'),
                                      (f'unix:{weir.path("missing")}/s', None, 'cannot be opened', 'choose another')):
        result = weir.run('serve', '--listen', address)
        assert result.code == code or (code is None and result.code != 0), result
        assert word in result.err and hint in result.err and 'Traceback' not in result.err, result
    with socket.create_server(('127.0.0.1', 0)) as taken:
        result = weir.run('serve', '--listen', f'127.0.0.1:{taken.getsockname()[1]}')
        assert result.code != 0 and 'in use' in result.err and 'another process listens there' in result.err, result


def _await_start(node):
    """Threads of the node may log before the one that starts it."""
    line = node.stdout.readline()
    while json.loads(line)['event'] != 'node.started':
        line = node.stdout.readline()


def libmicrohttpd_is_needed_for_a_listener_alone(weir):
    weir.make_store()
    os.mkdir(weir.path('libraries'))
    weir.write('libraries/libmicrohttpd.so.12', b'no library')
    weir.environment['LD_LIBRARY_PATH'] = weir.path('libraries')
    result = weir.run('serve', '--listen', '127.0.0.1:0', code=2)
    assert 'http.listen needs libmicrohttpd' in result.err and 'libmicrohttpd12' in result.err, result
    node = weir.spawn('serve')
    _await_start(node)
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS) == 0


def a_setting_gives_the_address_too(weir):
    weir.write('weir.yaml', f'http.listen: unix:{weir.path("http.sock")}\n')
    weir.make_store()
    with open(weir.path('err'), 'w') as errors:
        node = weir.spawn('serve', stderr=errors)
    _await_start(node)
    wait_for('the file of the socket', lambda: os.path.exists(weir.path('http.sock')), pause=SHORT)
    began = time.monotonic()
    while True:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(weir.path('http.sock'))
                connection.sendall(OK_HEAD)
                assert read_answer(connection).status == 200
            break
        except ConnectionRefusedError:
            assert time.monotonic() - began < SECONDS
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS) == 0


def slow_requests_leave_a_thread_for_all_others(weir):
    """Each of the slow ones waits for the lock of the file, which only this test gives back. Where this test is late, the
    deadline of the store ends one of them, and all is done again."""
    weir.make_store()
    listener = Listener(weir).ready()
    wait_for('a try in time', lambda: _others_are_answered_beside_slow_requests(weir, listener), pause=SHORT)
    listener.stop()


def _others_are_answered_beside_slow_requests(weir, listener):
    """Whether all was done before the deadline of a slow request."""
    body = b'{"action":"cancel"}'
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(contextlib.closing(weir.database()))
        database.execute('BEGIN IMMEDIATE')
        slow = [stack.enter_context(listener.connect()) for _ in range(4)]
        for connection in slow:
            connection.sendall(b'POST /v1/executions:act?workspace=acme HTTP/1.1\r\nHost: localhost\r\n'
                               b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
        assert listener.ask('/v1/executions').status == 200
        early = select.select(slow, [], [], 0)[0]
        database.execute('ROLLBACK')
        answers = {connection: read_answer(connection) for connection in slow}
    assert all(_is_busy(answers[connection]) for connection in early), answers
    assert all(answer.status == 200 or _is_busy(answer) for answer in answers.values()), answers
    return all(answer.status == 200 for answer in answers.values())


def _is_busy(answer):
    return answer.status == 503 and answer.json()['code'] == 'store_busy'


# --- documents ---


def the_documents_describe_every_route_and_problem(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    api = listener.api().document
    operations = [(method, path, operation) for path, methods in api['paths'].items()
                  for method, operation in methods.items()]
    ids = [operation['operationId'] for _, _, operation in operations]
    assert len(ids) == len(set(ids)) and 'enqueueExecution' in ids, ids
    for method, path, operation in operations:
        described = {parameter['name'] for parameter in operation['parameters'] if parameter['in'] == 'path'}
        assert described == set(re.findall(r'{(\w+)}', path)), path
        if method == 'get' and '{' not in path and path != '/v1/stream':
            expected = 404 if path in ('/v1/oidc_sign_in', '/v1/oidc_callback') else 200  # no provider is set
            assert listener.ask(path, accept='text/html, */*').status == expected, path
    page = listener.ask('/docs')
    assert page.head['content-type'] == 'text/html; charset=utf-8' and '<script' not in page.body.decode(), page
    rows = page.body.decode().split('<tr>')
    for method, path, operation in operations:
        row = next(row for row in rows if f'<code>{method.upper()}&nbsp;{path}</code>' in row)
        bodies = operation.get('requestBody', {}).get('content', {})
        name = bodies.get('application/json', {}).get('schema', {}).get('$ref', '').rpartition('/')[2]
        schema = api['components']['schemas'].get(name, {})
        for member in schema.get('properties', {}):
            is_required = member in schema['required']
            assert re.search(f'<code>{member}</code>[a-z ]+{", required" if is_required else ""}<br>', row), (row, member)
        assert 'application/yaml' not in bodies or 'application/yaml' in row, row
    assert all(address.startswith('/') for address in re.findall(r'(?:href|src)="([^"]*)"', page.body.decode())), page
    codes = api['components']['schemas']['Problem']['properties']['code']['enum']
    names = listener.ask('/docs/problems').body.decode()
    for code in codes:
        assert f'href="/docs/problems/{code}"' in names, code
        assert listener.ask(f'/docs/problems/{code}').status == 200, code
    problem(listener.ask('/docs/problems/nothing'), 404, 'not_found')
    listener.stop()


# --- trace contexts ---


def a_trace_context_of_the_head_is_that_of_each_execution_without_its_own(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    one, two = (f'00-{digit * 32}-{digit * 16}-01' for digit in '12')
    item = {'workspace': 'acme', 'workflow': 'hello'}
    for field, wanted in ((one, [one, two]), ('none', [None, two])):
        batch = listener.ask('/v1/executions:batch', 'POST', body={'items': [item, {**item, 'traceparent': two}]},
                             traceparent=field).json()['items']
        alone = [listener.ask('/v1/workspaces/acme/executions', 'POST', body=body, traceparent=field).json()
                 for body in ({'workflow': 'hello'}, {'workflow': 'hello', 'traceparent': two})]
        for rows in (batch, alone):
            kept = [listener.ask(f'/v1/executions/{row["id"]}').json()['traceparent'] for row in rows]
            assert kept == wanted, (field, rows, kept)
    listener.stop()


# --- proxies, the service manager ---


def the_service_manager_hands_over_its_sockets(weir):
    weir.make_store()
    with socket.create_server(('127.0.0.1', 0)) as one, socket.socket(socket.AF_UNIX) as file:
        file.bind(weir.path('manager.sock'))
        file.listen()
        script = 'LISTEN_PID=$$ LISTEN_FDS=2 exec "$@" 3<&%d 4<&%d' % (one.fileno(), file.fileno())
        with open(weir.path('node.err'), 'w') as errors:
            node = subprocess.Popen(['/bin/bash', '-c', script, 'bash', weir.binary, 'serve', '--listen', 'systemd'],
                                    cwd=weir.folder, env=weir.environment, stdout=subprocess.DEVNULL, stderr=errors,
                                    pass_fds=(one.fileno(), file.fileno()))
        try:
            for address, family in ((one.getsockname(), socket.AF_INET), (weir.path('manager.sock'), socket.AF_UNIX)):
                with socket.socket(family) as connection:
                    connection.settimeout(SECONDS)
                    connection.connect(address)
                    connection.sendall(OK_HEAD)
                    assert read_answer(connection).status == 200
        finally:
            node.send_signal(signal.SIGTERM)
        assert node.wait(SECONDS) == 0
        port = one.getsockname()[1]
    assert os.path.exists(weir.path('manager.sock'))  # it is the manager's
    lines = open(weir.path('node.err')).read().splitlines()
    at = next(line for line in lines if line.startswith('http at '))
    assert at.startswith(f'http at 127.0.0.1:{port}, unix:{weir.path("manager.sock")}: '), at
    assert f'dashboard: http://127.0.0.1:{port}/' in lines, lines


def dev_opens_the_usual_address_or_says_that_it_is_taken(weir):
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(('127.0.0.1', 7717))
            taken.listen()
        except OSError:
            pass  # another program has it, which serves as well
        with open(weir.path('dev.err'), 'w') as errors:
            node = weir.spawn('dev', stdout=subprocess.DEVNULL, stderr=errors)
        wait_for('the words of dev', lambda: 'weir top' in open(weir.path('dev.err')).read(), pause=SHORT)
        node.send_signal(signal.SIGTERM)
        assert node.wait(SECONDS) == 0
    said = open(weir.path('dev.err')).read()
    assert 'no HTTP: ' in said and '127.0.0.1:7717' in said and '--listen' in said, said


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
