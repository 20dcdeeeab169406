#!/usr/bin/env python3
"""The output of commands for programs and for people: results, ends, names of fields.

usage: cli_output_test.py BINARY [TEST ...]
"""

import json
import re
import subprocess
import sys

from dev_node import publish_program, start_dev_node
from freezing import freeze
from harness import UUID, assert_error, run_tests
from postgres_server import PostgresServer
from waiting import SECONDS_MOST, wait_for


def enqueue_with_wait_prints_the_end_and_the_result(weir):
    weir.make_store()
    publish_program(weir, 'good', 'printf \'{"id": 7}\'')
    publish_program(weir, 'silent', ':')
    publish_program(weir, 'large', 'printf "%5000s" x')
    waits = ('--wait', '--timeout', '90s')
    late = weir.run('enqueue', '-w', 'acme', 'good', '--wait', '--timeout', '0', '--json')
    assert late.code == 7 and UUID.match(late.json()['id']) and late.json()['status'] == 'PENDING', repr(late)
    assert 'result' not in late.json(), repr(late)
    start_dev_node(weir)
    first = weir.good('enqueue', '-w', 'acme', 'good', *waits, '--json', '-k', 'once').json()
    id = first.pop('id')
    assert first == {'status': 'COMPLETED', 'duplicate': False, 'replaced': False, 'warnings': [], 'error_code': None,
                     'error': None, 'result': {'id': 7}}, first
    known = weir.good('enqueue', '-w', 'acme', 'good', *waits, '--json', '-k', 'once').json()
    assert known == {**first, 'id': id, 'duplicate': True}, known
    text = weir.good('enqueue', '-w', 'acme', 'good', *waits)
    assert UUID.match(text.out.strip()) and text.err == '✓ COMPLETED: {"id":7}\n', repr(text)
    assert '✓ COMPLETED: {"id":7}' in weir.terminal('enqueue', '-w', 'acme', 'good', *waits, env={'NO_COLOR': '1'}).out
    assert weir.good('enqueue', '-w', 'acme', 'silent', *waits).err.startswith('✓ COMPLETED')
    assert 'bytes; --json prints them' in weir.good('enqueue', '-w', 'acme', 'large', *waits).err
    assert weir.good('wait', id).out.splitlines() == [f'✓ {id} COMPLETED', '{"id":7}']
    assert weir.good('wait', id, '--json').json()['result'] == {'id': 7}


def a_failed_end_is_printed_as_json_with_its_error(weir):
    weir.make_store()
    publish_program(weir, 'bad', 'echo "it broke" >&2; exit 3')
    start_dev_node(weir)
    failed = weir.run('enqueue', '-w', 'acme', 'bad', '--wait', '--timeout', '90s', '--json')
    assert failed.code == 1 and failed.json()['status'] == 'FAILED' and failed.json()['result'] is None, repr(failed)
    assert failed.json()['error_code'] == 'exit_3' and 'it broke' in failed.json()['error'], repr(failed)


def a_cancel_of_running_work_is_reported_as_a_request(weir):
    weir.make_store()
    publish_program(weir, 'slow', 'exec sleep 600')
    start_dev_node(weir)
    runs = [weir.enqueue('-w', 'acme', 'slow') for _ in range(2)]
    waits = weir.enqueue('-w', 'acme', 'slow', '--run-at', '+1h')
    for id in runs:
        wait_for('the start', lambda: weir.good('show', id, '--json').json()['status'] == 'DISPATCHED')
    answer = weir.good('cancel', runs[0], waits)
    assert '1 cancelled, 1 cancel requested, 0 refused' in answer.err and 'weir wait' in answer.err, repr(answer)
    answer = weir.good('cancel', runs[1], '--json').json()
    assert answer['requested'] == 1, answer
    assert answer['items'] == [{'id': runs[1], 'act': 'cancel', 'cancel_requested': True}], answer
    assert weir.run('wait', runs[0], '--timeout', '90s').code == 1
    assert weir.good('show', runs[0], '--json').json()['status'] == 'CANCELLED'


