#!/usr/bin/env python3
"""Schedules on real nodes: each time starts one execution, also when nodes are killed in between or two of them run.

Times come within seconds; tests wait for executions and read their times from their keys.

usage: schedule_test.py BINARY [--postgres | --server] [TEST ...]
"""

import contextlib
import os
import pathlib
import re
import signal
import sys

import http_steps_test
from harness import TIMEOUT_SECONDS, assert_error, run_tests
from http_client import Listener
from waiting import wait_for

HELLO = ('--workflow', 'hello', '-w', 'acme')


def _prepare(weir, more=''):
    http_steps_test._store(weir, more='exec.allow: true\n' + more)
    weir.write('long.yaml', 'name: long\nsteps:\n  rest:\n    exec: [sleep, "300"]\n')
    weir.good('workflow', 'apply', 'long.yaml', '-q')


def _schedule(weir, name):
    return weir.good('schedule', 'show', name, '--json').json()


def _fired(weir, name, workspace='acme'):
    """The times of the executions of a schedule."""
    prefix = f'schedule/{name}/'
    keys = [row['idempotency_key'] or '' for row in weir.items('list', '-w', workspace, '--limit', '1000')]
    times = [key[len(prefix):] for key in keys if key.startswith(prefix)]
    assert len(set(times)) == len(times), times
    return sorted(times)


def _sql(weir, statement):
    """Runs a statement with {} for the schema, as another program would. Returns the first value as text, or None."""
    if http_steps_test.POSTGRES:
        database = weir.environment['WEIR_STORE'].rsplit('/', 1)[1].split('?')[0]
        return http_steps_test.SERVER.sql(statement.replace('{}', 'weir.'), database=database)
    with contextlib.closing(weir.database()) as database:
        row = database.execute(statement.replace('{}', '')).fetchone()
        return None if row is None else str(row[0])


def _move_due_times(weir, seconds):
    """As if no node had run for so long."""
    _sql(weir, f'UPDATE {{}}schedules SET due_at = due_at + {seconds * 1000000}')


def a_schedule_fires_each_time_once(weir):
    _prepare(weir)
    weir.spawn('serve')
    weir.good('schedule', 'set', 'often', '--every', '1s', *HELLO, '-p', '{"deep": 1}', '--overlap', 'queue_all', '-q')
    wait_for('three times', lambda: len(_fired(weir, 'often')) >= 3)
    weir.good('schedule', 'pause', 'often', '-q')
    times = _fired(weir, 'often')
    seconds = [int(time[17:19]) for time in times]
    assert all((later - earlier) % 60 == 1 for earlier, later in zip(seconds, seconds[1:])), times
    row = next(row for row in weir.items('list', '-w', 'acme') if row['idempotency_key'])
    shown = weir.good('show', row['id'], '--json').json()
    assert shown['params'] == {'deep': 1, 'schedule': 'often', 'scheduled_for': row['idempotency_key'].split('/')[2]}, shown
    assert shown['run_at'] == shown['params']['scheduled_for']
    schedule = _schedule(weir, 'often')
    assert (schedule['paused'], schedule['next_at'], schedule['refused']) == (True, None, 0), schedule


def a_killed_node_fires_no_time_twice_and_loses_none(weir):
    _prepare(weir, more='node.lease: 1500ms\n')
    weir.good('schedule', 'set', 'often', '--every', '1s', *HELLO, '--overlap', 'queue_all', '-q')
    # 1. The firing is durable, and no execution. 2. The execution is durable, and the firing still waits.
    for point, executions in (('after_schedule_advance', False), ('after_schedule_enqueue', True)):
        node = weir.spawn('serve', '--node', 'killed-' + point[-7:], env={'WEIR_FAILPOINT': point + ':kill:1'})
        assert node.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
        assert bool(_fired(weir, 'often')) == executions, point
        assert _schedule(weir, 'often')['fired'] == 0
    weir.spawn('serve', '--node', 'survivor')
    wait_for('more times', lambda: len(_fired(weir, 'often')) >= 5)
    weir.good('schedule', 'pause', 'often', '-q')
    wait_for('the counts', lambda: _schedule(weir, 'often')['fired'] == len(_fired(weir, 'often')))
    times = _fired(weir, 'often')
    assert _schedule(weir, 'often')['dropped'] == 0
    gaps = [int(later[17:19]) - int(earlier[17:19]) for earlier, later in zip(times, times[1:])]
    assert all(gap % 60 == 1 for gap in gaps), times


