#!/usr/bin/env python3
"""The scheduler beside locks, backlogs and stores that are not as it expects, on PostgreSQL.

usage: scheduler_faults_test.py BINARY [TEST ...]      `./dev check campaigns` runs it with longer waits and larger numbers
"""

import json
import os
import signal
import subprocess
import sys

from harness import LONG_CAMPAIGNS, run_tests
from postgres_server import PostgresServer, client_program
from scheduler_scene import all_complete, gated, held_by, role_of, serve, states
from waiting import SECONDS_MOST, wait_for

SERVER = None
LOCK_SECONDS, NEWS_ROWS, TENANTS = (60, 1000000, 100000) if LONG_CAMPAIGNS else (8, 50000, 2000)
# 64 of the scheduler with 100,000 workspaces and 20 of the rest of the node. A sanitizer needs many times as much.
MEMORY_MIB_MOST = 640 if {'ASAN_OPTIONS', 'TSAN_OPTIONS'} & set(os.environ) else 64 + 20


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer('max_wal_size = 1GB')
    weir.database_name = SERVER.database()
    weir.environment['WEIR_STORE'] = SERVER.url(weir.database_name)


def _sql(weir, text):
    return SERVER.sql(text, weir.database_name)


def _status_of(weir, id):
    return weir.good('show', id, '--json').json()['status']


def while_the_row_of_the_role_is_locked_what_runs_goes_on(weir):
    weir.make_store()
    gated(weir)
    nodes = [serve(weir, f'n{number}') for number in (1, 2)]
    wait_for('a scheduler', lambda: not role_of(weir)['is_free'])
    id = weir.enqueue('-w', 'acme', 'gated')
    wait_for('the start', lambda: _status_of(weir, id) == 'DISPATCHED')
    lock = subprocess.Popen([client_program('psql'), '-qXAt', SERVER.url(weir.database_name)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)
    weir.background.append(lock)
    lock.stdin.write("BEGIN; SELECT 'locked' FROM weir.scheduler FOR UPDATE;\n")
    lock.stdin.flush()
    assert lock.stdout.readline() == 'locked\n'
    other = weir.enqueue()
    weir.write('go', '')
    wait_for('the end of what ran', lambda: _status_of(weir, id) == 'COMPLETED')
    wait_for('the end of the lease', lambda: role_of(weir)['is_free'])
    why = weir.good('why', other, '--json').json()
    assert why['pending_reason'] == 'no_scheduler', why
    age = "SELECT extract(epoch FROM now() - xact_start)::integer FROM pg_stat_activity WHERE state = 'idle in transaction'"
    wait_for('the lock to be old', lambda: int(_sql(weir, age)) >= LOCK_SECONDS, seconds=LOCK_SECONDS + 60)
    assert _status_of(weir, other) == 'PENDING'
    lock.stdin.close()
    assert lock.wait(SECONDS_MOST) == 0
    all_complete(weir, 2)
    assert [node.poll() for node in nodes] == [None, None]
    assert _sql(weir, 'SELECT count(*) FROM weir.nodes WHERE dead_at IS NOT NULL') == '0'
    weir.good('store', 'check')


def news_that_grew_while_no_node_ran_is_worked_off(weir):
    """Limits were changed, and items came and went again, each in a transaction of its own."""
    weir.make_store()
    weir.enqueue_many(5)
    _sql(weir, f"""INSERT INTO weir.news (at, kind, workspaces) SELECT weir.store_time(), 8, ARRAY[1]
                   FROM generate_series(1, {NEWS_ROWS} / 2)""")
    _sql(weir, f"""INSERT INTO weir.news (at, kind, lanes, runnable, least_rank)
                   SELECT weir.store_time(), 1, n.lanes, ARRAY[CASE WHEN g % 2 = 0 THEN 1 ELSE -1 END],
                          ARRAY[CASE WHEN g % 2 = 0 THEN 1 END]
                   FROM generate_series(1, {NEWS_ROWS} / 2) g,
                        (SELECT lanes FROM weir.news WHERE runnable IS NOT NULL LIMIT 1) n""")
    node = serve(weir, 'n1')
    all_complete(weir, 5)
    wait_for('the news to be in the books', lambda: int(_sql(weir, 'SELECT count(*) FROM weir.news')) < 100, seconds=120)
    with open(f'/proc/{node.pid}/status') as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith('VmHWM:'))
    assert peak < MEMORY_MIB_MOST * 1024, f'{peak} KiB'
    weir.good('store', 'check')
    weir.good('doctor')


