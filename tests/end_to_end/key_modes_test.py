#!/usr/bin/env python3
"""Modes of idempotency keys from the command line, over HTTP, in SQL, and with several callers at the same instant.

usage: key_modes_test.py BINARY [--postgres] [TEST ...]
"""

import json
import subprocess
import sys
import threading

from harness import run_tests
from http_client import Listener, read_answer
from postgres_server import PostgresServer
from sql_test import Session
from waiting import SHORT, wait_for

import sql_test

POSTGRES = PostgresServer() if '--postgres' in sys.argv else None
CALLERS = 6
REPLACES = 40  # of each of three callers


def _use_postgres(weir):
    weir.database = POSTGRES.database()
    weir.environment['WEIR_STORE'] = POSTGRES.url(weir.database)
    sql_test.SERVER = POSTGRES


def _order(mode, *words):
    return ('enqueue', '-w', 'acme', 'hello', '-k', 'doc-1', '--key-mode', mode, '--json', *words)


def the_command_replaces_and_debounces(weir):
    weir.make_store()
    first = weir.good(*_order('replace')).json()
    second = weir.good(*_order('replace')).json()
    assert (first['replaced'], second['replaced'], second['duplicate']) == (False, True, False), second
    shown = weir.show(first['id'])
    assert shown['status'] == 'CANCELLED', shown
    assert [event['detail'] for event in shown['events'] if event['event'] == 'cancel'] == [second['id']], shown
    late = weir.good(*_order('debounce', '--debounce', '1h')).json()
    assert late['replaced'] and weir.show(second['id'])['status'] == 'CANCELLED', late
    same = weir.good(*_order('one_active')).json()
    assert (same['id'], same['duplicate']) == (late['id'], True), same
    line = {'workspace': 'acme', 'workflow': 'hello', 'idempotency_key': 'doc-1', 'key_mode': 'debounce', 'debounce': '5m'}
    (lined,) = weir.good('enqueue', '-', '--json', stdin=json.dumps(line) + '\n').json()['items']
    assert lined['replaced'], lined
    for words, hint in ((('--key-mode', 'replac', '-k', 'a'), 'replace'), (('--key-mode', 'replace'), 'idempotency key'),
                        (('--key-mode', 'debounce', '-k', 'a'), '5s'),
                        (('--debounce', '5s', '-k', 'a'), 'key_mode debounce')):
        refused = weir.run('enqueue', '-w', 'acme', 'hello', *words)
        assert refused.code != 0 and hint in refused.err, refused
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def callers_at_the_same_instant_leave_one(weir):
    weir.make_store()
    for mode, living in (('replace', 1), ('one_active', 1)):
        callers = [weir.spawn('enqueue', '-w', 'acme', 'hello', '-k', mode, '--key-mode', mode, '--json',
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(CALLERS)]
        answers = [json.loads(caller.communicate()[0]) for caller in callers]
        assert [caller.returncode for caller in callers] == [0] * CALLERS, answers
        pending = weir.items('list', '-w', 'acme', '--where', f'idempotency_key={mode} status=pending')
        assert len(pending) == living, pending
        assert sum(answer['replaced'] for answer in answers) == (CALLERS - 1 if mode == 'replace' else 0), answers
        assert len({answer['id'] for answer in answers}) == (CALLERS if mode == 'replace' else 1), answers
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def the_api_takes_modes(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    path = '/v1/workspaces/acme/executions'
    late = {'run_at': '2099-01-01T00:00:00Z'}  # the node of the listener would start it
    plain = {'workflow': 'hello', 'idempotency_key': 'doc-1', 'key_mode': 'replace'}
    body = {**plain, **late}
    first = listener.ask(path, 'POST', body=body)
    second = listener.ask(path, 'POST', body=body)
    assert (first.status, second.status) == (202, 202), second
    assert (first.json()['replaced'], second.json()['replaced']) == (False, True), second
    active = listener.ask(path, 'POST', body={**body, 'key_mode': 'one_active'})
    assert (active.status, active.json()['id']) == (200, second.json()['id']), active
    batch = listener.ask('/v1/executions:batch', 'POST', body={'items': [
        {**body, 'workspace': 'acme'}, {**plain, 'workspace': 'acme', 'key_mode': 'debounce', 'debounce': '1m'}]})
    assert [item['replaced'] for item in batch.json()['items']] == [True, True], batch
    for wrong in ({'key_mode': 'newest'}, {'debounce': '5s'}, {'key_mode': 'debounce', 'debounce': 5},
                  {'key_mode': 'debounce', 'debounce': '0'}):
        assert listener.ask(path, 'POST', body={**plain, **wrong}).status == 400, wrong


def a_token_that_enqueues_ends_no_other_work(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    weir.write('other.json', '{"name": "other", "steps": {"one": {"sleep": "1h"}}}')
    weir.good('workflow', 'apply', 'other.json', '-q')
    token = weir.good('token', 'create', 'shop', '--role', 'enqueue', '--all-workspaces', '-q').out.strip()
    first = weir.good(*_order('replace', '--run-at', '1h')).json()
    body = {'workflow': 'hello', 'idempotency_key': 'doc-1', 'key_mode': 'replace', 'run_at': '2099-01-01T00:00:00Z'}

    def send(workflow):
        return listener.ask('/v1/workspaces/acme/executions', 'POST', body={**body, 'workflow': workflow},
                            authorization='Bearer ' + token)
    other = send('other')
    assert (other.status, other.json()['code']) == (422, 'idempotency_key_reused'), other
    assert weir.show(first['id'])['status'] == 'PENDING'
    assert send('hello').json()['replaced']
    shown = weir.show(first['id'])
    assert [event['actor'] for event in shown['events'] if event['event'] == 'cancel'] == ['token:shop'], shown
    assert shown['error_code'] == 'replaced', shown
    assert [item['id'] for item in weir.items('list', '--where', 'error_code=replaced')] == [first['id']]


def none_is_both_started_and_replaced(weir):
    """Callers replace while a node claims."""
    weir.make_store()
    listener = Listener(weir).ready()
    answers = []

    def replace():
        body = {'workflow': 'hello', 'idempotency_key': 'doc-1', 'key_mode': 'replace'}
        for _ in range(REPLACES):
            answers.append(listener.ask('/v1/workspaces/acme/executions', 'POST', body=body))
    callers = [threading.Thread(target=replace) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert {answer.status for answer in answers} == {202}, answers
    wait_for('the ends', lambda: not weir.items('list', '--where', 'status=pending,claimed,dispatched'), pause=SHORT)
    items = weir.items('list', '--limit', '1000')
    ends = {item['id']: (item['status'], item['error_code'], item['claimed_at'] is None) for item in items}
    assert set(ends.values()) <= {('CANCELLED', 'replaced', True), ('COMPLETED', None, False)}, ends
    assert set(ends) == {answer.json()['id'] for answer in answers} and len(ends) == len(answers)
    replaced = sum(answer.json()['replaced'] for answer in answers)
    assert replaced == sum(end[0] == 'CANCELLED' for end in ends.values()) and 0 < replaced < len(answers), ends
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def a_key_that_is_held_delays_no_other_tenant(weir):
    """Both threads of the listener wait for keys while two requests come, of which one meets a key that stays held."""
    if POSTGRES is None:
        return
    weir.make_store()
    listener = Listener(weir).ready()
    short, long = Session(weir.database), Session(weir.database)
    for key, session in (('a', short), ('b', short), ('c', long)):
        weir.good('enqueue', '-w', 'acme', 'hello', '-k', key, '--run-at', '1h')
        session.good('BEGIN')
        session.good(f"SELECT 1 FROM weir.idempotency_keys WHERE key = '{key}' FOR UPDATE")

    def send(workspace, **more):
        body = json.dumps({'workflow': 'hello', 'run_at': '2099-01-01T00:00:00Z', **more}).encode()
        connection = listener.connect()
        connection.sendall(f'POST /v1/workspaces/{workspace}/executions HTTP/1.1\r\nHost: localhost\r\n'
                           f'Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n'.encode() + body)
        return connection

    def blocked(count):
        locks = POSTGRES.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", weir.database)
        return locks == str(count)
    waiting = []
    for count, key in ((1, 'a'), (2, 'b')):
        waiting.append(send('acme', idempotency_key=key, key_mode='replace'))
        wait_for('the wait for its key', lambda count=count: blocked(count), pause=SHORT)
    held = [send('acme', idempotency_key='c', key_mode=mode) for mode in ('replace', 'one_active')]
    other = send('tiny')
    assert listener.ask('/livez').status == 200  # the server has read them
    short.good('COMMIT')
    answers = [read_answer(connection) for connection in [*waiting, other, *held]]
    assert [answer.status for answer in answers] == [202, 202, 202, 503, 503], answers
    long.good('COMMIT')
    weir.good('store', 'check')


def sql_takes_modes(weir):
    """On SQLite the test of the extension has the same."""
    if POSTGRES is None:
        return
    weir.make_store()
    call = "SELECT weir.enqueue('acme', 'hello', idempotency_key => 'doc-1', key_mode => '{}'{})"
    ids = [POSTGRES.sql(call.format(mode, more), weir.database)
           for mode, more in (('replace', ''), ('debounce', ", debounce => interval '1 hour'"), ('one_active', ''))]
    assert ids[1] == ids[2] != ids[0], ids
    assert weir.show(ids[0])['status'] == 'CANCELLED'
    for arguments in ("key_mode => 'newest', idempotency_key => 'a'", "key_mode => 'replace'",
                      "key_mode => 'debounce', idempotency_key => 'a'", "debounce => interval '5 seconds'",
                      "key_mode => 'debounce', idempotency_key => 'a', debounce => interval '2 days'"):
        code = POSTGRES.sql(f"SELECT code FROM weir.try_enqueue('acme', 'hello', {arguments})", weir.database)
        assert code == 'invalid_argument', arguments
    weir.good('store', 'check')


def a_store_behind_a_server_takes_modes(weir):
    weir.make_store()
    url = f'http://127.0.0.1:{Listener(weir).ready().port}'
    first = weir.good(*_order('replace', '--run-at', '1h'), env={'WEIR_STORE': url}).json()
    second = weir.good(*_order('debounce', '--debounce', '1h', '--debounce-max', '2h'), env={'WEIR_STORE': url}).json()
    assert (first['replaced'], second['replaced']) == (False, True), second
    third = weir.good(*_order('one_active'), env={'WEIR_STORE': url}).json()
    assert (third['id'], third['duplicate']) == (second['id'], True), third


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
