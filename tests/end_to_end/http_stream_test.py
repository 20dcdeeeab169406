#!/usr/bin/env python3
"""GET /v1/stream: order without gaps and doubles, resumption, filters, walls, slow readers, bounds.

usage: http_stream_test.py BINARY [TEST ...] [--postgres]
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from email.utils import parsedate_to_datetime

from harness import run_tests
from http_client import MEMORY_FACTOR, SECONDS, Listener, is_closed, problem, read_answer, read_until
from postgres_server import PostgresServer, client_program
from waiting import SHORT, wait_for

POSTGRES = PostgresServer() if '--postgres' in sys.argv else None
WHOLE = ['enqueue', 'claim', 'dispatch', 'complete']
RING_EVENTS = 16384  # STREAM_RING_EVENTS
STREAMS = 1000
STREAMS_AT_ONCE = 500  # below HTTP_WAITING_MAX: a busy machine answers none of them at once
KIB = 1024


def _use_postgres(weir):
    weir.database_name = POSTGRES.database()
    weir.environment['WEIR_STORE'] = POSTGRES.url(weir.database_name)


class Event:
    def __init__(self, lines):
        fields = dict(line.partition(': ')[::2] for line in lines if not line.startswith(':'))
        self.id, self.type = fields.get('id'), fields.get('event', 'message')
        self.data = json.loads(fields['data']) if 'data' in fields else None

    def __repr__(self):
        return f'{self.id} {self.type} {self.data}'


class Stream:
    """A reader of the stream, event by event."""

    def __init__(self, listener, query='', after=None, secret=None, receive_bytes=None):
        self.connection = socket.socket()
        if receive_bytes is not None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.connection.settimeout(SECONDS)
        self.connection.connect(('127.0.0.1', listener.port))
        lines = [f'GET /v1/stream{query} HTTP/1.1', 'Host: localhost', 'Accept: text/event-stream']
        lines += [f'Last-Event-ID: {after}'] if after is not None else []
        lines += [f'Authorization: Bearer {secret}'] if secret is not None else []
        self.connection.sendall('\r\n'.join(lines).encode() + b'\r\n\r\n')
        self.raw, self.text, self.last_id, self.has_head = b'', b'', after, False

    def read_head(self):
        head, ended = read_until(self.connection, b'\r\n\r\n')
        assert not ended and head.startswith(b'HTTP/1.1 200 '), head
        head, _, self.raw = head.partition(b'\r\n\r\n')
        self.head = head.decode().lower()
        self.has_head = True
        return self

    def _chunk(self):
        """The next bytes; None at the end."""
        self.raw, ended = read_until(self.connection, b'\r\n', self.raw)
        assert not ended, 'the stream is cut'
        size, _, self.raw = self.raw.partition(b'\r\n')
        while len(self.raw) < int(size, 16) + 2:
            piece = self.connection.recv(65536)
            assert piece, 'the stream is cut'
            self.raw += piece
        chunk, self.raw = self.raw[:int(size, 16)], self.raw[int(size, 16) + 2:]
        return chunk or None

    def next(self):
        """The next event, or block without data; None: the stream has ended."""
        if not self.has_head:
            self.read_head()
        while b'\n\n' not in self.text:
            chunk = self._chunk()
            if chunk is None:
                assert self.text == b'', self.text
                return None
            self.text += chunk
        block, _, self.text = self.text.partition(b'\n\n')
        event = Event(block.decode().split('\n'))
        self.last_id = event.id or self.last_id
        return event

    def change(self):
        """The next change; a reset or the end is none."""
        event = self.next()
        while event is not None and event.data is None:
            event = self.next()
        assert event is not None and event.type == 'message', event
        return event

    def reset(self, reason, is_settled=True):
        """Reads a reset. Where a transaction of PostgreSQL that is older than the stream has been open for longer than the
        node waits, it has no position, and another reset follows: `is_settled` waits for that."""
        event = self.next()
        assert event is not None and (event.type, event.data) == ('reset', {'reason': reason}), event
        while is_settled and event.id is None:
            event = self.next()
            assert event is not None and event.data in (None, {'reason': 'incomplete'}), event
        return self

    def nibble(self):
        """Reads a little, so that the listener does not cut the stream."""
        self.raw += self.connection.recv(4096)

    def end(self):
        """Reads the end; signs of life may come before."""
        event = self.next()
        while event is not None:
            assert event.data is None, event
            event = self.next()

    def until(self, is_last):
        """All changes to the first one of which this is true."""
        changes = [self.change()]
        while not is_last(changes[-1].data):
            changes.append(self.change())
        return changes

    def close(self):
        self.connection.close()
        return self.last_id


def _kinds(changes):
    """The kinds of the changes of each execution, in their order."""
    kinds = {}
    for change in changes:
        kinds.setdefault(change.data['id'], []).append(change.data['event'])
    return kinds


def _positions(changes):
    positions = [int(change.id.partition('-')[2]) for change in changes]
    assert positions == sorted(set(positions)), positions
    return positions


def _start(weir, *words):
    weir.make_store()
    return Listener(weir, *words).ready()


def _later(weir, *words):
    """One that stays PENDING."""
    return weir.enqueue(*(words or ('-w', 'acme', 'hello')), '--run-at', '+1h')


def _batch(listener, count, workspace='acme'):
    """Many that stay PENDING."""
    items = [{'workspace': workspace, 'workflow': 'hello', 'run_at': '2099-01-01T00:00:00Z'}] * count
    answer = listener.ask('/v1/executions:batch', 'POST', body={'items': items})
    assert answer.status == 202, answer.status
    return count


class _session:
    """A session of psql, whose transaction stays open until it ends."""

    def __init__(self, weir):
        self.process = subprocess.Popen([client_program('psql'), '-qXAt', POSTGRES.url(weir.database_name)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, sql):
        """The first line of the answer, which must have one."""
        self.process.stdin.write(sql + '\n')
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(SECONDS)
        self.process.stdout.close()


def _sql(weir, sql):
    done = subprocess.run([client_program('psql'), '-qXAt', '-v', 'ON_ERROR_STOP=1', POSTGRES.url(weir.database_name)],
                          input=sql, capture_output=True, text=True, timeout=SECONDS, check=True)
    return done.stdout.strip()


def _token(weir, name, *words):
    return weir.good('token', 'create', name, '--role', 'read', *(words or ('--all-workspaces',)), '-q').out.strip()


# --- what is sent ---


def the_changes_of_an_execution_come_in_their_order(weir):
    listener = _start(weir)
    stream = Stream(listener).reset('new')
    fields = stream.head.split('\r\n')
    assert 'content-type: text/event-stream' in fields and 'x-accel-buffering: no' in fields, fields
    id = weir.enqueue('-w', 'acme', 'hello')
    changes = stream.until(lambda data: data['status'] == 'COMPLETED')
    assert [change.data['event'] for change in changes] == WHOLE, changes
    assert [change.data['status'] for change in changes] == ['PENDING', 'CLAIMED', 'DISPATCHED', 'COMPLETED'], changes
    for change in changes:
        assert set(change.data) == {'id', 'event', 'workspace', 'workflow', 'status', 'at'}, change
        assert (change.data['id'], change.data['workspace'], change.data['workflow']) == (id, 'acme', 'hello'), change
        assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z', change.data['at']), change
    listed = listener.ask(f'/v1/executions/{id}/events').json()['items']
    assert [event['event'] for event in listed if event['event'] in WHOLE] == WHOLE, listed
    _positions(changes)
    listener.stop()


def jumps_of_the_clock_of_a_node_end_no_wait_no_stream_and_no_lease(weir):
    """The wall clock of the node jumps two days forward and back, while clients wait and a worker has a task."""
    weir.make_store()
    program = 'while [ ! -e end ]; do sleep 0.02; done; rm end'
    for name, step in (('gate', {'exec': ['sh', '-c', program], 'cwd': weir.folder}), ('job', {'handler': 'job'})):
        weir.write(f'{name}.json', json.dumps({'name': name, 'steps': {'only': step}}))
        weir.good('workflow', 'apply', f'{name}.json', '-q')
    weir.environment.update(weir.preload(os.environ['WEIR_SHIFTED_CLOCK_LIBRARY']), WEIR_HTTP_TASK_LEASE='60s',
                            WEIR_CLOCK_SHIFT=weir.path('shift'))
    listener = Listener(weir).ready()
    for name in ('LD_PRELOAD', 'WEIR_CLOCK_SHIFT'):
        del weir.environment[name]
    stream = Stream(listener).reset('new')
    claim = {'worker': 'w1', 'handlers': ['job'], 'wait_us': 60000000}
    job = weir.enqueue('-w', 'acme', 'job')
    task, = listener.ask('/v1/tasks:claim', 'POST', body=claim).json()['tasks']
    for shift in (2 * 86400, -2 * 86400, 0):
        gate = listener.ask('/v1/workspaces/acme/executions', 'POST', body={'workflow': 'gate'}).json()['id']
        answers = []
        waiting = threading.Thread(target=lambda id=gate: answers.append(listener.ask(f'/v1/executions/{id}?wait=4m')))
        waiting.start()
        stream.until(lambda data, id=gate: data['id'] == id and data['event'] == 'dispatch')
        weir.write('shift', str(shift))
        time.sleep(1.5)  # the jump has to come before the end; a wait that the jump ends would be over
        assert waiting.is_alive(), answers
        assert listener.ask('/readyz').status == 200
        wrong_by = parsedate_to_datetime(listener.ask('/livez').head['date']).timestamp() - time.time()
        assert abs(wrong_by - shift) < 60, (shift, wrong_by)
        mine = {'worker': 'w1', 'tasks': [{'task': task['task']}]}
        assert listener.ask('/v1/tasks:heartbeat', 'POST', body=mine).status == 200, shift
        weir.write('end', '')
        waiting.join(60)
        assert answers and answers[0].json()['status'] == 'COMPLETED', (shift, answers)
        stream.until(lambda data, id=gate: data['id'] == id and data['event'] == 'complete')
    done = {'worker': 'w1', 'tasks': [{'task': task['task'], 'output': 1}]}
    assert listener.ask('/v1/tasks:complete', 'POST', body=done).status == 200
    shown = weir.ended(job)
    assert shown['status'] == 'COMPLETED' and shown['steps'][0]['attempt'] == 1, shown
    assert weir.good('store', 'check', '--json').json()['problems'] == []
    listener.stop()


def acts_are_changes_too(weir):
    listener = _start(weir)
    stream = Stream(listener).reset('new')
    id = _later(weir)
    listener.ask(f'/v1/executions/{id}/cancel', 'POST')
    again = listener.ask(f'/v1/executions/{id}/retry', 'POST').json()['new_id']
    changes = stream.until(lambda data: data['status'] == 'COMPLETED')
    assert _kinds(changes) == {id: ['enqueue', 'cancelled'], again: WHOLE}, changes
    listener.stop()


def a_filter_lets_nothing_else_through(weir):
    listener = _start(weir)
    of_tiny = Stream(listener, '?workspace=tiny').reset('new')
    of_cancels = Stream(listener, '?status=CANCELLED').reset('new')
    of_both = Stream(listener, '?workspace=acme&status=CANCELLED').reset('new')
    first, second, third = _later(weir), _later(weir, '-w', 'tiny', 'hello'), _later(weir)
    of_one = Stream(listener, f'?id={third.upper()}').reset('new')
    for id in (first, second, third):
        listener.ask(f'/v1/executions/{id}/cancel', 'POST')
    assert _kinds([of_tiny.change(), of_tiny.change()]) == {second: ['enqueue', 'cancelled']}
    assert [of_cancels.change().data['id'] for _ in range(3)] == [first, second, third]
    assert [of_both.change().data['id'] for _ in range(2)] == [first, third]
    changes = of_one.until(lambda data: data['status'] == 'CANCELLED')  # the enqueue may be behind its beginning
    assert list(_kinds(changes)) == [third], changes
    listener.stop()


def a_stream_without_changes_gets_a_sign_of_life_with_the_present_position(weir):
    """So that a client with a filter can go on long after the last change that it wanted."""
    listener = _start(weir)
    of_tiny = Stream(listener, '?workspace=tiny').reset('new')
    of_all = Stream(listener).reset('new')
    id = _later(weir)
    change = of_all.change()
    assert change.data['id'] == id and change.id != of_tiny.last_id
    sign = of_tiny.next()
    while sign.id != change.id:  # on a slow machine one of the time before the change
        assert sign.data is None, sign
        sign = of_tiny.next()
    assert sign.data is None, sign
    listener.stop()


def what_cannot_be_streamed_says_why(weir):
    listener = _start(weir)
    refused = problem(listener.ask('/v1/stream?status=FAILD'), 400, 'invalid_argument')
    assert refused['errors'][0]['pointer'] == 'status' and 'CANCELLED' in refused['hint'], refused
    for id in ('x', '', '01a215fd'):
        problem(listener.ask(f'/v1/stream?id={id}'), 400, 'invalid_argument')
    problem(listener.ask('/v1/stream?workspaces=acme'), 400, 'invalid_argument')
    refused = problem(listener.ask('/v1/stream?workspace=acm'), 404, 'workspace_not_found')
    assert refused['errors'][0]['pointer'] == 'workspace' and '/v1/workspaces' in refused['hint'], refused
    problem(listener.ask('/v1/stream', 'POST'), 405, 'method_not_allowed')
    listener.stop()


# --- no gap, no double ---



def nothing_is_missing_or_doubled_while_writers_commit_at_once(weir):
    listener = _start(weir)
    streams = [Stream(listener).reset('new') for _ in range(3)]
    ids = []

    def write():
        for _ in range(20):
            answer = listener.ask('/v1/workspaces/acme/executions', 'POST', body={'workflow': 'hello'})
            ids.append(answer.json()['id'])
    threads = [threading.Thread(target=write) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert len(ids) == 120
    seen = []
    for stream in streams:
        left = set(ids)
        changes = stream.until(lambda data: data['status'] == 'COMPLETED' and not (left.discard(data['id']) or left))
        assert _kinds(changes) == {id: WHOLE for id in ids}
        seen.append([(change.id, change.data) for change in changes])
        _positions(changes)
    assert seen[0] == seen[1] == seen[2]
    listener.stop()


def a_reader_goes_on_at_another_node_behind_what_it_has(weir):
    listener = _start(weir)
    other = Listener(weir, output='other').ready()
    stream = Stream(listener).reset('new')
    kept = Stream(other).reset('new')  # so that the other node has its own reader before
    ids, changes = [], []
    for turn in range(6):
        ids += [weir.enqueue('-w', 'acme', 'hello') for _ in range(3)]
        changes += [stream.change() for _ in range(5)]
        last = stream.close()
        ids.append(weir.enqueue('-w', 'acme', 'hello'))
        stream = Stream((other, listener)[turn % 2], after=last)
    left = set(ids) - {id for id, kinds in _kinds(changes).items() if kinds == WHOLE}
    changes += stream.until(lambda data: data['status'] == 'COMPLETED' and not (left.discard(data['id']) or left))
    assert _kinds(changes) == {id: WHOLE for id in ids}, _kinds(changes)
    positions = _positions(changes)
    assert positions == list(range(positions[0], positions[0] + len(positions))), positions
    kept.close()
    listener.stop()
    other.stop()


def a_reader_goes_on_after_the_death_of_the_server(weir):
    """The server dies with kill -9 between any two events; the changes in between come from the next one."""
    listener = _start(weir)
    stream = Stream(listener).reset('new')
    ids, changes = [], []
    for _ in range(3):
        ids += [weir.enqueue('-w', 'acme', 'hello') for _ in range(2)]
        changes += [stream.change() for _ in range(3)]
        listener.process.send_signal(signal.SIGKILL)
        listener.process.wait()
        last = stream.close()
        ids += weir.enqueue_many(200)
        listener = Listener(weir).ready()
        stream = Stream(listener, after=last)
    left = set(ids) - {id for id, kinds in _kinds(changes).items() if 'complete' in kinds}
    changes += stream.until(lambda data: data['status'] == 'COMPLETED' and not (left.discard(data['id']) or left))
    kinds = _kinds(changes)
    assert set(kinds) == set(ids)
    for id, its in kinds.items():
        assert (its[0], its[-1], its.count('enqueue'), its.count('complete')) == ('enqueue', 'complete', 1, 1), (id, its)
    positions = _positions(changes)
    assert positions == list(range(positions[0], positions[0] + len(positions))), positions
    listener.stop()


def a_transaction_that_commits_late_is_not_passed(weir):
    """On PostgreSQL; a file of SQLite has one writer."""
    listener = _start(weir)
    stream = Stream(listener).reset('new')
    if not POSTGRES:
        assert weir.enqueue('-w', 'acme', 'hello') == stream.change().data['id']
        listener.stop()
        return
    with subprocess.Popen([client_program('psql'), '-qXAt', POSTGRES.url(weir.database_name)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as session:
        def run(sql):
            session.stdin.write(sql + '\n')
            session.stdin.flush()
        run("BEGIN; SELECT weir.enqueue('acme', 'hello');")
        late = session.stdout.readline().strip()
        assert late, 'no id'
        soon = weir.enqueue('-w', 'acme', 'hello')
        before = stream.until(lambda data: data['status'] == 'COMPLETED')
        assert _kinds(before) == {soon: WHOLE}, before
        # The old stream stays until the new one is there: a first stream would wait for the transaction.
        stream, old = Stream(listener, after=stream.last_id).read_head(), stream
        old.close()
        run('COMMIT;')
        after = stream.until(lambda data: data['status'] == 'COMPLETED')
        assert _kinds(after) == {late: WHOLE}, after
        assert after[0].data['at'] < before[-1].data['at']
        _positions(before + after)
        session.stdin.close()
        session.wait(SECONDS)
    listener.stop()


def a_change_of_a_transaction_that_is_older_than_the_stream_is_announced_by_a_reset(weir):
    """On PostgreSQL: it has looked whether the stream is read before anybody read it."""
    listener = _start(weir)
    if not POSTGRES:
        assert Stream(listener).reset('new').close() is not None
        listener.stop()
        return
    with subprocess.Popen([client_program('psql'), '-qXAt', POSTGRES.url(weir.database_name)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as session:
        session.stdin.write("BEGIN; SELECT weir.enqueue('acme', 'hello');\n")
        session.stdin.flush()
        unseen = session.stdout.readline().strip()
        stream = Stream(listener).reset('new', is_settled=False)
        assert stream.last_id is None, stream.last_id  # nobody can go on behind it
        seen = weir.enqueue('-w', 'acme', 'hello')
        changes = stream.until(lambda data: data['status'] == 'COMPLETED')
        assert _kinds(changes) == {seen: WHOLE} and changes[0].id is None, changes
        session.stdin.write('COMMIT;\n')
        session.stdin.close()
        session.wait(SECONDS)
        kinds = [stream.next()]
        while kinds[-1].type != 'reset':
            kinds.append(stream.next())
        assert kinds[-1].data == {'reason': 'incomplete'} and kinds[-1].id is not None, kinds
        assert listener.ask(f'/v1/executions/{unseen}').status == 200
    listener.stop()


# --- resets ---


def a_store_that_is_set_back_while_the_stream_settles_is_a_reset(weir):
    """On PostgreSQL: the numbers of the next changes are lower than those that the node has read."""
    listener = _start(weir)
    stream = Stream(listener).reset('new')
    count = _batch(listener, 50)
    last = [stream.change() for _ in range(count)][-1].id
    if POSTGRES:
        stream.close()
        wait_for('the end of the stream', lambda: b'weir_http_streams 0' in listener.ask('/metrics').body, pause=SHORT)
        stream = Stream(listener).reset('new')
        with _session(weir) as session:
            session.ask('BEGIN; SELECT pg_current_xact_id();')  # older than the stream that begins now
            _sql(weir, '''BEGIN; DELETE FROM weir.stream_entries; SELECT setval('weir.stream_positions', 1);
                          UPDATE weir.stream_state SET since = since - 3600000000;
                          SELECT setval('weir.stream_written_until', weir.store_time() - 3600000000); COMMIT;''')
            for _ in range(5):  # the node reads them while it settles
                _later(weir)
            assert listener.ask('/livez').status == 200
        event = stream.next()
        while event.type != 'reset' or event.id is None:
            event = stream.next()
        assert stream.last_id.partition('-')[0] != last.partition('-')[0], (last, stream.last_id)
    id = _later(weir)
    changes = stream.until(lambda data: data['id'] == id)
    assert POSTGRES or len(changes) == 1, changes
    listener.stop()


def an_id_that_cannot_be_continued_is_a_reset(weir):
    listener = _start(weir)
    kept = Stream(listener).reset('new')
    since, _, number = kept.last_id.partition('-')
    for id in ('x', '1', '-', f'{since}-', f'{int(since) - 1}-{number}', f'{since}-{int(number) + 1000}', '9' * 30, '0-0'):
        stream = Stream(listener, after=id).reset('gone')
        assert stream.close() == kept.last_id, id
    stream = Stream(listener, after=kept.last_id)
    id = _later(weir)
    assert stream.change().data['id'] == kept.change().data['id'] == id
    listener.stop()


def a_slow_reader_is_reset_and_delays_no_other(weir):
    listener = _start(weir)
    slow = Stream(listener, receive_bytes=4096).reset('new')
    quick = Stream(listener, '?status=CANCELLED').reset('new')
    sent = 0
    while sent < 2 * RING_EVENTS + 12000:  # the system's buffers take some
        sent += _batch(listener, 1000)
        slow.nibble()
    id = _later(weir)
    listener.ask(f'/v1/executions/{id}/cancel', 'POST')
    assert quick.change().data['id'] == id
    events = 0
    event = slow.next()
    while event.type != 'reset':
        events += 1
        event = slow.next()
    assert event.data == {'reason': 'slow'} and events < sent, (events, sent)
    slow.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    last = _later(weir)
    slow.until(lambda data: data['id'] == last)
    listener.stop()


# --- walls and bounds ---


def a_token_sees_its_workspace_alone(weir):
    listener = _start(weir)
    secret = _token(weir, 'acme', '-w', 'acme')
    theirs = _later(weir, '-w', 'tiny', 'hello')

    def refuse(query, status, code):
        problem(listener.ask(f'/v1/stream{query}', authorization=f'Bearer {secret}'), status, code)
    refuse('', 400, 'invalid_argument')
    refuse('?workspace=tiny', 404, 'workspace_not_found')
    refuse(f'?workspace=acme&id={theirs}', 404, 'execution_not_found')
    refuse(f'?id={theirs}', 400, 'invalid_argument')
    stream = Stream(listener, '?workspace=acme', secret=secret).reset('new')
    _later(weir, '-w', 'tiny', 'hello')
    mine = _later(weir)
    assert stream.change().data['id'] == mine
    last = stream.close()
    _later(weir, '-w', 'tiny', 'hello')
    mine = _later(weir)
    stream = Stream(listener, '?workspace=acme', secret=secret, after=last)
    assert stream.change().data['id'] == mine
    listener.stop()


def the_end_of_a_token_ends_its_streams(weir):
    listener = _start(weir)
    first, second = _token(weir, 'first'), _token(weir, 'second')
    ended, kept = (Stream(listener, secret=secret).reset('new') for secret in (first, second))
    weir.good('token', 'revoke', 'first', '-q')
    while ended.next() is not None:
        pass
    id = _later(weir)
    assert kept.change().data['id'] == id
    problem(listener.ask('/v1/stream', authorization=f'Bearer {first}'), 401, 'unauthorized')
    listener.stop()


def a_workspace_that_is_made_again_is_closed_to_the_streams_of_before(weir):
    listener = _start(weir)
    secret = _token(weir, 'old', '-w', 'acme', '-w', 'tiny')
    stream = Stream(listener, '?workspace=acme', secret=secret).reset('new')
    kept = Stream(listener, '?workspace=tiny', secret=secret).reset('new')
    weir.good('workspace', 'delete', 'acme', '--fail-waiting', '--yes')
    weir.good('workspace', 'set', 'acme', '--plan', 'pro', '-q')
    while stream.next() is not None:
        pass
    problem(listener.ask('/v1/stream?workspace=acme', authorization=f'Bearer {secret}'), 404, 'workspace_not_found')
    _later(weir)
    id = _later(weir, '-w', 'tiny', 'hello')
    assert kept.change().data['id'] == id
    listener.stop()


def streams_without_a_token_end_when_one_is_needed(weir):
    listener = _start(weir)
    stream = Stream(listener).reset('new')
    _token(weir, 'first')
    while stream.next() is not None:
        pass
    listener.stop()


def a_process_and_a_token_have_bounds(weir):
    """An eighth of the descriptors; a token has a half of that."""
    weir.make_store()
    secret, other = _token(weir, 'one'), _token(weir, 'two')
    program = weir.binary
    weir.binary = weir.write('limited', f'#!/bin/sh\nulimit -n 256\nexec {program} "$@"\n')
    os.chmod(weir.binary, 0o755)
    listener = Listener(weir).ready()
    weir.binary = program
    streams = [Stream(listener, secret=secret).reset('new') for _ in range(16)]
    problem(listener.ask('/v1/stream', authorization=f'Bearer {secret}'), 429, 'rate_limited')
    streams += [Stream(listener, secret=other).reset('new') for _ in range(16)]
    refused = listener.ask('/v1/stream', authorization=f'Bearer {other}')
    assert refused.status in (429, 503), refused
    streams.pop().close()  # the listener notices it, and another one has the place
    wait_for('a place', lambda: _has_place(listener, other), pause=SHORT)
    listener.stop()


def _has_place(listener, secret):
    with listener.connect() as connection:
        connection.sendall(f'GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n'.encode())
        return connection.recv(65536).startswith(b'HTTP/1.1 200 ')


def _resident_bytes(pid):
    with open(f'/proc/{pid}/status') as file:
        return int(re.search(r'VmRSS:\s+(\d+) kB', file.read()).group(1)) * KIB


def a_thousand_streams_are_small_and_all_get_an_event(weir):
    listener = _start(weir)
    first = Stream(listener).reset('new')
    before = _resident_bytes(listener.process.pid)
    streams = []
    while len(streams) < STREAMS:
        streams += [stream.reset('new') for stream in [Stream(listener) for _ in range(STREAMS_AT_ONCE)]]
    id = _later(weir)
    for stream in (first, *streams):
        assert stream.change().data['id'] == id
    each = (_resident_bytes(listener.process.pid) - before) / STREAMS
    assert each < 20 * KIB * MEMORY_FACTOR, each
    for stream in streams:
        stream.close()
    listener.stop()


def clients_that_are_gone_leave_their_places(weir):
    listener = _start(weir)
    stream = Stream(listener).reset('new')
    half = Stream(listener).reset('new')
    half.connection.shutdown(socket.SHUT_WR)  # it could still be written to
    half.end()
    gone = [Stream(listener).reset('new') for _ in range(20)]
    for other in gone:
        other.close()

    def streams():
        return int(re.search(r'^weir_http_streams (\d+)', listener.ask('/metrics').body.decode(), re.M).group(1))
    wait_for('the end of their streams', lambda: streams() == 1, pause=SHORT)
    id = _later(weir)
    assert stream.change().data['id'] == id
    listener.stop()


def a_head_request_opens_no_stream(weir):
    listener = _start(weir)
    with listener.connect() as connection:
        connection.sendall(b'HEAD /v1/stream HTTP/1.1\r\nHost: localhost\r\n\r\n')
        head, _ = read_until(connection, b'\r\n\r\n')
        assert head.startswith(b'HTTP/1.1 200 ') and head.endswith(b'\r\n\r\n'), head
        assert head.count(b'\r\n\r\n') == 1 and b'Content-Type: text/event-stream' in head, head
        connection.sendall(b'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n')
        after, _ = read_until(connection, b'\r\n')
        assert after.startswith(b'HTTP/1.1 200 '), after  # no end of a body before it
    listener.stop()


def a_stop_of_the_server_ends_its_streams(weir):
    listener = _start(weir)
    streams = [Stream(listener).reset('new') for _ in range(5)]
    listener.stop()
    for stream in streams:
        stream.end()
        assert is_closed(stream.connection)


if __name__ == '__main__':
    try:
        sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
    finally:
        if POSTGRES:
            POSTGRES.close()
