#!/usr/bin/env python3
"""Executions over HTTP: enqueue one and many, read, wait, act, and act on all that match.

usage: http_executions_test.py BINARY [TEST ...] [--postgres]
"""

import contextlib
import json
import os
import signal
import sys
import threading
from urllib.parse import quote

from harness import run_tests
from http_client import SECONDS, Listener, is_closed, problem, read_answer
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

ENQUEUE = '/v1/workspaces/acme/executions'
POSTGRES = PostgresServer() if '--postgres' in sys.argv else None


def _use_postgres(weir):
    weir.environment['WEIR_STORE'] = POSTGRES.url(POSTGRES.database())


def _gate(weir, more=''):
    """A workflow whose step runs until the file `end` is there, and more steps."""
    program = 'touch began; while [ ! -e end ]; do sleep 0.02; done; echo 42'
    only = f'  only:\n    exec: [sh, -c, "{program}"]\n    cwd: {weir.folder}\n'
    weir.write('gate.yaml', 'name: gate\nsteps:\n' + only + more)
    weir.good('workflow', 'apply', 'gate.yaml', '-q')


def _start(weir):
    weir.make_store()
    return Listener(weir).ready()


def _enqueue(listener, workflow='hello', **members):
    answer = listener.ask(ENQUEUE, 'POST', body={'workflow': workflow, **members})
    assert answer.status == 202, answer
    return answer.json()['id']


def _await_status(listener, id, status):
    def reached():
        shown = listener.ask(f'/v1/executions/{id}').json()
        return shown if shown['status'] == status else None
    return wait_for(f'{status} of {id}', reached, pause=SHORT)


# --- enqueue, list, show ---


