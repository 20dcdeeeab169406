#!/usr/bin/env python3
"""Workflows with states on real nodes: around deaths of nodes, between two nodes, and moved by people.

usage: states_test.py BINARY [--postgres] [TEST ...]      WEIR_STATES_PROGRAM is the node with the handlers
"""

import json
import os
import re
import signal
import subprocess
import sys

from harness import assert_error, run_tests
from http_client import Listener, problem
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
PROGRAM = os.environ.get('WEIR_STATES_PROGRAM')
SERVER = None
# A node registers with some commits. Four actions, the park, the wake, the last action and the end follow.
KILL_POINTS = {'before_step_report': (1, 2, 4, 5), 'before_record': (1, 2, 3, 4, 5, 6), 'after_record': (1, 2, 3, 4, 5),
               'before_park': (1,), 'after_park': (1,), 'before_children': (1, 2), 'after_children': (1,),
               'before_commit': (4, 6, 8, 10), 'after_commit': (4, 6, 8, 10)}
COUNT = {'name': 'count',
         'states': {'a': {'handler': 'count'}, 'take': {'handler': 'take'}, 'done': {'type': 'end'}},
         'variables': {'n': 'integer', 'data': 'any'}, 'signals': ['go']}
NOTE = {'name': 'note', 'steps': {'note': {'handler': 'noted'}}}


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _apply(weir, definition):
    path = weir.write(definition['name'] + '.json', json.dumps(definition))
    weir.good('workflow', 'apply', path or definition['name'] + '.json', '-q')


def _scene(weir):
    weir.make_store()
    weir.good('workspace', 'set', 'tiny', '--max-concurrent', '1', '-q')
    weir.good('workspace', 'set', 'acme', '--plan', 'enterprise', '-q')
    for definition in (COUNT, NOTE):
        _apply(weir, definition)


def _node(weir, name='one', **environment):
    store = weir.environment.get('WEIR_STORE') or weir.path('weir.db')
    process = subprocess.Popen([PROGRAM, store, name, weir.path('journal')], cwd=weir.folder, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env={**weir.environment, **environment})
    weir.background.append(process)
    if not environment:
        assert process.stdout.readline() == b'started\n'
    return process


def _stop(node):
    node.stdin.close()
    assert node.wait(timeout=60) == 0


def _await(weir, id, condition, what):
    def found():
        shown = weir.show(id)
        return shown if condition(shown) else None
    return wait_for(what, found, pause=SHORT)


def _no_problems(weir):
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def _notes(weir, id):
    """The numbers of the executions that it has enqueued, when all have ended."""
    def ended():
        rows = weir.items('list', '--where', f'parent={id}')
        return rows if len(rows) >= 4 and all(row['status'] == 'COMPLETED' for row in rows) else None
    rows = wait_for('the notes to end', ended, pause=SHORT)
    return sorted(weir.show(row['id'])['params']['n'] for row in rows)


def _assert_counted(weir, id, place=None):
    """Whatever was killed: each number was counted and enqueued once, and each action has a number of its own."""
    shown = weir.ended(id)
    assert shown['status'] == 'COMPLETED' and shown['state'] == 'done', (place, shown)
    assert shown['variables'] == {'n': 4, 'data': {'by': 'eve'}}, (place, shown)
    moves = [(row['state'], row['outcome'], row['next_state']) for row in shown['actions']]
    assert moves == [('a', 'next', 'a')] * 3 + [('a', 'wait', 'take'), ('take', 'next', 'done')], (place, moves)
    assert [row['variables'] for row in shown['actions'][:4]] == [{'n': n} for n in (1, 2, 3, 4)], (place, shown)
    assert _notes(weir, id) == [1, 2, 3, 4], place
    (sent,) = shown['signals']
    assert sent['step'] == 'state', (place, sent)


