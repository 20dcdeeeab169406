#!/usr/bin/env python3
"""`weir serve` as a daemon: starting, logging, stopping, and what it refuses.

usage: serve_test.py BINARY [TEST ...]
"""

import io
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime, timedelta

from harness import run_tests
from scheduler_scene import more_nodes_run_more
from waiting import SECONDS_MOST, SHORT, wait_for

LONG_GRACE = {'WEIR_STOP_GRACE': '10m'}  # longer than a test waits for the end of a process


def _start(weir, *words, **options):
    """A node that is ready."""
    process = weir.spawn('serve', *words, **options)
    line = process.stdout.readline()
    assert line, process.stderr.read()
    assert json.loads(line)['event'] == 'node.started', line
    return process


def _events(process):
    return [json.loads(line) for line in process.stdout.read().splitlines()]


def _without_role(events):
    """Without those of the scheduler's role, which are scheduler_test.py's."""
    return [event for event in events if not event['event'].startswith('scheduler.')]


def _events_until(process, name):
    """Up to the first of this name. What is in the store, and told by `wait`, is in the log a moment later."""
    events = []
    while not events or events[-1]['event'] != name:
        line = process.stdout.readline()
        assert line, f'it never said {name}, but {events}'
        events.append(json.loads(line))
    return events


def _stop(process, number=signal.SIGTERM):
    process.send_signal(number)
    return process.wait(SECONDS_MOST)


def _sleeper(weir, seconds='600', name='sleeper'):
    weir.write(f'{name}.yaml', f'name: {name}\nsteps:\n  only:\n    exec: [sleep, "{seconds}"]\n')
    weir.good('workflow', 'apply', f'{name}.yaml', '-q')


def _gated(weir, name='gated'):
    """A workflow whose step runs until the file `go` is there: no test depends on how fast the machine is."""
    weir.write(f'{name}.yaml', f'name: {name}\nsteps:\n  only:\n    exec: [sh, -c, "until [ -e \\"$0\\" ]; do sleep 0.05; '
                               f'done", "{weir.path("go")}"]\n')
    weir.good('workflow', 'apply', f'{name}.yaml', '-q')


def _read_until(stream, words):
    line = stream.readline()
    while line and words not in line:
        line = stream.readline()
    assert line, f'it never said {words}'


def _await_status(weir, id, *wanted):
    def reached():
        execution = weir.good('show', id, '--json').json()
        return execution if execution['status'] in wanted else None
    return wait_for(f'one of {wanted}', reached)


def a_store_that_is_missing_or_not_migrated_is_refused_with_the_command(weir):
    result = weir.soon('serve', code=6)
    assert 'weir store init' in result.err and 'store_unreachable' in result.err and result.out == '', repr(result)
    weir.database('empty.db').execute('PRAGMA user_version').fetchall()
    weir.write('empty.db', b'')
    result = weir.run('serve', '--store', 'empty.db', code=6)
    assert 'weir store init' in result.err, repr(result)


def a_store_of_a_newer_version_is_refused(weir):
    weir.make_store()
    weir.database().execute('PRAGMA user_version = 999')
    result = weir.run('serve', code=6)
    assert 'schema_newer' in result.err, repr(result)


def it_runs_executions_and_logs_json_when_piped(weir):
    weir.make_store()
    process = _start(weir, '--allow-exec', '--node', 'host-a')
    id = weir.good('enqueue', '-w', 'acme', 'hello', '--wait', '-q').out.strip()
    events = _events_until(process, 'execution.completed')
    assert _stop(process) == 0
    events = _without_role(events + _events(process))
    names = [event['event'] for event in events]
    assert names == ['execution.dispatching', 'execution.dispatched', 'execution.completed', 'node.stopping',
                     'node.stopped'], names
    assert events[0]['execution_id'] == id and events[0]['workspace'] == 'acme' and events[0]['node'] == 'host-a'
    assert events[-1]['reason'] == 'graceful'
    assert all(set(event) >= {'at', 'level', 'event', 'message'} for event in events)