def ambiguous_ids_are_listed(weir):
    weir.make_store()
    ids = weir.enqueue_many(6)
    refused = weir.run('show', ids[0][:6])
    assert_error(refused, 2, 'invalid_argument', f'more than one execution begins with {ids[0][:6]}', ', ...')
    assert sum(id in refused.err for id in ids) == 4, repr(refused)


def a_node_refuses_a_timeout(weir):
    weir.make_store()
    for verb in ('serve', 'dev'):
        assert_error(weir.run(verb, '--timeout', '1s'), 2, 'invalid_argument', f'`weir {verb}` has no --timeout')
        assert '--timeout' not in weir.good('help', verb).out


def help_in_json_is_of_the_asked_command(weir):
    def named(*words):
        return [command['name'] for command in weir.good('help', *words, '--json').json()['commands']]
    assert named('enqueue') == ['enqueue'] and named('node', 'drain') == ['node drain']
    assert named('plan') == ['plan list', 'plan set']
    assert len(named()) > 40


def lines_of_an_error_stay_words_apart(weir):
    weir.make_store()
    publish_program(weir, 'bad', 'printf "first\nsecond\n" >&2; exit 3')
    start_dev_node(weir)
    failed = weir.run('enqueue', '-w', 'acme', 'bad', '--wait', '--timeout', '90s')
    assert 'first second' in failed.err, repr(failed)
    shown = weir.good('show', failed.out.strip()).out
    assert 'first second' in shown and '?' not in shown, shown


def weir_alone_prints_help(weir):
    assert weir.good().out == weir.good('help').out
    assert_error(weir.run('-q'), 2, 'invalid_argument', 'no command was given')


def the_last_execution_needs_no_id(weir):
    weir.make_store()
    for verb in ('show', 'why'):
        assert_error(weir.run(verb, '--last'), 3, 'execution_not_found')
    ids = [weir.enqueue() for _ in range(2)]
    for verb in ('show', 'why'):
        assert weir.good(verb, '--last', '--json').json()['id'] == ids[1]
        assert_error(weir.run(verb, ids[0], '--last'), 2, 'invalid_argument', 'not both')
        assert_error(weir.run(verb), 2, 'invalid_argument', '--last')
    assert_error(weir.run('why', '--last', '-w', 'acme'), 2, 'invalid_argument', 'not both')


def why_answers_for_a_workspace(weir):
    weir.make_store()
    publish_program(weir, 'slow', 'exec sleep 600')
    publish_program(weir, 'bad', 'exit 3')
    assert_error(weir.run('why', '-w', 'tniy'), 3, 'workspace_not_found', 'tiny')
    assert_error(weir.run('why'), 2, 'invalid_argument', '--workspace')
    assert_error(weir.run('why', 'tiny', '-w', 'tiny'), 2, 'invalid_argument', 'not both')
    start_dev_node(weir)
    weir.run('enqueue', '-w', 'tiny', 'bad', '--wait', '--timeout', '90s')
    weir.good('enqueue', '-w', 'tiny', 'hello', '--wait', '--timeout', '90s')
    ids = [weir.enqueue('-w', 'tiny', 'slow') for _ in range(3)]
    weir.enqueue('-w', 'tiny', 'slow', '--run-at', '+1h')
    wait_for('the start', lambda: weir.good('show', ids[0], '--json').json()['status'] == 'DISPATCHED')
    why = weir.good('why', '-w', 'tiny', '--json').json()
    assert [holder['id'] for holder in why['slot_holders']] == [ids[0]], why
    assert why['slots_used'] == why['slots_max'] == 1 and why['pending'] == 3 and why['oldest_id'] == ids[1], why
    assert why['pending_reasons'] == {'workspace_at_capacity': 2, 'scheduled': 1}, why
    assert why['failed_last_hour'] == 1 and why['next_start_in_us'] is not None and not why['paused'], why
    text = weir.good('why', 'tiny')
    for words in (ids[0], 'workspace_at_capacity', 'slots            1 of 1 used', 'failed           1 in',
                  'next start       expected in about', f'oldest           {ids[1]}'):
        assert words in text.out, f'{words}: {text!r}'
    weir.good('workspace', 'pause', 'tiny', '-q')
    paused = weir.good('why', '-w', 'tiny')
    assert 'workspace tiny, paused' in paused.out and 'weir workspace resume tiny' in paused.err, repr(paused)
    assert 'starts           0 of 3 refused' in weir.good('why', ids[1]).out


