#!/usr/bin/env python3
"""`weir import` from the tables of nFlow and Riven on a real PostgreSQL: the rows that become executions, those that stay,
rows of any content, and an import that is killed, interrupted, cut off or repeated.

usage: import_test.py BINARY [--postgres] [TEST ...]
"""

import json
import signal
import sys

from harness import assert_error, run_tests
from http_client import Listener
from import_source import NFLOW_LOOSE, add_many_nflow, add_nflow, add_riven, make_nflow, make_riven, quoted
from postgres_server import PostgresServer
from waiting import SECONDS_MOST, process_state, wait_for

SERVER = None
ACME = 'a0000000-0000-4000-8000-000000000001'
TINY = 'a0000000-0000-4000-8000-000000000002'
DEFINITION = 'd0000000-0000-4000-8000-000000000001'
BATCH = 100


def _prepare(weir):
    """A store, of PostgreSQL with --postgres, and the server of the sources."""
    global SERVER
    if SERVER is None:
        SERVER = PostgresServer()
        SERVER.sql('CREATE ROLE reader LOGIN; CREATE ROLE stranger LOGIN')
    if '--postgres' in sys.argv:
        weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())
    weir.make_store()


def _nflow(schema='public'):
    name = SERVER.database()
    make_nflow(SERVER, name, schema)
    return name


def _import(weir, name, *words, system='nflow', code=0, user='owner', more='', **options):
    """The answer as data. nFlow's rows go to the workspace acme."""
    tenant = ('-w', 'acme') if system == 'nflow' else ()
    source = SERVER.url(name, user=user, more=more)
    said = weir.run('import', system, '--from', source, *tenant, *words, '--json', code=code, **options)
    return said.json()