def a_short_run_has_the_times_of_its_start(weir):
    """Its start is recorded with its end."""
    weir.make_store()
    weir.write('w.json', json.dumps({'name': 'short', 'steps': {'only': {'exec': ['sleep', '0.2']}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')
    process = _start(weir, '--allow-exec')
    id = weir.good('enqueue', '-w', 'acme', 'short', '--wait', '-q').out.strip()
    assert _stop(process) == 0
    shown = weir.good('show', id, '--json').json()
    step = shown['steps'][0]
    times = [shown['claimed_at'], shown['dispatched_at'], step['started_at'], step['finished_at'], shown['finished_at']]
    assert shown['status'] == 'COMPLETED' and times == sorted(times), times
    ran = datetime.fromisoformat(step['finished_at']) - datetime.fromisoformat(step['started_at'])
    assert ran >= timedelta(seconds=0.2) and times[1] < times[4], times
    events = [event for event in shown['events'] if event['event'] == 'dispatch']
    assert [(event['at'], event.get('reason')) for event in events] == [(times[1], None)], events


def the_log_is_readable_on_request_and_has_levels(weir):
    weir.make_store()
    process = weir.spawn('serve', env={'WEIR_LOG_FORMAT': 'text', 'WEIR_LOG_LEVEL': 'debug'})
    first = process.stdout.readline()
    while b'node.started' not in first:
        first = process.stdout.readline()
    assert first[2:3] == b':' and b' info  node.started ' in first and b'\x1b' not in first, first
    assert _stop(process) == 0
    assert b' debug store.called ' in process.stdout.read()
    quiet = weir.spawn('serve', env={'WEIR_LOG_LEVEL': 'error'})
    _await_node(weir)
    assert _stop(quiet) == 0
    assert quiet.stdout.read() == b''


def _await_node(weir):
    wait_for('the coming up of a node', lambda: weir.good('status', '--json').json()['nodes'] > 0)


def exec_is_closed_unless_allowed(weir):
    weir.make_store()
    process = _start(weir)
    result = weir.run('enqueue', '-w', 'acme', 'hello', '--wait')
    assert result.code == 1, repr(result)
    execution = weir.good('show', result.out.strip(), '--json').json()
    assert execution['status'] == 'FAILED' and 'exec_not_allowed' in json.dumps(execution), execution
    assert 'exec.allow does not list it' in json.dumps(execution), execution
    assert _stop(process) == 0


def steps_run_in_the_folder_of_the_node_unless_they_name_one(weir):
    weir.make_store()
    os.mkdir(weir.path('below'))
    weir.write('where.yaml', 'name: where\nsteps:\n  here: {exec: [pwd]}\n  there: {exec: [pwd], cwd: below}\n'
                             '  elsewhere: {exec: [pwd], cwd: /}\n')
    weir.good('workflow', 'apply', 'where.yaml', '-q')
    process = _start(weir, '--allow-exec')
    id = weir.good('enqueue', '-w', 'acme', 'where', '--wait', '-q').out.strip()
    steps = {step['step']: step for step in weir.good('logs', id, '--json').json()['items']}
    folder = os.path.realpath(weir.folder)
    assert steps['here']['output'].strip() == folder, steps
    assert steps['there']['output'].strip() == folder + '/below', steps
    assert steps['elsewhere']['output'].strip() == '/', steps
    assert _stop(process) == 0


def listed_programs_alone_may_run(weir):
    weir.make_store()
    weir.write('other.yaml', 'name: other\nsteps:\n  only:\n    exec: [ls]\n')
    weir.good('workflow', 'apply', 'other.yaml', '-q')
    process = _start(weir, env={'WEIR_EXEC_ALLOW': 'echo, cat'})
    weir.good('enqueue', '-w', 'acme', 'hello', '--wait')
    assert weir.run('enqueue', '-w', 'acme', 'other', '--wait').code == 1
    assert _stop(process) == 0


def a_first_signal_waits_for_what_runs_and_says_so(weir):
    weir.make_store()
    _gated(weir)
    process = _start(weir, '--allow-exec')
    id = weir.enqueue('-w', 'acme', 'gated')
    _await_status(weir, id, 'DISPATCHED')
    process.send_signal(signal.SIGTERM)
    _read_until(process.stderr, b'waiting up to 25s for 1 running execution')
    assert process.poll() is None
    weir.write('go', '')
    assert process.wait(SECONDS_MOST) == 0
    assert weir.good('show', id, '--json').json()['status'] == 'COMPLETED'


def a_second_signal_interrupts_and_the_work_goes_on_elsewhere(weir):
    weir.make_store()
    _gated(weir)
    process = _start(weir, '--allow-exec', env=LONG_GRACE)
    id = weir.enqueue('-w', 'acme', 'gated')
    _await_status(weir, id, 'DISPATCHED')
    process.send_signal(signal.SIGINT)
    _read_until(process.stderr, b'stopping')
    assert _stop(process, signal.SIGINT) == 130
    execution = weir.good('show', id, '--json').json()
    assert execution['pending_reason'] == 'handed_over', execution
    weir.write('go', '')
    second = _start(weir, '--allow-exec')
    _await_status(weir, id, 'COMPLETED')
    assert _stop(second) == 0


def the_end_of_the_grace_is_told_from_a_graceful_stop(weir):
    weir.make_store()
    _sleeper(weir)
    process = _start(weir, '--allow-exec', env={'WEIR_STOP_GRACE': '200ms'})
    id = weir.enqueue('-w', 'acme', 'sleeper')
    _await_status(weir, id, 'DISPATCHED')
    assert _stop(process) == 1
    assert b'stop.grace is over' in process.stderr.read()
    assert _events(process)[-1]['reason'] == 'interrupted'


def a_waiting_node_stops_at_once(weir):
    weir.make_store()
    process = _start(weir, env=LONG_GRACE)
    assert _stop(process, signal.SIGINT) == 0


def heartbeats_go_on_while_the_engine_is_full_and_many_wait(weir):
    weir.make_store()
    _gated(weir)
    process = _start(weir, '--allow-exec', env={'WEIR_EXECUTOR_MAX_RUNNING': '1', 'WEIR_NODE_LEASE': '6s'})
    line = json.dumps({'workspace': 'acme', 'workflow': 'gated'}) + '\n'
    first = weir.good('enqueue', '-', '-q', stdin=line * 2000).out.split()[0]
    _await_status(weir, first, 'DISPATCHED')
    # One node beats for longer than two leases. (After a lost lease it is another node.)
    beats, deadline = {}, time.monotonic() + 90
    while max(map(len, beats.values()), default=0) < 8:
        with weir.database() as database:
            for node, at in database.execute('SELECT id, active_at FROM nodes'):
                beats.setdefault(node, set()).add(at)
        assert time.monotonic() < deadline, beats
        time.sleep(0.02)
    def is_full():
        status = weir.good('status', '--json').json()
        assert status['completed'] == 0, status
        return status['pending'] == 1999  # or 2000, after a lost lease
    wait_for('one at work', is_full)
    weir.write('go', '')
    assert _stop(process) == 0


class _hangups:
    """SIGHUP as children shall find it: this test itself may run under nohup."""

    def __init__(self, how):
        self.how = how

    def __enter__(self):
        self.before = signal.signal(signal.SIGHUP, self.how)

    def __exit__(self, *_):
        signal.signal(signal.SIGHUP, self.before)


def a_closed_terminal_is_a_graceful_stop(weir):
    weir.make_store()
    for verb in ('serve', 'dev'):
        with _hangups(signal.SIG_DFL):
            process, terminal = _on_a_terminal(weir, verb)
        os.close(terminal)
        assert process.wait(SECONDS_MOST) == 0, verb
        assert weir.database().execute('SELECT graceful FROM nodes ORDER BY id DESC LIMIT 1').fetchone() == (1,)


def _on_a_terminal(weir, *words):
    """A node whose controlling terminal is a new one, and our end of it."""
    master, slave = os.openpty()
    process = weir.spawn(*words, terminal=slave)
    os.close(slave)
    _read_until(process.stdout, b'node.started')
    return process, master


def under_nohup_a_hangup_does_nothing(weir):
    weir.make_store()
    weir.write('weir.yaml', 'log.level: info\n')
    with _hangups(signal.SIG_IGN):
        process = _start(weir, '--allow-exec')
    weir.write('weir.yaml', 'log.level: warn\n')
    process.send_signal(signal.SIGHUP)
    weir.good('enqueue', '-w', 'acme', 'hello', '--wait')  # it goes on working
    assert _stop(process) == 0
    names = [event['event'] for event in _events(process)]
    assert 'execution.completed' in names and 'settings.reloaded' not in names


def _reload(process, end='settings.reloaded'):
    """The events up to the answer."""
    process.send_signal(signal.SIGHUP)
    return _events_until(process, end)


def a_hangup_reloads_what_may_change_and_names_what_needs_a_restart(weir):
    weir.make_store()
    weir.write('weir.yaml', 'dispatch.poll_interval: 1h\nlog.level: info\nretention: 14d\nnode.lease: 20s\n')
    with _hangups(signal.SIG_DFL):
        process = _start(weir, '--allow-exec', '--max-running', '7')
    weir.write('weir.yaml', 'dispatch.poll_interval: 2s\nlog.level: debug\nretention: forever\nnode.lease: 9s\n'
                            'store: postgres://eve:hunter2@db.example/app\nexecutor.max_running: 8\n')
    events = _reload(process)
    changed = {event['reason'] for event in events if event['event'] == 'setting.changed'}
    assert changed == {'dispatch.poll_interval: 1h -> 2s', 'log.level: info -> debug', 'retention: 14d -> forever'}, changed
    waits = {event['reason'] for event in events if event['event'] == 'setting.waits'}
    assert waits == {'store', 'node.lease'}, waits  # --max-running goes before the file
    assert events[-1]['count'] == 3 and 'hunter2' not in json.dumps(events)
    weir.good('enqueue', '--store', 'sqlite:./weir.db', '-w', 'acme', 'hello', '--wait')
    _read_until(process.stdout, b'execution.dispatching')  # a line of level debug: the log has its new level

    events = _reload(process)  # the same file again: nothing changes, and what waits is told again
    assert events[-1].get('count', 0) == 0 and sum(event['event'] == 'setting.waits' for event in events) == 2
    weir.write('weir.yaml', 'dispatch.poll_interval: 2s\nretention: forever\nlog.level: info\nnode.lease: 20s\n')
    events = _reload(process)
    assert [event['reason'] for event in events if event['event'].startswith('setting.')] == ['log.level: debug -> info']
    assert _stop(process) == 0


def the_new_settings_hold_for_what_is_claimed_from_then_on(weir):
    weir.make_store()
    _gated(weir)
    weir.write('weir.yaml', 'executor.stuck_after: 1h\nstop.grace: 10m\n')
    with _hangups(signal.SIG_DFL):
        process = _start(weir, '--allow-exec')
    weir.write('weir.yaml', 'executor.stuck_after: 10ms\nstop.grace: 100ms\n')
    _reload(process)
    weir.good('enqueue', '-w', 'acme', 'gated')
    _read_until(process.stdout, b'execution.stuck')
    assert _stop(process) == 1  # the old grace would outlast this test
    assert b'stop.grace is over' in process.stderr.read()


def _set_sizes(weir):
    """The sizes of the sets in which a node takes six executions that wait for it."""
    line = '{"workspace": "acme", "workflow": "hello"}\n'
    ids = weir.good('enqueue', '-', '-q', stdin=line * 6).out.split()
    with open(weir.path('node.log'), 'wb') as log:
        process = weir.spawn('serve', '--allow-exec', stdout=log)
    for id in ids:
        weir.good('wait', id)
    assert _stop(process) == 0
    with open(weir.path('node.log'), encoding='utf-8') as log:
        events = [json.loads(line) for line in log]
    return [event['count'] for event in events if event['event'] == 'batch.claimed']


def a_set_is_at_most_as_large_as_the_batch_size(weir):
    weir.make_store()
    weir.good('workspace', 'set', 'acme', '--plan', 'enterprise')
    weir.write('weir.yaml', 'log.level: debug\n')
    assert max(_set_sizes(weir)) > 2
    weir.write('weir.yaml', 'log.level: debug\ndispatch.batch_size: 2\n')
    sizes = _set_sizes(weir)
    assert sum(sizes) == 6 and max(sizes) <= 2, sizes


def _await_stuck(process, id):
    event = {}
    while event.get('event') != 'execution.stuck' or event['execution_id'] != id:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        event = json.loads(line)


def a_hangup_reaches_every_node_of_a_process(weir):
    weir.make_store()
    _gated(weir)
    entries = 'nodes: [{executor.group: left%s}, {executor.group: right}]\n'
    weir.write('weir.yaml', 'executor.stuck_after: 1h\n' + entries % '')
    with _hangups(signal.SIG_DFL):
        process = _start(weir, '--allow-exec')
    weir.write('weir.yaml', 'executor.stuck_after: 10ms\n' + entries % ', executor.stuck_after: 2h')
    events = _reload(process)
    changed = [event['reason'] for event in events if event['event'] == 'setting.changed']
    assert changed == ['executor.stuck_after: 1h -> 10ms', 'left: executor.stuck_after: 1h -> 2h'], changed
    _await_stuck(process, weir.enqueue('-w', 'acme', 'gated', '--executor-group', 'right'))
    weir.write('weir.yaml', 'executor.stuck_after: 2h\n' + entries % ', executor.stuck_after: 10ms')
    _reload(process)
    _await_stuck(process, weir.enqueue('-w', 'tiny', 'gated', '--executor-group', 'left'))
    weir.write('go', '')
    assert _stop(process) == 0


def a_broken_file_is_refused_with_its_line_and_the_old_settings_stay(weir):
    weir.make_store()
    weir.write('weir.yaml', 'log.level: info\n')
    with _hangups(signal.SIG_DFL):
        process = _start(weir, '--allow-exec')
    for text, line, word in (('log.level: debug\nretention: 3 parsecs\n', 'weir.yaml:2', 'retention'),
                             ('log.level: debug\n\nlog: [\n', 'weir.yaml:', ''),
                             ('log.level: debug\nlog.lewel: info\n', 'weir.yaml:2', 'log.lewel')):
        weir.write('weir.yaml', text)
        refused = _reload(process, 'settings.refused')[-1]
        assert line in refused['error'] and word in refused['error'], refused
        assert refused['level'] == 'error' and refused['error_code'] == 'invalid_config'
    weir.good('enqueue', '--config', '/dev/null', '-w', 'acme', 'hello', '--wait')
    assert _stop(process) == 0
    assert {event['level'] for event in _without_role(_events(process))} == {'info'}  # nothing of debug


def the_service_manager_is_told_of_a_reload(weir):
    weir.make_store()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, _hangups(signal.SIG_DFL):
        manager.bind(str(weir.path('notify')))
        manager.settimeout(SECONDS_MOST)
        process = _start(weir, env={'NOTIFY_SOCKET': str(weir.path('notify'))})
        assert manager.recv(200) == b'READY=1'
        process.send_signal(signal.SIGHUP)
        assert manager.recv(200).startswith(b'RELOADING=1\nMONOTONIC_USEC=')
        assert manager.recv(200) == b'READY=1'
        assert _stop(process) == 0


def an_enqueue_of_another_process_starts_at_once(weir):
    weir.make_store()
    process = _start(weir, '--allow-exec', env={'WEIR_DISPATCH_POLL_INTERVAL': '1h'})  # no poll helps
    waits = []
    deadline = time.monotonic() + SECONDS_MOST
    # The scheduler also finds new work when it renews its role, every two seconds. By chance that may be soon, but not five
    # times in a row; and on a busy machine five in a row are undisturbed at some time.
    while (len(waits) < 5 or max(waits[-5:]) >= 0.5) and time.monotonic() < deadline:
        id = weir.enqueue()
        execution = _await_status(weir, id, 'COMPLETED')
        with weir.database() as database:
            row = database.execute('SELECT created_at, claimed_at FROM workflow_executions WHERE id = ?', (id,)).fetchone()
        waits.append((row[1] - row[0]) / 1e6)
        assert execution['workspace'] == 'acme'
    assert max(waits[-5:]) < 0.5, waits
    assert _stop(process) == 0


def logs_are_the_bytes_that_a_step_wrote_but_on_a_terminal(weir):
    weir.make_store()
    program = r"printf 'a\000b\033[31m\342\200\256c\n\nlast'"
    weir.write('odd.json', json.dumps({'name': 'odd', 'steps': {'only': {'exec': ['sh', '-c', program]}}}))
    weir.good('workflow', 'apply', 'odd.json', '-q')
    _start(weir, '--allow-exec')
    execution = weir.good('enqueue', '-w', 'acme', 'odd', '--wait', '--timeout', '90s').out.strip()
    head = '== only, attempt 1, COMPLETED, exit code 0\n'
    assert weir.good('logs', execution, '--raw').out == 'a\0b\x1b[31m\u202ec\n\nlast'
    shown = weir.good('logs', execution).out
    assert re.sub('[0-9T:.-]{23}Z', 'TIME', shown) == \
        head + 'TIME stdout a\0b\x1b[31m\u202ec\nTIME stdout \nTIME stdout last\n', repr(shown)
    shown = weir.terminal('logs', execution, env={'NO_COLOR': '1'}).out.replace('\r', '')
    assert re.sub('[0-9T:.-]{23}Z', 'TIME', shown) == \
        head + 'TIME stdout a?b?[31m?c\nTIME stdout \nTIME stdout last\n', repr(shown)


def a_secret_in_params_is_in_no_log_no_metric_and_no_command_line(weir):
    """What a customer sends may be secret: it belongs to the store and to the step that asks for it, and to nobody else."""
    weir.make_store()
    canary = 'canary-7f3a91'
    weir.write('careful.json', json.dumps({'name': 'careful', 'steps': {
        'reads': {'exec': ['sh', '-c', 'cat >/dev/null; cat /proc/*/cmdline 2>/dev/null | tr "\\0" " "; env'],
                  'stdin': '${.input}'},
        'fails': {'needs': ['reads'], 'exec': ['sh', '-c', 'exit 3'], 'stdin': '${.input.token}'}}}))
    weir.good('workflow', 'apply', 'careful.json', '-q')
    with open(weir.path('log'), 'wb') as log:
        process = weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'debug'}, stdout=log)
    _await_node(weir)
    params = weir.write('params', json.dumps({'token': canary}))
    result = weir.run('enqueue', '-w', 'acme', 'careful', '-p', f'@{params}', '--wait')
    assert result.code == 1, repr(result)
    id = result.out.strip()
    said = [result.out + result.err]
    said += [weir.good(*words).out for words in (('status', '--metrics'), ('status', '--json'), ('list', '--json'),
                                                 ('why', id), ('doctor',), ('logs', id))]
    refused = weir.run('enqueue', '-w', 'nobody', 'careful', '-p', f'@{params}', '--wait')
    said.append(refused.out + refused.err)
    assert refused.code == 3, repr(refused)
    assert _stop(process) == 0
    with open(weir.path('log')) as log:
        said += [log.read(), process.stderr.read().decode()]
    assert 'store.called' in said[-2]
    assert not any(canary in text for text in said), [text for text in said if canary in text]
    assert canary in json.dumps(weir.good('show', id, '--json').json()['params'])  # it is where it belongs


def a_closed_stdout_does_not_stop_the_node(weir):
    weir.make_store()
    process = _start(weir, '--allow-exec')
    process.stdout.close()
    for _ in range(3):
        weir.good('enqueue', '-w', 'acme', 'hello', '--wait')
    assert _stop(process) == 0


def a_log_that_nobody_reads_does_not_stop_the_node(weir):
    weir.make_store()
    process = weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'debug'})
    _await_node(weir)
    weir.enqueue_many(300)
    wait_for('the end of all', lambda: weir.good('status', '--json').json()['completed'] == 300)
    process.stdout.close()
    assert _stop(process) == 0