def a_machine_counts_and_waits_without_a_slot(weir):
    _scene(weir)
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'count')
    shown = _await(weir, id, lambda row: row['status'] == 'WAITING', 'the wait')
    assert (shown['waiting_for'], shown['state'], shown['variables']) == ('signal', 'take', {'n': 4}), shown
    why = weir.good('why', id).out
    assert 'waits for the signal "go"' in why, why
    weir.good('signal', id, 'go', '--data', '{"by": "eve"}', '-q')
    _assert_counted(weir, id)
    logs = weir.good('logs', id, '--json').json()['items']
    assert [(row['step'], row['attempt'], row['status']) for row in logs] == \
        [('a', number, 'COMPLETED') for number in (1, 2, 3, 4)] + [('take', 5, 'COMPLETED')], logs
    assert 'attempt 5, COMPLETED' in weir.good('logs', id, '--step', 'take').out
    with open(weir.path('journal')) as file:
        lines = [line.split() for line in file]
    assert [(line[0], line[3]) for line in lines] == [('a', '1'), ('a', '2'), ('a', '3'), ('a', '4'), ('take', '0')], lines
    assert len({line[2] for line in lines}) == 5, lines
    _stop(node)
    _no_problems(weir)


def a_node_that_is_killed_saves_all_or_nothing(weir):
    _scene(weir)
    for point, passes in KILL_POINTS.items():
        for count in passes:
            node = _node(weir, 'killed', WEIR_FAILPOINT=f'{point}:kill:{count}')
            id = weir.enqueue('-w', 'acme', 'count')
            send = ('signal', id, 'go', '--data', '{"by": "eve"}', '-q')
            if not point.endswith('_park'):  # a signal that is there leaves nothing to park for
                weir.good(*send)
            wait_for(f'the end by {point}:{count}', lambda: node.poll() is not None, seconds=20)
            assert node.wait() == -signal.SIGKILL, (point, count)
            other = _node(weir, 'other')
            if point.endswith('_park'):
                weir.good(*send)
            _assert_counted(weir, id, (point, count))
            _stop(other)
    _no_problems(weir)


def two_nodes_share_machines(weir):
    _scene(weir)
    nodes = [_node(weir, name) for name in ('one', 'two')]
    ids = [weir.enqueue('-w', 'acme', 'count') for _ in range(10)]
    for id in ids:
        weir.good('signal', id, 'go', '--data', '{"by": "eve"}', '-q')
    for id in ids:
        _assert_counted(weir, id)
    for node in nodes:
        _stop(node)
    _no_problems(weir)


def a_person_moves_what_waits_for_one(weir):
    _scene(weir)
    _apply(weir, {'name': 'review', 'states': {'fails': {'handler': 'fail'}, 'review': {'type': 'manual'},
                                               'count': {'handler': 'count'}, 'take': {'handler': 'take'},
                                               'done': {'type': 'end'}},
                  'on_error': 'review', 'variables': {'n': 'integer', 'data': 'any'}, 'signals': ['go']})
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'review')
    shown = _await(weir, id, lambda row: row['waiting_for'] == 'manual', 'the review')
    assert shown['failure'] == {'state': 'fails', 'code': 'no_money', 'message': 'the account is empty'}, shown
    assert [row['id'] for row in weir.items('list', '--where', 'waiting_for=manual')] == [id]
    why = weir.good('why', id)
    assert 'waits for a person' in why.out and f'now: weir update {id} --state STATE\n' in why.err, why
    assert_error(weir.run('update', id, '--state', 'nowhere'), 2, 'invalid_argument', 'its states are: ')
    assert_error(weir.run('update', id, '--var', 'n=x'), 2, 'invalid_argument', 'must be of the type integer')
    for text in ('99999999999999999999', '-99999999999999999999', '1e999'):
        assert_error(weir.run('update', id, '--var', f'n={text}'), 2, 'invalid_argument', 'number that is too large')
    for text in ('[1, 99999999999999999999]', ' {"a": [1e999]}'):
        assert_error(weir.run('update', id, '--var', f'data={text}'), 2, 'invalid_argument', 'number that is too large')
    weir.good('update', id, '--var', 'data=99999999999999999999 apples', '-n', '-q')  # a text
    weir.good('update', id, '--var', 'data=007', '--var', 'n=9223372036854775807', '-n', '-q')
    weir.good('update', id, '--state', 'count', '--var', 'n=3', '--reason', 'paid by phone', '-q')
    _await(weir, id, lambda row: row['waiting_for'] == 'signal', 'the wait')
    weir.good('signal', id, 'go', '--data', '1', '-q')
    shown = weir.ended(id)
    assert shown['variables'] == {'n': 4, 'data': 1}, shown
    update = [row for row in shown['actions'] if row['outcome'] == 'update']
    assert [(row['state'], row['next_state'], row['variables']) for row in update] == [('review', 'count', {'n': 3})], shown
    assert update[0]['actor'], update
    out = weir.good('show', id).out
    assert re.search(r'state +done', out) and 'no_money in the state fails' in out, out
    assert_error(weir.run('update', id, '--state', 'review'), 4, 'illegal_state', 'has ended')
    (act,) = weir.good('audit', '--act', 'update', '--json').json()['items']
    assert (act['subject'], act['reason']) == (id, 'paid by phone'), act
    _stop(node)
    _no_problems(weir)