def a_node_killed_at_the_time_of_a_thousand_schedules_fires_each_once(weir):
    _prepare(weir, more='node.lease: 1500ms\n')
    weir.good('schedule', 'set', 'first', '--every', '1000d', *HELLO, '--catch-up', '2000d', '-q')
    _move_due_times(weir, -1000 * 86400)
    columns = 'every, jitter, workflow, params, workspaces, overlap, catch_up, created_at, due_at'
    _sql(weir, f"INSERT INTO {{}}schedules (name, {columns}) WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1"
               f" FROM n WHERE i < 1000) SELECT 'more-' || n.i, {columns} FROM {{}}schedules, n")
    for number, point in enumerate(2 * ('after_schedule_advance', 'after_schedule_enqueue')):
        node = weir.spawn('serve', '--node', f'killed-{number}', env={'WEIR_FAILPOINT': point + ':kill:1'})
        assert node.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
    weir.spawn('serve', '--node', 'survivor')
    wait_for('all of them', lambda: _sql(weir, 'SELECT sum(fired) FROM {}schedules') == '1000')
    keys = "FROM {}idempotency_keys WHERE key LIKE 'schedule/%'"
    assert _sql(weir, f'SELECT count(*) {keys}') == '1000'
    executions = ' UNION ALL '.join(f"SELECT id FROM {{}}{table} WHERE idempotency_key LIKE 'schedule/%'"
                                    for table in ('workflow_execution_queue', 'workflow_executions'))
    assert _sql(weir, f'SELECT count(*) FROM ({executions}) e') == '1000'
    counts = 'SELECT max(fired) + 10 * sum(skipped) + 10 * sum(dropped) + 10 * sum(refused) FROM {}schedules'
    assert _sql(weir, counts) == '1'


def two_nodes_fire_each_time_once(weir):
    _prepare(weir, more='node.lease: 1500ms\n')
    nodes = [weir.spawn('serve', '--node', name) for name in ('one', 'two')]
    weir.good('schedule', 'set', 'often', '--every', '1s', *HELLO, '--overlap', 'queue_all', '-q')
    wait_for('two times', lambda: len(_fired(weir, 'often')) >= 2)
    nodes[0].send_signal(signal.SIGKILL)
    nodes[0].wait(TIMEOUT_SECONDS)
    before = len(_fired(weir, 'often'))
    wait_for('times after the takeover', lambda: len(_fired(weir, 'often')) >= before + 2)
    assert _schedule(weir, 'often')['dropped'] == 0


def overlapping_times_follow_the_policy(weir):
    _prepare(weir)
    weir.spawn('serve')
    long = ('--workflow', 'long', '-w', 'acme', '-q')
    weir.good('schedule', 'set', 'skips', '--every', '1s', *long)
    wait_for('skipped times', lambda: _schedule(weir, 'skips')['skipped'] >= 2)
    assert len(_fired(weir, 'skips')) == 1
    weir.good('schedule', 'delete', 'skips', '-q')
    weir.good('schedule', 'set', 'queues', '--every', '1s', *long, '--overlap', 'queue_one')
    wait_for('skipped times', lambda: _schedule(weir, 'queues')['skipped'] >= 2)
    assert (_schedule(weir, 'queues')['waiting'], len(_fired(weir, 'queues'))) == (1, 1)
    weir.good('schedule', 'delete', 'queues', '-q')
    weir.good('schedule', 'set', 'cancels', '--every', '1s', *long, '--overlap', 'cancel_running')
    wait_for('three executions', lambda: len(_fired(weir, 'cancels')) >= 3)
    weir.good('schedule', 'pause', 'cancels', '-q')
    rows = (row for row in weir.items('list', '-w', 'acme') if row['idempotency_key'].startswith('schedule/cancels'))
    ended = [row['status'] for row in rows]
    assert ended.count('CANCELLED') >= len(ended) - 1, ended