def a_service_manager_is_told(weir):
    weir.make_store()
    path = weir.path('notify.socket')
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(path)
    manager.settimeout(SECONDS_MOST)
    process = weir.spawn('serve', env={'NOTIFY_SOCKET': path, 'WATCHDOG_USEC': '200000'})
    assert manager.recv(1000) == b'READY=1'
    assert manager.recv(1000) == b'WATCHDOG=1'
    assert manager.recv(1000) == b'WATCHDOG=1'
    process.send_signal(signal.SIGTERM)
    said = manager.recv(1000)
    while said == b'WATCHDOG=1':
        said = manager.recv(1000)
    assert said == b'STOPPING=1'
    assert process.wait(SECONDS_MOST) == 0
    manager.close()


def a_slot_that_a_stopped_group_has_left_is_named_and_freed(weir):
    """The group of the execution is not started again. Each answer names it, and the cancel needs no node."""
    weir.make_store()
    _sleeper(weir)
    weir.good('workspace', 'set', 'small', '--plan', 'free', '-q')
    process = _start(weir, '--allow-exec', '-g', 'reports', env=LONG_GRACE)
    left = weir.enqueue('-w', 'small', 'sleeper', '-g', 'reports')
    _await_status(weir, left, 'DISPATCHED')
    process.send_signal(signal.SIGTERM)
    _read_until(process.stderr, b'waiting up to')
    _stop(process)
    waiting = weir.enqueue('-w', 'small', 'sleeper')
    _start(weir, '--allow-exec', '-g', 'default')
    why = wait_for('the slot to hold it up', lambda: (w := weir.good('why', waiting)) and 'at_capacity' in w.out and w)
    assert 'handed_over; group reports has no node' in why.out, why
    assert 'now: weir serve --executor-group reports' in why.err and f'or: weir cancel {left}' in why.err, why
    why = weir.good('why', left)
    assert 'gave it back' in why.out and '0 live in group reports' in why.out and 'INTERRUPTED' in why.out, why
    assert 'now: weir serve --executor-group reports' in why.err, why
    status = weir.good('status').out
    assert '! group     reports has no live node: 0 pending, 1 held\n' in status, status
    assert '            weir serve --executor-group reports\n' in status, status
    assert 'group     default' not in status, status
    doctor = weir.run('doctor').out
    assert f'group reports has no live node, so {left} keeps its slot' in doctor, doctor
    assert '`weir serve --executor-group reports`' in doctor and f'`weir cancel {left}`' in doctor, doctor
    cancel = weir.good('cancel', left)
    assert '1 cancelled' in cancel.out + cancel.err, cancel
    assert weir.show(left)['status'] == 'CANCELLED'
    _await_status(weir, waiting, 'DISPATCHED')