def _line(answer, **wanted):
    """The one line of the report that has these values."""
    found = [item for item in answer['items'] if all(item[key] == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, answer)
    return found[0]


def _totals(answer):
    return tuple(answer[key] for key in ('enqueued', 'duplicates', 'skipped', 'refused'))


def _executions(weir, *words):
    return weir.items('list', '--limit', '1000', *words)


def _by_key(weir, key):
    found = weir.items('list', '--where', f'idempotency_key={key}')
    assert len(found) == 1, found
    return weir.show(found[0]['id'])


def _spawned(weir, name, failpoint, *words, user='owner'):
    return weir.spawn('import', 'nflow', '--from', SERVER.url(name, user=user), '-w', 'acme', '--apply', *words,
                      env={'WEIR_FAILPOINT': failpoint})


def _stopped(weir, name, *words, **options):
    """An import that stands still behind its first batch."""
    process = _spawned(weir, name, 'after_commit:stop', *words, **options)
    wait_for('its stop', lambda: process_state(process.pid) == 'T')
    return process


def _refusals(answer):
    """Refused rows by their reason."""
    counts = {}
    for item in answer['items']:
        if item['outcome'] == 'refused':
            counts[item['reason']] = counts.get(item['reason'], 0) + item['count']
    return counts


# --- nFlow ---


def a_dry_run_counts_and_writes_nothing(weir):
    name = _nflow()
    for _ in range(3):
        add_nflow(SERVER, name)
    add_nflow(SERVER, name, type='creditDecision')
    add_nflow(SERVER, name, status='finished', next_activation=None)
    for words in ((), ('--apply', '--dry-run'), ('--yes', '-n')):
        answer = _import(weir, name, *words, code=1)
        assert _totals(answer) == (3, 0, 1, 1) and answer['dry_run'], answer
        assert _line(answer, outcome='enqueued')['count'] == 3
        refused = _line(answer, outcome='refused')
        assert (refused['type'], refused['reason']) == ('creditDecision', 'workflow_not_found'), refused
        assert _line(answer, outcome='stays')['reason'] == 'ended'
        assert _executions(weir) == []
    said = weir.run('import', 'nflow', '--from', SERVER.url(name), '-w', 'acme', code=1)
    assert 'TYPE' in said.out and 'creditDecision' in said.out and '--map' in said.err, said


def rows_become_executions_with_all_that_they_have(weir):
    name = _nflow()
    id = add_nflow(SERVER, name, priority=7, business_key='order-17', external_id='e-1', retries=2,
                   next_activation='2030-05-06T07:08:09.123456+02:00',
                   variables={'text': 'a "quoted" text', 'object': '{"a": [1, 2.5]}', 'number': '42', 'zeros': '007',
                              'real': '1.10', 'long': '12345678901234567890', 'flag': 'true', 'enum': '"OPEN"',
                              'broken': '{"a":', 'empty': ''})
    SERVER.sql(f"INSERT INTO nflow_workflow_state VALUES ({id}, 1, 'number', '43')", name)
    answer = _import(weir, name, '--apply')
    assert _totals(answer) == (1, 0, 0, 0) and not answer['dry_run'], answer
    shown = _by_key(weir, f'import:nflow:{id}')
    assert shown['params'] == {'text': 'a "quoted" text', 'object': {'a': [1, 2.5]}, 'number': 43, 'zeros': '007',
                               'real': '1.10', 'long': '12345678901234567890', 'flag': True, 'enum': 'OPEN',
                               'broken': '{"a":', 'empty': ''}, shown['params']
    assert (shown['workspace'], shown['workflow'], shown['priority']) == ('acme', 'hello', 7), shown
    assert shown['run_at'] == '2030-05-06T05:08:09.123456Z' and shown['business_key'] == 'order-17', shown
    assert shown['labels'] == {'import': 'nflow', 'import_id': id, 'import_state': 'begin', 'import_attempts': '2',
                               'external_id': 'e-1'}, shown
    assert len(weir.items('list', '--where', 'label.import=nflow')) == 1
    weir.good('store', 'check')


def a_repetition_imports_nothing_twice(weir):
    name = _nflow()
    add_many_nflow(SERVER, name, 3)
    assert _totals(_import(weir, name, '--apply')) == (3, 0, 0, 0)
    add_nflow(SERVER, name)
    assert _totals(_import(weir, name, '--yes')) == (1, 3, 0, 0)
    assert _totals(_import(weir, name, '--apply')) == (0, 4, 0, 0)
    SERVER.sql("UPDATE nflow_workflow_state SET state_value = '99' WHERE workflow_id = 1", name)
    answer = _import(weir, name, '--apply', code=1)  # the other system has worked on it
    assert _totals(answer) == (0, 3, 0, 1), answer
    assert _line(answer, outcome='refused')['reason'] == 'idempotency_key_reused', answer
    assert len(_executions(weir)) == 4


def what_nflow_must_end_itself_stays(weir):
    name = _nflow()
    parent = add_nflow(SERVER, name, status='inProgress', next_activation=None)
    stays = {
        'ended': add_nflow(SERVER, name, status='finished', next_activation=None),
        'runs': add_nflow(SERVER, name, status='executing', executor_id=3),
        'waits': add_nflow(SERVER, name, status='manual', next_activation=None),
        'child': add_nflow(SERVER, name, parent_workflow_id=parent, parent_action_id=1),
        'begun': add_nflow(SERVER, name, status='inProgress', state='pay', retries=1),
    }
    add_nflow(SERVER, name, started='2026-01-01T00:00:00Z')
    add_nflow(SERVER, name, status='inProgress', executor_id=3)
    answer = _import(weir, name, '--apply')
    assert _totals(answer) == (0, 0, 8, 0), answer
    reasons = {(item['source_state'], item['reason']): item['count'] for item in answer['items']}
    assert reasons == {('finished', 'ended'): 1, ('executing', 'runs'): 1, ('manual', 'waits'): 1, ('created', 'child'): 1,
                       ('inProgress', 'begun'): 1, ('created', 'begun'): 1, ('inProgress', 'runs'): 1,
                       ('inProgress', 'waits'): 1}, reasons
    assert _line(answer, reason='child')['source_id'] == stays['child'] and _executions(weir) == []


def a_row_that_has_begun_is_enqueued_with_its_place(weir):
    name = _nflow()
    id = add_nflow(SERVER, name, status='inProgress', state='pay', retries=4, variables={'customer': '7'})
    other = add_nflow(SERVER, name, status='inProgress', variables={'import': 'x'})
    answer = _import(weir, name, '--apply', '--begun', code=1)
    assert _totals(answer) == (1, 0, 0, 1) and _line(answer, outcome='refused')['source_id'] == other, answer
    assert _line(answer, outcome='refused')['reason'] == 'name_taken'
    params = _by_key(weir, f'import:nflow:{id}')['params']
    place = params.pop('import')
    assert params == {'customer': 7}, params
    assert (place['system'], place['id'], place['state'], place['status'], place['retries']) == \
        ('nflow', id, 'pay', 'inProgress', 4), place


def rows_are_chosen_by_group_and_time_and_go_where_the_flags_say(weir):
    name = _nflow()
    weir.make_groups('reports')
    add_nflow(SERVER, name, type='creditDecision', executor_group='other', created='2020-01-01T00:00:00Z')
    wanted = add_nflow(SERVER, name, type='creditDecision', executor_group='other')
    add_nflow(SERVER, name, type='creditDecision')
    words = ('--source-group', 'other', '--map', 'creditDecision=nothing', '--map', 'creditDecision=hello', '-g', 'reports')
    assert _totals(_import(weir, name, *words)) == (2, 0, 0, 0)
    assert _totals(_import(weir, name, *words, '--since', '1d', '--apply')) == (1, 0, 0, 0)
    shown = _by_key(weir, f'import:nflow:{wanted}')
    assert (shown['workflow'], shown['executor_group']) == ('hello', 'reports'), shown
    assert _totals(_import(weir, name, *words, '--since', '2019-12-31T00:00:00Z', '--apply')) == (1, 1, 0, 0)


def an_imported_execution_runs(weir):
    name = _nflow()
    id = add_nflow(SERVER, name)
    _import(weir, name, '--apply')
    node = weir.spawn('serve', '--allow-exec')
    assert json.loads(node.stdout.readline())['event'] == 'node.started'
    weir.good('wait', _by_key(weir, f'import:nflow:{id}')['id'])
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS_MOST) == 0


