#!/usr/bin/env python3
"""One name per idea: every column of a view, argument of an SQL function, key of a JSON answer, flag, key of a filter and
key of the log stands in docs/names.md, and its value is of the kind that the list gives it. So a name that is not on the
list fails, and so does a name that stands for a second idea.

usage: names_test.py BINARY [TEST ...]      the sources are in WEIR_SOURCE_ROOT
"""

import json
import os
import re
import signal
import sys

from dev_node import publish_program
from harness import UUID, run_tests
from postgres_server import PostgresServer
from waiting import SECONDS_MOST, wait_for
from workers_test import _stop, _worker

ROOT = os.environ.get('WEIR_SOURCE_ROOT') or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STATUSES = ('PENDING', 'CLAIMED', 'DISPATCHED', 'COMPLETED', 'FAILED', 'CANCELLED', 'WAITING', 'RUNNING', 'INTERRUPTED')
STATES = ('alive', 'paused', 'draining', 'drained', 'stopping', 'stopped', 'dead', 'expired', 'starting', 'lease_lost',
          'enabled', 'disabled', 'deleted', 'live', 'revoked')
TIME = re.compile(r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$')


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


KINDS = {
    'text': lambda value: isinstance(value, str),
    'number': _is_number,
    'yes or no': lambda value: isinstance(value, bool),
    'time': lambda value: isinstance(value, str) and TIME.match(value),
    'microseconds': lambda value: isinstance(value, int) and not isinstance(value, bool),
    'uuid': lambda value: isinstance(value, str) and UUID.match(value),
    'id': lambda value: isinstance(value, int) or isinstance(value, str) and UUID.match(value),
    'status': lambda value: value in STATUSES,
    'state': lambda value: value in STATES,
    'list': lambda value: isinstance(value, list),
    'object': lambda value: isinstance(value, dict),
    'list or number': lambda value: isinstance(value, list) or _is_number(value),
    'counts': lambda value: isinstance(value, dict) and all(_is_number(count) for count in value.values()),
    'data': lambda value: True,
}
# Commands whose answer needs a Temporal service or a source of an import (import_test.py), that run until a signal, or that
# print no JSON.
NOT_RUN = {'signal', 'complete', 'callback complete', 'callback fail', 'temporal setup', 'temporal doctor',
           'temporal describe', 'temporal query', 'temporal update', 'serve', 'dev', 'completion', 'store plan',
           'lock release', 'import'}
SERVER = None


def _read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


def _rows(heading):
    section = _read('docs/names.md').split(f'\n## {heading}\n')[1].split('\n## ')[0]
    return [[cell.strip() for cell in line.strip('|').split('|')] for line in section.splitlines()
            if line.startswith('| `')]


def _names():
    """name -> kind"""
    names = {}
    for row in _rows('Names'):
        for name in re.findall(r'`(\w+)`', row[0]):
            assert name not in names, f'docs/names.md has {name} twice: a name stands for one idea'
            assert row[1] in KINDS, f'docs/names.md: {name} has the kind "{row[1]}"; kinds are {", ".join(KINDS)}'
            names[name] = row[1]
    return names


def _assert_listed(found, names):
    """found: name -> place where it was seen"""
    missing = {name: place for name, place in found.items() if name not in names}
    assert not missing, 'not in docs/names.md: ' + ', '.join(f'{name} ({place})' for name, place in sorted(missing.items()))


def _walk(value, place, names, found):
    """Notes each key of an answer, and asserts the kind of its value."""
    if isinstance(value, list):
        for item in value:
            _walk(item, place, names, found)
    elif isinstance(value, dict):
        for name, inner in value.items():
            found.setdefault(name, place)
            kind = names.get(name)
            if kind is None:
                continue
            assert inner is None or KINDS[kind](inner), f'{place}: {name} is {inner!r} and no {kind} (docs/names.md)'
            if kind not in ('data', 'counts'):
                _walk(inner, place, names, found)


def _postgres(weir):
    global SERVER
    if SERVER is None:
        SERVER = PostgresServer()
    name = SERVER.database()
    weir.environment['WEIR_STORE'] = SERVER.url(name)
    return name


def _answers(weir):
    """(command, answer) of each command that prints JSON, in a store with something of everything."""
    def run(*words, code=0, stdin=None):
        said = weir.run(*words, '--json', stdin=stdin)
        assert said.code in (0, 1) if code is None else said.code == code, repr(said)
        command = next(' '.join(words[:count]) for count in (2, 1) if ' '.join(words[:count]) in commands)
        done.add(command)
        text = said.out or said.err
        for line in [text] if _is_json(text) else text.splitlines():
            answers.append((command, json.loads(line)))
        return answers[-1][1]
    done, answers = set(), []
    commands = [command['name'] for command in weir.good('help', '--json').json()['commands']]
    run('store', 'init')
    run('store', 'migrate', '--dry-run')
    run('plan', 'set', 'gold', '--max-concurrent', '3')
    run('workspace', 'set', 'acme', '--plan', 'pro')
    run('workspace', 'set', 'tiny')
    publish_program(weir, 'slow', 'while [ ! -e "%s" ]; do sleep 0.05; done' % weir.path('go'))
    publish_program(weir, 'bad', 'exit 3')
    weir.write('lacking.yaml', 'name: lacking\nsteps:\n  write: {handler: record}\n')
    weir.good('workflow', 'apply', 'lacking.yaml', '-q')
    weir.write('hello.yaml', 'name: hello\nsteps:\n  greet:\n    exec: [echo, hello]\n')
    run('workflow', 'apply', 'hello.yaml')
    weir.write('gates.yaml', 'name: gates\nsteps:\n  a: {approve: {prompt: go}}\n  b: {approve: {}}\n  nap: {sleep: 1h}\n')
    weir.good('workflow', 'apply', 'gates.yaml', '-q')
    weir.write('review.yaml', 'name: review\nstates: {a: {type: manual}, b: {type: manual}}\nvariables: {n: any}\n')
    weir.good('workflow', 'apply', 'review.yaml', '-q')
    run('enqueue', '-w', 'acme', 'helo', code=3)
    if 'WEIR_STORE' not in weir.environment:
        worker = _worker(weir)
        run('worker', 'list')
        _stop(worker)
    node = weir.spawn('serve', '--allow-exec', env={'WEIR_DISPATCH_EXCLUSIVE': 'true'})
    assert json.loads(node.stdout.readline())['event'] == 'node.started'
    lacking = run('enqueue', '-w', 'acme', 'lacking', '--idempotency-key', 'k')['id']
    slow = run('enqueue', '-w', 'tiny', 'slow')['id']
    waits = run('enqueue', '-w', 'tiny', 'hello')['id']
    later = run('enqueue', '-w', 'acme', 'hello', '--run-at', '+1h')['id']
    bad = run('enqueue', '-w', 'acme', 'bad', '--wait', '--timeout', '90s', code=1)['id']
    good = run('enqueue', '-w', 'acme', 'hello', '--wait', '--timeout', '90s')['id']
    wait_for('the start', lambda: weir.good('show', slow, '--json').json()['status'] == 'DISPATCHED')
    wait_for('the missing worker', lambda: weir.good('why', lacking, '--json').json()['pending_reason'] == 'no_worker')
    run('enqueue', '-', stdin='{"workspace": "acme", "workflow": "hello"}\n{"workspace": "acme"}\n', code=1)
    run('token', 'create', 'ci', '--role', 'enqueue', '-w', 'acme', '--expires-at', '1d')
    run('token', 'create', 'ops', '--role', 'admin', '--all-workspaces')
    run('token', 'revoke', 'ops')
    run('token', 'list')
    run('hook', 'set', 'page', '--on', 'failed', '--start-workflow', 'hello', '--start-workspace', 'acme')
    run('webhook', 'set', 'crm', 'http://example.com/')
    run('hook', 'list')
    for verb in ('pause', 'resume', 'delete'):
        run('hook', verb, 'page')
    run('schedule', 'set', 'night', '--cron', '30 4 * * *', '--workflow', 'hello', '-w', 'acme')
    run('schedule', 'list')
    for verb in ('show', 'next', 'trigger', 'pause', 'resume', 'delete'):
        run('schedule', verb, 'night')
    gates = run('enqueue', '-w', 'acme', 'gates')['id']
    wait_for('the wait', lambda: weir.good('show', gates, '--json').json()['status'] == 'WAITING')
    run('why', gates)
    run('approve', gates, 'a')
    run('reject', gates, 'b')
    run('wake', gates)
    review = run('enqueue', '-w', 'acme', 'review')['id']
    wait_for('the person', lambda: weir.good('show', review, '--json').json()['waiting_for'] == 'manual')
    run('update', review, '--state', 'b', '--var', 'n=1')
    weir.write('hello.yaml', 'name: hello\nsteps:\n  greet:\n    exec: [echo, "hello again"]\n')
    weir.good('workflow', 'apply', 'hello.yaml', '-q')
    run('workflow', 'migrate', later, '--to', '2')
    for execution in (slow, waits, bad, good, lacking, gates, review):
        run('show', execution)
        run('why', execution)
    for words in (('logs', good), ('list',), ('list', '--count'), ('why', '-w', 'tiny'), ('wait', good), ('status',),
                  ('top', '--once'), ('doctor',), ('node', 'list', '--all'), ('worker', 'list', '--all'), ('lock', 'list'),
                  ('workspace', 'list'), ('workspace', 'show', 'tiny'), ('plan', 'list'), ('workflow', 'list'), ('audit',),
                  ('workflow', 'show', 'hello'), ('config', 'show', '--origin'), ('config', 'check'), ('version',),
                  ('help',), ('store', 'check'), ('pause',), ('status',), ('resume',), ('workspace', 'pause', 'tiny'),
                  ('workspace', 'resume', 'tiny'), ('workflow', 'disable', 'hello'), ('workflow', 'enable', 'hello'),
                  ('failures',), ('dismiss', bad), ('retry', bad), ('release', later),
                  ('purge', good), ('cancel', waits, slow)):
        run(*words, code=None if words[0] == 'doctor' else 0)
    name = weir.items('node', 'list')[0]['name']
    for verb in ('pause', 'resume', 'drain'):
        run('node', verb, name)
    run('node', 'list')
    node.send_signal(signal.SIGTERM)
    lines = node.communicate(timeout=SECONDS_MOST)[0].decode().splitlines()
    run('node', 'list', '--all')
    run('workflow', 'delete', 'slow')
    run('workspace', 'rename', 'acme', 'acme-eu')
    run('workspace', 'delete', 'acme-eu', '--fail-waiting', '--erase', '--yes')
    if 'WEIR_STORE' not in weir.environment:
        run('store', 'backup', weir.path('copy.db'))
    weir.environment.pop('WEIR_STORE', None)
    run('demo', '--once', '--executions', '3')
    missing = set(commands) - done - NOT_RUN - {'store backup'}
    assert not missing, f'no test walks the JSON of: {", ".join(sorted(missing))}'
    answers += [('the log', json.loads(line)) for line in lines if line.startswith('{')]
    return answers


def _is_json(text):
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _assert_answers(weir):
    names, found = _names(), {}
    for command, answer in _answers(weir):
        _walk(answer, f'`weir {command}`' if command != 'the log' else command, names, found)
    _assert_listed(found, names)


def keys_of_all_answers_and_of_the_log_are_on_the_list(weir):
    _assert_answers(weir)


def keys_on_postgres_are_on_the_list(weir):
    _postgres(weir)
    _assert_answers(weir)


def flags_and_keys_of_filters_are_on_the_list(weir):
    names, flags = _names(), {flag for row in _rows('Flags that only the command line has')
                              for flag in re.findall(r'--[a-z-]+', row[0])}
    page = weir.good('help', '--json').json()
    found = {flag['name'].replace('-', '_'): f'--{flag["name"]}' for command in [*page['commands'], page]
             for flag in command['flags']}
    assert len(found) > 40
    _assert_listed({name: place for name, place in found.items() if place not in flags}, names)
    unused = flags - set(found.values())
    assert not unused, f'docs/names.md lists flags that no command has: {sorted(unused)}'
    weir.make_store()
    hint = weir.run('list', '--where', 'zzzzzzzzzzzz=1').err
    keys = re.search(r'keys: ([\w ]+)', hint).group(1).split()
    assert len(keys) > 10, hint
    _assert_listed({key: f'--where {key}=' for key in keys}, names)


def keys_of_the_log_are_on_the_list(weir):
    fields = re.findall(r'^    \{"(\w+)", FIELD_', _read('src/observe/log.c'), re.MULTILINE)
    assert len(fields) > 15
    _assert_listed({name: 'the log' for name in fields}, _names())


def columns_and_arguments_of_postgres_are_on_the_list(weir):
    name = _postgres(weir)
    weir.make_store()
    names = _names()
    views = SERVER.sql("SELECT string_agg(table_name || '.' || column_name, ' ') FROM information_schema.columns"
                       " WHERE table_schema = 'weir' AND table_name IN ('executions', 'execution_events')", name).split()
    assert len(views) > 30
    public = sorted(set(re.findall(r'`weir\.(\w+)\(', _read('docs/sql.md'))))
    listed = ', '.join(f"'{function}'" for function in public)
    arguments = SERVER.sql("SELECT string_agg(p.proname || '.' || a.name, ' ')"
                           " FROM pg_proc p, unnest(p.proargnames) a (name)"
                           f" WHERE p.pronamespace = 'weir'::regnamespace AND p.proname IN ({listed})", name).split()
    without = {'own_workspaces'}  # no argument
    assert {argument.split('.')[0] for argument in arguments} == set(public) - without, public
    _assert_listed({pair.split('.')[1]: pair for pair in views + arguments}, names)


def columns_of_sqlite_are_on_the_list(weir):
    weir.make_store()
    database, found = weir.database(), {}
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'view' AND name LIKE 'execution%'")
    views = sorted(row[0] for row in rows)
    assert views == ['execution_events', 'execution_steps', 'executions']
    for view in views:
        for column in database.execute(f'SELECT name FROM pragma_table_info({view!r})'):
            found[column[0]] = view
    database.close()
    arguments = re.findall(r'^\| `weir_\w+\(([^)]*)\)', _read('docs/sql.md'), re.MULTILINE)
    assert len(arguments) > 5
    found.update({name: 'a function of SQLite' for text in arguments for name in re.findall(r'\w+', text)})
    _assert_listed(found, _names())


def other_words_for_a_name_are_not_on_the_list(weir):
    names = _names()
    for row in _rows('Not used'):
        for word in re.findall(r'`(\w+)`', row[0]):
            assert word not in names, f'docs/names.md: {word} is another word for {row[1]}'


def running_is_accepted_for_dispatched_with_a_hint(weir):
    weir.make_store()
    for words in (('--status', 'running'), ('--where', 'status=pending,Running')):
        said = weir.good('list', *words)
        assert 'hint: an execution that runs has the status DISPATCHED' in said.err, repr(said)
    assert 'hint' not in weir.good('list', '--status', 'dispatched').err
    assert 'did you mean status' in weir.run('list', '--where', 'state=failed', code=2).err
    assert 'did you mean executor_group' in weir.run('list', '--where', 'group=default', code=2).err
    assert 'did you mean --executor-group' in weir.run('pause', '--group', 'default', code=2).err


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
