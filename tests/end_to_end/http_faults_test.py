#!/usr/bin/env python3
"""The listener among clients that are slow or many, and with a node that is killed.

usage: http_faults_test.py BINARY [TEST ...]
"""

import contextlib
import itertools
import json
import os
import re
import resource
import selectors
import signal
import socket
import sys
import threading
import time

from harness import run_tests
from http_security_test import PATH, SECONDS, post
from http_client import MEMORY_FACTOR, Listener, is_closed, problem, read_answer
from postgres_server import PostgresServer
from sql_test import Session
from waiting import SHORT, wait_for

MIB = 1024 * 1024
DOCUMENT = os.path.join(os.environ['WEIR_SOURCE_ROOT'], 'docs', 'http.md')
BODY_SECONDS = 60  # HTTP_BODY_DEADLINE_US
STORE_SECONDS = 5  # STORE_DEADLINE_US
# A call that has no deadline does not end at all. A slow machine does not decide.
SLOW_MACHINE_SECONDS = 15


def _enqueue(connection, key, rest=b''):
    body = json.dumps({'workflow': 'hello', 'idempotency_key': key}).encode()
    connection.sendall(post(body, b'Content-Length: %d' % len(body)))
    return read_answer(connection, data=rest)


def _others_work(listener, round_):
    """What clients that behave get done beside the others."""
    with listener.connect() as connection:
        for number in range(20):
            answer = _enqueue(connection, f'{round_} {number}')
            assert answer.status == 202, answer
    assert listener.ask('/livez').status == 200
    listener.ready()


def bodies_that_never_come_take_no_memory_from_others(weir):
    """A hundred heads announce 100 MiB."""
    weir.make_store()
    listener = Listener(weir).ready()
    silent = []
    for _ in range(100):
        silent.append(listener.connect())
        silent[-1].sendall(post(b'{', b'Content-Length: %d' % MIB))
    _others_work(listener, 'silent')
    for connection in silent:
        connection.close()
    listener.stop()


def clients_that_hold_memory_and_stop_are_cut(weir):
    """Each sends a body but for its last byte. When memory is short, the slow ones are cut long before the deadline of a
    body. Those that are left then have memory enough: the deadline cuts them."""
    weir.make_store()
    listener = Listener(weir).ready()
    holders = []
    began = time.monotonic()
    for _ in range(63):
        holders.append(listener.connect())
        with contextlib.suppress(ConnectionError):  # it may be cut before it has sent all
            holders[-1].sendall(post(b'{' + b' ' * (MIB - 2), b'Content-Length: %d' % MIB))
    with selectors.DefaultSelector() as selector:
        for connection in holders:
            connection.settimeout(2 * SECONDS)
            selector.register(connection, selectors.EVENT_READ)
        assert selector.select(SECONDS)
    assert time.monotonic() - began < BODY_SECONDS, 'none was cut before its deadline'
    assert all(is_closed(connection) for connection in holders)
    _others_work(listener, 'held')
    for connection in holders:
        connection.close()
    listener.stop()


def pages_that_nobody_reads_are_bounded(weir):
    weir.make_store()
    weir.enqueue_many(1000)
    path = weir.path('http.sock')
    listener = Listener(weir, listen=f'127.0.0.1:0,unix:{path}').ready()
    page = listener.ask('/v1/executions?limit=1000')
    assert page.status == 200 and len(page.body) > 200000, len(page.body)
    readers = []
    for _ in range(300):
        connection = socket.socket(socket.AF_UNIX)  # whose buffers in the kernel are smaller than the page
        connection.connect(path)
        connection.settimeout(SECONDS)
        connection.sendall(b'GET /v1/executions?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n')
        assert connection.recv(1, socket.MSG_PEEK) == b'H'  # its answer is under way
        readers.append(connection)
    _others_work(listener, 'pages')
    with open(f'/proc/{listener.process.pid}/status') as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith('VmHWM'))
    for connection in readers:
        connection.close()
    assert peak < 160 * 1024 * MEMORY_FACTOR, f'{peak} KiB'
    listener.stop()


def idle_and_half_open_connections_delay_nobody(weir):
    """As many as the node takes: a quarter of its descriptors."""
    weir.make_store()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
    listener = Listener(weir).ready()
    held = []
    try:
        for number in range(3000):
            held.append(listener.connect())
            if number % 3 == 0:
                held[-1].sendall(b'GET /livez HTTP/1.1\r\nHost: local')
        _others_work(listener, 'idle')
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    listener.stop()


def _resident_kib(pid):
    with open(f'/proc/{pid}/status') as file:
        return int(re.search(r'VmRSS:\s+(\d+) kB', file.read()).group(1))


