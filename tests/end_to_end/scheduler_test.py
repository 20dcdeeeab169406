#!/usr/bin/env python3
"""The scheduler's role as people see it: which node has it, and what happens when that node stops, dies or stands still.

usage: scheduler_test.py BINARY [--postgres] [TEST ...]
"""

import json
import signal
import sys
import time

from freezing import freeze
from harness import run_tests
from postgres_server import PostgresServer
from scheduler_scene import all_complete, gated, held_by, role_of, serve, states
from waiting import SECONDS_MOST, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
LEASE_SECONDS = 3  # SCHEDULER_LEASE_US


def _use_postgres(weir):
    global SERVER
    if SERVER is None:
        SERVER = PostgresServer()
    weir.database_name = SERVER.database()
    weir.environment['WEIR_STORE'] = SERVER.url(weir.database_name)


def _two_nodes(weir):
    """n1 schedules, n2 does not."""
    weir.make_store()
    first = serve(weir, 'n1')
    role = held_by(weir, 'n1')
    return first, serve(weir, 'n2'), role


def _runs_more(weir, count):
    """What is enqueued now is completed."""
    before = len(states(weir))
    weir.enqueue_many(count)
    all_complete(weir, before + count)


def _look_at_role(weir, look):
    """Calls it with the role and the name of the node that does not have it. A node that stands still for three seconds
    loses the role: a look during which that happens shows nothing, and is repeated."""
    def has_looked():
        role = role_of(weir)
        if role['node'] is None or role['is_free']:
            return False
        try:
            look(role, 'n2' if role['node'] == 'n1' else 'n1')
        except AssertionError:
            now = role_of(weir)
            if (now['epoch'], now['node'], now['is_free']) == (role['epoch'], role['node'], False):
                raise
            return False
        return True
    wait_for('a look at a role that stays', has_looked)


def _checks_out(weir):
    weir.good('store', 'check')
    weir.good('doctor')


# --- who schedules ---


def status_top_and_node_list_show_the_scheduler(weir):
    _, _, role = _two_nodes(weir)
    assert set(role) == {'node', 'node_id', 'epoch', 'taken_at', 'expires_at', 'is_free', 'lag_us', 'takeovers_hour', 'why',
                         'lock_awaited_since', 'failing_since', 'error'}, role
    assert role['failing_since'] is None and role['error'] is None, role
    assert role['epoch'] >= 1 and role['takeovers_hour'] >= 1 and role['taken_at'] < role['expires_at'], role
    _look_at_role(weir, lambda role, other: _is_shown(weir, role, other))


def _is_shown(weir, role, other):
    said = f'scheduler {role["node"]} for '
    for verb in (('status',), ('top', '--once'), ('node', 'list')):
        shown = weir.good(*verb)
        assert said in shown.out and f'epoch {role["epoch"]}' in shown.out, repr(shown)
    page = weir.good('node', 'list', '--json').json()
    assert {row['name']: row['schedules'] for row in page['items']} == {role['node']: True, other: False}, page
    assert page['scheduler']['node'] == role['node'] and page['scheduler']['epoch'] == role['epoch'], page
    rows = weir.good('node', 'list', '-o', 'jsonl').jsonl()
    assert [row['name'] for row in rows if row['schedules']] == [role['node']], rows
    checks = {row['check']: row['outcome'] for row in weir.good('doctor', '--json').json()['items']}
    assert checks['scheduler'] == 'ok', checks
    metrics = weir.good('status', '--metrics').out.splitlines()
    assert 'weir_scheduler_is_free 0' in metrics and f'weir_scheduler_epoch {role["epoch"]}' in metrics, metrics


def both_nodes_run_what_one_schedules(weir):
    """n1 has room for one execution, so n2 must be assigned the others."""
    weir.make_store()
    gated(weir)
    first = weir.spawn('serve', '--allow-exec', '--node', 'n1', '--max-running', '1')
    assert json.loads(first.stdout.readline())['event'] == 'node.started'
    held_by(weir, 'n1')
    serve(weir, 'n2')
    for _ in range(4):
        weir.enqueue('-w', 'acme', 'gated')

    def nodes():
        rows = [row for row in weir.items('list') if row['status'] == 'DISPATCHED']
        return sorted(row['node'] for row in rows) if len(rows) == 4 else None
    assert wait_for('four starts', nodes) == ['n1', 'n2', 'n2', 'n2']
    weir.write('go', '')
    all_complete(weir, 4)
    _checks_out(weir)


# --- how it ends ---


def a_scheduler_that_stops_hands_over_at_once(weir):
    first, second, role = _two_nodes(weir)
    _runs_more(weir, 5)
    first.send_signal(signal.SIGTERM)
    assert first.wait(SECONDS_MOST) == 0
    then = held_by(weir, 'n2', role['epoch'])
    assert then['why'], then
    _runs_more(weir, 5)
    _checks_out(weir)
    assert second.poll() is None