def a_refusal_is_shown_and_ends_when_it_is_mended(weir):
    _prepare(weir)
    weir.spawn('serve')
    weir.good('schedule', 'set', 'often', '--every', '1s', '--workflow', 'later', '-w', 'acme', '-q')
    weir.good('schedule', 'set', 'fine', '--every', '1s', *HELLO, '-q')
    wait_for('a refusal', lambda: _schedule(weir, 'often')['refused'] > 0)
    schedule = _schedule(weir, 'often')
    assert (schedule['error_code'], schedule['is_refused'], schedule['fired']) == ('workflow_not_found', True, 0), schedule
    warning, = (row for row in weir.run('doctor', '--json').json()['items'] if row['check'] == 'schedule')
    assert 'often' in warning['detail'] and 'later' in warning['detail'], warning
    wait_for('the other schedule', lambda: _fired(weir, 'fine'))
    weir.good('workflow', 'apply', weir.write('later.yaml', 'name: later\nsteps:\n  rest:\n    sleep: 1ms\n'), '-q')
    wait_for('an execution', lambda: _fired(weir, 'often'))
    wait_for('its count', lambda: _schedule(weir, 'often')['is_refused'] is False)
    assert 'there is no workflow' not in weir.good('schedule', 'list').out


def a_trigger_for_a_refused_time_starts_what_was_refused(weir):
    _prepare(weir)
    weir.good('workspace', 'set', 'other', '--plan', 'pro', '-q')
    own = 'name: own\nworkspace: {}\nsteps:\n  rest:\n    sleep: 1ms\n'
    weir.good('workflow', 'apply', weir.write('own.yaml', own.format('acme')), '-q')
    weir.spawn('serve')
    both = ('-w', 'acme', '-w', 'other')
    weir.good('schedule', 'set', 'daily', '--cron', '@daily', '--workflow', 'own', *both, '--catch-up', '10d', '-q')
    _move_due_times(weir, -86400)
    wait_for('a refusal', lambda: _schedule(weir, 'daily')['refused'] == 1)
    wait_for('the other one', lambda: _schedule(weir, 'daily')['fired'] == 1)
    schedule = _schedule(weir, 'daily')
    time = schedule['refused_due_at']
    assert schedule['is_refused'] and [time] == _fired(weir, 'daily'), schedule
    weir.good('workflow', 'apply', weir.write('own.yaml', own.format('other')), '-q')
    answer = weir.good('schedule', 'trigger', 'daily', '--at', time, '--json').json()
    assert [answer[key] for key in ('firings', 'skipped', 'existing', 'rest')] == [1, 0, 0, 0], answer
    wait_for('the execution', lambda: _fired(weir, 'daily', 'other') == [time])
    wait_for('the end of the refusal', lambda: not _schedule(weir, 'daily')['is_refused'])
    again = weir.good('schedule', 'trigger', 'daily', '--at', time, '-w', 'other').err
    assert '0 to start, 0 skipped by its overlap policy, 1 had this time already' in again, again
    nothing = weir.good('schedule', 'trigger', 'daily', '--at', time).err
    assert 'no workspace was refused' in nothing and '-w' in nothing, nothing
    assert (_fired(weir, 'daily'), _fired(weir, 'daily', 'other')) == ([time], [time])
    weir.good('workspace', 'set', 'third', '--plan', 'pro', '-q')
    for dry in ((), ('-n',)):
        future = weir.run('schedule', 'trigger', 'daily', '--at', '2040-01-01T00:00:00Z', *dry)
        assert_error(future, 2, 'invalid_argument', 'has passed')
        assert_error(weir.run('schedule', 'trigger', 'daily', '-w', 'third', *dry), 2, 'invalid_argument', 'third')
        assert_error(weir.run('schedule', 'trigger', 'daily', '-w', 'acmr', *dry), 3, 'workspace_not_found', 'acme')


