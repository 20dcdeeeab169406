#!/usr/bin/env python3
"""The SQL functions and views of a PostgreSQL store, as programs of any language use them: from psql, in transactions of
their own, several at once in a forced order.

usage: sql_test.py BINARY [TEST ...]      the sources are in WEIR_SOURCE_ROOT
"""

import json
import os
import random
import re
import signal
import subprocess
import sys

from harness import UUID, run_tests
from postgres_server import PostgresServer, client_program
from waiting import SECONDS_MOST, SHORT, wait_for

ROOT = os.environ.get('WEIR_SOURCE_ROOT') or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DONE = '-- that was all --'
SEED = int(os.environ.get('WEIR_TEST_SEED') or random.SystemRandom().randrange(1 << 31))
SERVER = None


def _use(weir, store=True):
    """A fresh database with a store; its name."""
    global SERVER
    if SERVER is None:
        SERVER = PostgresServer()
        SERVER.sql('CREATE ROLE app LOGIN')
    name = SERVER.database()
    weir.environment['WEIR_STORE'] = SERVER.url(name)
    if store:
        weir.make_store()
    return name


class Session:
    """One connection that stays open: SQL goes in, lines come out, statements may be left waiting."""

    def __init__(self, database, user='owner', port=None):
        words = [client_program('psql'), '-qXAt', '-h', '127.0.0.1' if port else SERVER.folder, '-p',
                 str(port or SERVER.port), '-U', user, '-d', database]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, bufsize=1)
        self.ask('\\set VERBOSITY verbose')
        self.pid = self.ask('SELECT pg_backend_pid()')

    def start(self, sql):
        end = '' if sql.startswith('\\') else ';'
        self.process.stdin.write(f'{sql}{end}\n\\echo {DONE}\n')
        self.process.stdin.flush()

    def answer(self):
        lines = []
        for line in self.process.stdout:
            if line.rstrip('\n') == DONE:
                return '\n'.join(lines)
            lines.append(line.rstrip('\n'))
        raise AssertionError(f'the session ended: {lines}')

    def ask(self, sql):
        self.start(sql)
        return self.answer()

    def good(self, sql):
        answer = self.ask(sql)
        assert 'ERROR:' not in answer, answer
        return answer

    def refused(self, sql):
        """SQLSTATE, MESSAGE, DETAIL and HINT."""
        answer = self.ask(sql)
        found = re.search(r'ERROR:  (\w{5}): (.*)', answer)
        assert found, answer
        parts = dict(re.findall(r'^(DETAIL|HINT):  (.*)', answer, re.MULTILINE))
        return found.group(1), found.group(2), parts.get('DETAIL'), parts.get('HINT')

    def await_block(self):
        """Until its statement waits for somebody's lock."""
        wait_for('its waiting for a lock',
                 lambda: SERVER.sql(f"SELECT wait_event_type FROM pg_stat_activity WHERE pid = {self.pid}") == 'Lock')

    def close(self):
        self.process.stdin.close()
        self.process.wait(SECONDS_MOST)


def _node(weir, **environment):
    """It polls so seldom that only a notification can wake it in time."""
    process = weir.spawn('serve', '--allow-exec', env={'WEIR_DISPATCH_POLL_INTERVAL': '10m', **environment})
    assert json.loads(process.stdout.readline())['event'] == 'node.started'
    return process


def _stop(node):
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS_MOST) == 0