def a_stop_hands_over_before_it_waits_for_what_runs(weir):
    weir.environment['WEIR_STOP_GRACE'] = '10m'
    first, second, _ = _two_nodes(weir)
    gated(weir)
    ids, found = [], []

    def begin_one(role, _):
        ids.append(weir.enqueue('-w', 'acme', 'gated'))
        wait_for('the start', lambda: weir.good('show', ids[-1], '--json').json()['status'] == 'DISPATCHED')
        assert weir.good('show', ids[-1], '--json').json()['node'] == role['node'], 'the scheduler prefers its own node'
        found.append(role)
    _look_at_role(weir, begin_one)
    stopping, heir = (first, 'n2') if found[-1]['node'] == 'n1' else (second, 'n1')
    stopping.send_signal(signal.SIGTERM)
    held_by(weir, heir, found[-1]['epoch'])
    assert stopping.poll() is None
    other = weir.enqueue()
    assert weir.good('wait', other, '--timeout', '90s').code == 0
    weir.write('go', '')
    assert stopping.wait(SECONDS_MOST) == 0
    all_complete(weir, len(ids) + 1)
    _checks_out(weir)


def a_killed_scheduler_is_replaced(weir):
    first, _, role = _two_nodes(weir)
    _runs_more(weir, 5)
    epoch = role['epoch']
    for number in range(3, 6):  # the next one has the role, a further one joins, and so on
        first.kill()
        first.wait()
        _runs_more(weir, 5)
        name = f'n{number - 1}'
        role = held_by(weir, name, epoch)
        epoch = role['epoch']
        first = next(process for process in weir.background if process.poll() is None)
        serve(weir, f'n{number}')
    weir.good('store', 'check')


def a_killed_scheduler_loses_nothing_that_it_had_assigned(weir):
    first, _, role = _two_nodes(weir)
    weir.write('count.yaml', 'name: count\nsteps:\n  only:\n    exec: [sh, -c, "sleep 0.05; echo $WEIR_EXECUTION_ID >> '
                             f'{weir.path("ends")}"]\n')
    weir.good('workflow', 'apply', 'count.yaml', '-q')
    line = json.dumps({'workspace': 'acme', 'workflow': 'count'}) + '\n'
    ids = weir.good('enqueue', '-', '-q', stdin=line * 60).out.split()
    wait_for('some ends', lambda: states(weir).count('COMPLETED') >= 5)
    first.kill()
    first.wait()
    all_complete(weir, 60)
    held_by(weir, 'n2', role['epoch'])
    with open(weir.path('ends')) as file:
        assert set(ids) <= set(file.read().split())
    _checks_out(weir)


def a_frozen_scheduler_changes_nothing_when_it_wakes(weir):
    nodes = dict(zip(('n1', 'n2'), _two_nodes(weir)))
    _runs_more(weir, 5)
    for _ in range(5):  # on a busy machine the other one may lose the role again by itself, but not each time
        frozen = wait_for('a scheduler', lambda: (lambda role: None if role['is_free'] else role)(role_of(weir)))
        freeze(nodes[frozen['node']])
        heir = 'n2' if frozen['node'] == 'n1' else 'n1'
        then = held_by(weir, heir, frozen['epoch'])
        _runs_more(weir, 5)
        time.sleep(LEASE_SECONDS)
        nodes[frozen['node']].send_signal(signal.SIGCONT)
        _runs_more(weir, 5)
        again = role_of(weir)
        if again['node'] == heir and again['epoch'] == then['epoch']:
            break
    assert again['node'] == heir and again['epoch'] == then['epoch'], (then, again)
    assert nodes[frozen['node']].poll() is None, 'it goes on as a node'
    weir.good('store', 'check')


# --- nobody schedules ---


def without_a_scheduler_why_and_doctor_say_what_to_do(weir):
    weir.make_store()
    assert 'none yet' in weir.good('status').out
    first = serve(weir, 'n1')
    held_by(weir, 'n1')
    first.send_signal(signal.SIGTERM)
    assert first.wait(SECONDS_MOST) == 0
    role = role_of(weir)
    assert role['is_free'] and role['node'] is None, role
    weir.good('doctor')  # no node and nothing to do: a warning at most
    id = weir.enqueue()
    shown = weir.good('status')
    assert 'no execution starts (`weir doctor`)' in shown.out, repr(shown)
    sick = weir.run('doctor')
    assert 'none for' in sick.out and 'run `weir serve`' in sick.out, repr(sick)
    why = weir.good('why', id, '--json').json()
    assert why['pending_reason'] == 'no_node_in_group', why  # no node at all comes first
    assert 'weir_scheduler_is_free 1' in weir.good('status', '--metrics').out.splitlines()