def times_of_an_outage_fire_in_the_window(weir):
    _prepare(weir)
    weir.good('schedule', 'set', 'often', '--every', '1s', *HELLO, '--overlap', 'queue_all', '--catch-up', '10m', '-q')
    weir.good('schedule', 'set', 'new', '--every', '1s', *HELLO, '--overlap', 'queue_all', '--catch-up', '10s', '-q')
    _move_due_times(weir, -30)
    weir.spawn('serve')
    wait_for('the times', lambda: len(_fired(weir, 'often')) >= 30)
    assert _schedule(weir, 'often')['dropped'] == 0
    dropped = _schedule(weir, 'new')['dropped']
    assert 15 <= dropped <= 60, dropped


def a_trigger_that_starts_nothing_is_no_success(weir):
    _prepare(weir)
    weir.good('schedule', 'set', 'a', '--every', '1d', *HELLO, '-q')
    assert weir.good('schedule', 'trigger', 'a', '-n', '--json').json()['dry_run'] is True
    assert weir.good('schedule', 'trigger', 'a', '--json').json()['firings'] == 1
    again = weir.run('schedule', 'trigger', 'a', '--json')  # the first one waits for a node
    assert (again.code, again.json()['firings'], again.json()['skipped']) == (4, 0, 1), again


def a_client_without_time_zones_leaves_them_to_the_server(weir):
    _prepare(weir)
    listener = Listener(weir).ready()
    bare = weir.preload(os.environ['WEIR_NO_TIME_ZONES_LIBRARY'])
    words = ('schedule', 'set', 'nightly', '--cron', '30 4 * * *', '--zone', 'Europe/Berlin', *HELLO)
    missing = weir.run(*words, env=bare)
    assert_error(missing, 1, 'failed', 'no database of time zones')
    client = {**bare, 'WEIR_STORE': f'http://127.0.0.1:{listener.port}'}
    assert weir.good(*words, '-n', '--json', env=client).json()['times'] == []
    told = weir.good(*words, env=client)
    assert 'is made' in told.err and 'next:' not in told.err, told
    assert _schedule(weir, 'nightly')['zone'] == 'Europe/Berlin'
    wrong = weir.run('schedule', 'set', 'nightly', '--zone', 'Europe/Berln', env=client)
    assert_error(wrong, 2, 'invalid_argument', 'Berln')
    assert_error(weir.run(*words, '--catch-up', '1s', '-n', env=client), 2, 'invalid_argument', 'catch-up')


def a_late_schedule_is_counted(weir):
    _prepare(weir)
    for name in ('late', 'paused', 'later'):
        weir.good('schedule', 'set', name, '--every', '1d', *HELLO, '-q')
    weir.good('schedule', 'pause', 'paused', '-q')
    assert weir.good('status', '--json').json()['schedules_late'] == 0
    _move_due_times(weir, -86400 - 300)
    weir.good('schedule', 'set', 'later', '--every', '2d', '-q')  # computes its next time
    assert weir.good('status', '--json').json()['schedules_late'] == 1
    assert 'weir_schedules_late 1' in weir.good('status', '--metrics').out.splitlines()
    late, = (row for row in weir.run('doctor', '--json').json()['items'] if row['check'] == 'schedule')
    assert 'late' in late['detail'], late