def idle_connections_give_their_memory_back_and_go_on(weir):
    weir.make_store()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
    listener = Listener(weir).ready()
    get, count = b'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n', 1000
    body = json.dumps({'workflow': 'hello'}).encode()
    long = get[:-2] + b'X-Long: %s\r\n\r\n' % (b'a' * 12000)
    others = ((get, 200), (b'\r\n\r\n' + get, 200), (long, 200), (get.replace(b'livez', b'nothing'), 404),
              (post(body, b'Content-Length: %d' % len(body)), 202))

    def ask(connection, request, status, answers=1):
        connection.sendall(request)
        rest = b''
        for _ in range(answers):
            answer = read_answer(connection, data=rest)
            assert answer.status == status, answer
            rest = answer.rest
        assert rest == b'', rest

    def each():
        listener.ask('/livez')  # the listener looks at its idle connections when a request has ended
        return (_resident_kib(listener.process.pid) - before) / count

    held = []
    try:
        listener.ask('/livez')
        before = _resident_kib(listener.process.pid)
        held = [listener.connect() for _ in range(count)]
        for connection in held:
            ask(connection, get, 200)
        asked = each()
        if MEMORY_FACTOR == 1:  # a sanitizer keeps what was freed
            assert asked > 15 and wait_for('10 KiB each', lambda: each() < 10 and each(), pause=SHORT), asked
        # A page with a part of the next request stays. Each connection goes on, also one whose pool is not known.
        for connection in held:
            connection.sendall(get[:20])
        if MEMORY_FACTOR == 1:
            wait_for('the memory again', lambda: each() < (asked + 1) / 2, pause=SHORT)
        for number, connection in enumerate(held):
            ask(connection, get[20:], 200)
            ask(connection, *others[number % len(others)])
            ask(connection, get * 3, 200, answers=3)
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    listener.stop()


def _enqueue_batch(connection, keys, rest=b''):
    items = [{'workspace': 'acme', 'workflow': 'hello', 'idempotency_key': key} for key in keys]
    body = json.dumps({'items': items}).encode()
    connection.sendall(post(body, b'Content-Length: %d' % len(body), path='/v1/executions:batch'))
    return read_answer(connection, data=rest)


def _ids_of(answer, size):
    """One for each key, and whether all were there before. A batch is one transaction: all were, or none."""
    assert answer.status in (200, 202), answer
    rows = [answer.json()] if size == 1 else answer.json()['items']
    known = {row['duplicate'] for row in rows}
    assert len(rows) == size and len(known) == 1 and all('id' in row for row in rows), answer
    return [row['id'] for row in rows], known.pop()


def _kill_among_enqueues(weir, size=1, least=400):
    """`least` requests of `size` executions are acknowledged when the node is killed. Those of batches do not run."""
    if size > 1:
        weir.good('pause', '-q')
    listener = Listener(weir).ready()
    acknowledged, asked = {}, []
    half = threading.Event()

    def send(connection, keys, rest=b''):
        return _enqueue(connection, keys[0], rest) if size == 1 else _enqueue_batch(connection, keys, rest)

    def enqueue(worker):
        rest = b''
        try:
            with listener.connect() as connection:
                for number in itertools.count():  # until the node is dead
                    keys = tuple(f'{worker} {number} {item}' for item in range(size))
                    asked.append(keys)
                    answer = send(connection, keys, rest)
                    if answer is None:
                        return
                    rest = answer.rest
                    assert answer.status == 202, answer
                    acknowledged[keys] = _ids_of(answer, size)[0]
                    if len(acknowledged) >= least:
                        half.set()
        except OSError:
            pass  # the node is dead
    clients = [threading.Thread(target=enqueue, args=(worker,)) for worker in range(16)]
    for client in clients:
        client.start()
    assert half.wait(SECONDS)
    listener.process.send_signal(signal.SIGKILL)
    listener.process.wait(SECONDS)
    for client in clients:
        client.join(SECONDS)
    assert least <= len(acknowledged) <= len(asked) <= len(acknowledged) + len(clients), (len(acknowledged), len(asked))
    listener = Listener(weir).ready()
    ids = set()
    with listener.connect() as connection:
        for keys in asked:
            found, was_there = _ids_of(send(connection, keys), size)
            ids.update(found)
            assert keys not in acknowledged or (was_there and found == acknowledged[keys]), (keys, found)
    assert len(ids) == len(asked) * size
    assert listener.ask('/v1/executions?workspace=acme&limit=1&count').json()['count'] == len(ids)
    listener.stop()


def what_a_killed_node_acknowledged_is_there_once(weir):
    weir.make_store()
    _kill_among_enqueues(weir)


def what_a_killed_node_acknowledged_is_there_once_on_postgresql(weir):
    server = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = server.url()
        weir.make_store()
        _kill_among_enqueues(weir)
    finally:
        server.close()