def why_for_a_workspace_reads_a_bounded_number_of_failures(weir):
    weir.make_store()
    weir.enqueue('-w', 'tiny', 'hello')
    count = 10000
    database = weir.database()
    database.execute("""
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= ?)
        INSERT INTO workflow_executions (id, lane_id, workspace_id, definition_id, status, priority, run_at, starts_refused,
                                         deferrals, handovers, interruptions, fence, node_id, has_params, created_at,
                                         finished_at)
        SELECT substr(q.id, 1, 24) || printf('%012x', n.i), q.lane_id, q.workspace_id, q.definition_id, 'FAILED', 0,
               q.run_at, 0, 0, 0, 0, 0, 0, 0, q.created_at, q.created_at - 7200 * 1000000 * (n.i > 1)
        FROM n CROSS JOIN workflow_execution_queue q""", (count,))
    why = weir.good('why', '-w', 'tiny', '--json').json()
    assert why['failed_last_hour'] == 0 and not why['failed_is_exact'], why  # the first one was not read
    assert 'failed           0 or more in the last hour' in weir.good('why', 'tiny').out
    database.execute("DELETE FROM workflow_executions WHERE substr(id, 25) > '00000000000f'")
    why = weir.good('why', '-w', 'tiny', '--json').json()
    assert why['failed_last_hour'] == 1 and why['failed_is_exact'], why
    database.close()


def the_event_of_a_start_has_no_code_of_the_end(weir):
    weir.make_store()
    weir.write('w.yaml', 'name: refused\nsteps:\n  a:\n    exec: [true]\n')
    node = weir.spawn('serve', stderr=subprocess.STDOUT)
    weir.good('workflow', 'apply', 'w.yaml', '-q')
    failed = weir.run('enqueue', '-w', 'acme', 'refused', '--wait', '--timeout', '90s')
    assert failed.code == 1 and 'exec_not_allowed' in failed.err, repr(failed)
    node.terminate()
    lines = [json.loads(line) for line in node.communicate(timeout=SECONDS_MOST)[0].splitlines() if line.startswith(b'{')]
    start = [line for line in lines if line['event'] == 'execution.dispatched']
    end = [line for line in lines if line['event'] == 'execution.failed']
    assert 'error_code' not in start[0] and end[0]['error_code'] == 'exec_not_allowed', (start, end)


def a_node_that_holds_nothing_any_more_is_drained(weir):
    weir.make_store()
    publish_program(weir, 'slow', 'while [ ! -e "%s" ]; do sleep 0.05; done' % weir.path('go'))
    start_dev_node(weir)
    id = weir.enqueue('-w', 'acme', 'slow')
    wait_for('the start', lambda: weir.good('show', id, '--json').json()['status'] == 'DISPATCHED')
    name = weir.items('node', 'list')[0]['name']
    weir.good('node', 'drain', name, '-q')
    wait_for('the order', lambda: weir.items('node', 'list')[0]['state'] == 'draining')
    assert weir.items('node', 'list')[0]['drained_at'] is None
    late = weir.run('node', 'drain', name, '--wait', '--timeout', '1ms')
    assert late.code == 7 and f'weir: node {name} still holds 1 execution (timed_out)' in late.err, repr(late)
    weir.write('go', '')
    waited = weir.good('node', 'drain', name, '--wait', '--timeout', '90s')
    assert f'node {name} is drained' in waited.err, repr(waited)
    row, = weir.items('node', 'list')
    assert row['state'] == 'drained' and row['drained_at'] and row['holds'] == row['running'] == 0, row
    table = weir.good('node', 'list').out
    assert re.search(r'drained [\d.]+(ms|s) ago', table), table
    assert str(row['pid']) in table and row['weir_version'] in table, table
    narrow = weir.terminal('node', 'list', env={'COLUMNS': '100'}).out
    assert 'PID' not in narrow and 'PID' in weir.terminal('node', 'list', env={'COLUMNS': '200'}).out, narrow
    weir.good('node', 'resume', name, '-q')
    wait_for('the start', lambda: weir.items('node', 'list')[0]['drained_at'] is None)
    assert_error(weir.run('node', 'drain', 'nobody', '--wait'), 3, 'not_found', 'nobody')