def while_the_only_live_node_stands_still_why_says_no_scheduler(weir):
    """The lease of the role is over before that of the node."""
    weir.make_store()
    weir.write('weir.yaml', 'node.lease: 60s\n')
    first = serve(weir, 'n1')
    held_by(weir, 'n1')
    freeze(first)
    id = weir.enqueue()
    wait_for('a free role', lambda: role_of(weir)['is_free'])
    why = weir.good('why', id, '--json').json()
    assert why['pending_reason'] == 'no_scheduler', why
    assert why['scheduler_node'] == 'n1' and why['scheduler_since'] and why['scheduler_why'], why
    said = weir.good('why', id)
    assert 'no_scheduler' in said.out and 'scheduler        none since' in said.out and 'n1' in said.out, repr(said)
    assert 'now: weir serve' in said.err, repr(said)
    assert weir.items('list', '--where', 'pending_reason=no_scheduler')[0]['id'] == id
    assert 'none for' in weir.run('doctor').out
    first.send_signal(signal.SIGCONT)
    all_complete(weir, 1)
    held_by(weir, 'n1')
    _checks_out(weir)


def _hold_lock(weir, holder):
    """As another program does: the table is that of ShedLock."""
    if POSTGRES:
        SERVER.sql(f"""INSERT INTO weir.shedlock (name, lock_until, locked_at, locked_by)
                       VALUES ('processExecutionQueue', '2099-01-01', '2020-01-01', '{holder}')""", weir.database_name)
    else:
        weir.database().execute('INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES (?, ?, ?, ?)',
                                ('processExecutionQueue', 4070908800000000, 1577836800000000, holder))


def the_holder_of_the_lock_of_exclusive_dispatch_is_named(weir):
    weir.make_store()
    _hold_lock(weir, 'riven-7')
    weir.write('weir.yaml', 'dispatch.exclusive: true\n')
    id = weir.enqueue()
    serve(weir, 'n1')
    role = wait_for('the wait for the lock', lambda: (lambda it: it if it['lock_awaited_since'] else None)(role_of(weir)))
    assert role['node'] == 'n1' and role['lock_holder'] == 'riven-7' and role['lock_until'].startswith('2099-01-01'), role
    awaits = 'n1 has dispatch.exclusive and awaits its lock processExecutionQueue'
    for verb in (('status',), ('top', '--once'), ('node', 'list')):
        shown = weir.good(*verb)
        assert awaits in shown.out and 'held by riven-7' in shown.out, repr(shown)
    sick = weir.run('doctor')
    assert sick.code == 1 and awaits in sick.out and 'held by riven-7' in sick.out, repr(sick)
    assert 'weir lock release processExecutionQueue' in sick.out, repr(sick)
    why = weir.good('why', id, '--json').json()
    assert why['pending_reason'] == 'no_scheduler' and why['lock_holder'] == 'riven-7', why
    said = weir.good('why', id)
    assert 'held by riven-7' in said.out and 'now: weir lock list' in said.err, repr(said)
    weir.good('lock', 'release', 'processExecutionQueue', '--yes')
    all_complete(weir, 1)
    _checks_out(weir)


def _refuse_assignments(weir, are_refused):
    """A trigger on the queue: the store refuses each assignment, and nothing else."""
    if POSTGRES:
        SERVER.sql("""CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
                      $$BEGIN RAISE EXCEPTION 'no item leaves this queue'; END$$;
                      CREATE TRIGGER refuse BEFORE UPDATE OF phase ON weir.workflow_execution_queue
                      FOR EACH ROW WHEN (NEW.phase = 2) EXECUTE FUNCTION public.refuse()""" if are_refused else
                   'DROP TRIGGER refuse ON weir.workflow_execution_queue', weir.database_name)
    else:
        weir.database().execute("""CREATE TRIGGER refuse BEFORE UPDATE OF phase ON workflow_execution_queue
                                   WHEN NEW.phase = 2
                                   BEGIN SELECT RAISE(ABORT, 'no item leaves this queue'); END""" if are_refused else
                                'DROP TRIGGER refuse')