def what_a_killed_node_acknowledged_of_batches_is_there_once(weir):
    """The node is killed in the middle of a thousand batches."""
    weir.make_store()
    _kill_among_enqueues(weir, size=3, least=1000)


def what_a_killed_node_acknowledged_of_batches_is_there_once_on_postgresql(weir):
    server = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = server.url()
        weir.make_store()
        _kill_among_enqueues(weir, size=3, least=1000)
    finally:
        server.close()


def _await_enqueue(listener):
    """A client tries again, as the answers 503 ask for."""
    wait_for('the store', lambda: listener.ask(PATH, 'POST', body={'workflow': 'hello'}).status == 202, pause=SHORT)


def _is_away(listener):
    """Every route that needs the store is a 503 with a reason, within the deadline of a call of the store."""
    for path, method, body in ((PATH, 'POST', {'workflow': 'hello'}), ('/v1/executions:batch', 'POST', {'items': [
            {'workspace': 'acme', 'workflow': 'hello'}]}), ('/v1/executions', 'GET', None), ('/v1/pause', 'POST', None)):
        began = time.monotonic()
        answer = listener.ask(path, method, body=body)
        assert problem(answer, 503, 'store_unreachable')['detail'], answer
        assert answer.head['retry-after'] == '1', answer
        assert time.monotonic() - began < STORE_SECONDS + SLOW_MACHINE_SECONDS, path
    assert listener.ask('/livez').status == 200


def a_store_that_is_away_is_a_503_and_comes_back(weir):
    """Once its server has ended, and once it is frozen and answers nothing."""
    server = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = server.url()
        weir.make_store()
        listener = Listener(weir).ready()
        server.stop()
        _is_away(listener)
        server.start()
        _await_enqueue(listener)
        server.signal_all(signal.SIGSTOP)
        _is_away(listener)
        server.signal_all(signal.SIGCONT)
        _await_enqueue(listener)
        listener.stop()
    finally:
        server.signal_all(signal.SIGCONT)
        server.close()


def a_key_that_a_program_holds_refuses_no_other_workspace(weir):
    """Requests that wait at the same time are one transaction, of all workspaces. An open transaction holds the key of some
    of them."""
    server = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = server.url()
        weir.make_store()
        listener = Listener(weir).ready()
        program = Session('postgres', port=server.port)
        program.good('BEGIN')
        program.good("SELECT weir.enqueue('tiny', 'hello', idempotency_key => 'held')")
        held = {'workflow': 'hello', 'idempotency_key': 'held'}
        with contextlib.ExitStack() as stack:
            def send(workspace, body):
                connection = stack.enter_context(listener.connect())
                connection.sendall(_head_of(workspace, json.dumps(body).encode()))
                return connection

            first = [send('tiny', held) for _ in range(2)]  # both threads wait, so that the others are one set
            others = [send(workspace, body) for _ in range(20)
                      for workspace, body in (('tiny', held), ('acme', {'workflow': 'hello', 'idempotency_key': None}))]
            for connection in first + others[::2]:
                problem(read_answer(connection), 503, 'store_busy')
            answers = [read_answer(connection) for connection in others[1::2]]
        assert {answer.status for answer in answers} == {202}, answers
        program.good('ROLLBACK')
        program.close()
        assert server.sql("SELECT count(*) FROM weir.executions WHERE workspace = 'acme'") == '20'
        assert listener.ask('/v1/workspaces/tiny/executions', 'POST', body=held).status == 202
        listener.stop()
    finally:
        server.close()