def three_nodes_run_three_times_as_much_as_one(weir):
    weir.make_store()
    more_nodes_run_more(weir, lambda variables: _start(weir, '--allow-exec', env=variables))


def a_node_whose_store_is_destroyed_ends_with_a_message(weir):
    weir.make_store()
    process = _start(weir)
    size = os.path.getsize(weir.path('weir.db'))
    with open(weir.path('weir.db-wal'), 'r+b') as wal:
        wal.truncate(0)
    with open(weir.path('weir.db'), 'r+b') as file:
        file.write(os.urandom(size))
    for name in ('weir.db-shm',):
        with open(weir.path(name), 'r+b') as file:
            file.write(b'\0' * os.path.getsize(weir.path(name)))
    assert process.wait(SECONDS_MOST) == 1
    assert b'weir: ' in process.stderr.read()


def a_node_without_autostart_enqueues_and_takes_nothing(weir):
    weir.make_store()
    weir.write('weir.yaml', 'dispatch.autostart: false\n')
    process = _start(weir, '--allow-exec', '--node', 'front')
    _read_until(process.stdout, b'node.paused')
    id = weir.enqueue()
    assert 'weir node resume front' in weir.good('why', id).err
    assert weir.items('node', 'list')[0]['desired_state'] == 'pause'
    weir.good('node', 'resume', 'front')
    weir.good('wait', id)