def rows_of_any_content_are_refused_alone(weir):
    name = SERVER.database()
    SERVER.sql(NFLOW_LOOSE, name)
    columns = ('id', 'status', 'type', 'priority', 'retries', 'next_activation', 'business_key', 'state', 'executor_group')
    good = dict(zip(columns, ('good', 'created', 'hello', None, 0, '2026-01-01T00:00:00Z', None, 'begin', 'g')))
    rows = {
        'no id': {'id': None}, 'no type': {'type': None}, 'no state': {'status': None}, 'unknown': {'status': 'lost'},
        'ending': {'status': 'Finished'}, 'never': {'next_activation': 'infinity'},
        'text': {'priority': 'high'}, 'real': {'retries': '1.5'}, 'huge': {'retries': '1' + '0' * 60},
        'long': {'id': 'i' * 300}, 'wide': {'business_key': 'b' * 256}, 'control': {'state': 'a\tb'},
        'large': {'business_key': 'b' * 70000}, 'early': {'next_activation': '1066-10-14T00:00:00Z'},
        'late': {'next_activation': '10000-01-01T00:00:00Z'}, 'name': {'type': "Robert'); DROP TABLE--"},
        'good': {}, 'variables': {}, 'deep': {}, 'names': {}}
    for key, changes in rows.items():
        row = {**good, 'id': key, **changes}
        SERVER.sql(f'INSERT INTO nflow_workflow ({", ".join(row)}) VALUES ({", ".join(map(quoted, row.values()))})', name)
    SERVER.sql("INSERT INTO nflow_workflow_state VALUES ('variables', 0, 'v', repeat('x', 2000000)),"
               " ('good', 0, NULL, 'x'), ('good', 0, 'null', NULL), ('deep', 0, 'v', repeat('[', 63) || repeat(']', 63)),"
               " ('names', 0, 'a', '{\"a\": 1, \"a\": 2}'), ('names', 0, '', 'empty')", name)
    answer = _import(weir, name, code=1)
    again = _import(weir, name, '--apply', code=1)
    assert _totals(again) == _totals(answer) == (3, 0, 0, 17), (again, answer)
    assert _by_key(weir, 'import:nflow:good')['params'] == {'null': None}
    assert _by_key(weir, 'import:nflow:names')['params'] == {'a': '{"a": 1, "a": 2}', '': 'empty'}
    assert _refusals(again) == {'invalid_argument': 4, 'unreadable': 8, 'unknown_state': 2, 'too_large': 2,
                                'workflow_not_found': 1}, again
    weir.good('store', 'check')