def mistakes_are_named(weir):
    _prepare(weir)
    assert_error(weir.run('schedule', 'set', 'a', '--cron', '61 * * * *', *HELLO), 2, 'invalid_argument', 'minute')
    zone = weir.run('schedule', 'set', 'a', '--cron', '* * * * *', '--zone', 'Europe/Berln', *HELLO)
    assert_error(zone, 2, 'invalid_argument', 'Berln')
    assert_error(weir.run('schedule', 'set', 'a', *HELLO), 2, 'invalid_argument', '--cron or --every')
    place = weir.run('schedule', 'set', 'a', '--every', '5m', '--workflow', 'hello')
    assert_error(place, 2, 'invalid_argument', '--workspace or --plan')
    assert_error(weir.run('schedule', 'set', 'a', '--every', '5m', '-w', 'acme'), 2, 'invalid_argument', '--workflow')
    for pair in (('--every', '5m', '--cron', '@daily'), ('--plan', 'pro'), ('--no-until', '--until', '+1h'),
                 ('--no-from', '--from', '+1h')):
        assert_error(weir.run('schedule', 'set', 'a', *HELLO, *pair), 2, 'invalid_argument', 'not both')
    never = weir.run('schedule', 'set', 'a', '--every', '5m', '--workflow', 'Hello', '-w', 'acme')
    assert_error(never, 2, 'invalid_argument', 'not a name of a workflow')
    assert_error(weir.run('schedule', 'set', 'a/b', '--every', '5m', *HELLO), 2, 'invalid_argument', 'name of a schedule')
    unknown = weir.run('schedule', 'set', 'a', '--every', '5m', '--workflow', 'hello', '-w', 'acmr')
    assert_error(unknown, 3, 'workspace_not_found', 'acme')
    plan = weir.run('schedule', 'set', 'a', '--every', '5m', '--workflow', 'hello', '--plan', 'prp')
    assert_error(plan, 3, 'plan_not_found', 'pro')
    past = weir.run('schedule', 'set', 'a', '--every', '5m', '--until', '2020-01-01T00:00:00Z', *HELLO)
    assert_error(past, 2, 'invalid_argument', 'future')
    taken = weir.run('schedule', 'set', 'a', '--every', '5m', *HELLO, '-p', '{"schedule": 1}')
    assert_error(taken, 2, 'params_invalid', 'schedule')
    zero = weir.run('schedule', 'set', 'a', '--every', '5m', *HELLO, '--catch-up', '0s')
    assert_error(zero, 2, 'invalid_argument', 'from 10s to 3650d')
    assert_error(weir.run('schedule', 'set', 'a', '--every', '0s', *HELLO), 2, 'invalid_argument', 'from 1s to 3650d')
    for times in (('--every', '5m'), ('--cron', '*/5 * * * *')):
        jitter = weir.run('schedule', 'set', 'a', *times, *HELLO, '--jitter', '5m')
        assert_error(jitter, 2, 'invalid_argument', 'jitter')
    for more in ((), ('-n',)):
        typo = weir.good('schedule', 'set', 'typo', '--every', '5m', '--workflow', 'helo', '-w', 'acme', *more)
        assert 'no workflow "helo"' in typo.err and 'hello' in typo.err, typo.err
    assert 'no workflow' not in weir.good('schedule', 'set', 'typo', '--every', '5m', *HELLO).err
    weir.good('schedule', 'delete', 'typo', '-q')
    weir.good('schedule', 'set', 'a', '--every', '5m', *HELLO, '-n', '-q')
    assert weir.items('schedule', 'list') == []
    weir.good('schedule', 'set', 'nightly', '--every', '5m', *HELLO, '-q')
    assert_error(weir.run('schedule', 'set', 'nighty', '--jitter', '1m'), 3, 'not_found', 'nightly')
    for verb in ('show', 'pause', 'resume', 'trigger', 'delete', 'next'):
        assert_error(weir.run('schedule', verb, 'nighty'), 3, 'not_found', 'nightly')
    key = weir.run('enqueue', '-w', 'acme', 'hello', '--idempotency-key', 'schedule/nightly/1')
    assert_error(key, 2, 'invalid_argument', 'those of schedules')


def intervals_are_shown_as_they_are_set(weir):
    _prepare(weir)
    for every in ('1d12h', '1d1h', '1h1s', '2s'):
        weir.good('schedule', 'set', 'often', '--every', every, *HELLO, '-q')
        assert f'every {every} ' in weir.good('schedule', 'list').out, every
        assert f'{every}\n' in weir.good('schedule', 'show', 'often').out, every