def an_execution_is_enqueued_once_and_shown(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    path = '/v1/workspaces/acme/executions'
    first = listener.ask(path, 'POST', body={'workflow': 'hello', 'params': {'n': 1}}, idempotency_key='k 1')
    assert first.status == 202, first
    assert first.json() == {'id': first.json()['id'], 'status': 'PENDING', 'duplicate': False, 'replaced': False}, first
    assert first.head['location'] == f'/v1/executions/{first.json()["id"]}', first
    again = listener.ask(path, 'POST', body={'workflow': 'hello', 'params': {'n': 1}, 'idempotency_key': 'k 1'})
    assert (again.status, again.json()) == (200, {'id': first.json()['id'], 'duplicate': True, 'replaced': False}), again
    other = listener.ask(path, 'POST', body={'workflow': 'hello', 'params': {'n': 2}}, idempotency_key='k 1')
    problem(other, 422, 'idempotency_key_reused')
    shown = listener.ask(first.head['location'])
    assert shown.status == 200 and shown.json()['params'] == {'n': 1}, shown
    assert shown.json()['idempotency_key'] == 'k 1', shown
    rows = listener.ask('/v1/executions?workspace=acme&limit=5&count').json()
    assert [row['id'] for row in rows['items']] == [first.json()['id']] and rows['count'] == 1, rows
    assert listener.ask('/v1/executions?where=workspace%3Dacme+retried%3Dyes').json()['items'] == []
    listener.stop()


def a_full_workspace_takes_more_and_the_reason_is_named(weir):
    listener = _start(weir)
    _gate(weir)

    def enqueue():
        answer = listener.ask('/v1/workspaces/tiny/executions', 'POST', body={'workflow': 'gate'})
        assert answer.status == 202, answer
        return answer.json()['id']
    runs = enqueue()
    wait_for('the step', lambda: os.path.exists(weir.path('began')), pause=SHORT)
    waits = enqueue()  # the plan has one slot

    def why():
        answer = listener.ask(f'/v1/executions/{waits}/why').json()
        return answer if answer['pending_reason'] == 'workspace_at_capacity' else None
    why = wait_for('the reason', why, pause=SHORT)
    assert (why['status'], why['slots_used'], why['slots_max']) == ('PENDING', 1, 1), why
    assert [holder['id'] for holder in why['slot_holders']] == [runs], why
    row = listener.ask(f'/v1/executions/{waits}').json()
    assert (row['pending_reason'], row['starts_refused'], row['error_code']) == ('workspace_at_capacity', 0, None), row
    weir.write('end', '')
    for id in (runs, waits):
        _await_status(listener, id, 'COMPLETED')
    listener.stop()


def a_key_in_quotation_marks_is_the_same_key(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    path = '/v1/workspaces/acme/executions'
    body = {'workflow': 'hello'}
    for plain, quoted in (('ada-1', '"ada-1"'), ('a b', '"a b"'), ('a"b\\\\c', r'"a\"b\\\\c"')):
        first = listener.ask(path, 'POST', body=body, idempotency_key=quoted)
        again = listener.ask(path, 'POST', body=body, idempotency_key=plain)
        assert (first.status, again.status) == (202, 200) and first.json()['id'] == again.json()['id'], (quoted, again)
        both = listener.ask(path, 'POST', body={**body, 'idempotency_key': plain}, idempotency_key=quoted)
        assert both.status == 200, both
        assert weir.show(first.json()['id'])['idempotency_key'] == plain
    for fault in ('"ada', '"', '"a"b', '"a"; b=1', r'"a\"', r'"a\b"', '""'):
        problem(listener.ask(path, 'POST', body=body, idempotency_key=fault), 400, 'invalid_argument')
    assert len(weir.items('list', '-w', 'acme')) == 3
    listener.stop()


def a_key_of_a_repeated_request_counts_or_is_refused(weir):
    """A client that sends the field repeats its request after a lost answer."""
    weir.make_store()
    listener = Listener(weir).ready()
    item = {'workspace': 'acme', 'workflow': 'hello'}
    refused = listener.ask('/v1/executions:batch', 'POST', body={'items': [item]}, idempotency_key='set-1')
    problem(refused, 400, 'invalid_argument')
    assert 'give each item its idempotency_key' in refused.json()['hint'], refused
    assert weir.items('list') == []
    listener.ask('/v1/schedules/night', 'PUT', body={'cron': '0 3 * * *', 'workflow': 'hello', 'workspaces': ['acme']})
    refused = listener.ask('/v1/schedules/night/trigger', 'POST', body={}, idempotency_key='now')
    problem(refused, 400, 'invalid_argument')
    assert '`at`' in refused.json()['hint'], refused

    steps = {'first': {'signal': 'go'}, 'second': {'needs': ['first'], 'signal': 'more'}}
    listener.ask('/v1/workflows', 'POST', body={'name': 'waits', 'steps': steps})
    id = _enqueue(listener, 'waits')
    path = f'/v1/executions/{id}/signal'
    sent = [listener.ask(path, 'POST', body={'name': 'more', **more}, **fields).json()['duplicate']
            for more, fields in (({}, {'idempotency_key': 's-1'}), ({}, {'idempotency_key': '"s-1"'}), ({'key': 's-1'}, {}),
                                 ({'key': 's-1'}, {'idempotency_key': 's-1'}), ({}, {'idempotency_key': 's-2'}))]
    assert sent == [False, True, True, True, False], sent
    problem(listener.ask(path, 'POST', body={'name': 'more', 'key': 's-1'}, idempotency_key='s-2'), 400, 'invalid_argument')
    problem(listener.ask(path, 'POST', body={'name': 'more'}, idempotency_key='"s'), 400, 'invalid_argument')
    listener.stop()


def a_head_has_16_kib_at_most(weir):
    weir.make_store()
    listener = Listener(weir).ready()

    def ask(size):
        head = b'GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Fill: %s\r\n\r\n'
        with listener.connect() as connection:
            connection.sendall(head % (b'a' * (size - len(head) + 2)))
            answer = read_answer(connection)
            return answer, answer.status != 200 and is_closed(connection)

    assert ask(16 * 1024)[0].status == 200
    answer, closed = ask(16 * 1024 + 1)
    assert 'bulk' in problem(answer, 431, 'head_too_large')['hint'] and closed, answer
    assert ask(40 * 1024)[0].status in (414, 431)
    listener.stop()


def what_cannot_be_answered_says_why(weir):
    weir.make_store()
    listener = Listener(weir).ready()
    path = '/v1/workspaces/acme/executions'
    for wrong, hint in (('stauts', 'did you mean "status"?'), ('lmit', 'did you mean "limit"?'),
                        ('zzzzzzzz', 'GET /docs lists the arguments of each path')):
        refused = problem(listener.ask(f'/v1/executions?{wrong}=FAILED'), 400, 'invalid_argument')
        assert (refused['errors'][0]['pointer'], refused['hint']) == (wrong, hint), refused
    refused = listener.ask('/v1/executions?status=FAILD')
    assert 'did you mean FAILED?' == problem(refused, 400, 'invalid_argument')['hint'], refused
    for limit in ('0', '1001', 'x', '', '1e2', '+5', '99999999999999999999'):
        problem(listener.ask(f'/v1/executions?limit={limit}'), 400, 'invalid_argument')
    problem(listener.ask('/v1/executions/01a215fd-f18a-7002-b43c-a0d8f870aebd'), 404, 'execution_not_found')
    refused = listener.ask('/v1/workspaces/nobody/executions', 'POST', body={'workflow': 'hello'})
    problem(refused, 404, 'workspace_not_found')
    problem(listener.ask(path, 'POST', body={'workflow': 'helo'}), 404, 'workflow_not_found')
    problem(listener.ask(path, 'POST', body={'workflow': 'hello', 'workspace': 'beta'}), 400, 'invalid_argument')
    problem(listener.ask(path, 'POST', body={'workflow': 'hello', 'idempotency_key': 'a'}, idempotency_key='b'), 400,
             'invalid_argument')
    problem(listener.ask(path, 'POST', body=b'{', content_type='application/json'), 400, 'invalid_argument')
    for key, value in (('priority', 'high'), ('run_at', 'tomorrow'), ('params', [1]), ('labels', 1), ('debounce', '0s'),
                       ('idempotency_key', ''), ('workflow', None)):
        expected = (422, 'params_invalid') if key == 'params' else (400, 'invalid_argument')
        refused = problem(listener.ask(path, 'POST', body={'workflow': 'hello', key: value}), *expected)
        assert [error['pointer'] for error in refused['errors']] == [f'/{key}'], refused
    assert 'Content-Type' in problem(listener.ask(path, 'POST', body=b'{}'), 415, 'unsupported_media_type')['hint']
    for elsewhere, methods in ((path, 'POST'), ('/v1/executions', 'GET, HEAD')):  # curl does not print the field Allow
        refused = problem(listener.ask(elsewhere, 'DELETE'), 405, 'method_not_allowed')
        assert refused['detail'] == f'this path takes {methods} and no other method' and 'Allow' in refused['hint'], refused
    problem(listener.ask(path, 'POST', body={}, content_type='text/plain'), 415, 'unsupported_media_type')
    problem(listener.ask(path, 'POST', body={}, content_encoding='gzip'), 415, 'unsupported_media_type')
    with listener.connect() as connection:  # refused by its length: the body need not be sent
        connection.sendall(f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
                           f'Content-Length: 10000000\r\n\r\n'.encode())
        problem(read_answer(connection), 413, 'body_too_large')
        assert is_closed(connection)
    for origin in ('http://evil.example', 'null', 'http://localhost:1', 'localhost'):
        problem(listener.ask(path, 'POST', body={'workflow': 'hello'}, origin=origin), 403, 'cross_origin')
    own = f'localhost:{listener.port}'
    assert listener.ask(path, 'POST', host=own, body={'workflow': 'hello'}, origin=f'http://{own}').status == 202
    assert listener.ask(path, 'DELETE').head['allow'] == 'POST'
    listener.stop()


def many_clients_enqueue_at_once(weir):
    """Each acknowledged execution is in the store once, also when requests with one key arrive together."""
    weir.make_store()
    listener = Listener(weir).ready()
    acknowledged = []

    def enqueue(worker):
        with listener.connect() as connection:
            rest = b''
            for n in range(20):
                body = json.dumps({'workflow': 'hello', 'params': {'n': n}, 'idempotency_key': f'{n}'}).encode()
                connection.sendall(b'POST /v1/workspaces/acme/executions HTTP/1.1\r\nHost: localhost\r\n'
                                   b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
                answer = read_answer(connection, data=rest)
                rest = answer.rest
                assert answer.status in (200, 202), answer
                acknowledged.append((n, answer.json()['id'], answer.json()['duplicate']))
    threads = [threading.Thread(target=enqueue, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert len(acknowledged) == 160
    assert len({id for _, id, _ in acknowledged}) == 20
    assert sum(not duplicate for _, _, duplicate in acknowledged) == 20
    assert len(weir.items('list', '-w', 'acme')) == 20
    listener.stop()


# --- many at once ---


def a_batch_is_one_transaction_with_a_result_for_each_item(weir):
    listener = _start(weir)
    items = [{'workspace': 'acme', 'workflow': 'hello', 'params': {'n': 1.50}, 'idempotency_key': 'a'},
             {'workspace': 'acme', 'workflow': 'helo'},
             {'workspace': 'tiny', 'workflow': 'hello', 'idempotency_key': 'a'},
             {'workspace': 'acme', 'workflow': 'hello', 'params': [1]},
             {'workspace': 'acme', 'workflow': 'hello', 'prams': {}},
             {'workspace': 'acme', 'workflow': 'hello', 'params': {'n': 1.50}, 'idempotency_key': 'a'}]
    answer = listener.ask('/v1/executions:batch', 'POST', body={'items': items})
    assert answer.status == 202, answer
    body = answer.json()
    assert (body['enqueued'], body['duplicates'], body['refused']) == (2, 1, 3), body
    rows = body['items']
    assert rows[0]['duplicate'] is False and rows[5] == {'id': rows[0]['id'], 'duplicate': True, 'replaced': False}, rows
    assert (rows[1]['status'], rows[1]['code']) == (404, 'workflow_not_found') and 'hello' in rows[1]['hint'], rows
    assert rows[2]['duplicate'] is False and rows[2]['id'] != rows[0]['id'], rows
    assert (rows[3]['status'], rows[3]['code']) == (422, 'params_invalid'), rows
    assert (rows[4]['status'], rows[4]['code']) == (400, 'invalid_argument') and 'params' in rows[4]['hint'], rows
    lines = '\n\n'.join(json.dumps(item) for item in (items[0], items[2])) + '\n'
    answer = listener.ask('/v1/executions:batch', 'POST', body=lines.encode(), content_type='application/x-ndjson')
    assert (answer.status, answer.json()['duplicates'], answer.json()['enqueued']) == (200, 2, 0), answer
    answer = listener.ask('/v1/executions:batch', 'POST', body={'items': [items[1], items[4]]})  # all are refused
    body = answer.json()
    assert (answer.status, body['enqueued'], body['refused']) == (202, 0, 2), answer
    assert [row['status'] for row in body['items']] == [404, 400], body
    many = {'items': [{'workspace': 'tiny', 'workflow': 'hello'}] * 1000}
    answer = listener.ask('/v1/executions:batch', 'POST', body=many)
    assert answer.status == 202 and len({row['id'] for row in answer.json()['items']}) == 1000, answer.status
    many['items'].append(many['items'][0])
    refused = problem(listener.ask('/v1/executions:batch', 'POST', body=many), 400, 'invalid_argument')
    assert 'more than 1000' in refused['detail'], refused
    listener.stop()


def a_batch_may_be_all_or_none(weir):
    listener = _start(weir)
    good = {'workspace': 'acme', 'workflow': 'hello', 'idempotency_key': 'k'}
    for bad, status, code in (({'workspace': 'acme', 'workflow': 'helo'}, 404, 'workflow_not_found'),
                              ({'workspace': 'acme'}, 400, 'invalid_argument'),
                              ({'workspace': 'acme', 'workflow': 'hello', 'priority': 10 ** 9}, 400, 'invalid_argument')):
        answer = listener.ask('/v1/executions:batch?atomic', 'POST', body={'items': [good, bad, good]})
        refused = problem(answer, status, code)
        assert refused['errors'][0]['pointer'] == '/items/1' and 'nothing was enqueued' in refused['detail'], refused
    assert weir.items('list', '-w', 'acme') == []
    both = {'items': [good, {**good, 'idempotency_key': 'l'}]}
    answer = listener.ask('/v1/executions:batch?atomic=true', 'POST', body=both)
    assert (answer.status, answer.json()['enqueued']) == (202, 2), answer
    assert len(weir.items('list', '-w', 'acme')) == 2
    for body in (b'', b'[]', b'{"items": {}}', b'{"items": [], "more": 1}', b'{"items": []}', b'{"items": [{}', b'nothing'):
        problem(listener.ask('/v1/executions:batch', 'POST', body=body, content_type='application/json'), 400,
                'invalid_argument')
    problem(listener.ask('/v1/executions:batch?atomic=yes', 'POST', body={'items': [good]}), 400, 'invalid_argument')
    listener.stop()


# --- one execution ---


def an_execution_is_read_in_parts(weir):
    listener = _start(weir)
    id = _enqueue(listener)
    shown = listener.ask(f'/v1/executions/{id}?wait=1m').json()
    assert shown['status'] == 'COMPLETED', shown
    steps = listener.ask(f'/v1/executions/{id}/steps').json()['items']
    assert [(step['step'], step['status'], step['output']) for step in steps] == [('greet', 'COMPLETED', 'hello')], steps
    assert listener.ask(f'/v1/executions/{id[:13]}/steps').json()['items'] == steps
    events = listener.ask(f'/v1/executions/{id}/events').json()['items']
    names = [event['event'] for event in events]
    assert names == ['enqueue', 'claim', 'dispatch', 'step_start', 'step_end', 'complete'], events
    answer = listener.ask(f'/v1/executions/{id}/events?limit=2')
    first, link = answer.json(), answer.head['link']
    assert link == f'</v1/executions/{id}/events?limit=2&cursor={first["next_cursor"]}>; rel="next"', link
    rest = listener.ask(f'/v1/executions/{id}/events?cursor={first["next_cursor"]}')
    assert first['items'] + rest.json()['items'] == events, (first, rest)
    assert 'link' not in rest.head, rest.head
    assert listener.ask(f'/v1/executions/{id}/result').json() == 'hello'
    assert listener.ask(f'/v1/executions/{id}/why').json()['status'] == 'COMPLETED'
    weir.write('end', '')
    _gate(weir, '  never: {needs: [only], when: "${.steps.only.output == 1}", exec: ["true"]}\n')
    skips = _enqueue(listener, 'gate')
    _await_status(listener, skips, 'COMPLETED')
    steps = listener.ask(f'/v1/executions/{skips}/steps').json()['items']
    assert {step['step']: step['status'] for step in steps} == {'only': 'COMPLETED', 'never': 'SKIPPED'}, steps
    weir.good('pause', '-q')
    waits = _enqueue(listener)
    assert listener.ask(f'/v1/executions/{waits}/why').json()['pending_reason'] == 'queue_paused'
    refused = problem(listener.ask(f'/v1/executions/{waits}/result'), 409, 'illegal_state')
    assert 'PENDING' in refused['detail'], refused
    missing = '01a215fd-f18a-7002-b43c-a0d8f870aebd'
    for part in ('steps', 'events', 'why', 'result'):
        problem(listener.ask(f'/v1/executions/{missing}/{part}'), 404, 'execution_not_found')
        assert listener.ask(f'/v1/executions/{id}/{part}', 'POST').head['allow'] == 'GET, HEAD'
    problem(listener.ask(f'/v1/executions/{id}/events?cursor=x'), 400, 'invalid_argument')
    problem(listener.ask(f'/v1/executions/{id}/events?limit=0'), 400, 'invalid_argument')
    listener.stop()


def a_list_is_walked_by_its_links(weir):
    """The name has bytes that would end or split the link, or the argument."""
    listener = _start(weir)
    name = 'grün & "<a>", b=c%2f?#'
    weir.good('workspace', 'set', name, '-q')
    weir.good('pause', '-q')
    ids = [weir.enqueue('-w', name, 'hello') for _ in range(5)]
    weir.enqueue('-w', 'acme', 'hello')
    target, seen = '/v1/executions?limit=2&cursor=&workspace=' + quote(name, safe=''), []
    while target:
        answer = listener.ask(target)
        seen += [execution['id'] for execution in answer.json()['items']]
        target, end, rest = answer.head.get('link', '').removeprefix('<').partition('>; rel="next"')
        assert bool(target) == bool(end) and not rest, answer.head
    assert sorted(seen) == sorted(ids), (seen, ids)
    long = ','.join(['PENDING'] * 600)
    answer = listener.ask(f'/v1/executions?limit=1&status={long}')
    assert answer.status == 200 and answer.json()['next_cursor'] and 'link' not in answer.head, answer.head
    listener.stop()


def the_order_of_the_queue_is_listed_by_both_surfaces(weir):
    """By its links over HTTP, and by the command on the store and through the server."""
    listener = _start(weir)
    weir.good('pause', '-q')
    late = weir.enqueue('-w', 'acme', 'hello', '--priority', '-1')
    next_ = weir.enqueue('-w', 'acme', 'hello')
    first = weir.enqueue('-w', 'acme', 'hello', '--priority', '1')
    delayed = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h', '--priority', '100')
    weir.enqueue('-w', 'tiny', 'hello')
    expected = [(first, 1), (next_, 2), (late, 3), (delayed, None)]
    pending = '/v1/executions?workspace=acme&status=PENDING'
    target, seen = pending + '&order=queue&limit=1&count=true', []
    while target:
        answer = listener.ask(target)
        assert answer.json()['count'] == 4, answer
        seen += [(row['id'], row['place']) for row in answer.json()['items']]
        target = answer.head.get('link', '').removeprefix('<').partition('>; rel="next"')[0]
    assert seen == expected, (seen, expected)
    assert 'place' not in listener.ask(pending + '&order=newest').json()['items'][0]
    words = ('list', '-w', 'acme', '-s', 'pending', '--order', 'queue')
    for store in ((), ('--store', f'http://127.0.0.1:{listener.port}')):
        assert [(row['id'], row['place']) for row in weir.items(*words, *store)] == expected
        page = weir.good(*words, *store, '--limit', '3')
        assert [line.split()[:2] for line in page.out.splitlines()] == [
            ['PLACE', 'ID'], ['1', first], ['2', next_], ['3', late]], page.out
        cursor = page.err.split('--cursor ')[1].split()[0]
        rest = weir.good(*words, *store, '--cursor', cursor)
        assert [line.split()[:2] for line in rest.out.splitlines()] == [['PLACE', 'ID'], ['-', delayed]], rest.out
        assert 'workspace and status' in weir.run('list', '-w', 'acme', '--order', 'queue', *store).err
    for wrong in ('&order=oldest', '&order=queue&workflow=hello', '&order=queue&cursor=' + first):
        refused = problem(listener.ask(pending + wrong), 400, 'invalid_argument')
        assert refused['errors'][0]['pointer'] == 'order' or 'cursor' in refused['detail'], refused
    problem(listener.ask('/v1/executions?order=queue'), 400, 'invalid_argument')
    listener.stop()


def the_timeline_of_slots_has_slots_and_waits(weir):
    listener = _start(weir)
    weir.write('nap.yaml', 'name: nap\nsteps:\n  first:\n    exec: ["true"]\n  nap:\n    needs: [first]\n    sleep: 1h\n')
    weir.good('workflow', 'apply', 'nap.yaml', '-q')
    done, parked = _enqueue(listener), _enqueue(listener, 'nap')
    ended = _await_status(listener, done, 'COMPLETED')
    _await_status(listener, parked, 'WAITING')
    path = '/v1/workspaces/acme/slot_timeline'
    page = listener.ask(path).json()
    assert (page['count'], page['count_is_exact'], page['examined_since']) == (2, True, None), page
    waits, has_ended = page['items']
    assert (waits['id'], has_ended['id']) == (parked, done), page
    assert has_ended['spans'] == [{'uses_slot': True, 'started_at': ended['claimed_at'],
                                   'finished_at': ended['finished_at']}], page
    assert [span['uses_slot'] for span in waits['spans']] == [True, False], page
    assert waits['spans'][0]['finished_at'] == waits['spans'][1]['started_at'], page
    assert waits['spans'][1]['finished_at'] is None and waits['waiting_for'] == 'sleep', page
    assert listener.ask(f'{path}?limit=1').json()['count_is_exact'] is False
    assert listener.ask('/v1/workspaces/tiny/slot_timeline').json()['items'] == []
    problem(listener.ask('/v1/workspaces/none/slot_timeline'), 404, 'workspace_not_found')
    for wrong in ('since=yesterday', 'limit=0', 'limit=1001', 'order=queue'):
        problem(listener.ask(f'{path}?{wrong}'), 400, 'invalid_argument')
    listener.stop()


def a_wait_ends_with_the_execution(weir):
    listener = _start(weir)
    _gate(weir)
    id = _enqueue(listener, 'gate')
    wait_for('the step', lambda: os.path.exists(weir.path('began')), pause=SHORT)
    connections = []
    for _ in range(3):  # those that wait hold neither a thread nor one of the places of the queue
        for _ in range(400):
            connections.append(listener.connect())
            connections[-1].sendall(f'GET /v1/executions/{id}?wait=5m HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
        listener.ready()
    soon = listener.ask(f'/v1/executions/{id}?wait=10ms').json()
    assert soon['status'] in ('CLAIMED', 'DISPATCHED'), soon
    connections.pop().close()
    weir.write('end', '')
    for connection in connections:
        answer = read_answer(connection)
        assert answer.status == 200 and answer.json()['status'] == 'COMPLETED', answer
    assert listener.ask(f'/v1/executions/{id}?wait=5m').json()['status'] == 'COMPLETED'
    for wait in ('5m1s', '-1s', '1', 'x', ''):
        refused = problem(listener.ask(f'/v1/executions/{id}?wait={wait}'), 400, 'invalid_argument')
        assert refused['errors'][0]['pointer'] == 'wait', refused
    listener.stop()


def a_stopping_node_answers_those_that_wait(weir):
    listener = _start(weir)
    weir.good('pause', '-q')
    id = _enqueue(listener)
    with listener.connect() as connection:
        connection.sendall(f'GET /v1/executions/{id}?wait=5m HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
        assert listener.ask(f'/v1/executions/{id}?wait=200ms').json()['status'] == 'PENDING'
        listener.process.send_signal(signal.SIGTERM)
        answer = read_answer(connection)
        assert (answer.status, answer.json()['status']) == (200, 'PENDING'), answer
    assert listener.process.wait(SECONDS) == 0


def _server_ends(listener, ports):
    """Ports of those clients for whom the node has a socket, also after the client has closed its own. The kernel shows the
    table in pieces: where sockets of other programs come and go, a line may be left out or shown twice."""
    with open(f'/proc/{listener.process.pid}/net/tcp') as table:
        pairs = [[int(address.rpartition(':')[2], 16) for address in line.split()[1:3]] for line in list(table)[1:]]
    return {remote for own, remote in pairs if own == listener.port and remote in ports}


def a_client_that_has_gone_waits_no_longer(weir):
    listener = _start(weir)
    weir.good('pause', '-q')
    id = _enqueue(listener)
    connections = []
    for _ in range(50):
        connections.append(listener.connect())
        connections[-1].sendall(f'GET /v1/executions/{id}?wait=5m HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
    assert listener.ask(f'/v1/executions/{id}?wait=10ms').status == 200  # those before are taken from the queue
    ports = {connection.getsockname()[1] for connection in connections}
    wait_for('the sockets of all', lambda: _server_ends(listener, ports) == ports, pause=SHORT)
    for connection in connections:
        connection.close()
    wait_for('their end', lambda: not _server_ends(listener, ports), pause=SHORT)
    listener.stop()


# --- acts ---


def an_act_is_that_of_the_command_line(weir):
    listener = _start(weir)
    _gate(weir)
    weir.good('pause', '-q')
    later = _enqueue(listener, run_at='+1h')
    released = listener.ask(f'/v1/executions/{later}/release', 'POST')
    assert (released.status, released.json()) == (202, {'id': later, 'act': 'release'}), released
    cancelled = listener.ask(f'/v1/executions/{later}/cancel', 'POST', weir_reason='a test')
    assert cancelled.status == 202, cancelled
    assert cancelled.json() == {'id': later, 'act': 'cancel', 'cancel_requested': False}, cancelled
    row = weir.items('audit', '--act', 'cancel')[0]
    assert (row['actor'], row['reason'], row['subject']) == ('http', 'a test', later), row
    again = problem(listener.ask(f'/v1/executions/{later}/cancel', 'POST'), 409, 'illegal_state')
    assert (again['status'], again['execution_status'], again['allowed_actions']) == (409, 'CANCELLED', ['retry']), again
    for body, pointer in (({'from_step': 'no-step'}, None), ({'from_step': 1}, '/from_step'),
                          ({'keep_finished': 'yes'}, '/keep_finished')):
        refused = problem(listener.ask(f'/v1/executions/{later}/retry', 'POST', body=body), 400, 'invalid_argument')
        assert [fault['pointer'] for fault in refused.get('errors', [])] == [pointer] * (pointer is not None), refused
    retried = listener.ask(f'/v1/executions/{later[:13]}/retry', 'POST', body={'keep_finished': True})
    new = retried.json()['new_id']
    assert (retried.status, retried.json()) == (202, {'id': later, 'act': 'retry', 'new_id': new}), retried
    problem(listener.ask(f'/v1/executions/{later}/retry', 'POST'), 409, 'conflict')
    waits = problem(listener.ask(f'/v1/executions/{new}/retry', 'POST'), 409, 'illegal_state')
    assert (waits['execution_status'], waits['allowed_actions']) == ('PENDING', ['cancel', 'release']), waits
    weir.good('resume', '-q')
    runs = _enqueue(listener, 'gate')
    wait_for('the step', lambda: os.path.exists(weir.path('began')), pause=SHORT)
    assert listener.ask(f'/v1/executions/{runs}/cancel', 'POST').json()['cancel_requested'] is True
    assert listener.ask(f'/v1/executions/{runs}?wait=1m').json()['status'] == 'CANCELLED'
    problem(listener.ask(f'/v1/executions/{runs}/dismiss', 'POST'), 409, 'illegal_state')
    missing = '01a215fd-f18a-7002-b43c-a0d8f870aebd'
    for act in ('cancel', 'retry', 'release', 'dismiss', 'complete'):
        problem(listener.ask(f'/v1/executions/{missing}/{act}', 'POST'), 404, 'execution_not_found')
    problem(listener.ask(f'/v1/executions/{runs}/cancel', 'POST', body={'x': 1}), 400, 'invalid_argument')
    problem(listener.ask(f'/v1/executions/{runs}/cancel', 'POST', body={}), 400, 'invalid_argument')
    listener.stop()


def a_node_takes_signals_and_no_completions(weir):
    """What both do on a real service is in temporal_test.py."""
    listener = _start(weir)
    _gate(weir, '  ask: {needs: [only], signal: go}\n')
    id = _enqueue(listener, 'gate')
    wait_for('the step', lambda: os.path.exists(weir.path('began')), pause=SHORT)
    _await_status(listener, id, 'DISPATCHED')
    path = f'/v1/executions/{id}/complete'
    refused = problem(listener.ask(path, 'POST', body={'status': 'FAILED', 'error_code': 'x'}), 409, 'illegal_state')
    assert refused['allowed_actions'] == ['cancel'], refused
    for body, pointer in (({'status': 'DONE'}, '/status'), ({'fence': 0}, '/fence'), ({'error': 1}, '/error'),
                          ({'run': 'x'}, '/run')):
        assert problem(listener.ask(path, 'POST', body=body), 400, 'invalid_argument')['errors'][0]['pointer'] == pointer
    path = f'/v1/executions/{id}/signal'
    sent = listener.ask(path, 'POST', body={'name': 'go', 'data': {'n': 1}, 'key': 'k'})
    assert (sent.status, sent.json()) == (202, {'id': id, 'signal': 'go', 'seq': 1, 'duplicate': False}), sent
    assert listener.ask(path, 'POST', body={'name': 'go', 'data': {'n': 1}, 'key': 'k'}).json()['duplicate']
    problem(listener.ask(path, 'POST', body={'name': 'go', 'key': 'k'}), 422, 'idempotency_key_reused')
    signals = listener.ask(f'/v1/executions/{id}').json()['signals']
    assert [[row[key] for key in ('seq', 'name', 'data', 'key', 'step')] for row in signals] == \
        [[1, 'go', {'n': 1}, 'k', None]]
    for body, pointer in (({}, '/name'), ({'name': 'go', 'input': 1}, '/input'), ({'name': 'go', 'key': 7}, '/key')):
        assert problem(listener.ask(path, 'POST', body=body), 400, 'invalid_argument')['errors'][0]['pointer'] == pointer
    problem(listener.ask(path, 'POST', body={'name': 'Go'}), 400, 'invalid_argument')
    weir.write('end', '')
    _await_status(listener, id, 'COMPLETED')
    problem(listener.ask(path, 'POST', body={'name': 'go'}), 409, 'illegal_state')
    assert [act['subject'] for act in weir.items('audit', '--act', 'signal')] == [id]
    listener.stop()


def _dispatch_outside(weir, run):
    """An execution on Temporal, which a node has dispatched with this run on record. No service is needed for it: the rows
    are written as the node would, before the scheduler begins."""
    weir.environment.pop('WEIR_STORE', None)
    weir.make_store()
    weir.write('outside.yaml', 'name: outside\ntemporal: {task_queue: q}\n')
    weir.good('workflow', 'apply', 'outside.yaml', '-q')
    id = weir.enqueue('-w', 'acme', 'outside')
    with contextlib.closing(weir.database()) as database:
        database.execute("UPDATE workflow_execution_queue SET status = 'DISPATCHED', phase = 2, fence = 7,"
                         " claimed_at = created_at, dispatched_at = created_at WHERE id = ?", (id,))
        database.execute('INSERT INTO workflow_node_executions (execution_id, step, status, attempt, failures, started_at,'
                         " node_id, fence, variables) VALUES (?, 'workflow', 'RUNNING', 1, 0, 1, 1, 7, ?)",
                         (id, json.dumps({'run_id': run}).encode()))
    return id


def a_worker_ends_its_own_run_over_http_and_no_other(weir):
    id = _dispatch_outside(weir, 'own')
    listener = Listener(weir).ready()
    path = f'/v1/executions/{id}/complete'
    for of in ({'run_id': 'another'}, {'fence': 8}, {'run_id': 'own', 'fence': 8}):
        problem(listener.ask(path, 'POST', body={'result': 1, **of}), 409, 'conflict')
    # The command line on this server passes both on.
    remote = {'WEIR_STORE': f'http://localhost:{listener.port}'}
    for words in (('--run-id', 'another'), ('--fence', '8')):
        refused = weir.run('complete', id, *words, env=remote)
        assert refused.code == 4 and 'conflict' in refused.err, refused
    assert _await_status(listener, id, 'DISPATCHED')['error_code'] is None
    ended = listener.ask(path, 'POST', body={'result': {'n': 7}, 'run_id': 'own', 'fence': 7})
    assert (ended.status, ended.json()) == (202, {'id': id, 'status': 'COMPLETED'}), ended
    assert listener.ask(f'/v1/executions/{id}/result').json() == {'n': 7}
    weir.good('complete', id, '--run-id', 'own', env=remote)  # the same end again
    problem(listener.ask(path, 'POST', body={'run_id': 'another'}), 409, 'conflict')
    listener.stop()


def a_wake_ends_the_wait_of_a_step(weir):
    listener = _start(weir)
    weir.write('nap.json', json.dumps({'name': 'nap', 'steps': {'nap': {'sleep': '3d'}}}))
    weir.good('workflow', 'apply', 'nap.json', '-q')
    ids = [_enqueue(listener, 'nap') for _ in range(2)]
    for id in ids:
        _await_status(listener, id, 'WAITING')
    path = f'/v1/executions/{ids[0]}/wake'
    problem(listener.ask(path, 'POST', body={'waiting_for': 'nap'}), 400, 'invalid_argument')
    refused = problem(listener.ask(path, 'POST', body={'waiting_for': 'retry'}), 409, 'illegal_state')
    assert refused['allowed_actions'] == ['cancel', 'wake'], refused
    assert listener.ask(path, 'POST', body={'waiting_for': 'sleep'}).json() == {'id': ids[0], 'act': 'wake'}
    _await_status(listener, ids[0], 'COMPLETED')
    order = {'action': 'wake', 'filter': {'waiting_for': 'sleep'}, 'waiting_for': 'sleep', 'expect': 1}
    assert listener.ask('/v1/bulk', 'POST', body={**order, 'dry_run': True}).json()['matched'] == 1
    assert problem(listener.ask('/v1/bulk', 'POST', body={**order, 'action': 'cancel'}), 400, 'invalid_argument')[
        'errors'][0]['pointer'] == '/waiting_for'
    assert listener.ask('/v1/bulk', 'POST', body=order).status == 202
    _await_status(listener, ids[1], 'COMPLETED')
    listener.stop()


def a_migration_is_that_of_the_command_line(weir):
    listener = _start(weir)
    weir.good('pause', '-q')
    for program in ('false', 'true'):
        weir.write('flow.json', json.dumps({'name': 'flow', 'steps': {'a': {'exec': [program]}}}))
        assert weir.good('workflow', 'apply', 'flow.json', '-q')
        ids = [_enqueue(listener, 'flow') for _ in range(2)] if program == 'false' else ids
    path = f'/v1/executions/{ids[0]}/migrate'
    problem(listener.ask(path, 'POST', body={'to_version': 3}), 404, 'workflow_not_found')
    moved = listener.ask(path, 'POST', body={'to_version': 2})
    assert (moved.status, moved.json()) == (202, {'id': ids[0], 'act': 'migrate'}), moved
    refused = problem(listener.ask(path, 'POST', body={'to_version': 2}), 409, 'illegal_state')
    assert 'has version 2 already' in refused['detail'], refused
    order = {'action': 'migrate', 'to_version': 2, 'filter': {'workspace': 'acme'}}
    problem(listener.ask('/v1/bulk', 'POST', body=order), 400, 'invalid_argument')
    order['filter']['workflow'] = 'flow'
    counts = listener.ask('/v1/bulk', 'POST', body={**order, 'dry_run': True}).json()
    assert (counts['matched'], counts['refused'], counts['dry_run']) == (2, 1, True), counts
    far = ('--store', f'http://127.0.0.1:{listener.port}')
    dry = weir.good('workflow', 'migrate', ids[1], '--to', '2', '--dry-run', *far)
    assert 'would migrate 1, 0 refused' in dry.err, dry.err
    assert '1 migrated' in weir.good('workflow', 'migrate', ids[1], '--to', '2', *far).err
    assert {row['version'] for row in weir.items('list')} == {2}
    listener.stop()


def the_routes_of_many_executions_refuse_the_same_options(weir):
    listener = _start(weir)
    wrong = [({'action': 'cancel', 'keep_finished': False}, '/keep_finished'),
             ({'action': 'cancel', 'from_step': 'a'}, '/from_step'),
             ({'action': 'purge', 'waiting_for': 'sleep'}, '/waiting_for'),
             ({'action': 'retry', 'keep_finished': 1}, '/keep_finished'),
             ({'action': 'retry', 'from_step': True}, '/from_step'),
             ({'action': 'retry', 'from_step': 'a b'}, '/from_step'),
             ({'action': 'retry', 'from_step': 'a\0'}, '/from_step'),
             ({'action': 'retry', 'to_version': 2}, '/to_version'),
             ({'action': 'migrate'}, '/to_version'),
             ({'action': 'migrate', 'to_version': 0}, '/to_version'),
             ({'action': 'migrate', 'to_version': '2'}, '/to_version'),
             ({'action': 'wake', 'waiting_for': 'nap'}, '/waiting_for'),
             ({'action': 'wake', 'waiting_for': 3}, '/waiting_for'),
             ({'action': 'wake', 'waiting_for': 'approval'}, '/waiting_for'),
             ({'action': 'cancel', 'signal': {'name': 'go', 'key': 'k'}}, '/signal'),
             ({'action': 'signal'}, '/signal'),
             ({'action': 'signal', 'signal': 'go'}, '/signal'),
             ({'action': 'signal', 'signal': {'name': 'go'}}, '/signal'),
             ({'action': 'signal', 'signal': {'name': 'go', 'key': 'k\0'}}, '/signal'),
             ({'action': 'signal', 'signal': {'name': 'go', 'key': 'k', 'more': 1}}, '/signal'),
             ({'action': 'signal', 'signal': {'name': 'go', 'key': 'k', 'data': 'x' * 65537}}, '/signal')]
    for body, pointer in wrong:
        bulk = problem(listener.ask('/v1/bulk', 'POST', body={**body, 'filter': {'workflow': 'hello'}}), 400,
                       'invalid_argument')
        chunk = problem(listener.ask('/v1/executions:act?workflow=hello', 'POST', body=body), 400, 'invalid_argument')
        assert bulk['errors'] == chunk['errors'] and bulk['errors'][0]['pointer'] == pointer, (body, bulk, chunk)
        assert (bulk['detail'], bulk.get('hint')) == (chunk['detail'], chunk.get('hint')), (body, bulk, chunk)
    for kind in ('signal', 'callback', 'approval'):  # a wake without a kind would refuse all of them, so its dry run does
        body = {'action': 'wake', 'filter': {'waiting_for': kind}}
        for order in (body, {**body, 'dry_run': True}):
            refused = problem(listener.ask('/v1/bulk', 'POST', body=order), 400, 'invalid_argument')
            assert refused['errors'][0]['pointer'] == '/waiting_for', refused
        problem(listener.ask(f'/v1/executions:act?waiting_for={kind}', 'POST', body={'action': 'wake'}), 400,
                'invalid_argument')
    listener.stop()


def a_tag_names_a_state_of_an_execution(weir):
    listener = _start(weir)
    weir.good('pause', '-q')
    id = _enqueue(listener, run_at='+1h')
    path = f'/v1/executions/{id}'
    tag = listener.ask(path).head['etag']
    unchanged = listener.ask(path, if_none_match=f'"other", {tag}')
    assert (unchanged.status, unchanged.body, unchanged.head['etag']) == (304, b'', tag), unchanged
    stale = problem(listener.ask(f'{path}/release', 'POST', if_match='"other"'), 412, 'precondition_failed')
    assert 'ETag' in stale['hint'], stale
    assert listener.ask(f'{path}/release', 'POST', if_match=tag).status == 202
    changed = listener.ask(path, if_none_match=tag)
    assert changed.status == 200 and changed.head['etag'] != tag, changed
    problem(listener.ask(f'{path}/cancel', 'POST', if_match=tag), 412, 'precondition_failed')
    assert listener.ask(f'{path}/cancel', 'POST', if_match='*').status == 202
    listener.stop()


# --- many executions ---


def _bulk_end(listener, answer):
    assert answer.status == 202, answer
    path = answer.head['location']
    assert path == f'/v1/bulk/{answer.json()["id"]}', answer

    def ended():
        job = listener.ask(path).json()
        return job if job['state'] != 'running' else None
    return wait_for('the end of the bulk act', ended, pause=SHORT)


def a_bulk_act_changes_all_that_match(weir):
    listener = _start(weir)
    weir.good('pause', '-q')
    weir.enqueue_many(1200)
    weir.enqueue_many(3, workspace='tiny')
    order = {'action': 'cancel', 'filter': {'workspace': 'acme'}, 'reason': 'a test'}
    dry = listener.ask('/v1/bulk', 'POST', body={**order, 'dry_run': True})
    assert dry.status == 200, dry
    assert dry.json() == {'act': 'cancel', 'matched': 1200, 'matched_is_exact': True, 'changed': 0, 'refused': 0,
                          'dry_run': True}, dry
    refused = problem(listener.ask('/v1/bulk', 'POST', body={**order, 'expect': 1199}), 409, 'conflict')
    assert refused['errors'][0]['pointer'] == '/expect' and '1200' in refused['detail'], refused
    job = _bulk_end(listener, listener.ask('/v1/bulk', 'POST', body={**order, 'expect': 1200}))
    assert (job['state'], job['matched'], job['changed'], job['refused']) == ('done', 1200, 1200, 0), job
    rows = weir.items('audit', '--act', 'cancel')
    assert sum(row['affected'] for row in rows) == 1200 and {row['reason'] for row in rows} == {'a test'}, rows
    assert {row['actor'] for row in rows} == {'http'}, rows
    by_text = {'action': 'retry', 'filter': 'workspace=acme since=1h'}
    job = _bulk_end(listener, listener.ask('/v1/bulk', 'POST', body=by_text))
    assert (job['changed'], job['refused']) == (1200, 0), job
    job = _bulk_end(listener, listener.ask('/v1/bulk', 'POST', body={'action': 'retry', 'filter': {'workspace': 'acme'}}))
    assert (job['changed'], job['refused'], job['first_refusal']['code']) == (0, 1200, 'conflict'), job
    dry = listener.ask('/v1/bulk', 'POST', body={'action': 'retry', 'filter': {'workspace': 'acme'}, 'dry_run': True})
    assert dry.json()['refused'] == 1200, dry
    assert len(weir.items('list', '-w', 'tiny', '--status', 'PENDING')) == 3
    listener.stop()


def the_node_that_began_a_bulk_act_is_named_and_lists_it(weir):
    listener = _start(weir)
    other = Listener(weir, output='other').ready()
    weir.good('pause', '-q')
    weir.enqueue_many(2)
    weir.enqueue_many(1, workspace='tiny')
    assert listener.ask('/v1/bulk').json() == {'items': []}
    orders = [{'action': act, 'filter': {'workspace': name}} for act in ('cancel', 'retry') for name in ('acme', 'tiny')]
    jobs = [_bulk_end(listener, listener.ask('/v1/bulk', 'POST', body=order)) for order in orders]
    assert [job['changed'] for job in jobs] == [2, 1, 2, 1], jobs
    assert listener.ask('/v1/bulk').json() == {'items': jobs[::-1]}
    assert other.ask('/v1/bulk').json() == {'items': []}
    names = {job['node'] for job in jobs}
    nodes = {row['name'] for row in weir.items('node', 'list')}
    assert len(names) == 1 and len(nodes) == 2 and names < nodes, (names, nodes)
    for method in ('GET', 'DELETE'):
        refused = problem(other.ask(f'/v1/bulk/{jobs[0]["id"]}', method), 404, 'not_found')
        assert f'the node {(nodes - names).pop()} has no bulk act' in refused['detail'], refused
        assert '`node`' in refused['hint'], refused
    other.stop()
    listener.stop()


def a_bulk_order_that_is_wrong_changes_nothing(weir):
    listener = _start(weir)
    weir.good('pause', '-q')
    _enqueue(listener)
    good = {'action': 'cancel', 'filter': {'workspace': 'acme'}}
    for body, pointer, word in (({**good, 'action': 'delete'}, '/action', 'purge'),
                                ({'action': 'cancel'}, '/filter', 'missing'),
                                ({**good, 'filter': {}}, '/filter', 'missing'),
                                ({**good, 'filter': ''}, '/filter', 'missing'),
                                ({**good, 'filter': {'wrkspace': 'x'}}, '/filter', 'workspace'),
                                ({**good, 'filter': {'workspace': 1}}, '/filter', 'text'),
                                ({**good, 'expect': -1}, '/expect', 'number'),
                                ({**good, 'dry_run': 1}, '/dry_run', 'true'),
                                ({**good, 'reason': 1}, '/reason', 'text'),
                                ({**good, 'dryrun': True}, '/dryrun', 'dry_run')):
        refused = problem(listener.ask('/v1/bulk', 'POST', body=body), 400, 'invalid_argument')
        assert refused['errors'][0]['pointer'] == pointer, (body, refused)
        assert word in refused['detail'] + refused.get('hint', ''), (body, refused)
    problem(listener.ask('/v1/bulk', 'POST', body={**good, 'filter': {'workspace': 'acm'}}), 404, 'workspace_not_found')
    problem(listener.ask('/v1/bulk', 'POST', body={**good, 'reason': 'x' * 5000}), 400, 'invalid_argument')
    for method in ('GET', 'DELETE'):
        problem(listener.ask('/v1/bulk/01a215fd-f18a-7002-b43c-a0d8f870aebd', method), 404, 'not_found')
    assert len(weir.items('list', '-w', 'acme', '--status', 'PENDING')) == 1
    listener.stop()


if __name__ == '__main__':
    try:
        sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
    finally:
        if POSTGRES:
            POSTGRES.close()