def priorities_outside_of_the_range_are_cut_and_counted(weir):
    name = _nflow()
    ids = [add_nflow(SERVER, name, priority=priority) for priority in (-32768, 32767, 5)]
    answer = _import(weir, name, '--apply')
    assert answer['priority_cut'] == 2, answer
    assert [_by_key(weir, f'import:nflow:{id}')['priority'] for id in ids] == [-100, 100, 5]


# --- the source ---


def a_source_that_cannot_be_read_is_refused_before_any_row(weir):
    name, schema = SERVER.database(), _nflow('flows')

    def refused(code, status, *words, database=name, user='owner', more=''):
        url = SERVER.url(database, user=user, more=more)
        assert_error(weir.run('import', 'nflow', '--from', url, '-w', 'acme', '--apply'), code, status, *words)
    refused(3, 'not_found', 'nflow_workflow', 'public', '?schema=')
    refused(3, 'not_found', 'nflow_workflow', 'other', database=schema, more='?schema=other')
    make_nflow(SERVER, name)
    refused(5, 'not_permitted', 'may not read', 'nflow_workflow', user='stranger')
    SERVER.sql('GRANT SELECT ON nflow_workflow TO stranger', name)
    refused(5, 'not_permitted', 'nflow_workflow_state', user='stranger')
    SERVER.sql('ALTER TABLE nflow_workflow_state RENAME state_value TO text', name)
    refused(6, 'store_not_weir', 'nflow_workflow_state', 'state_value')
    SERVER.sql('DROP TABLE nflow_workflow_state', name)
    refused(3, 'not_found', 'nflow_workflow_state')
    assert_error(weir.run('import', 'nflow', '--from', 'sqlite:x.db', '-w', 'acme'), 2, 'invalid_argument', 'postgres://')
    assert_error(weir.run('import', 'nflow', '--from', 'postgres://u:secret@127.0.0.1:1/x', '-w', 'acme'), 6,
                 'store_unreachable')
    assert 'secret' not in weir.run('import', 'nflow', '--from', 'postgres://u:secret@127.0.0.1:1/x', '-w', 'acme').err
    assert_error(weir.run('import', 'nflow', '--from', SERVER.url(name)), 2, 'invalid_argument', 'workspace')
    assert_error(weir.run('import', 'nflow', '-w', 'acme'), 2, 'invalid_argument', '--from')
    assert_error(weir.run('import', 'camunda', '--from', SERVER.url(name)), 2, 'invalid_argument', 'nflow and riven')
    for map in ('hello', '=hello', 'hello='):
        assert_error(weir.run('import', 'nflow', '--from', SERVER.url(name), '-w', 'acme', '--map', map), 2,
                     'invalid_argument', 'TYPE=WORKFLOW')
    add_nflow(SERVER, schema, schema='flows')
    assert _totals(_import(weir, schema, '--apply', more='?schema=flows')) == (1, 0, 0, 0)
    assert len(_executions(weir)) == 1


def the_source_is_only_read(weir):
    name = _nflow()
    add_many_nflow(SERVER, name, 2 * BATCH)
    SERVER.sql('GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader', name)
    look = "SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM (SELECT xmin, xmax, * FROM nflow_workflow) t"
    before = SERVER.sql(look, name)
    process = _stopped(weir, name, '--json', user='reader')
    held = SERVER.sql("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'reader'"
                      " AND l.mode NOT IN ('AccessShareLock', 'ExclusiveLock')")
    assert held == '0', held
    add_nflow(SERVER, name)  # later than the snapshot, so no part of this import
    process.send_signal(signal.SIGCONT)
    out = process.communicate(timeout=SECONDS_MOST)[0]
    assert json.loads(out)['enqueued'] == 2 * BATCH, out
    SERVER.sql("DELETE FROM nflow_workflow WHERE external_id NOT LIKE 'many-%'", name)
    assert SERVER.sql(look, name) == before


# --- the middle ---


def _killed(weir, name, failpoint):
    process = _spawned(weir, name, failpoint)
    assert process.wait(SECONDS_MOST) == -signal.SIGKILL, process.communicate()