def a_scheduler_whose_rounds_fail_is_named_with_the_cause(weir):
    weir.make_store()
    node = serve(weir, 'n1')
    held_by(weir, 'n1')
    _refuse_assignments(weir, True)
    id = weir.enqueue()
    why = wait_for('the reason', lambda: (lambda it: it if it['pending_reason'] == 'no_scheduler' else None)(
        weir.good('why', id, '--json').json()), seconds=10)
    assert why['scheduler_node'] == 'n1' and why['scheduler_since'], why
    assert why['scheduler_why'] == 'its rounds fail' and 'no item leaves this queue' in why['scheduler_error'], why
    assert weir.items('list', '--where', 'pending_reason=no_scheduler')[0]['id'] == id
    said = weir.good('why', id)
    assert 'n1 has the role, and its rounds fail since' in said.out and 'no item leaves this queue' in said.out, repr(said)
    assert 'now: weir doctor' in said.err, repr(said)
    for verb in (('status',), ('top', '--once'), ('node', 'list')):
        shown = weir.good(*verb)
        assert 'n1 has the role, and its rounds have failed for' in shown.out, repr(shown)
        assert 'no item leaves this queue' in shown.out, repr(shown)
    sick = weir.run('doctor')
    assert sick.code == 1 and 'no item leaves this queue' in sick.out, repr(sick)
    _refuse_assignments(weir, False)
    all_complete(weir, 1)
    assert node.poll() is None
    wait_for('the end of the failure', lambda: role_of(weir)['failing_since'] is None)
    assert weir.items('node', 'list')[0]['dispatch_error'] is None
    _checks_out(weir)
    node.send_signal(signal.SIGTERM)
    events = [json.loads(line) for line in node.stdout.read().splitlines()]
    lost = [event['reason'] for event in events if event['event'] == 'scheduler.lost']
    assert any('no item leaves this queue' in reason for reason in lost), lost
    assert not any('another node' in reason for reason in lost), lost  # there is no other one


def a_stuck_execution_is_named_with_its_step_and_its_node(weir):
    weir.make_store()
    gated(weir)
    weir.write('weir.yaml', 'executor.stuck_after: 10ms\n')
    serve(weir, 'n1')
    id = weir.enqueue('-w', 'acme', 'gated')
    why = wait_for('a stuck one', lambda: (lambda it: it if it.get('stuck_since') else None)(
        weir.good('why', id, '--json').json()))
    step, = why['unfinished_steps']
    assert (step['step'], step['status'], step['attempt'], why['node']) == ('only', 'RUNNING', 1, 'n1'), why
    assert 'stuck' in why['because'], why
    said = weir.good('why', id)
    assert f'stuck            since {why["stuck_since"]}' in said.out, repr(said)
    assert 'step             only, attempt 1, RUNNING, started' in said.out, repr(said)
    assert 'node             n1' in said.out and f'now: weir logs {id} --step only' in said.err, repr(said)
    row, = weir.items('list', '--where', 'stuck=yes')
    assert row['id'] == id and row['stuck_since'] == why['stuck_since'], row
    assert row['claimed_at'] <= row['stuck_since'], row  # a slow machine needs the 10 ms for the start of the step alone
    assert weir.items('list', '--where', 'stuck=no') == []
    for verb in ('status', 'doctor'):
        shown = weir.good(verb)
        assert f'{id} of acme, gated: stuck for' in shown.out, repr(shown)
        assert 'on n1, in step only (attempt 1)' in shown.out, repr(shown)
        assert 'weir list --where stuck=yes' in shown.out, repr(shown)
    status = weir.good('status', '--json').json()
    assert status['stuck'] == 1 and status['stuck_executions'][0]['id'] == id, status
    dry = weir.good('cancel', '--where', 'stuck=yes', '--dry-run', '--json').json()
    assert dry['matched'] == 1, dry
    weir.write('go', '')
    all_complete(weir, 1)
    assert weir.items('list', '--where', 'stuck=yes') == []
    status = weir.good('status', '--json').json()
    assert status['stuck'] == 0 and status['stuck_executions'] == [], status


def what_was_retried_is_left_out_by_the_filter(weir):
    weir.make_store()
    weir.write('bad.yaml', 'name: bad\nsteps:\n  only:\n    exec: ["false"]\n')
    weir.good('workflow', 'apply', 'bad.yaml', '-q')
    ids = [weir.enqueue('-w', 'acme', 'bad') for _ in range(3)]
    first = serve(weir, 'n1')
    wait_for('three failures', lambda: states(weir) == ['FAILED'] * 3)
    first.send_signal(signal.SIGTERM)
    assert first.wait(SECONDS_MOST) == 0
    weir.good('retry', ids[0], '-q')
    assert weir.good('list', '--where', 'status=failed retried=yes', '--json').json()['items'][0]['id'] == ids[0]
    dry = weir.good('retry', '--where', 'status=failed', '--dry-run')
    assert 'would retry 2, 1 refused' in dry.err and 'retried=no' in dry.err, repr(dry)
    summary = weir.good('retry', '--where', 'status=failed retried=no', '--dry-run', '--json').json()
    assert summary['matched'] == 2 and summary['refused'] == 0, summary
    done = weir.good('retry', '--where', 'status=failed retried=no', '--json').json()
    assert done['changed'] == 2 and done['refused'] == 0, done


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