def stores_of_one_server_with_the_same_names_do_not_meet(weir):
    """Two schemas of one database, and another database: each has a node n1."""
    first = weir.environment['WEIR_STORE']
    urls = [first, first + '?schema=second', SERVER.url(SERVER.database())]
    nodes = []
    for url in urls:
        weir.environment['WEIR_STORE'] = url
        weir.make_store()
        nodes.append(serve(weir, 'n1'))
        held_by(weir, 'n1')
    nodes[0].send_signal(signal.SIGSTOP)
    weir.environment['WEIR_STORE'] = urls[1]
    weir.good('pause', '-q')
    paused = weir.enqueue()
    weir.environment['WEIR_STORE'] = urls[2]
    weir.enqueue_many(5)
    all_complete(weir, 5)
    weir.environment['WEIR_STORE'] = urls[0]
    wait_for('a free role', lambda: role_of(weir)['is_free'])
    nodes[0].send_signal(signal.SIGCONT)
    weir.enqueue_many(5)
    all_complete(weir, 5)
    weir.environment['WEIR_STORE'] = urls[1]
    assert _status_of(weir, paused) == 'PENDING'
    weir.good('resume', '-q')
    all_complete(weir, 1)
    for url in urls:
        weir.environment['WEIR_STORE'] = url
        weir.good('store', 'check')


def nodes_of_different_size_are_filled_and_a_group_without_nodes_is_no_burden(weir):
    weir.make_store()
    weir.good('workspace', 'set', 'big', '--plan', 'enterprise', '--max-concurrent', '100', '-q')
    gated(weir)
    for name, room in (('small', '1'), ('large', '30')):
        node = weir.spawn('serve', '--allow-exec', '--node', name, '--max-running', room)
        assert json.loads(node.stdout.readline())['event'] == 'node.started'
    weir.make_groups('nobody')
    line = {'workspace': 'big', 'workflow': 'gated'}
    text = (json.dumps({**line, 'executor_group': 'nobody'}) + '\n') * 300 + (json.dumps(line) + '\n') * 40
    weir.good('enqueue', '-', '-q', stdin=text)

    def running():
        rows = weir.items('list', '--where', 'status=dispatched', '--limit', '1000')
        return sorted(row['node'] for row in rows)
    wait_for(lambda: f'full nodes, not {running()},', lambda: running() == ['large'] * 30 + ['small'])
    waits = weir.items('list', '--where', 'executor_group=nobody', '--limit', '1')[0]['id']
    assert weir.good('why', waits, '--json').json()['pending_reason'] == 'no_node_in_group'
    weir.write('go', '')
    wait_for('the ends', lambda: states(weir).count('COMPLETED') == 40)
    weir.good('store', 'check')


def many_workspaces_with_one_item_each_are_all_served(weir):
    weir.make_store()
    _sql(weir, "INSERT INTO weir.workspaces (name, plan, slots_max, created_at) SELECT 't' || n, 'free', 1,"
               f' weir.store_time() FROM generate_series(1, {TENANTS}) n')
    weir.write('nothing.json', json.dumps({'name': 'nothing', 'steps': {'only': {'sleep': '0s'}}}))
    weir.good('workflow', 'apply', 'nothing.json', '-q')
    text = ''.join(json.dumps({'workspace': f't{number}', 'workflow': 'nothing'}) + '\n'
                   for number in range(1, TENANTS + 1))
    weir.good('enqueue', '-', '-q', stdin=text)
    node = serve(weir, 'n1')
    serve(weir, 'n2')
    wait_for('the end of all',
             lambda: weir.good('status', '--json', '--timeout', '90s').json()['completed'] == TENANTS, seconds=200)
    with open(f'/proc/{node.pid}/status') as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith('VmHWM:'))
    assert peak < MEMORY_MIB_MOST * 1024, f'{peak} KiB'
    assert _sql(weir, 'SELECT count(DISTINCT workspace_id) FROM weir.workflow_executions') == str(TENANTS)
    weir.good('store', 'check')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres))