def a_node_is_drained_on_postgres_too(weir):
    server = PostgresServer()
    weir.environment['WEIR_STORE'] = server.url(server.database())
    a_node_that_holds_nothing_any_more_is_drained(weir)


def a_list_explains_counts_that_differ(weir):
    weir.make_store()
    node = start_dev_node(weir)
    assert 'HOLDS:' not in weir.good('node', 'list').out
    name = weir.items('node', 'list')[0]['name']
    database = weir.database()
    freeze(node)
    database.execute('UPDATE nodes SET running = 3')
    assert 'RUNNING: in the engine at the node\'s last heartbeat' in weir.good('node', 'list').out
    database.execute("UPDATE nodes SET dead_at = active_at, recovered_at = active_at")
    database.close()
    died = weir.run('node', 'drain', name, '--wait')
    assert died.code != 0 and name in died.err, repr(died)


def a_workflow_is_shown_as_its_author_wrote_it(weir):
    weir.good('store', 'init', '-q')
    yaml = '# Why: the café asked\nname: w\nsteps:\n  a:\n    exec: [echo, one]   # twice\t\n'
    weir.write('w.yaml', yaml)
    weir.good('workflow', 'apply', 'w.yaml', '-q')
    shown = weir.good('workflow', 'show', 'w').out
    assert shown.startswith('w v1, for every workspace') and shown.endswith('\n' + yaml), repr(shown)
    assert weir.good('workflow', 'show', 'w', '--source').out == yaml
    assert '# Why: the café asked' in weir.terminal('workflow', 'show', 'w', '--source', env={'LC_ALL': 'C.UTF-8'}).out
    row, = weir.items('workflow', 'show', 'w')
    assert row['source'] == yaml and row['definition']['steps']['a']['exec'] == ['echo', 'one'], row
    assert 'source' not in weir.items('workflow', 'list')[0]
    # Other comments make no other version, and the version keeps the text that made it.
    weir.write('w.yaml', '# changed\n' + yaml)
    assert weir.good('workflow', 'apply', 'w.yaml').out == 'w v1 unchanged\n'
    assert weir.items('workflow', 'show', 'w')[0]['source'] == yaml
    again = weir.run('workflow', 'apply', '-', stdin=weir.good('workflow', 'show', 'w', '--source').out)
    assert again.out == 'w v1 unchanged\n', repr(again)
    # JSON has no comments: it is shown as before.
    weir.good('workflow', 'apply', '-', '-q', stdin=json.dumps({'name': 'j', 'steps': {'a': {'exec': ['true']}}}))
    row, = weir.items('workflow', 'show', 'j')
    assert row['source'] is None and '"exec"' in weir.good('workflow', 'show', 'j').out, row
    assert_error(weir.run('workflow', 'show', 'j', '--source'), 3, 'not_found', 'j v1 has no YAML')


def a_workflow_is_shown_as_its_author_wrote_it_on_postgres_too(weir):
    server = PostgresServer()
    weir.environment['WEIR_STORE'] = server.url(server.database())
    a_workflow_is_shown_as_its_author_wrote_it(weir)