def a_change_keeps_what_it_leaves_out(weir):
    _prepare(weir)
    whole = {'cron': '30 4 * * *', 'zone': 'Europe/Berlin', 'every_us': None, 'jitter_us': 300000000,
             'starts_at': '2040-01-01T00:00:00.000000Z', 'ends_at': '2050-01-01T00:00:00.000000Z', 'workflow': 'hello',
             'params': {'deep': [1.5, 'a\0b']}, 'workspaces': ['tiny', 'acme'], 'plan': None, 'overlap': 'queue_one',
             'catch_up_us': 60000000}

    def change(*words, **wanted):
        weir.good('schedule', 'set', 'nightly', *words, '-q')
        whole.update(wanted)
        row = _schedule(weir, 'nightly')
        assert {key: row[key] for key in whole} == whole, (words, row)

    change('--cron', '30 4 * * *', '--zone', 'Europe/Berlin', '--jitter', '5m', '--from', '2040-01-01T00:00:00Z', '--until',
           '2050-01-01T00:00:00Z', '--workflow', 'hello', '-p', '{"deep": [1.5, "a\\u0000b"]}', '-w', 'tiny', '-w', 'acme',
           '--overlap', 'queue_one', '--catch-up', '1m')
    change('--cron', '0 5 * * *', cron='0 5 * * *')
    change('--zone', 'UTC', zone='UTC')
    change('--no-from', starts_at=None)
    change('--no-until', ends_at=None)
    change('--jitter', '0s', jitter_us=0)
    change('--plan', 'pro', plan='pro', workspaces=None)
    change('-p', '{}', params={})
    change('--overlap', 'skip', overlap='skip')
    change('--every', '1h', cron=None, zone=None, every_us=3600000000)
    change('--workflow', 'long', workflow='long')
    change('-w', 'tiny', plan=None, workspaces=['tiny'])
    change('--catch-up', '2m', catch_up_us=120000000)
    change('--cron', '@daily', cron='@daily', zone='UTC', every_us=None)


def a_set_shows_the_next_times_and_what_is_new(weir):
    _prepare(weir)
    words = ('schedule', 'set', 'nightly', '--cron', '30 4 25 3 *', '--zone', 'Europe/Berlin', '--from',
             '2040-01-01T00:00:00Z', *HELLO)
    for more, is_new in ((('-n',), True), ((), True), (('-n',), False), ((), False)):
        told = weir.good(*words, *more)
        line = '  next: 2040-03-25T04:30:00+02:00, 2041-03-25T04:30:00+01:00, 2042-03-25T04:30:00+01:00 Europe/Berlin'
        assert line in told.err.splitlines(), told.err
        answer = weir.good(*words, *more, '--json').json()
        # The first one has just made it.
        assert (answer['is_new'], answer['workflow_is_published']) == (is_new and more != (), True), (more, answer)
        assert answer['times'][0] == {'at': '2040-03-25T02:30:00.000000Z', 'local_at': '2040-03-25T04:30:00+02:00'}, answer
    weir.good('schedule', 'pause', 'nightly', '-q')
    told = weir.good('schedule', 'set', 'nightly', '--jitter', '1m').err
    assert 'stays paused' in told and 'next:' not in told, told
    typo = weir.good('schedule', 'set', 'nightly', '--workflow', 'helo', '--json')
    assert typo.json()['workflow_is_published'] is False and typo.json()['paused'] is True, typo.out


def a_workflow_of_another_workspace_is_warned_of(weir):
    _prepare(weir)
    weir.write('own.yaml', 'name: own\nworkspace: tiny\nsteps:\n  rest:\n    sleep: 1ms\n')
    weir.good('workflow', 'apply', 'own.yaml', '-q')
    weir.good('schedule', 'set', 'a', '--every', '5m', '--workflow', 'own', '-w', 'tiny', '-q')
    told = weir.good('schedule', 'set', 'a', '-w', 'tiny', '-w', 'acme').err
    assert 'acme: there is no workflow "own"' in told, told