def an_execution_that_a_program_holds_blocks_no_other_request(weir):
    """Both threads wait for its row a short time. Each act is then refused, and can be repeated."""
    server = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = server.url()
        weir.make_store()
        listener = Listener(weir).ready()
        answer = listener.ask(PATH, 'POST', body={'workflow': 'hello', 'run_at': '2100-01-01T00:00:00Z'})
        id = answer.json()['id']
        program = Session('postgres', port=server.port)
        program.good('BEGIN')
        program.good(f"SELECT 1 FROM weir.workflow_execution_queue WHERE id = '{id}' FOR UPDATE")
        with contextlib.ExitStack() as stack:
            def send(act):
                connection = stack.enter_context(listener.connect())
                connection.sendall(f'POST /v1/executions/{id}/{act} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
                return connection

            waiting = [send(act) for act in ('cancel', 'release', 'cancel', 'wake')]
            assert listener.ask(f'/v1/executions/{id}').json()['status'] == 'PENDING'
            for connection in waiting:
                answer = read_answer(connection)
                problem(answer, 503, 'store_busy')
                assert answer.head['retry-after'] == '1', answer
        program.good('ROLLBACK')
        program.close()
        answer = listener.ask(f'/v1/executions/{id}/cancel', 'POST')
        assert answer.status == 202, answer
        listener.stop()
    finally:
        server.close()


def _head_of(workspace, body):
    return (f'POST /v1/workspaces/{workspace}/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
            f'Content-Length: {len(body)}\r\n\r\n').encode() + body


def a_full_disk_is_a_503_and_comes_back(weir):
    """The limit of a file's size stands for the disk. It comes and goes while the node runs."""
    weir.make_store()
    listener = Listener(weir).ready()
    acknowledged, refused = [], None
    _, hard = resource.prlimit(listener.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(listener.process.pid, resource.RLIMIT_FSIZE, (3 * MIB, hard))
    for _ in range(4000):
        answer = listener.ask(PATH, 'POST', body={'workflow': 'hello', 'params': {'x': 'y' * 4000}})
        if answer.status != 202:
            refused = answer
            break
        acknowledged.append(answer.json()['id'])
    assert refused is not None and refused.status == 503, refused
    assert refused.json()['code'] == 'store_full' and refused.head['retry-after'] == '1', refused
    assert listener.ask('/livez').status == 200
    resource.prlimit(listener.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    _await_enqueue(listener)
    for id in acknowledged[::50] + acknowledged[-1:]:
        assert listener.ask(f'/v1/executions/{id}').status == 200, id
    assert weir.good('store', 'check', '--json').json()['problems'] == []
    listener.stop()


def a_locked_file_is_a_503_and_comes_back(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    with weir.database() as database:
        database.execute('BEGIN IMMEDIATE')
        answer = listener.ask(PATH, 'POST', body={'workflow': 'hello'})
        assert answer.status == 503 and answer.json()['code'] == 'store_busy', answer
        assert answer.head['retry-after'] == '1' and listener.ask('/livez').status == 200, answer
        database.execute('ROLLBACK')
    _await_enqueue(listener)
    listener.stop()


def every_status_of_the_document_is_answered(weir):
    """One request for each status of the table of problems in docs/http.md."""
    with open(DOCUMENT) as file:
        rows = re.findall(r'^\| `[a-z_`, .]+ \| ([\d, ]+) \|', file.read(), re.MULTILINE)
    documented = {int(status) for row in rows for status in row.split(', ')}
    assert {400, 401, 403, 404, 409, 412, 413, 415, 422, 429, 503} < documented, documented
    weir.make_store()
    weir.good('workspace', 'set', 'full', '--plan', 'pro', '--max-pending', '1', '-q')
    weir.enqueue('-w', 'full', 'hello', '--run-at', '+1h')
    id = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    weir.good('cancel', id, '-q')
    listener = Listener(weir).ready()
    hello = {'workflow': 'hello'}
    head = b'POST %s HTTP/1.1\r\nHost: localhost\r\n' % PATH.encode()

    def ask_bytes(request):
        with listener.connect() as connection:
            connection.sendall(request)
            return read_answer(connection)

    answers = {
        400: listener.ask('/v1/executions?limit=0'),
        403: listener.ask(PATH, 'POST', body=hello, origin='http://evil.example'),
        404: listener.ask('/v1/executions/01a215fd-f18a-7002-b43c-a0d8f870aebd'),
        405: listener.ask(PATH, 'DELETE'),
        409: listener.ask(f'/v1/executions/{id}/release', 'POST'),
        411: ask_bytes(head + b'Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n'),
        412: listener.ask(f'/v1/executions/{id}/release', 'POST', if_match='"other"'),
        413: ask_bytes(head + b'Content-Type: application/json\r\nContent-Length: 10000000\r\n\r\n'),
        414: ask_bytes(b'GET /livez?a=%s HTTP/1.1\r\nHost: localhost\r\n\r\n' % (b'a' * 30000)),
        415: listener.ask(PATH, 'POST', body=b'{}'),
        421: listener.ask('/v1/executions', host='evil.example'),
        422: listener.ask(PATH, 'POST', body={**hello, 'params': [1]}),
        429: listener.ask('/v1/workspaces/full/executions', 'POST', body=hello),
        431: listener.ask('/v1/executions', x_long='a' * 16500),
        505: ask_bytes(b'GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n')}
    with weir.database() as database:
        database.execute('BEGIN IMMEDIATE')
        answers[503] = listener.ask(PATH, 'POST', body=hello)
        database.execute('ROLLBACK')
    weir.good('token', 'create', 'ci', '--role', 'read', '--all-workspaces', '-q')
    wait_for('the token', lambda: listener.ask('/v1/executions').status == 401, pause=SHORT)
    answers[401] = listener.ask('/v1/executions')
    assert set(answers) == documented, documented ^ set(answers)
    for status, answer in answers.items():
        assert answer.status == status, (status, answer)
        assert status == 505 or problem(answer, status, answer.json()['code'])['detail'], answer
    listener.stop()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