def why_names_the_node_whose_pause_holds_all_back(weir):
    weir.make_store()
    process = _start(weir, '--node', 'n1')
    weir.good('node', 'pause', 'n1')
    _read_until(process.stdout, b'node.paused')
    id = weir.enqueue()
    said = weir.good('why', id)
    assert 'waiting because  no_node_in_group' in said.out, repr(said)
    assert '1 lives in group default and starts no executions' in said.out, repr(said)
    assert 'weir node resume n1' in said.err, repr(said)
    assert '! unserved  1: no node of their group accepts work' in weir.good('status').out
    sick = weir.run('doctor', code=1)
    assert '1 alive, none accepts work (`weir node list`), so no execution starts' in sick.out, repr(sick)
    assert 'run `weir node resume n1`' in sick.out, repr(sick)
    weir.good('node', 'drain', 'n1')
    assert 'weir node resume n1' in weir.good('why', id).err
    weir.good('node', 'resume', 'n1')
    assert 'starts no executions' not in weir.good('why', id).out
    weir.make_groups('nobody')
    weir.enqueue('-w', 'acme', 'hello', '--executor-group', 'nobody')
    assert '1 alive, but none accepts work for 1 waiting execution:' in weir.good('doctor').out
    assert _stop(process) == 0


def two_nodes_share_a_store_and_its_limits(weir):
    weir.make_store()
    _sleeper(weir, '0.05', 'nap')
    first = _start(weir, '--allow-exec', '--node', 'first')
    second = _start(weir, '--allow-exec', '--node', 'second')
    lines = ''.join(json.dumps({'workspace': workspace, 'workflow': 'nap'}) + '\n' for workspace in ('acme', 'tiny') * 20)
    weir.good('enqueue', '-', '-q', stdin=lines)
    wait_for('the end of all', lambda: weir.good('status', '--json').json()['completed'] == 40)
    assert _stop(first) == 0 and _stop(second) == 0
    with weir.database() as database:
        for name, limit in (('acme', 5), ('tiny', 1)):
            rows = database.execute('SELECT claimed_at, finished_at FROM workflow_executions h JOIN workspaces w '
                                    'ON w.id = h.workspace_id WHERE w.name = ?', (name,)).fetchall()
            held = peak = 0
            for _, change in sorted([(end, -1) for _, end in rows] + [(claim, 1) for claim, _ in rows]):
                held += change
                peak = max(peak, held)
            assert peak <= limit, (name, peak)
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def _serve_groups(weir, *words, groups=('left', 'right'), **options):
    """One process with a node for each group; each has a workflow `gated-GROUP` of its own."""
    nodes = [{'executor.group': group} for group in groups]
    weir.write('weir.yaml', json.dumps({'exec.allow': True, 'nodes': nodes}))
    weir.make_store()
    for group in groups:
        weir.write('gated.yaml', f'name: gated-{group}\nexecutor_group: {group}\nsteps:\n  only:\n    exec: '
                   f'[sh, -c, "until [ -e \\"$0\\" ]; do sleep 0.05; done", "{weir.path("go-" + group)}"]\n')
        weir.good('workflow', 'apply', 'gated.yaml', '-q')
    process = weir.spawn('serve', *words, **options)
    started = []
    while len(started) < len(groups):
        started += _without_role([json.loads(process.stdout.readline())])
    assert [(line['event'], line['executor_group']) for line in started] == \
        [('node.started', group) for group in groups], started
    return process, [line['node'] for line in started]


