#!/usr/bin/env python3
"""Every example is run as its own comment says, and its workflows are published and executed.

usage: examples_test.py BINARY [TEST ...]      the programs are in WEIR_EXAMPLES, their sources in WEIR_SOURCE_ROOT/examples
"""

import glob
import os
import re
import signal
import subprocess
import sys

from harness import run_tests
from postgres_server import PostgresServer
from waiting import SECONDS_MOST

ROOT = os.environ.get('WEIR_SOURCE_ROOT') or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.abspath(os.environ.get('WEIR_EXAMPLES') or os.path.join(ROOT, 'build', 'examples'))
SOURCES = os.path.join(ROOT, 'examples')


def _run(weir, name, *words, stdin=b''):
    process = subprocess.run([os.path.join(PROGRAMS, name), *words], cwd=weir.folder, env=weir.environment, input=stdin,
                             capture_output=True, timeout=60)
    out, err = process.stdout.decode(), process.stderr.decode()
    assert process.returncode == 0, f'{name}: exit {process.returncode}\n{out}{err}'
    return out, err


def an_order_and_its_work_share_one_transaction(weir):
    out, _ = _run(weir, 'enqueue_in_transaction', 'shop.db')
    assert out == 'order 1, rolled back: execution_not_found\norder 2, committed: enqueued\n', out
    with weir.database('shop.db') as database:
        assert database.execute('SELECT number FROM orders').fetchall() == [(2,)]
    items = weir.items('list', '--store', 'shop.db')
    assert [item['workflow'] for item in items] == ['send-invoice']
    assert weir.good('store', 'check', '--store', 'shop.db', '--json').json()['problems'] == []


def an_order_and_its_work_share_one_postgres_transaction(weir):
    server = PostgresServer()
    out, _ = _run(weir, 'enqueue_in_postgres', server.url())
    assert out == ('order 1, rolled back: execution_not_found\na slip: workflow_not_found, did you mean "send-invoice"?\n'
                   'order 2, committed: enqueued\n'), out
    assert server.sql('SELECT number FROM orders') == '2'
    items = weir.items('list', '--store', server.url())
    assert [item['workflow'] for item in items] == ['send-invoice']
    assert weir.good('store', 'check', '--store', server.url(), '--json').json()['problems'] == []
    server.close()


def handlers_in_c_run_in_the_programs_own_process(weir):
    out, err = _run(weir, 'handlers', 'invoices.db', os.path.join(SOURCES, 'invoice.yaml'))
    assert out == '10 of 10 completed, stopped gracefully\nnever more than 5 at work: yes\n', out
    id = weir.items('list', '--store', 'invoices.db')[0]['id']
    steps = weir.good('show', id, '--store', 'invoices.db', '--json').json()['steps']
    assert [step['status'] for step in steps] == ['COMPLETED', 'COMPLETED'], steps
    assert steps[-1]['output'] == {'sent': {'customer': 'Ada', 'total': 120}, 'attempt': 1}, steps
    with weir.database('invoices.db') as database:
        assert database.execute('SELECT max(attempt) FROM workflow_node_executions').fetchone()[0] == 2  # the one retry


def a_credit_application_waits_for_a_person(weir):
    out, _ = _run(weir, 'credit_application', 'credits.db', os.path.join(SOURCES, 'credit-application.yaml'))
    assert out == '{"granted":5000}\n', out
    id = weir.items('list', '--store', 'credits.db')[0]['id']
    shown = weir.good('show', id, '--store', 'credits.db', '--json').json()
    assert [(row['state'], row['outcome']) for row in shown['actions']] == [
        ('create', 'next'), ('preview', 'update'), ('accept', 'next'), ('grant', 'retry'), ('grant', 'next'),
        ('finish', 'done')], shown['actions']
    assert shown['variables'] == {'customer': 'unknown', 'amount': 4000, 'limit': 5000}, shown['variables']
    assert 'a customer for ten years' in weir.good('show', id, '--store', 'credits.db').out


def bulk_work_needs_one_slot(weir):
    files = [os.path.join(SOURCES, name) for name in ('bulk.yaml', 'bulk-item.yaml')]
    out, _ = _run(weir, 'bulk', 'bulk.db', *files)
    assert out == '{"total":385}\n', out
    children = weir.items('list', '--store', 'bulk.db', '--where', 'workflow=bulk-item')
    assert len(children) == 10 and {child['status'] for child in children} == {'COMPLETED'}, children
    (parent,) = weir.items('list', '--store', 'bulk.db', '--where', 'workflow=bulk')
    events = weir.good('show', parent['id'], '--store', 'bulk.db', '--json').json()['events']
    assert [event['reason'] for event in events if event['event'] == 'park'] == ['child'], events


def a_node_lives_in_a_loop_of_ones_own(weir):
    out, _ = _run(weir, 'own_loop', 'words.db', stdin=b'one\ntwo\nthree\n')
    assert out == '3 words counted, stopped gracefully\n', out
    assert len(weir.items('list', '--store', 'words.db', '--status', 'completed')) == 3


def every_workflow_is_right_and_runs(weir):
    weir.good('store', 'init', '-q')
    weir.good('workspace', 'set', 'acme', '--plan', 'pro', '-q')
    files = sorted(glob.glob(os.path.join(SOURCES, '*.yaml')))
    assert len(files) >= 3, files
    for path in files:
        weir.good('workflow', 'apply', path, '-q')
    node = weir.spawn('serve', '--allow-exec')
    node.stdout.readline()
    for path in files:
        with open(path) as file:
            example = re.search(r"weir enqueue -w acme (\S+) --params '(.*?)'", file.read())
        if example is None:
            continue  # it needs handlers of a program, or a server
        id = weir.good('enqueue', '-w', 'acme', example.group(1), '--params', example.group(2), '--wait', '-q').out.strip()
        execution = weir.good('show', id, '--json').json()
        assert all(step['status'] == 'COMPLETED' for step in execution['steps']), execution
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS_MOST) == 0


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