def _source(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


# --- enqueue ---


def what_sql_enqueues_runs_with_its_params(weir):
    name = _use(weir)
    node = _node(weir)
    ids = [SERVER.sql(call, name) for call in (
        "SELECT weir.enqueue('acme', 'hello')",
        "SELECT weir.enqueue(workspace => 'acme', workflow => 'hello', params => ' {\"b\":1, \"a\":1.50}',"
        " idempotency_key => 'c42', priority => 5, run_at => now())",
        "SELECT weir.enqueue('acme', 'hello', jsonb_build_object('customer', 42))",
        "SELECT weir.enqueue('acme', 'hello', json_build_object('customer', 42))",
        "SELECT id FROM weir.try_enqueue('acme', 'hello', '{\"customer\": 42}')")]
    for id in ids:
        assert UUID.match(id), id
        weir.good('wait', id)
    assert SERVER.sql("SELECT '<' || convert_from(params, 'UTF8') FROM weir.execution_params"
                      f" WHERE id = '{ids[1]}'", name) == '< {"b":1, "a":1.50}'
    for id in ids[2:]:
        assert weir.good('show', id, '--json').json()['params'] == {'customer': 42}
    assert sorted(ids) == ids
    weir.good('store', 'check')
    _stop(node)


def a_rollback_leaves_nothing(weir):
    name = _use(weir)
    session = Session(name)
    session.good('BEGIN')
    session.good("SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}', 'key')")
    session.good("SELECT count(*) FROM weir.enqueue_many('[{\"workspace\": \"acme\", \"workflow\": \"hello\"}]')")
    session.good('ROLLBACK')
    for table in ('workflow_execution_queue', 'execution_params', 'idempotency_keys', 'executions'):
        assert SERVER.sql(f'SELECT count(*) FROM weir.{table}', name) == '0', table
    session.close()


def one_notification_tells_of_a_whole_transaction(weir):
    name = _use(weir)
    listener, session = Session(name), Session(name)
    listener.good('LISTEN weir')
    session.good('BEGIN')
    for _ in range(5):
        session.good("SELECT weir.enqueue('acme', 'hello')")
    assert 'notification' not in listener.ask('SELECT 1')
    session.good('COMMIT')
    heard = []
    wait_for('the notification', lambda: heard.append(listener.ask('SELECT 1')) or 'notification' in ''.join(heard),
             pause=SHORT)
    heard.append(listener.ask('SELECT 1'))
    assert ''.join(heard).count('Asynchronous notification "weir" with payload "news"') == 1, heard
    listener.close()
    session.close()


def an_open_transaction_blocks_nobody(weir):
    name = _use(weir)
    caller, other = Session(name), Session(name)
    caller.good('BEGIN')
    late = caller.good("SELECT weir.enqueue('acme', 'hello', idempotency_key => 'mine')")  # the lane's first ever
    many = caller.good("SELECT id FROM weir.enqueue_many('[{\"workspace\": \"tiny\", \"workflow\": \"hello\"}]')")
    other.good("SET lock_timeout = '90s'")
    ids = [other.good("SELECT weir.enqueue('acme', 'hello', idempotency_key => 'another')"), weir.enqueue(),
           weir.enqueue('-w', 'tiny', 'hello')]
    node = _node(weir)
    for id in ids:
        weir.good('wait', id)
    weir.good('workspace', 'set', 'acme', '--plan', 'enterprise', '-q')
    weir.good('workspace', 'pause', 'acme', '-q')
    weir.good('workspace', 'resume', 'acme', '-q')
    weir.good('workflow', 'apply', 'hello.yaml', '-q')
    weir.good('wait', weir.enqueue())
    weir.good('store', 'check')
    weir.run('show', late, code=3)
    caller.good('COMMIT')
    weir.good('wait', late)
    weir.good('wait', many)
    caller.good('BEGIN')  # and where the lane is known
    late = caller.good("SELECT weir.enqueue('acme', 'hello')")
    for _ in range(3):
        weir.good('wait', weir.enqueue())
    weir.good('store', 'check')
    caller.good('COMMIT')
    weir.good('wait', late)
    weir.good('store', 'check')
    _stop(node)
    caller.close()
    other.close()


def an_open_act_holds_up_the_ends_of_no_other_workspace(weir):
    """Ends are put on record in sets; an act in a caller's open transaction must not hold up the set."""
    name = _use(weir)
    gate = weir.path('gate')
    weir.write('gated.yaml', 'name: gated\nsteps:\n  wait:\n    exec: [sh, -c, \'until [ -e "$0" ]; do sleep 0.02; done\','
                             f' "{gate}"]\n')
    weir.good('workflow', 'apply', 'gated.yaml', '-q')
    node = _node(weir)
    gated = weir.enqueue('-w', 'acme', 'gated')
    started = f"SELECT dispatched_at IS NOT NULL FROM weir.executions WHERE id = '{gated}'"
    wait_for('the start', lambda: SERVER.sql(started, name) == 't')
    caller = Session(name)
    caller.good('BEGIN')
    caller.good("SELECT weir.pause_workspace('acme')")
    weir.write('gate', '')
    for _ in range(20):
        weir.good('wait', weir.enqueue('-w', 'tiny', 'hello'))
    caller.good('COMMIT')
    weir.good('wait', gated)
    weir.good('store', 'check')
    _stop(node)
    caller.close()


def the_same_key_waits_for_its_first_transaction_and_no_other_does(weir):
    name = _use(weir)
    first, second, third = Session(name), Session(name), Session(name)
    for end, is_first in (('COMMIT', True), ('ROLLBACK', False)):
        key = f'key-{end}'
        first.good('BEGIN')
        id = first.good(f"SELECT weir.enqueue('acme', 'hello', '{{\"a\": 1}}', '{key}')")
        second.start(f"SELECT weir.enqueue('acme', 'hello', '{{\"a\": 1}}', '{key}')")
        second.await_block()
        third.good("SET lock_timeout = '90s'")
        third.good(f"SELECT weir.enqueue('acme', 'hello', '{{\"a\": 1}}', 'other-{key}')")
        third.good(f"SELECT weir.enqueue('tiny', 'hello', '{{\"a\": 1}}', '{key}')")
        first.good(end)
        answer = second.answer()
        assert UUID.match(answer) and (answer == id) == is_first, (end, answer)
    assert SERVER.sql("SELECT count(*) FROM weir.executions WHERE workspace = 'acme'", name) == '4'
    # Under a snapshot that cannot see the first one, the second is told to begin again.
    first.good('BEGIN')
    first.good("SELECT weir.enqueue('acme', 'hello', NULL, 'third')")
    second.good('BEGIN ISOLATION LEVEL REPEATABLE READ')
    second.good('SELECT 1')
    second.start("SELECT weir.enqueue('acme', 'hello', NULL, 'third')")
    second.await_block()
    first.good('COMMIT')
    assert 'ERROR:  40001' in second.answer()
    for session in (first, second, third):
        session.close()
    weir.good('store', 'check')


def sets_with_the_same_keys_in_another_order_do_not_deadlock(weir):
    name = _use(weir)
    holder, second, third = Session(name), Session(name), Session(name)

    def a_set(*keys):
        return "SELECT string_agg(id::text, ' ' ORDER BY place) FROM weir.enqueue_many('" + json.dumps(
            [{'workspace': 'acme', 'workflow': 'hello', 'idempotency_key': key} for key in keys]) + "')"
    holder.good('BEGIN')
    holder.good(a_set('b'))
    second.start(a_set('a', 'b', 'c'))
    second.await_block()  # it has a
    third.start(a_set('c', 'b', 'a'))
    third.await_block()  # it waits for a, and has neither b nor c
    holder.good('COMMIT')
    assert second.answer().split() == third.answer().split()[::-1]
    for session in (holder, second, third):
        session.close()


NIL = '00000000-0000-0000-0000-000000000000'


def a_refusal_has_the_words_of_the_command_line_and_its_own_sqlstate(weir):
    name = _use(weir)
    session = Session(name)
    weir.write('private.yaml', 'name: private\nworkspace: tiny\nsteps:\n  a: {exec: [echo]}\n')
    weir.good('workflow', 'apply', 'private.yaml', '-q')
    weir.enqueue('-w', 'acme', 'hello', '--idempotency-key', 'used')
    cases = [  # the arguments of enqueue(), those of the command line, SQLSTATE
        ("'acm', 'hello'", ['-w', 'acm', 'hello'], 'WR008'),
        ("'something-else', 'hello'", ['-w', 'something-else', 'hello'], 'WR008'),
        ("'acme', 'helo'", ['-w', 'acme', 'helo'], 'WR009'),
        ("'acme', 'privat'", ['-w', 'acme', 'privat'], 'WR009'),
        ("'acme', 'private'", ['-w', 'acme', 'private'], 'WR018'),
        ("'acme', 'hello', '{\"a\": 1}', 'used'", ['-w', 'acme', 'hello', '-k', 'used', '--params', '{"a": 1}'], 'WR012'),
        ("'acme', 'hello', executor_group => 'defualt'", ['-w', 'acme', 'hello', '--executor-group', 'defualt'], 'WR007'),
        ("'acme', 'hello', executor_group => 'other'", ['-w', 'acme', 'hello', '--executor-group', 'other'], 'WR007'),
        ("'acme', 'hello', executor_group => repeat('g', 65)",
         ['-w', 'acme', 'hello', '--executor-group', 'g' * 65], 'WR002'),
        ("'acme', 'hello', idempotency_key => repeat('k', 256)", ['-w', 'acme', 'hello', '-k', 'k' * 256], 'WR002'),
        ("'acme', 'hello', idempotency_key => 'hook/page/1'", ['-w', 'acme', 'hello', '-k', 'hook/page/1'], 'WR002'),
    ]
    for arguments, words, sqlstate in cases:
        said = weir.run('enqueue', *words)
        message, code = re.search(r'^weir: (.*) \((\w+)\)$', said.err, re.MULTILINE).groups()
        hint = re.search(r'^hint: (.*)$', said.err, re.MULTILINE)
        assert session.refused(f'SELECT weir.enqueue({arguments})') == \
            (sqlstate, message, code, hint.group(1) if hint else None), (arguments, said)
        row = session.good('SELECT code, message, coalesce(hint, $$$$), id, duplicate'
                           f' FROM weir.try_enqueue({arguments})')
        assert row == '|'.join([code, message, hint.group(1) if hint else '', '', 'f']), row
    for arguments, sqlstate, words in (("'acme', 'hello', '[]'", 'WR004', 'params are an array, not an object'),
                                       ("'acme', 'hello', '1'", 'WR004', 'params are an integer, not an object'),
                                       ("'acme', 'hello', priority => 101", 'WR002', 'outside of -100 to 100'),
                                       ("'acme', 'hello', run_at => 'infinity'", 'WR002', 'never comes'),
                                       ("'acme', 'hello', run_at => '1960-01-01'", 'WR002', 'before 1970'),
                                       ("'acme', 'hello', run_at => '10000-01-01Z'", 'WR002', 'after the year 9999'),
                                       (f"'acme', 'hello', execution_id => '{NIL}'", 'WR002', 'is not an execution id'),
                                       ("'', 'hello'", 'WR002', 'missing'), ("NULL, NULL", 'WR002', 'missing'),
                                       ("'acme', 'hello', '{\"a\": \"' || repeat('x', 1048576) || '\"}'", 'WR005',
                                        'the limit is')):
        got = session.refused(f'SELECT weir.enqueue({arguments})')
        assert got[0] == sqlstate and words in got[1], got
    assert SERVER.sql('SELECT count(*) FROM weir.executions', name) == '1'
    session.close()


def a_refused_row_leaves_the_transaction_as_it_was(weir):
    name = _use(weir)
    session = Session(name)
    session.good('BEGIN')
    assert session.good("SELECT code FROM weir.try_enqueue('nobody', 'hello')") == 'workspace_not_found'
    id = session.good("SELECT id FROM weir.try_enqueue('acme', 'hello')")
    session.good('COMMIT')
    assert weir.good('show', id, '--json').json()['status'] == 'PENDING'
    session.close()


PARAMS = ['{}', '{ }', ' {"a" : 1}\n', '{"a":1,"a":2}', '{"a":{"b":1,"b":2}}', '{"a":{"b":1},"c":{"b":1}}', '[]',
          '"x"', 'null', '1', '{', '{"a":}', '{"a":1} x', '{"a":"\\u0000"}', '{"a\\u0000b":"\\\\u0000"}',
          '{"a":"\\ud800"}', '{"a":"\\ud83d\\ude00"}', '{"n":-0}', '{"n":1e308}', '{"n":1e309}', '{"n":-1e400}',
          '{"n":1.7976931348623158e308}', '{"n":-1.7976931348623158e308}', '{"n":1.7976931348623159e308}',
          '{"n":9223372036854775807}', '{"n":9223372036854775808}', '{"n":-9223372036854775809}',
          '{"n":"92233720368547758099"}', '{"n":92233720368547758080.0}', '{"x:y":":"}', '{"a:\\"":1}',
          '{"a\\\\":{"a":1}}', "{'a':1}", '{"a":01}', '{"a":NaN}', '{"a":1,}', '{"\u00e9":"\U0001f600"}',
          '{"a":"tab\there"}', '{"a":' * 63 + '{}' + '}' * 63, '{"a":' * 64 + '{}' + '}' * 64,
          '{"a":' * 64 + '1' + '}' * 64, '{"a":' + '[' * 63 + ']' * 63 + '}', '{"a":' + '[' * 64 + ']' * 64 + '}',
          '{"a":' + '[' * 20000 + ']' * 20000 + '}']


def sql_takes_the_params_that_the_library_takes_and_no_others(weir):
    name = _use(weir)
    session = Session(name)
    for params in PARAMS:
        weir.write('params.json', params.encode())
        by_library = weir.run('enqueue', '-w', 'acme', 'hello', '-q', '--params', '@params.json')
        assert by_library.code in (0, 2), (params[:80], by_library)
        row = session.good(f"SELECT code, id FROM weir.try_enqueue('acme', 'hello', $params${params}$params$)")
        assert (row.split('|')[0] == 'ok') == (by_library.code == 0), (params[:80], row, by_library)
        if by_library.code == 0:
            stored = [weir.good('show', id.strip(), '--json').json()['params']
                      for id in (by_library.out, row.split('|')[1])]
            assert stored[0] == stored[1] == json.loads(params), params[:80]
    session.close()


def enqueue_many_answers_each_request_by_its_place(weir):
    name = _use(weir)
    session = Session(name)
    hello = {'workspace': 'acme', 'workflow': 'hello'}
    requests = [hello, {**hello, 'workspace': 'acm'}, 7, {**hello, 'parms': {}}, {**hello, 'params': [1]},
                {**hello, 'idempotency_key': 'k', 'params': {'a': 1}},
                {**hello, 'idempotency_key': 'k', 'params': {'a': 1}},
                {**hello, 'idempotency_key': 'k'}, {**hello, 'run_at': 'soon'}, {**hello, 'run_at': '2100-01-01T00:00:00Z'},
                {**hello, 'priority': 1.5}, {**hello, 'priority': 'high'}, {**hello, 'execution_id': 'x'},
                {**hello, 'execution_id': NIL}, {**hello, 'run_at': 'tomorrow'}, {**hello, 'run_at': '2100-01-01'},
                {**hello, 'run_at': '9999-12-31T23:59:59.999999-01:00'},
                {**hello, 'execution_id': '0198c2f1-0000-7000-8000-000000000001'},
                {**hello, 'execution_id': '0198c2f1-0000-7000-8000-000000000001'},
                {**hello, 'workspace': 'tiny', 'execution_id': '0198c2f1-0000-7000-8000-000000000001'},
                {**hello, 'params': None, 'executor_group': None}]
    text = json.dumps(requests)
    rows = [line.split('|') for line in session.good(
        f"SELECT place, code, duplicate, id IS NOT NULL, hint FROM weir.enqueue_many($${text}$$)").splitlines()]
    assert [row[0] for row in rows] == [str(place + 1) for place in range(len(requests))], rows
    assert [row[1] for row in rows] == [
        'ok', 'workspace_not_found', 'invalid_argument', 'invalid_argument', 'params_invalid', 'ok', 'ok',
        'idempotency_key_reused', 'invalid_argument', 'ok', 'invalid_argument', 'invalid_argument', 'invalid_argument',
        'invalid_argument', 'invalid_argument', 'invalid_argument', 'invalid_argument',
        'ok', 'ok', 'conflict', 'ok'], rows
    assert [row[0] for row in rows if row[2] == 't'] == ['7', '19'], rows
    assert all((row[1] == 'ok') == (row[3] == 't') for row in rows), rows
    assert rows[1][4] == 'did you mean "acme"?' and rows[3][4] == 'did you mean "params"?', rows
    assert SERVER.sql('SELECT count(*) FROM weir.executions', name) == '5'
    assert session.refused("SELECT * FROM weir.enqueue_many('{}')")[0] == 'WR002'
    assert session.refused("SELECT * FROM weir.enqueue_many(to_jsonb(array_fill(1, ARRAY[10001])))")[0] == 'WR002'
    assert session.good("SELECT count(*) FROM weir.enqueue_many('[]')") == '0'
    weir.good('store', 'check')
    session.close()


def of_requests_with_one_id_the_first_that_is_not_refused_is_enqueued(weir):
    name = _use(weir)
    session = Session(name)
    session.good("SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}', 'used')")
    sets = [  # workspace and key of each request of the set, what becomes of it, the key of what is enqueued
        ([('nobody', None), ('acme', None)], ['workspace_not_found|f', 'ok|f'], ''),
        ([('acme', 'used'), ('acme', 'new')], ['idempotency_key_reused|f', 'ok|f'], 'new'),
        ([('acme', 'used'), ('tiny', 'used')], ['idempotency_key_reused|f', 'ok|f'], 'used'),
        ([('acme', 'a'), ('acme', 'b'), ('tiny', 'c'), ('nobody', None)],
         ['ok|f', 'ok|t', 'conflict|f', 'workspace_not_found|f'], 'a')]
    for number, (requests, expected, key) in enumerate(sets):
        id = f'0198c2f1-0000-7000-8000-{number:012}'
        rows = session.good('SELECT code, duplicate FROM weir.enqueue_many($$' + json.dumps(
            [{'workspace': workspace, 'workflow': 'hello', 'idempotency_key': key, 'execution_id': id}
             for workspace, key in requests]) + '$$)').splitlines()
        assert rows == expected, (requests, rows)
        assert session.good(f"SELECT idempotency_key FROM weir.executions WHERE id = '{id}'") == key, requests
    assert session.good('SELECT string_agg(key, $$ $$ ORDER BY workspace_id, key) FROM weir.idempotency_keys') == \
        'a new used used'
    weir.good('store', 'check')
    session.close()


def doctor_copes_with_many_groups(weir):
    name = _use(weir)
    SERVER.sql("INSERT INTO weir.executor_groups (name) SELECT 'group-' || n FROM generate_series(1, 20000) n", name)
    for first in (1, 10001):
        SERVER.sql("SELECT count(*) FROM weir.enqueue_many((SELECT jsonb_agg(jsonb_build_object('workspace', 'acme',"
                   " 'workflow', 'hello', 'executor_group', 'group-' || n))"
                   f" FROM generate_series({first}, {first + 9999}) n))", name)
    told = weir.run('doctor')
    assert 'the store is whole' in told.out and 'none alive' in told.out, repr(told)


def a_workflow_says_where_its_executions_go(weir):
    name = _use(weir)
    weir.write('bill.yaml', 'name: bill\nexecutor_group: billing\nsteps: {s: {sleep: 1s}}\n')
    weir.good('workflow', 'apply', 'bill.yaml')
    weir.make_groups('mine')
    session = Session(name)

    def group(call):
        id = session.good(f'SELECT {call}')
        return session.good(f"SELECT executor_group FROM weir.executions WHERE id = '{id}'")
    assert group("weir.enqueue('acme', 'bill')") == 'billing'
    assert group("weir.enqueue('acme', 'bill', NULL::jsonb)") == 'billing'
    assert group("weir.enqueue('acme', 'hello')") == 'default'
    assert group("weir.enqueue('acme', 'bill', executor_group => 'mine')") == 'mine'
    assert group("id FROM weir.try_enqueue('acme', 'bill')") == 'billing'
    requests = [{'workspace': 'acme', 'workflow': workflow, 'executor_group': wanted}
                for workflow, wanted in (('bill', None), ('hello', None), ('bill', 'mine'))]
    ids = session.good(f"SELECT id FROM weir.enqueue_many($${json.dumps(requests)}$$) ORDER BY place").split()
    assert [session.good(f"SELECT executor_group FROM weir.executions WHERE id = '{id}'") for id in ids] == \
        ['billing', 'default', 'mine']
    session.close()


# --- acts and answers ---


def executions_are_cancelled_released_and_retried_in_sql(weir):
    name = _use(weir)
    session = Session(name)
    id = session.good("SELECT weir.enqueue('acme', 'hello', run_at => now() + interval '1 hour')")
    session.good(f"SELECT weir.release('{id}', 'no time')")
    assert session.good(f"SELECT run_at > now(), pending_reason FROM weir.executions WHERE id = '{id}'") == \
        't|no_node_in_group'
    assert session.refused(f"SELECT weir.release('{id}')") == \
        ('WR014', f'execution {id} is PENDING: only a PENDING one that waits for its run_at or a backoff can be released',
         'illegal_state', None)
    assert session.refused(f"SELECT weir.retry('{id}')")[:2] == ('WR014', f'execution {id} is PENDING: it has not ended')
    assert session.refused(f"SELECT weir.migrate('{id}', 2)")[1:3] == \
        (f'execution {id} is PENDING: its workflow has no version 2', 'workflow_not_found')
    session.good(f"SELECT weir.cancel('{id}', 'not needed')")
    assert session.good(f"SELECT status FROM weir.executions WHERE id = '{id}'") == 'CANCELLED'
    assert session.refused(f"SELECT weir.cancel('{id}')")[:2] == \
        ('WR014', f'execution {id} is CANCELLED: it has ended and cannot be cancelled')
    again = session.good(f"SELECT weir.retry('{id}')")
    assert session.good(f"SELECT status, retry_of FROM weir.executions WHERE id = '{again}'") == f'PENDING|{id}'
    assert session.refused(f"SELECT weir.retry('{id}')")[:2] == \
        ('WR013', f'execution {id} is retried: it was retried already, as {again}')
    assert session.refused(f"SELECT weir.retry_from('{id}')")[:2] == \
        ('WR013', f'execution {id} is retried: it was retried already, as {again}')
    assert session.refused(f"SELECT weir.dismiss('{id}')")[:2] == \
        ('WR014', f'execution {id} is CANCELLED: only a FAILED one can be dismissed')
    for act in ('cancel', 'release', 'dismiss', 'retry', 'why'):
        assert session.refused(f"SELECT weir.{act}('0198c2f1-0000-7000-8000-000000000001')")[0] == 'WR010', act
    story = session.good(f"SELECT event, actor, reason FROM weir.execution_events WHERE execution_id = '{id}'")
    assert story.splitlines() == ['enqueue||', 'release|owner|no time', 'cancel|owner|not needed', 'cancelled||',
                                  'retry|owner|'], story
    acts = session.good(f"SELECT act, actor, reason, affected FROM weir.audit WHERE subject = '{id}' ORDER BY seq")
    assert acts.splitlines() == ['release|owner|no time|1', 'cancel|owner|not needed|1', 'retry|owner||1'], acts
    node = _node(weir)
    weir.good('wait', again)
    assert session.refused(f"SELECT weir.retry('{again}')")[:2] == \
        ('WR014', f'execution {again} is COMPLETED: only a FAILED or CANCELLED one can be retried')
    assert session.refused(f"SELECT weir.release('{again}')")[:2] == \
        ('WR014', f'execution {again} is COMPLETED: it has ended')
    weir.write('slow.yaml', 'name: slow\nsteps:\n  only: {exec: [sleep, "600"]}\n')
    weir.good('workflow', 'apply', 'slow.yaml', '-q')
    running = weir.enqueue('-w', 'acme', 'slow')
    wait_for('the start',
             lambda: session.good(f"SELECT status FROM weir.executions WHERE id = '{running}'") == 'DISPATCHED')
    session.good(f"SELECT weir.cancel('{running}')")  # wakes its node
    weir.run('wait', running, code=1)
    assert session.good(f"SELECT status FROM weir.executions WHERE id = '{running}'") == 'CANCELLED'
    weir.good('store', 'check')
    _stop(node)
    session.close()


def what_is_missing_or_too_long_is_told_and_quoted_in_part(weir):
    name = _use(weir)
    session = Session(name)
    id = session.good("SELECT weir.enqueue('acme', 'hello')")
    for call in ('cancel(NULL)', 'release(NULL)', 'retry(NULL)', 'why(NULL)'):
        assert session.refused(f'SELECT weir.{call}') == \
            ('WR002', "the execution's id is missing", 'invalid_argument', None), call
    for call in ("pause_workspace(NULL)", "resume_workspace('')", "usage('')"):
        assert session.refused(f'SELECT weir.{call}')[:2] == ('WR002', "the workspace's name is missing"), call
    for call in ('pause_workspace', 'usage'):
        assert session.refused(f"SELECT weir.{call}(repeat('w', 129))") == \
            ('WR002', "the workspace's name is too long", 'invalid_argument', 'at most 128 bytes'), call
    for act in ('cancel', 'release', 'dismiss', 'retry'):
        assert session.refused(f"SELECT weir.{act}('{id}', repeat('r', 2049))") == \
            ('WR002', 'the reason is too long', 'invalid_argument', 'at most 2048 bytes'), act
    refused = weir.run('cancel', id, '--reason', 'r' * 2049, '--yes', code=2).err
    assert 'the reason is too long (invalid_argument)' in refused and 'hint: at most 2048 bytes' in refused, refused
    assert session.good('SELECT count(*) FROM weir.execution_events WHERE actor IS NOT NULL') == '0'
    session.good(f"SELECT weir.cancel('{id}', repeat('r', 2048))")
    assert session.good("SELECT length(reason) FROM weir.execution_events WHERE event = 'cancel'") == '2048'
    long = "repeat('1', 100000)"
    for pair in (f"'run_at', {long}", f"'execution_id', {long}", f"{long}, 1", f"'priority', {long}::numeric"):
        request = f"jsonb_build_object('workspace', 'acme', 'workflow', 'hello', {pair})"
        row = session.good('SELECT code, length(message) BETWEEN 20 AND 200 FROM'
                           f' weir.enqueue_many(jsonb_build_array({request}))')
        assert row == 'invalid_argument|t', (pair, row)
    for params in ("repeat('x', 100000)", "'{\"a\": ' || repeat('x', 100000)"):
        row = session.good('SELECT code, length(message) BETWEEN 20 AND 300 FROM'
                           f" weir.try_enqueue('acme', 'hello', {params})")
        assert row == 'params_invalid|t', (params, row)
    session.close()


def _edits(a, b):
    """Of one letter each, a swap counts one; the whole table, as in a textbook."""
    table = {(-1, -1): 0}
    for i in range(len(a)):
        table[i, -1] = i + 1
    for j in range(len(b)):
        table[-1, j] = j + 1
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
            if i > 0 and j > 0 and x == b[j - 1] and a[i - 1] == y:
                table[i, j] = min(table[i, j], table[i - 2, j - 2] + 1)
    return table[len(a) - 1, len(b) - 1]


def the_nearest_name_is_the_first_with_the_fewest_edits(weir):
    name = _use(weir)
    chance = random.Random(SEED)
    words = [''.join(chance.choice('ab-') for _ in range(chance.randint(1, 12))) for _ in range(150)]
    names = words[:40]
    answers = SERVER.sql("SELECT coalesce(weir.nearest(w, ARRAY[" + ', '.join(f"'{n}'" for n in names) + "]), '') FROM"
                         ' unnest(ARRAY[' + ', '.join(f"'{w}'" for w in words) + ']) WITH ORDINALITY u (w, n) ORDER BY n',
                         name).split('\n')
    answers += [''] * (len(words) - len(answers))  # the last lines may be empty
    for word, answer in zip(words, answers):
        near = [(_edits(word, other), place) for place, other in enumerate(names)]
        edits, place = min(near)
        assert answer == (names[place] if edits < len(word) // 3 + 2 and edits < len(word) else ''), \
            (SEED, word, answer, names[place], edits)


def workspaces_are_paused_and_looked_at_in_sql(weir):
    name = _use(weir)
    session = Session(name)
    session.good("SET weir.actor = 'ada@example.com'; SELECT weir.pause_workspace('acme', 'unpaid')")
    assert session.good("SELECT act, subject, actor, reason, before ->> 'paused', after ->> 'paused' FROM weir.audit"
                        " ORDER BY seq DESC LIMIT 1") == \
        'workspace pause|acme|owner for ada@example.com|unpaid|false|true'
    id = session.good("SELECT weir.enqueue('acme', 'hello')")
    later = session.good("SELECT weir.enqueue('acme', 'hello', run_at => now() + interval '1 hour')")
    node = _node(weir)
    assert session.good("SELECT slots_used, slots_max, paused, pending, delayed FROM weir.usage('acme')") == '0|5|t|2|1'
    assert session.good('SELECT name FROM weir.usage()') == 'acme\ntiny'
    why = json.loads(session.good(f"SELECT weir.why('{id}')"))
    by_library = weir.good('why', id, '--json').json()
    assert why['pending_reason'] == 'workspace_paused' and why['because'] == 'its workspace is paused', why
    by_service = {'held_up_by', 'held_up_since'}  # which the command asks of a Temporal service
    assert set(why) == set(by_library) - by_service, set(why) ^ set(by_library)
    differ = by_service | {'waiting_us'}
    assert {k: v for k, v in why.items() if k not in differ} == {k: v for k, v in by_library.items() if k not in differ}
    session.good("SELECT weir.resume_workspace('acme')")
    weir.good('wait', id)
    assert json.loads(session.good(f"SELECT weir.why('{id}')"))['because'] == 'it has ended'
    assert json.loads(session.good(f"SELECT weir.why('{later}')"))['pending_reason'] == 'scheduled'
    for call in ("pause_workspace('acm')", "resume_workspace('acm')", "usage('acm')"):
        assert session.refused(f'SELECT weir.{call}') == \
            ('WR008', 'there is no workspace "acm"', 'workspace_not_found', 'did you mean "acme"?'), call
    _stop(node)
    session.close()


# --- rights ---


def a_role_needs_the_right_to_enqueue_and_nothing_else(weir):
    name = _use(weir)
    SERVER.sql('GRANT USAGE ON SCHEMA weir TO app', name)
    SERVER.sql('GRANT EXECUTE ON FUNCTION '
               'weir.enqueue(text, text, text, text, integer, timestamptz, text, uuid, text, text, jsonb, text, interval,'
               ' interval) TO app', name)
    SERVER.sql('GRANT CREATE ON DATABASE ' + name + ' TO app', name)
    session = Session(name, user='app')
    # What the caller finds first must not matter.
    session.good('CREATE SCHEMA mine')
    session.good("CREATE FUNCTION mine.format(text, VARIADIC text[]) RETURNS text LANGUAGE sql AS $$ SELECT 'fooled' $$")
    session.good("CREATE FUNCTION mine.coalesce_me(text) RETURNS text LANGUAGE sql AS $$ SELECT 'fooled' $$")
    session.good('CREATE TABLE mine.workspaces (id integer, name text)')
    session.good('CREATE TEMPORARY TABLE workspaces (id integer, name text)')
    session.good('SET search_path = mine, pg_temp, pg_catalog')
    assert UUID.match(session.good("SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}', 'key')"))
    assert session.refused("SELECT weir.enqueue('acm', 'hello')")[1] == 'there is no workspace "acm"'
    for statement in ("SELECT * FROM weir.workflow_execution_queue", "SELECT * FROM weir.executions", "SELECT weir.usage()",
                      "SELECT weir.cancel('0198c2f1-0000-7000-8000-000000000001')", "SELECT weir.pause_workspace('acme')",
                      "SELECT weir.enqueue_many('[]')", "SELECT weir.try_enqueue('acme', 'hello')",
                      "SELECT weir.change_workspace('acme', NULL, 100, NULL, false)",
                      "SELECT weir.change_plan('free', 100, 0)",
                      "SELECT * FROM weir.enqueue_set(ARRAY[gen_random_uuid()], ARRAY[false], ARRAY['acme'],"
                      " ARRAY['hello'], ARRAY[NULL::bytea], ARRAY[NULL], ARRAY['default'], ARRAY[0], ARRAY[0::bigint],"
                      " ARRAY['default'], '{}')"):
        assert session.refused(statement)[0] == '42501', statement
    session.close()
    SERVER.sql('DROP OWNED BY app', name)


def the_documented_rights_are_enough(weir):
    rights = _source('docs/sql.md').split('\n## Rights\n')[1].split('```')[1].removeprefix('sql')
    for before in ('SELECT 1', 'ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC'):
        name = _use(weir, store=False)
        SERVER.sql(before, name)
        weir.make_store()
        SERVER.sql(rights + 'GRANT SELECT ON weir.execution_events TO app', name)
        node = _node(weir)  # the views look whether it lives
        session = Session(name, user='app')
        for params in ("'{\"a\": 1}'", "'{\"a\": 1}'::text", "jsonb_build_object('a', 1)", "json_build_object('a', 1)"):
            assert UUID.match(session.good(f"SELECT weir.enqueue('acme', 'hello', {params})")), params
        assert len(session.good('SELECT * FROM weir.executions').splitlines()) == 4
        assert len(session.good("SELECT * FROM weir.execution_events WHERE event = 'enqueue'").splitlines()) == 4
        session.close()
        _stop(node)
        SERVER.sql('DROP OWNED BY app', name)


def who_reads_the_views_runs_nothing_of_his_search_path(weir):
    name = _use(weir)
    node = _node(weir)
    SERVER.sql('GRANT CREATE ON SCHEMA public TO app', name)
    other = Session(name, user='app')
    other.good('CREATE TABLE public.readers (name text)')
    other.good('GRANT ALL ON public.readers TO PUBLIC')
    # Nearer to what the functions of the views multiply, add and divide than the server's own are.
    for number, (left, operator, right, result) in enumerate((
            ('bigint', '*', 'interval', 'interval'), ('numeric', '*', 'integer', 'numeric'),
            ('double precision', '*', 'integer', 'double precision'))):
        other.good(f'CREATE FUNCTION public.trap_{number}({left}, {right}) RETURNS {result} LANGUAGE plpgsql AS $$ BEGIN'
                   f' INSERT INTO public.readers VALUES (current_user); RETURN NULL; END $$')
        other.good(f'CREATE OPERATOR public.{operator} (FUNCTION = public.trap_{number}, LEFTARG = {left},'
                   f' RIGHTARG = {right})')
    other.close()
    reader = Session(name)
    id = reader.good("SELECT weir.enqueue('acme', 'hello')")
    weir.good('wait', id)
    reader.good("SELECT weir.enqueue('acme', 'hello', run_at => now() + interval '1 hour')")
    for view in ('executions', 'execution_events', 'served_groups'):
        reader.good(f'SELECT * FROM weir.{view}')
    assert reader.good('SELECT count(*) FROM public.readers') == '0'
    reader.close()
    _stop(node)
    SERVER.sql('DROP OWNED BY app CASCADE', name)


def backslashes_mean_the_same_in_every_session(weir):
    name = _use(weir, store=False)
    SERVER.sql(f'ALTER DATABASE {name} SET standard_conforming_strings = off')
    weir.make_store()
    node = _node(weir)
    session = Session(name)
    params = '{"a\\\\": "\\u0000 \\\\\\" :"}'
    for call in (f"enqueue('acme', 'hello', $${params}$$)", "enqueue('acme', 'hello', execution_id => NULL)"):
        weir.good('wait', session.good(f'SELECT weir.{call}'))
    assert session.refused("SELECT weir.enqueue('acme', 'hello', '{')")[0] == 'WR004'
    assert session.refused("SELECT weir.enqueue('its own', 'hello')")[3] == \
        "make it with: weir workspace set 'its own' --plan free"
    request = {'workspace': 'acme', 'workflow': 'hello', 'run_at': '2030-01-31T12:00:00Z'}
    assert session.good(f'SELECT code FROM weir.enqueue_many($$[{json.dumps(request)}]$$)') == 'ok'
    weir.good('store', 'check')
    session.close()
    _stop(node)


def functions_with_the_owners_rights_are_closed_and_find_nothing_by_a_path(weir):
    name = _use(weir)
    rows = SERVER.sql("SELECT p.oid::regprocedure, has_function_privilege('app', p.oid, 'EXECUTE'), p.proconfig::text"
                      " FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
                      " WHERE n.nspname = 'weir' AND p.prosecdef", name).splitlines()
    assert len(rows) == 34, rows
    for row in rows:
        name, is_open, settings = row.split('|')
        assert is_open == 'f' and settings.startswith('{"search_path=pg_catalog, pg_temp"'), row


# --- views ---


def the_views_have_the_columns_of_the_embedded_store(weir):
    name = _use(weir)
    other = {'WEIR_STORE': 'sqlite:./other.db'}
    weir.good('store', 'init', '-q', env=other)
    with weir.database('other.db') as database:
        for view in ('executions', 'execution_events'):
            columns = [row[1] for row in database.execute(f'PRAGMA table_info({view})')]
            ours = SERVER.sql("SELECT column_name FROM information_schema.columns WHERE table_schema = 'weir' AND"
                              f" table_name = '{view}' ORDER BY ordinal_position", name).splitlines()
            assert ours == columns, (view, ours, columns)
    weir.enqueue()
    assert SERVER.sql('SELECT DISTINCT pg_typeof(run_at), pg_typeof(created_at), pg_typeof(finished_at), pg_typeof(id) FROM'
                      ' weir.executions', name) == '|'.join(['timestamp with time zone'] * 3 + ['uuid'])
    assert SERVER.sql('SELECT e.at = x.created_at FROM weir.execution_events e'
                      ' JOIN weir.executions x ON x.id = e.execution_id', name) == 't'


# --- poolers, other schemas ---


def an_enqueue_works_through_a_pooler_in_transaction_mode(weir):
    name = _use(weir)
    port = SERVER.pool('default_pool_size = 2')
    node = _node(weir)
    first, second = Session(name, port=port), Session(name, port=port)
    for _ in range(5):
        first.good('BEGIN')
        lost = first.good("SELECT weir.enqueue('acme', 'hello')")
        second.good('BEGIN')
        kept = second.good("SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}')")
        first.good('ROLLBACK')
        second.good('COMMIT')
        weir.good('wait', kept)  # nobody polls: the notification came through
        weir.run('show', lost, code=3)
    _stop(node)
    first.close()
    second.close()


def the_schema_may_have_another_name(weir):
    name = _use(weir, store=False)
    weir.environment['WEIR_STORE'] = SERVER.url(name, more='?schema=jobs_of_acme')
    weir.make_store()
    node = _node(weir)
    weir.good('wait', SERVER.sql("SELECT jobs_of_acme.enqueue('acme', 'hello')", name))
    assert SERVER.sql("SELECT count(*) FROM jobs_of_acme.executions WHERE status = 'COMPLETED'", name) == '1'
    assert SERVER.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'weir'", name) == '0'
    _stop(node)


# --- one list of words ---


def words_and_numbers_are_those_of_the_library(weir):
    name = _use(weir)
    statuses = re.findall(r'X\(WEIR_(\w+), \w+, \d+, \d+, "(\w+)"\)', _source('include/weir/status.h'))
    codes = {status: f'WR{number:03}' for number, (_, status) in enumerate(statuses)}
    for status in codes:
        answer = SERVER.sql(f"SELECT weir.sqlstate_of('{status}')", name)
        assert answer in (codes[status], 'WR001'), (status, answer)
    documented = dict(re.findall(r'^\| `(WR\d{3})` \| `(\w+)` \|', _source('docs/sql.md'), re.MULTILINE))
    assert documented, 'docs/sql.md has no table of errors'
    for code, status in documented.items():
        assert codes[status] == code == SERVER.sql(f"SELECT weir.sqlstate_of('{status}')", name), (code, status)
    raised = set(re.findall(r"(?:WHEN|THEN) '(WR\d{3})'", _source('src/store/postgres/functions/sqlstate_of.sql')))
    assert raised == set(documented), raised ^ set(documented)
    reasons = re.findall(r'X\(REASON_\w+, "(\w+)", "(.*?)"\)', re.sub(r'\s*\\\n\s*', ' ', _source('src/queue/item.h')))
    assert len(reasons) == 14
    for reason, meaning in reasons:
        assert SERVER.sql(f"SELECT weir.meaning_of('{reason}')", name) == meaning, reason


def every_function_and_view_for_callers_is_documented(weir):
    name = _use(weir)
    text = _source('docs/sql.md')
    public = SERVER.sql("SELECT DISTINCT p.proname FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
                        " WHERE n.nspname = 'weir' AND p.prosecdef AND p.prorettype <> 'trigger'::regtype",
                        name).splitlines()
    for function in public:
        assert f'`weir.{function}(' in text, function
        for argument in SERVER.sql("SELECT unnest(p.proargnames[1:p.pronargs]) FROM pg_proc p"
                                   " JOIN pg_namespace n ON n.oid = p.pronamespace"
                                   f" WHERE n.nspname = 'weir' AND p.proname = '{function}'", name).split():
            assert argument in text, (function, argument)
    columns = SERVER.sql("SELECT column_name FROM information_schema.columns WHERE table_schema = 'weir' AND table_name IN"
                         " ('executions', 'execution_events')", name).split()
    for column in columns:
        assert f'`{column}`' in text, column


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