def a_process_has_a_node_for_each_group_of_its_settings(weir):
    process, names = _serve_groups(weir, '--node', 'both')
    assert names == ['both-left', 'both-right'], names
    assert [(item['name'], item['executor_group'], item['state']) for item in weir.items('node', 'list')] == \
        [('both-left', 'left', 'alive'), ('both-right', 'right', 'alive')]
    ids = [weir.enqueue('-w', 'acme', f'gated-{group}') for group in ('left', 'right')]
    running = [_await_status(weir, id, 'DISPATCHED') for id in ids]
    assert [execution['node'] for execution in running] == names, running
    weir.write('go-right', '')
    _await_status(weir, ids[1], 'COMPLETED')
    weir.good('node', 'pause', 'both-right')
    late = weir.enqueue('-w', 'acme', 'gated-right')
    # The pause has arrived once the node says so; the other one goes on.
    line = process.stdout.readline()
    while line and json.loads(line)['event'] != 'node.paused':
        line = process.stdout.readline()
    assert json.loads(line)['node'] == 'both-right', line
    weir.write('go-left', '')
    _await_status(weir, ids[0], 'COMPLETED')
    _await_status(weir, weir.enqueue('-w', 'acme', 'gated-left'), 'COMPLETED')
    weir.good('node', 'resume', 'both-right')
    _await_status(weir, late, 'COMPLETED')
    os.remove(weir.path('go-right'))
    last = weir.enqueue('-w', 'acme', 'gated-right')
    _await_status(weir, last, 'DISPATCHED')
    process.send_signal(signal.SIGTERM)
    said = io.TextIOWrapper(process.stderr)
    _read_until(said, '- 2 nodes')
    _read_until(said, 'group left - engine in_process - exec open')
    _read_until(said, 'for 1 running execution;')
    weir.write('go-right', '')
    assert process.wait(SECONDS_MOST) == 0
    execution = weir.good('show', last, '--json').json()
    assert execution['status'] == 'COMPLETED' and execution['handovers'] == 0, execution
    stopped = [event['node'] for event in _events(process) if event['event'] == 'node.stopped']
    assert sorted(stopped) == names, stopped
    assert weir.items('node', 'list') == []