def an_import_that_is_killed_goes_on_where_it_was(weir):
    name = _nflow()
    add_many_nflow(SERVER, name, 5 * BATCH // 2)
    _killed(weir, name, 'before_commit:kill')
    assert _executions(weir) == []
    _killed(weir, name, 'after_commit:kill')
    assert len(_executions(weir)) == BATCH
    _killed(weir, name, 'before_commit:kill')
    assert len(_executions(weir)) == BATCH
    answer = _import(weir, name, '--apply')
    assert _totals(answer) == (3 * BATCH // 2, BATCH, 0, 0), answer
    numbers = sorted(weir.show(row['id'])['params']['number'] for row in _executions(weir)[::50])
    assert len(set(numbers)) == 5 and len(_executions(weir)) == 5 * BATCH // 2, numbers
    weir.good('store', 'check')


def a_source_that_is_lost_in_the_middle_is_reported_and_the_rest_follows(weir):
    name = _nflow()
    add_many_nflow(SERVER, name, 3 * BATCH)
    process = _stopped(weir, name)
    SERVER.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weir import'")
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=SECONDS_MOST)
    assert process.returncode == 6 and out == b'', (process.returncode, out, err)
    assert f'{BATCH} rows were enqueued, then'.encode() in err and b'the same command again' in err, err
    assert len(_executions(weir)) == BATCH
    assert _totals(_import(weir, name, '--apply')) == (2 * BATCH, BATCH, 0, 0)


def a_signal_ends_it_between_two_batches(weir):
    name = _nflow()
    add_many_nflow(SERVER, name, 3 * BATCH)
    process = _stopped(weir, name)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    err = process.communicate(timeout=SECONDS_MOST)[1]
    assert process.returncode == 130 and f'interrupted: {BATCH} rows were enqueued'.encode() in err, err
    assert len(_executions(weir)) == BATCH
    assert _totals(_import(weir, name, '--apply')) == (2 * BATCH, BATCH, 0, 0)


def two_imports_at_once_enqueue_each_row_once(weir):
    name = _nflow()
    add_many_nflow(SERVER, name, 4 * BATCH)
    words = ('import', 'nflow', '--from', SERVER.url(name), '-w', 'acme', '--apply', '--json')
    both = [weir.spawn(*words) for _ in range(2)]
    answers = [json.loads(process.communicate(timeout=SECONDS_MOST)[0]) for process in both]
    assert sum(answer['enqueued'] for answer in answers) == 4 * BATCH, answers
    assert sum(answer['duplicates'] for answer in answers) == 4 * BATCH, answers
    assert len(_executions(weir)) == 4 * BATCH
    weir.good('store', 'check')


def large_rows_do_not_fill_the_memory(weir):
    name = _nflow()
    for number in range(12):
        add_nflow(SERVER, name)
        SERVER.sql(f"INSERT INTO nflow_workflow_state VALUES ({number + 1}, 0, 'v', repeat('\"', 500000))", name)
    answer = _import(weir, name, '--apply', code=None)
    assert _totals(answer) == (12, 0, 0, 0), answer
    assert len(_by_key(weir, 'import:nflow:12')['params']['v']) == 500000


# --- Riven ---


def _riven(weir, table='execution_queue'):
    name = SERVER.database()
    make_riven(SERVER, name, table)
    for workspace in (ACME, TINY):
        weir.good('workspace', 'set', workspace, '-q')
    return name


def rivens_rows_become_executions_of_their_workspaces(weir):
    name = _riven(weir)
    first = add_riven(SERVER, name, workspace_id=ACME, workflow_definition_id=DEFINITION, attempts=2,
                      created_at='2026-03-04T05:06:07Z', input='{"b": 1.50, "a": 9007199254740993}')
    second = add_riven(SERVER, name, workspace_id=TINY, job_type='IDENTITY_MATCH', entity_id=DEFINITION)
    stays = ('CLAIMED', 'DISPATCHED', 'COMPLETED', 'FAILED')
    for status in stays:
        add_riven(SERVER, name, workspace_id=ACME, workflow_definition_id=DEFINITION, status=status)
    add_riven(SERVER, name, workspace_id=ACME, workflow_definition_id=DEFINITION, execution_id=TINY)
    words = ('--map', f'{DEFINITION}=hello', '--map', 'IDENTITY_MATCH=hello')
    assert _totals(_import(weir, name, *words, system='riven')) == (2, 0, 5, 0)
    answer = _import(weir, name, *words, '--apply', system='riven')
    assert _totals(answer) == (2, 0, 5, 0), answer
    reasons = {item['source_state']: item['reason'] for item in answer['items'] if item['outcome'] == 'stays'}
    assert reasons == {'CLAIMED': 'runs', 'DISPATCHED': 'runs', 'COMPLETED': 'ended', 'FAILED': 'ended',
                       'PENDING': 'begun'}, reasons
    one, two = _by_key(weir, f'import:riven:{first}'), _by_key(weir, f'import:riven:{second}')
    assert (one['workspace'], one['run_at']) == (ACME, '2026-03-04T05:06:07.000000Z'), one
    assert one['labels'] == {'import': 'riven', 'import_id': first, 'import_attempts': '2'}, one
    assert '9007199254740993' in weir.good('show', one['id'], '--json').out and one['params']['b'] == 1.5
    assert (two['workspace'], two['business_key'], two['params']) == (TINY, DEFINITION, {}), two
    assert _totals(_import(weir, name, *words, '--apply', system='riven')) == (0, 2, 5, 0)
    assert _totals(_import(weir, name, *words, '--begun', '--apply', system='riven')) == (1, 2, 4, 0)


def rivens_rows_keep_their_order(weir):
    name = _riven(weir)
    ids = [add_riven(SERVER, name, workspace_id=ACME, workflow_definition_id=DEFINITION,
                     created_at=f'2026-03-04T05:06:{seconds:02}Z') for seconds in (30, 10, 20)]
    _import(weir, name, '--map', f'{DEFINITION}=hello', '--apply', system='riven')
    listed = [weir.show(row['id'])['labels']['import_id'] for row in reversed(_executions(weir))]
    assert listed == [ids[1], ids[2], ids[0]], listed


def the_table_of_rivens_documents_is_read_as_well(weir):
    name = _riven(weir, 'workflow_execution_queue')
    id = add_riven(SERVER, name, 'workflow_execution_queue', workspace_id=ACME, workflow_definition_id=DEFINITION,
                   attempt_count=1, execution_id=TINY, input='{"a": 1}')
    answer = _import(weir, name, '--map', f'{DEFINITION}=hello', '-w', 'acme', '--begun', '--apply', system='riven')
    assert _totals(answer) == (1, 0, 0, 0), answer
    shown = _by_key(weir, f'import:riven:{id}')
    assert shown['workspace'] == 'acme' and shown['params']['a'] == 1, shown
    assert (shown['params']['import']['execution_id'], shown['params']['import']['attempt_count']) == (TINY, 1), shown


def rivens_broken_rows_are_refused_alone(weir):
    name = _riven(weir)
    good = {'workspace_id': ACME, 'workflow_definition_id': DEFINITION}
    refused = {
        'params_invalid': [{**good, 'input': '[1]'}, {**good, 'input': '7'},
                           {**good, 'input': '{"a": 12345678901234567890123}'}],
        'workspace_not_found': [{**good, 'workspace_id': DEFINITION}],
        'unreadable': [{**good, 'workspace_id': None}, {**good, 'workflow_definition_id': None},
                       {**good, 'created_at': '-infinity'}],
        'unknown_state': [{**good, 'status': 'SLEEPING'}],
        'too_large': [good]}
    for reason, rows in refused.items():
        for row in rows:
            id = add_riven(SERVER, name, **row)
            if reason == 'too_large':
                SERVER.sql("UPDATE execution_queue SET input = jsonb_build_object('v', repeat('x', 1100000))"
                           f" WHERE id = '{id}'", name)
    add_riven(SERVER, name, **good, input='null')
    answer = _import(weir, name, '--map', f'{DEFINITION}=hello', '--apply', system='riven', code=1)
    assert _refusals(answer) == {reason: len(rows) for reason, rows in refused.items()}, answer
    assert answer['enqueued'] == 1
    assert_error(weir.run('import', 'riven', '--from', SERVER.url(name), '--source-group', 'x'), 2, 'invalid_argument',
                 'nFlow')


# --- a server as the store ---


def rows_reach_a_store_behind_a_server(weir):
    name = _nflow()
    add_many_nflow(SERVER, name, 3)
    listener = Listener(weir).ready()
    url = f'http://127.0.0.1:{listener.port}'
    try:
        for totals in ((3, 0, 0, 0), (0, 3, 0, 0)):
            answer = weir.good('import', 'nflow', '--from', SERVER.url(name), '-w', 'acme', '--apply', '--json', '--store',
                               url).json()
            assert _totals(answer) == totals, answer
    finally:
        listener.stop()
    assert len(_executions(weir)) == 3


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], prepare=_prepare))