def the_last_end_and_deleted_workspaces_are_listed(weir):
    _prepare(weir)
    weir.spawn('serve')
    weir.good('workflow', 'apply', weir.write('bad.yaml', 'name: bad\nsteps:\n  fail:\n    exec: ["false"]\n'), '-q')
    weir.good('schedule', 'set', 'a', '--every', '1d', '--workflow', 'bad', '-w', 'acme', '-w', 'tiny', '-q')
    weir.good('schedule', 'trigger', 'a', '-q')
    wait_for('two ends', lambda: len(weir.items('list', '-s', 'failed')) == 2)
    wait_for('the counts', lambda: _schedule(weir, 'a')['fired'] == 2)
    assert _schedule(weir, 'a')['last_status'] == 'FAILED'
    assert 'FAILED' in weir.good('schedule', 'list').out
    weir.good('workspace', 'delete', 'tiny', '--yes', '-q')
    assert _schedule(weir, 'a')['workspaces_deleted'] == ['tiny']
    assert 'acme,tiny (deleted)' in weir.good('schedule', 'list', '--wide').out
    weir.good('schedule', 'set', 'a', '--jitter', '1m', '-q')  # keeps those that are left
    assert (_schedule(weir, 'a')['workspaces'], _schedule(weir, 'a')['workspaces_deleted']) == (['acme'], [])


def the_schedules_of_a_definition_follow_its_versions(weir):
    _prepare(weir)
    weir.spawn('serve')
    document = pathlib.Path(__file__).parents[2] / 'docs/definitions.md'
    (text,) = re.findall(r'```yaml\n(name: digest\n.*?)```', document.read_text(encoding='utf-8'), re.DOTALL)
    applied = weir.good('workflow', 'apply', weir.write('digest.yaml', text))
    assert 'adds the schedules digest-nightly, digest-hourly' in applied.err, applied.err
    again = weir.good('workflow', 'apply', 'digest.yaml', '--json').json()
    assert [again[f'schedules_{change}'] for change in ('added', 'changed', 'deleted')] == [[], [], []], again
    assert _schedule(weir, 'digest-nightly')['definition_name'] == 'digest'
    weir.good('schedule', 'trigger', 'digest-nightly', '-q')
    wait_for('its execution', lambda: _schedule(weir, 'digest-nightly')['last_status'] == 'COMPLETED')
    shown = weir.good('show', _schedule(weir, 'digest-nightly')['last_execution_id'], '--json').json()
    assert shown['workflow'] == 'digest' and 'depth 3' in shown['steps'][0]['output'], shown
    for words in (('set', 'digest-hourly', '--jitter', '1m'), ('delete', 'digest-hourly')):
        for more in ((), ('--dry-run',)):
            refused = weir.run('schedule', *words, *more)
            assert_error(refused, 4, 'illegal_state', 'definition of workflow "digest"')
    weir.good('schedule', 'pause', 'digest-nightly', '-q')
    weir.good('schedule', 'set', 'mine', '--every', '1d', *HELLO, '-q')
    wrong = weir.run('workflow', 'apply', weir.write('digest.yaml', text.replace('digest-hourly', 'mine')))
    assert_error(wrong, 4, 'conflict', 'digest.yaml:7:3: schedule "mine" exists already')
    assert [row['version'] for row in weir.items('workflow', 'show', 'digest')] == [1]
    weir.write('digest.yaml', text.replace('digest-hourly', 'daily'))
    dry = weir.good('workflow', 'apply', 'digest.yaml', '--dry-run')
    planned = weir.good('workflow', 'apply', 'digest.yaml', '--dry-run', '--json').json()
    done = weir.good('workflow', 'apply', 'digest.yaml')
    for answer in (dry, done):
        assert 'adds the schedule daily' in answer.err and 'deletes the schedule digest-hourly' in answer.err, answer.err
        assert 'it has no pause and none of the times before' in answer.err, answer.err
    assert (planned['schedules_added'], planned['schedules_deleted']) == (['daily'], ['digest-hourly']), planned
    rows = [(row['name'], row['definition_name'], row['paused']) for row in weir.items('schedule', 'list')]
    assert rows == [('daily', 'digest', False), ('digest-nightly', 'digest', True), ('mine', None, False)], rows
    assert 'DEFINITION' in weir.good('schedule', 'list', '--wide').out
    weir.good('workflow', 'delete', 'digest', '--yes', '-q')
    assert [row['name'] for row in weir.items('schedule', 'list')] == ['mine']