def all_nodes_of_a_process_wait_for_what_runs_and_are_interrupted_together(weir):
    process, names = _serve_groups(weir)
    assert names[0].endswith('-left') and names[1].endswith('-right') and names[0] != names[1], names
    ids = [weir.enqueue('-w', 'acme', f'gated-{group}') for group in ('left', 'right')]
    for id in ids:
        _await_status(weir, id, 'DISPATCHED')
    process.send_signal(signal.SIGTERM)
    _read_until(io.TextIOWrapper(process.stderr), 'for 2 running executions')
    assert process.poll() is None
    assert _stop(process) == 130
    for group in ('left', 'right'):
        weir.write(f'go-{group}', '')
    process = weir.spawn('serve', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for id in ids:
        _await_status(weir, id, 'COMPLETED')
    assert _stop(process) == 0


def one_group_of_the_settings_can_be_served_alone(weir):
    process, names = _serve_groups(weir)
    assert _stop(process) == 0
    process = _start(weir, '--executor-group', 'right')
    assert [item['executor_group'] for item in weir.items('node', 'list')] == ['right']
    assert _stop(process) == 0
    refused = weir.run('serve', '--executor-group', 'middle', code=2)
    assert 'none of the 2 `nodes` serves the group "middle"' in refused.err, refused


def _is_running(argument):
    """A process with this argument."""
    for id in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{id}/cmdline', 'rb') as file:
                if argument.encode() in file.read().split(b'\0'):
                    return True
        except OSError:
            pass  # it has just ended
    return False


def a_killed_process_leaves_no_step_of_any_of_its_nodes(weir):
    process, _ = _serve_groups(weir)
    ids = [weir.enqueue('-w', 'acme', f'gated-{group}') for group in ('left', 'right')]
    for id in ids:
        _await_status(weir, id, 'DISPATCHED')
    gates = [weir.path(f'go-{group}') for group in ('left', 'right')]
    wait_for('the beginning of both steps', lambda: all(map(_is_running, gates)), pause=SHORT)
    process.kill()  # both keepers must see it and kill what they watch over
    process.wait()
    wait_for('the end of the steps', lambda: not any(map(_is_running, gates)), pause=SHORT)
    for group in ('left', 'right'):
        weir.write(f'go-{group}', '')
    process = weir.spawn('serve', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for id in ids:
        assert _await_status(weir, id, 'COMPLETED')['handovers'] == 1
    assert _stop(process) == 0


def a_node_has_the_hard_limit_of_files_and_its_steps_the_former_one(weir):
    weir.make_store()
    weir.write('files.yaml', 'name: files\nsteps:\n  only:\n    exec: [sh, -c, "echo $(ulimit -Sn) $(ulimit -Hn)"]\n')
    weir.good('workflow', 'apply', 'files.yaml', '-q')
    hard = min(4000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    limited = f'ulimit -Sn 300; ulimit -Hn {hard}; exec "$0" serve --allow-exec'
    process = subprocess.Popen(['sh', '-c', limited, weir.binary],
                               cwd=weir.folder, env=weir.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    weir.background.append(process)
    assert json.loads(process.stdout.readline())['event'] == 'node.started'
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    id = weir.good('enqueue', '-w', 'acme', 'files', '--wait', '-q').out.strip()
    assert weir.good('logs', id, '--json').json()['items'][0]['output'].strip() == f'300 {hard}'
    assert _stop(process) == 0


def a_name_that_is_too_long_is_refused_before_anything_is_reported(weir):
    weir.make_store()
    result = weir.run('serve', '--node', 'n' * 129)
    assert result.code == 2 and result.out == '', result
    assert result.err == 'weir: node.name: not UTF-8, or longer than 128 bytes (invalid_config)\n', result
    weir.write('two.yaml', f'node.name: {"n" * 128}\nnodes:\n  - executor.group: a\n  - executor.group: b\n')
    result = weir.run('serve', '--config', 'two.yaml')
    assert result.code == 2 and result.err.startswith('weir: node.name: not UTF-8, or longer than 128 bytes'), result


def too_small_a_stack_is_refused(weir):
    """Threads get what the limit says, and a node would be killed in the middle of its work."""
    weir.make_store()
    for words in ('serve', 'demo --once'):
        result = subprocess.run(['sh', '-c', f'ulimit -s 64; exec "$0" {words}', weir.binary], cwd=weir.folder,
                                env=weir.environment, capture_output=True, text=True, timeout=60, check=False)
        assert result.returncode == 1 and 'stack limit' in result.stderr and 'ulimit -s' in result.stderr, result


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
