#!/usr/bin/env python3
"""One process with nodes of several groups: steps in the process, and workflows in namespaces and services of Temporal.
Nobody names a group: each definition does.

usage: temporal_nodes_test.py BINARY [TEST ...]
"""

import json
import os
import subprocess
import sys

from harness import run_tests
from postgres_server import PostgresServer
from temporal_parts import ROOT, Server, skip_unless_installed
from temporal_scene import TOLD, all_items, apply_unheeded, drain, ended, enqueue, enqueue_many, serve, show, the_step
from waiting import SECONDS_MOST, wait_for

DEFINITIONS = {
    'count': 'name: count\nexecutor_group: steps\nsteps: {only: {exec: [wc, -c], stdin: "${.input}"}}\n',
    'invoice': 'name: invoice\nexecutor_group: billing\ntemporal: {workflow_type: Noop}\n',
    'offer': 'name: offer\nexecutor_group: sales\ntemporal: {workflow_type: Noop}\n',
    'approve': 'name: approve\nexecutor_group: sales\ntemporal: {workflow_type: Signalled}\n',
}
WORKSPACES = ('acme', 'zoo')


def _prepare(weir, billing, sales, sales_namespace):
    """Three nodes in one process: `steps`, `billing` and `sales`."""
    weir.write('weir.yaml', json.dumps({
        'log.level': 'warn', 'node.lease': '6s', 'exec.allow': ['wc'], 'temporal.task_queue': 'q', 'nodes': [
            {'executor.group': 'steps'},
            {'executor.group': 'billing', 'engine': 'temporal', 'temporal': {'address': billing.address}},
            {'executor.group': 'sales', 'engine': 'temporal',
             'temporal': {'address': sales.address, 'namespace': sales_namespace, 'ui_url': 'http://sales.example'}}]}))
    weir.good('store', 'init', '-q')
    for workspace in WORKSPACES:
        weir.good('workspace', 'set', workspace, '--plan', 'enterprise', '-q')
    for name, text in DEFINITIONS.items():
        weir.write(f'{name}.yaml', text)
        weir.good('workflow', 'apply', f'{name}.yaml', '-q')


def _all_run_where_their_definitions_say(weir):
    server = Server(namespaces=['sales'])
    workers = server.worker('q'), server.worker('q', 'sales')
    _prepare(weir, server, server, 'sales')
    serve(weir)
    ids = {name: enqueue_many(weir, 20, name, WORKSPACES) for name in ('count', 'invoice', 'offer')}
    drain(weir, sum(ids.values(), []))
    groups = {item['id']: item['executor_group'] for item in all_items(weir)}
    for name, group in (('count', 'steps'), ('invoice', 'billing'), ('offer', 'sales')):
        assert all(groups[id] == group for id in ids[name]), groups
    assert the_step(show(weir, ids['invoice'][0]))['variables']['namespace'] == 'default'
    assert the_step(show(weir, ids['offer'][0]))['variables']['namespace'] == 'sales'
    assert [step['output'] for step in show(weir, ids['count'][0])['steps']] == [2]
    server.check_one_chain_each(ids['invoice'], 'default')
    server.check_one_chain_each(ids['offer'], 'sales')
    assert len(server.runs('default')) == 20 and len(server.runs('sales')) == 20
    assert all(len(workers[0].runs_of(id)) == 1 for id in ids['invoice'])
    assert all(len(workers[1].runs_of(id)) == 1 for id in ids['offer'])
    return server


def three_engines_of_one_process_run_what_their_definitions_give_them(weir):
    _all_run_where_their_definitions_say(weir).close()


def on_postgresql_too_three_engines_run_in_one_process(weir):
    postgres = PostgresServer()
    try:
        weir.environment['WEIR_STORE'] = postgres.url(database=postgres.database())
        _all_run_where_their_definitions_say(weir).close()
    finally:
        weir.close()
        postgres.close()