def the_next_times_need_no_store_for_an_expression(weir):
    words = ('schedule', 'next', '--cron', '30 2 * * *', '--zone', 'Europe/Berlin')
    limits = ('--from', '2027-03-27T00:00:00Z', '--limit', '3')
    answer = weir.good(*words, *limits, '--json', '--store', 'sqlite:none.db').json()
    assert [time['at'][5:16] for time in answer['times']] == ['03-27T01:30', '03-28T01:00', '03-29T00:30'], answer
    assert answer['times'][1]['local_at'] == '2027-03-28T03:00:00+02:00' and answer['zone'] == 'Europe/Berlin', answer
    lines = weir.good('schedule', 'next', '--every', '15m').out.splitlines()
    assert len(lines) == 5 and all(line[14:16] in ('00', '15', '30', '45') for line in lines), lines
    assert all(line.endswith('Z') for line in lines), lines


def an_expression_in_place_of_a_name_is_judged_as_one(weir):
    for words in (('--cron', '61 * * * *'), ('61 * * * *',)):
        assert_error(weir.run('schedule', 'next', *words), 2, 'invalid_argument', 'the minute "61" of the cron expression')
    for word in ('0 0 31 2 *', '* * *', '@hourli'):
        assert_error(weir.run('schedule', 'next', word), 2, 'invalid_argument', word)
    for word in ('@hourly', '30 4 * * mon'):
        refused = weir.run('schedule', 'next', word, code=2)
        assert f"--cron '{word}'" in refused.err, refused


def the_times_of_changed_clocks_are_those_of_the_document(weir):
    document = pathlib.Path(__file__).parents[2] / 'docs/schedules.md'
    rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in document.read_text(encoding='utf-8').splitlines()
            if re.match(r'\| `\S+ \S+ \* \* \*` \|', line)]
    assert len(rows) >= 5, rows
    for expression, *cells in rows:
        # In UTC, the hours from 1:00 to 4:00 of both days.
        for (begin, end), cell in zip((('03-25T00:00', '03-25T01:59'), ('10-27T23:00', '10-28T02:59')), cells):
            times = weir.good('schedule', 'next', '--cron', expression.strip('`'), '--zone', 'Europe/Berlin', '--from',
                              f'2040-{begin}:00Z', '--until', f'2040-{end}:00Z', '--limit', '10', '--json').json()['times']
            told = [re.sub(r'^.*T(\d\d:\d\d):00', r'\1', time['local_at']) for time in times]
            assert ', '.join(told) == cell or (told, cell) == ([], 'none'), (expression, told, cell)


def the_next_times_of_a_schedule_are_its_own(weir):
    _prepare(weir)
    weir.good('schedule', 'set', 'a', '--cron', '30 4 * * *', '--zone', 'Europe/Berlin', '--until', '+36h', *HELLO, '-q')
    lines = weir.good('schedule', 'next', 'a').out.splitlines()
    assert 1 <= len(lines) <= 2 and all('T04:30:00+0' in line for line in lines), lines
    for words in (('--zone', 'UTC'), ('--from', '+1h'), ('--until', '+1h')):
        assert_error(weir.run('schedule', 'next', 'a', *words), 2, 'invalid_argument', words[0])
    over = weir.good('schedule', 'next', '--every', '5m', '--until', '2020-01-01T00:00:00Z')
    assert (over.out, over.err) == ('', 'no time is left\n'), over


if __name__ == '__main__':
    code = run_tests(sys.modules[__name__], sys.argv[1])
    if http_steps_test.SERVER is not None:
        http_steps_test.SERVER.close()
    sys.exit(code)