NOBODY = '00000000-0000-7000-8000-000000000000'
REVIEW = {'name': 'paper', 'states': {'first': {'type': 'manual'}, 'second': {'type': 'manual'}, 'done': {'type': 'end'}},
          'variables': {'n': 'integer', 'text': 'string'}}


def a_dry_run_refuses_what_the_update_refuses(weir):
    _scene(weir)
    _apply(weir, REVIEW)
    weir.write('plain.json', json.dumps({'name': 'plain', 'steps': {'a': {'sleep': '1h'}}}))
    weir.good('workflow', 'apply', 'plain.json', '-q')
    id, plain = weir.enqueue('-w', 'tiny', 'paper'), weir.enqueue('-w', 'tiny', 'plain')
    ended = weir.enqueue('-w', 'tiny', 'paper')
    weir.good('cancel', ended, '-q')
    refused = {('--state', 'third'): (2, 'invalid_argument', 'its states are: first, second'),
               ('--state', 'NO'): (2, 'invalid_argument', 'is not the name of a state'),
               ('--var', 'n=x'): (2, 'invalid_argument', 'must be of the type integer'),
               ('--var', 'm=1'): (2, 'invalid_argument', 'has no variable "m"'),
               ('--state', 'second', '--if-state', 'second'): (4, 'conflict', 'is in the state "first"'),
               (): (2, 'invalid_argument', 'needs a state or variables')}
    for words, what in refused.items():
        for more in ((), ('--dry-run',)):
            assert_error(weir.run('update', id, *words, *more), *what)
    for other, *what in ((ended, 4, 'illegal_state', 'is CANCELLED'), (plain, 4, 'illegal_state', 'has no states'),
                         (NOBODY, 3, 'execution_not_found', 'there is no execution')):
        for more in ((), ('--dry-run',)):
            assert_error(weir.run('update', other, '--state', 'second', *more), *what)
    assert weir.good('update', id, '--var', 'n=1', '--dry-run', '--json').json()['state'] == 'first'
    assert weir.good('update', id, '--state', 'second', '--dry-run', '--json').json()['state'] == 'second'
    assert 'variables' not in weir.show(id)  # nothing was changed
    weir.good('update', id, '--var', 'n=1', '--if-state', 'first', '-q')
    assert weir.good('update', id, '--var', 'n=2', '--if-state', 'first', '--dry-run', '--json').json()['state'] == 'first'
    assert_error(weir.run('update', id, '--state', 'first', '--if-state', 'second', '--dry-run'), 4, 'conflict')
    assert weir.show(id)['variables'] == {'n': 1}


