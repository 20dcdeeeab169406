#!/usr/bin/env python3
"""Workspaces that are renamed while two nodes run their executions, by several programs at once, and by one that is killed.

usage: renames_test.py BINARY [--postgres] [TEST ...]
"""

import json
import subprocess
import sys
import time

from harness import assert_error, run_tests
from http_client import Listener
from postgres_server import PostgresServer
from waiting import wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
SLOTS = 5
ROUNDS = 12
SETS_OF = 4
TOKEN_SECONDS = 5  # the server reads its tokens each second


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _scene(weir):
    """`mark` notes its workspace and its beginning and end."""
    weir.make_store()
    note = 'echo "$1 $name $WEIR_EXECUTION_ID $(date +%s%N)" >> ' + weir.path('marks')
    program = ['sh', '-c', f'name=$1; note() {{ {note}; }}; note begin; sleep 0.05; note end', 'sh',
               '${ .execution.workspace }']
    weir.write('mark.json', json.dumps({'name': 'mark', 'steps': {'only': {'exec': program}}}))
    weir.good('workflow', 'apply', 'mark.json', '-q')


def _node(weir, name):
    return weir.spawn('serve', '--allow-exec', '--node', name, '--max-running', '3', stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _marks(weir):
    with open(weir.path('marks')) as file:
        return [line.split() for line in file]


def _most_at_once(marks):
    running = most = 0
    for _, kind in sorted((int(at), kind) for kind, _, _, at in marks):
        running += 1 if kind == 'begin' else -1
        most = max(most, running)
    return most


def two_nodes_follow_each_rename_and_keep_the_cap(weir):
    _scene(weir)
    for name in ('one', 'two'):
        _node(weir, name)
    wait_for('the start of two nodes', lambda: len(weir.items('node', 'list')) == 2)
    names = ['acme'] + [f'acme-{count}' for count in range(1, ROUNDS + 1)]
    enqueued = {}  # by execution, the place of the name that the workspace had then
    for count in range(ROUNDS):
        line = json.dumps({'workspace': names[count], 'workflow': 'mark'}) + '\n'
        enqueued.update((id, count) for id in weir.good('enqueue', '-', '-q', stdin=line * SETS_OF).out.split())
        weir.good('workspace', 'rename', names[count], names[count + 1], '-q')
        assert_error(weir.run('enqueue', '-w', names[count], 'mark'), 3, 'workspace_not_found',
                     f'renamed to "{names[count + 1]}"')
    last = weir.enqueue('-w', names[-1], 'mark')
    enqueued[last] = ROUNDS
    for id in enqueued:
        assert weir.ended(id)['status'] == 'COMPLETED', weir.show(id)
    marks = _marks(weir)
    assert sorted(id for kind, _, id, _ in marks if kind == 'begin') == sorted(enqueued)  # each ran once
    assert _most_at_once(marks) <= SLOTS
    for _, name, id, _ in marks:
        assert names.index(name) >= enqueued[id], (id, name, enqueued[id])  # no older name than at its enqueue
    claims = [event['node'] for id in enqueued for event in weir.show(id)['events'] if event['event'] == 'claim']
    assert set(claims) == {'one', 'two'}, claims
    assert {weir.show(id)['workspace'] for id in enqueued} == {names[-1]}
    assert [row['name'] for row in weir.items('workspace', 'list')] == [names[-1], 'tiny']
    weir.good('store', 'check')


def of_programs_that_take_one_name_one_gets_it(weir):
    weir.make_store()
    for count in range(6):
        programs = [weir.start('workspace', 'rename', name, f'one-{count}', stderr=subprocess.PIPE)
                    for name in ('acme', 'tiny')]
        errors = [program.communicate()[1].decode() for program in programs]
        codes = [program.returncode for program in programs]
        assert sorted(codes) == [0, 4] and any('(conflict)' in text for text in errors), (codes, errors)
        weir.good('workspace', 'rename', f'one-{count}', ('acme', 'tiny')[codes.index(0)], '-q')
        programs = [weir.start('workspace', 'rename', 'acme', f'{name}-{count}', stderr=subprocess.PIPE)
                    for name in ('one', 'two')]
        errors = [program.communicate()[1].decode() for program in programs]
        codes = [program.returncode for program in programs]
        assert sorted(codes) == [0, 3] and any('was renamed to' in text for text in errors), (codes, errors)
        weir.good('workspace', 'rename', f'{("one", "two")[codes.index(0)]}-{count}', 'acme', '-q')
    weir.good('store', 'check')


def a_program_that_is_killed_has_renamed_it_or_not(weir):
    weir.make_store()
    weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    for point, name in (('before_commit', 'acme'), ('after_commit', 'acme-eu')):
        killed = weir.run('workspace', 'rename', 'acme', 'acme-eu', env={'WEIR_FAILPOINT': f'{point}:kill'})
        assert killed.code == -9, killed
        assert {row['workspace'] for row in weir.items('list')} == {name}, point
        assert [row['subject'] for row in weir.items('audit', '--act', 'workspace rename')] == ['acme'] * (name != 'acme')
        weir.good('store', 'check')


def a_token_follows_within_a_second(weir):
    weir.make_store()
    secret = weir.good('token', 'create', 'ci', '--role', 'operate', '-w', 'acme', '-q').out.strip()
    listener = Listener(weir).ready()
    headers = {'authorization': f'Bearer {secret}'}
    body = {'workflow': 'hello'}

    def status_of(name):
        return listener.ask(f'/v1/workspaces/{name}/executions', 'POST', body=body, **headers).status
    assert status_of('acme') == 202
    order = {'action': 'release', 'filter': {'workspace': 'acme'}}
    act = listener.ask('/v1/bulk', 'POST', body=order, **headers).head['location']
    wait_for('its end', lambda: listener.ask(act, **headers).json()['state'] == 'done')
    weir.good('workspace', 'rename', 'acme', 'acme-eu', '-q')
    wait_for(lambda: 'the new name for the token', lambda: status_of('acme-eu') == 202, seconds=TOKEN_SECONDS)
    assert status_of('acme') == 404
    weir.good('workspace', 'set', 'acme', '-q')  # another one
    time.sleep(1.5)
    assert (status_of('acme'), status_of('acme-eu')) == (404, 202)
    # The act of the workspace stays with it, and is none of the other workspace with the old name.
    assert listener.ask(act, **headers).json()['workspace'] == 'acme'
    stranger = weir.good('token', 'create', 'other', '--role', 'operate', '-w', 'acme', '-q').out.strip()
    wait_for('the other token', lambda: listener.ask('/v1/session', authorization=f'Bearer {stranger}').status == 200)
    assert listener.ask(act, authorization=f'Bearer {stranger}').status == 404
    assert listener.ask('/v1/bulk', authorization=f'Bearer {stranger}').json()['items'] == []
    listener.stop()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