def a_program_of_ones_own_opens_both_engines(weir):
    """examples/two_engines.c, with the public headers and the shared library alone."""
    server = Server()
    worker = server.worker('q')
    program = os.path.join(os.environ.get('WEIR_EXAMPLES') or os.path.join(ROOT, 'build', 'examples'), 'two_engines')
    done = subprocess.run([program, weir.path('both.db'), server.address, 'q'], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, 'here completed\noutside completed\n'), (done.stdout, done.stderr)
    weir.environment['WEIR_STORE'] = weir.path('both.db')
    ids = {item['workflow']: item['id'] for item in all_items(weir)}
    server.check_one_chain_each([ids['outside']])
    assert len(worker.runs_of(ids['outside'])) == 1 and worker.runs_of(ids['here']) == set()
    server.close()


def what_people_ask_goes_to_the_namespace_of_the_group(weir):
    server = Server(namespaces=['sales'])
    server.worker('q', 'sales')
    _prepare(weir, server, server, 'sales')
    apply_unheeded(weir, 'executor_group: sales\n')
    serve(weir)
    first, second = enqueue(weir, 'approve'), enqueue(weir, 'unheeded')
    for id in (first, second):
        wait_for('the start', lambda: show(weir, id)['status'] == 'DISPATCHED')
    weir.good('signal', first, 'go', '--data', '{"by": "eve"}', '--timeout', TOLD)
    assert the_step(ended(weir, first, 'COMPLETED'))['output'] == {'word': {'by': 'eve'}}
    weir.good('cancel', second, '--terminate', '--timeout', TOLD, '--yes')
    ended(weir, second, 'CANCELLED')
    wanted = ('execution-' + second, 'TERMINATED')
    wait_for('the termination in the list', lambda: wanted in [(run['id'], run['status']) for run in server.runs('sales')])
    link = f'http://sales.example/namespaces/sales/workflows/execution-{first}/'
    assert link in weir.good('show', first).out
    lines = [(line['check'], line['outcome'], line['detail']) for line in
             weir.run('doctor', '--json', '--timeout', TOLD).json()['items']]
    assert ('workers', 'ok', "group sales: 1 worker polls 'q'") in lines, lines
    unpolled = [line[:2] for line in lines if "group billing: no worker polls 'q'" in line[2]]
    assert unpolled == [('workers', 'warning')], lines
    assert not [line for line in lines if line[2].startswith('group steps')], lines
    server.close()


def a_service_that_is_away_holds_up_its_own_group_alone(weir):
    billing, sales = Server(), Server()
    billing.worker('q')
    sales.worker('q')
    _prepare(weir, billing, sales, 'default')
    node = serve(weir)
    ids = enqueue_many(weir, 3, 'invoice')
    drain(weir, ids)
    billing.kill()
    waiting = enqueue_many(weir, 5, 'invoice')

    def is_told():
        why = weir.good('why', waiting[0], '--json').json()
        return why['pending_reason'] == 'engine_unreachable' and billing.address in (why['engine_error'] or '')
    wait_for('the reason', is_told)
    assert show(weir, waiting[0])['starts_refused'] == 0
    others = enqueue_many(weir, 10, 'count') + enqueue_many(weir, 10, 'offer')
    for id in others:
        ended(weir, id, 'COMPLETED')
    assert not any(show(weir, id)['finished_at'] for id in waiting)

    def reachable():
        return {item['executor_group']: item['engine_reachable'] for item in weir.items('node', 'list')}
    # On a busy machine a service may seem to be away for a moment.
    wait_for('one service away', lambda: reachable() == {'steps': True, 'billing': False, 'sales': True})
    assert node.poll() is None
    billing.start()
    drain(weir, ids + waiting + others)
    billing.check_one_chain_each(ids + waiting)
    sales.check_one_chain_each(others[10:])
    node.terminate()
    assert node.wait(timeout=SECONDS_MOST) == 0
    assert weir.items('node', 'list') == []
    for server in (billing, sales):
        server.close()


if __name__ == '__main__':
    skip_unless_installed()
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