def every_surface_moves_it_alike(weir):
    _scene(weir)
    _apply(weir, REVIEW)
    secret = {role: weir.good('token', 'create', role, '--role', role, '--all-workspaces', '-q').out.strip()
              for role in ('enqueue', 'operate')}
    listener = Listener(weir)
    id = weir.enqueue('-w', 'tiny', 'paper')
    _await(weir, id, lambda row: row['waiting_for'] == 'manual', 'the first state')
    path = f'/v1/executions/{id}'

    def update(body, role='operate'):
        return listener.ask(path + '/update', 'POST', body=body, authorization='Bearer ' + secret[role])
    problem(update({'state': 'second'}, 'enqueue'), 403, 'not_permitted')
    problem(update({'state': 'third'}), 400, 'invalid_argument')
    problem(update({'variables': {'n': 'x'}}), 400, 'invalid_argument')
    problem(update({}), 400, 'invalid_argument')
    sent = update({'state': 'second', 'variables': {'n': 1, 'text': 'ä "q" \\ \n'}})
    assert (sent.status, sent.json()) == (200, {'id': id, 'state': 'second', 'seq': 2}), sent
    problem(update({'state': 'second', 'if_state': 'first'}), 409, 'conflict')
    page = listener.ask(path + '/actions?limit=1', authorization='Bearer ' + secret['operate']).json()
    assert [row['next_state'] for row in page['items']] == ['second'] and page['next_cursor'] is None, page
    assert page['items'][0]['actor'].startswith('token:operate'), page
    through = {**weir.environment, 'WEIR_STORE': f'http://127.0.0.1:{listener.port}', 'WEIR_TOKEN': secret['operate']}
    said = subprocess.run([weir.binary, 'update', id, '--state', 'first', '--var', 'n=2', '--if-state', 'second', '--json'],
                          env=through, cwd=weir.folder, capture_output=True, text=True, check=False)
    assert said.returncode == 0 and json.loads(said.stdout)['state'] == 'first', said
    if POSTGRES:
        database = weir.environment['WEIR_STORE'].rpartition('/')[2]
        assert SERVER.sql(f"SELECT weir.update('{id}', 'second', '{{\"n\": 3}}', if_state => 'first')", database) == '4'
    shown = weir.show(id)
    assert shown['variables'] == {'n': 3 if POSTGRES else 2, 'text': 'ä "q" \\ \n'}, shown
    assert_error(weir.run('update', id, '--state', 'done', '--if-state', 'third'), 4, 'conflict', 'is in the state')
    weir.good('update', id, '--state', 'done', '-q')
    assert weir.ended(id)['steps'][0]['output'] == shown['variables']
    problem(update({'state': 'first'}), 409, 'illegal_state')
    listener.stop()
    _no_problems(weir)


def an_unknown_state_is_put_back_and_moved_by_a_person(weir):
    _scene(weir)
    _apply(weir, {'name': 'lost', 'states': {'stray': {'handler': 'stray'}, 'done': {'type': 'end'}}})
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'lost')
    shown = _await(weir, id, lambda row: row['status'] == 'WAITING', 'the wait')
    assert (shown['waiting_for'], shown['steps'][0]['error_code']) == ('retry', 'unknown_state'), shown
    assert shown['actions'][0]['outcome'] == 'unknown' and shown['actions'][0]['next_state'] == 'nowhere', shown
    weir.good('update', id, '--state', 'done', '-q')
    assert weir.ended(id)['status'] == 'COMPLETED'
    _stop(node)
    _no_problems(weir)


def the_example_of_the_document_runs(weir):
    _scene(weir)
    with open(os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'definitions.md')) as file:
        (text,) = re.findall(r'```yaml\n(name: credit\n.*?)```', file.read(), re.DOTALL)
    weir.write('credit.yaml', text)
    weir.good('workflow', 'apply', 'credit.yaml', '-q')
    node = _node(weir)
    id = weir.enqueue('-w', 'tiny', 'credit')
    _await(weir, id, lambda row: row['waiting_for'] == 'manual', 'the preview')
    weir.good('update', id, '--state', 'accept', '--var', 'limit=5000', '--reason', 'checked by phone', '-q')
    shown = weir.ended(id)
    assert (shown['status'], shown['steps'][0]['output']) == ('COMPLETED', 5000), shown
    _stop(node)
    _no_problems(weir)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