def top_names_the_number_of_workspaces_that_it_hides(weir):
    weir.make_store()
    assert 'not shown' not in weir.good('top', '--once').out
    for place in range(20):
        weir.good('workspace', 'set', f'w{place}', '-q')
    assert '4 of 22 workspaces are not shown' in weir.good('top', '--once').out


def _copy_node(weir, count):
    """Rows of `count` further nodes in the store of a node that stands still; the last one is paused. The node keeps its
    role, and all keep their leases."""
    database = weir.database()
    columns = [row[1] for row in database.execute('PRAGMA table_info(nodes)')]
    database.execute('UPDATE nodes SET expires_at = expires_at + 3600000000, running = 3, capacity = 7')
    database.execute('UPDATE scheduler SET expires_at = expires_at + 3600000000')
    first = dict(zip(columns, database.execute('SELECT * FROM nodes').fetchone()))
    for place in range(count):
        row = {**first, 'id': first['id'] + 1 + place, 'name': f'further-{place}',
               'desired_state': 'pause' if place + 1 == count else 'run'}
        database.execute(f'INSERT INTO nodes ({", ".join(row)}) VALUES ({", ".join("?" * len(row))})', list(row.values()))
    database.close()
    return first['name']


def _picture(weir, **options):
    """The lines of `weir top` on a terminal, without escape codes."""
    shown = weir.terminal('top', '--once', **options)
    assert shown.code == 0, repr(shown)
    return re.sub('\033\\[[0-9;]*[A-Za-z]', '', shown.out).splitlines()


def top_lists_the_nodes_and_the_number_that_it_hides(weir):
    weir.make_store()
    assert 'SCHEDULES' not in weir.good('top', '--once').out
    node = start_dev_node(weir)
    freeze(node)
    name = _copy_node(weir, 7)
    rows = weir.good('top', '--once').out.splitlines()
    at = next(place for place, line in enumerate(rows) if line.split()[:1] == ['NODE'])
    assert rows[at].split() == ['NODE', 'STATE', 'GROUP', 'RUNNING', 'SCHEDULES'], rows
    assert rows[at + 1].split() == ['further-6', 'paused', 'default', '3/7', '-'], rows
    assert [name, 'alive', 'default', '3/7', 'yes'] in [line.split() for line in rows[at + 2:at + 9]], rows
    assert rows[at + 9] == '', rows
    database = weir.database()
    database.execute("UPDATE nodes SET stopped_at = active_at WHERE name = 'further-0'")
    database.close()
    assert 'further-0' not in weir.good('top', '--once').out
    for place in range(30):
        weir.good('workspace', 'set', f'w{place}', '-q')
    small = _picture(weir, size=(24, 60))
    assert '  3 of 7 nodes are not shown (`weir node list`)' in small and 'further-6' in str(small), small
    assert len(small) < 24 and any('of 32 workspaces are not shown' in line for line in small), small


def top_fits_60_columns(weir):
    weir.make_store()
    node = start_dev_node(weir)
    freeze(node)
    _copy_node(weir, 9)
    database = weir.database()
    database.execute("UPDATE nodes SET name = 'the-node-of-the-scheduler-with-a-long-name' WHERE name NOT LIKE 'further-%'")
    database.close()
    for place in range(20):
        weir.good('workspace', 'set', f'w{place}', '-q')
    # COLUMNS without a window size: nothing is cut afterwards, so that a line which is too long is seen.
    lines = _picture(weir, env={'COLUMNS': '60'})
    wide = [line for line in lines if len(line) > 60 and not line.startswith('store')]
    assert not wide, wide
    words = ' '.join(' '.join(lines).split())
    for text in ('stuck, engine up, queue open', 'the-node-of-the-scheduler-with-a-long-name for', 'epoch 1, books',
                 '/s done, 0 pending', 'FAILED HELD BACK', 'workspaces are not shown (`weir workspace list`)'):
        assert text in words, (text, lines)


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
