#!/usr/bin/env python3
"""Nodes and commands whose wall clocks are ten minutes wrong, on one PostgreSQL: every time on record is store time, what
has a time happens at that time, and nobody takes a node for dead. libfaketime shifts CLOCK_REALTIME of a process and leaves
its other clocks alone, as a machine with a wrong date does; the steps of a node do not inherit it.

usage: postgres_clock_test.py BINARY [TEST ...]
"""

import atexit
import calendar
import glob
import json
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime

import crash_test
from crash_test import RECORDER, Scene
from harness import run_tests
from http_client import Listener, read_answer, read_until
from postgres_server import PostgresServer
from waiting import SECONDS_MOST, SHORT, wait_for

SECOND_US = 1000000
SKEW_US = 600 * SECOND_US
# Whatever is this far from where it belongs is not slowness.
WRONG_US = 300 * SECOND_US
WRONG_CLOCKS = {'ahead': 600, 'behind': -600}
SERVER = None


def _library():
    found = glob.glob('/usr/lib/*/faketime/libfaketimeMT.so.1') + glob.glob('/usr/lib*/faketime/libfaketimeMT.so.1')
    assert found, 'libfaketime is not there: install the package libfaketime (./dev test does)'
    return found[0]


def _clock(seconds):
    """The environment of a process whose wall clock is wrong by so much."""
    # The last one: its repair for old versions of libc shifts the ends of waits on the monotonic clock in newer ones.
    return {'LD_PRELOAD': _library(), 'FAKETIME': f'{seconds:+d}s', 'FAKETIME_DONT_FAKE_MONOTONIC': '1',
            'FAKETIME_FORCE_MONOTONIC_FIX': '0'}


def _tidy_up(pid):
    """What libfaketime leaves behind of a process that was killed."""
    for path in (f'/dev/shm/faketime_shm_{pid}', f'/dev/shm/sem.faketime_sem_{pid}'):
        if os.path.exists(path):
            os.remove(path)


def _prepare(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _sql(weir, text):
    return SERVER.sql(text, weir.environment['WEIR_STORE'].rpartition('/')[2])


def _store_time(weir):
    return int(_sql(weir, 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint'))


def _node(weir, name, seconds, **environment):
    """A node that has come up; its log shows that its wall clock is wrong indeed."""
    log = weir.path(f'{name}.log')
    with open(log, 'w') as file:
        process = weir.spawn('serve', '--allow-exec', '--node', name, stdout=file, stderr=file,
                             env={**_clock(seconds), **environment})
    atexit.register(_tidy_up, process.pid)
    line = wait_for('the start', lambda: next((line for line in _read(log).splitlines() if 'node.started' in line), None),
                    pause=SHORT)
    told_us = _micros(json.loads(line)['at'])
    off_us = told_us - time.time_ns() // 1000
    assert abs(off_us - seconds * SECOND_US) < WRONG_US, f'the clock of {name} is wrong by {off_us} us'
    return process


def _read(path):
    with open(path, errors='replace') as file:
        return file.read()


def _micros(text):
    whole, _, fraction = text.rstrip('Z').partition('.')
    return calendar.timegm(time.strptime(whole, '%Y-%m-%dT%H:%M:%S')) * SECOND_US + int(fraction.ljust(6, '0') or 0)


def _text(at_us):
    return time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at_us // SECOND_US)) + f'.{at_us % SECOND_US:06}Z'


def _stop(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS_MOST) == 0


def _check_all_times(weir, began_us):
    """Every column of every table that holds a time, and the times within ids."""
    ended_us = _store_time(weir) + 120 * SECOND_US  # leases and locks end later
    columns = _sql(weir, "SELECT table_name, column_name FROM information_schema.columns JOIN information_schema.tables"
                         " USING (table_schema, table_name) WHERE table_schema = 'weir' AND table_type = 'BASE TABLE'"
                         " AND data_type = 'bigint' AND column_name LIKE '%\\_at'").splitlines()
    seen = 0
    for table, column in (line.split('|') for line in columns):
        least, most = _sql(weir, f'SELECT coalesce(min({column}), 0), coalesce(max({column}), 0) FROM weir.{table}'
                                 f' WHERE {column} > 0').split('|')
        if int(most) > 0:
            seen += 1
            assert began_us <= int(least) and int(most) <= ended_us, \
                f'{table}.{column}: {least} to {most}, the test ran from {began_us} to {ended_us}'
    assert seen >= 10, f'only {seen} columns of {columns} hold a time'
    for id in _sql(weir, 'SELECT id FROM weir.workflow_executions').split():
        made_us = int(id.replace('-', '')[:12], 16) * 1000
        assert began_us - SECOND_US <= made_us <= ended_us, (id, made_us)


def _leases(weir):
    return _sql(weir, 'SELECT expires_at FROM weir.nodes ORDER BY id').splitlines()


def _work_for_both(weir, scene):
    """Rounds of work, asked for by commands with wrong clocks, until each node has ended some of it."""
    deadline = time.monotonic() + 120
    while True:
        for seconds in WRONG_CLOCKS.values():
            weir.environment.update(_clock(seconds))
            scene.enqueue(pro_co=8, free_co=2)
            for name in _clock(seconds):
                del weir.environment[name]
        scene.drain()
        if _sql(weir, 'SELECT count(DISTINCT node_id) FROM weir.workflow_executions') == '2':
            return
        assert time.monotonic() < deadline, 'one of the nodes does nothing'


def nodes_with_wrong_clocks_work_side_by_side_and_write_store_time(weir):
    began_us = _store_time(weir)
    scene = Scene(weir)
    nodes = [_node(weir, name, seconds, WEIR_EXECUTOR_MAX_RUNNING='2') for name, seconds in WRONG_CLOCKS.items()]
    _work_for_both(weir, scene)
    # Each renews its lease, which would be over at once, or never, if a wall clock had a say.
    leases = _leases(weir)
    wait_for('heartbeats', lambda: all(old != new for old, new in zip(leases, _leases(weir))))
    for node in nodes:
        _stop(node)
    scene.check()
    assert all(run.attempt == 1 for run in scene.runs()), 'a step was interrupted'
    assert _sql(weir, 'SELECT count(*), count(dead_at) FROM weir.nodes') == '2|0'
    assert _sql(weir, 'SELECT sum(handovers) + sum(deferrals) + sum(interruptions) FROM weir.workflow_executions') == '0'
    for name in WRONG_CLOCKS:
        assert 'lease.lost' not in _read(weir.path(f'{name}.log')), name
    _check_all_times(weir, began_us)


def _ended(weir, condition, column='finished_at'):
    """The column of the one that has ended and meets the condition, once there is one."""
    return int(wait_for(condition, lambda: _sql(weir, f'SELECT {column} FROM weir.workflow_executions WHERE {condition}')))


def _check_run_at(weir, clock):
    """In three spellings; two count from the moment of the call."""
    for spelling in ('time of day', 'flag', 'line'):
        asked_us = _store_time(weir) + SECOND_US
        if spelling == 'line':
            line = json.dumps({'workspace': 'pro-co', 'workflow': 'recorded', 'run_at': '+1s'}) + '\n'
            result = weir.good('enqueue', '-', '-q', stdin=line, env=clock)
        else:
            at = '+1s' if spelling == 'flag' else _text(asked_us)
            result = weir.good('enqueue', '-q', '-w', 'pro-co', 'recorded', '--run-at', at, env=clock)
        id = result.out.strip()
        run_at, claimed_at = _ended(weir, f"id = '{id}'", 'run_at'), _ended(weir, f"id = '{id}'", 'claimed_at')
        assert 0 <= run_at - asked_us < WRONG_US, (spelling, run_at, asked_us)
        assert 0 <= claimed_at - run_at < WRONG_US, (spelling, run_at, claimed_at)


def what_is_to_happen_later_happens_in_store_time(weir):
    """Each node alone, each command with a wrong clock: run_at, the back-off of a step, a sleep until a time, a retry."""
    began_us = _store_time(weir)
    scene = Scene(weir)
    weir.write('flaky.json', json.dumps({'name': 'flaky', 'steps': {'only': {
        'exec': [RECORDER, scene.records, weir.path('locks'), '10', '1'], 'retry': {'attempts': 2, 'backoff': '1s'}}}}))
    weir.write('until.yaml', 'name: until\nsteps:\n  nap: {sleep: {until: "${.input.at}"}}\n')
    weir.write('failing.yaml', 'name: failing\nsteps:\n  only: {exec: ["false"]}\n')
    for file in ('flaky.json', 'until.yaml', 'failing.yaml'):
        weir.good('workflow', 'apply', file, '-q')
    for name, seconds in WRONG_CLOCKS.items():
        node, clock = _node(weir, name, seconds), _clock(seconds)
        at_us = _store_time(weir) + 2 * SECOND_US
        until, flaky, failing = (weir.good('enqueue', '-q', '-w', 'pro-co', *words, env=clock).out.strip() for words in (
            ('until', '-p', json.dumps({'at': _text(at_us)})), ('flaky',), ('failing',)))
        _check_run_at(weir, clock)
        ended_us = _ended(weir, f"id = '{until}'")
        assert -SECOND_US < ended_us - at_us < WRONG_US, f'it slept until {ended_us} instead of {at_us}'
        _ended(weir, f"id = '{flaky}' AND status = 'COMPLETED'")
        first, second = [run for run in scene.runs() if run.execution == flaky]
        assert SECOND_US // 2 < second.begin - first.last < WRONG_US, (first, second)  # back-offs jitter
        failed_us = _ended(weir, f"id = '{failing}' AND status = 'FAILED'")
        weir.good('retry', failing, '--yes', '-q', env=clock)
        assert 0 <= _ended(weir, f"retry_of = '{failing}'") - failed_us < WRONG_US
        _stop(node)
    _check_all_times(weir, began_us)


def _taken_over_when_dead(weir, victim, heir):
    scene = Scene(weir, milliseconds=3000)
    dying = _node(weir, victim, WRONG_CLOCKS[victim])
    other = _node(weir, heir, WRONG_CLOCKS[heir])
    weir.good('node', 'pause', heir)  # so that the other one has all of it
    wait_for('the pause', lambda: 'node.paused' in _read(weir.path(f'{heir}.log')), pause=SHORT)
    leases = _leases(weir)
    wait_for('heartbeats', lambda: all(old != new for old, new in zip(leases, _leases(weir))))
    assert _sql(weir, 'SELECT count(*), count(dead_at) FROM weir.nodes') == '2|0'
    scene.enqueue(pro_co=3)
    wait_for('steps at work', lambda: len(scene.runs()) >= 3, pause=SHORT)
    dying.send_signal(signal.SIGKILL)
    dying.wait()
    weir.good('node', 'resume', heir)
    scene.drain()
    _stop(other)
    scene.check()
    assert _sql(weir, 'SELECT name FROM weir.nodes WHERE dead_at IS NOT NULL') == victim
    assert _sql(weir, 'SELECT DISTINCT handovers FROM weir.workflow_executions') == '1'


def a_node_that_is_behind_is_taken_over_by_one_that_is_ahead_when_it_is_dead(weir):
    _taken_over_when_dead(weir, 'behind', 'ahead')


def a_node_that_is_ahead_is_taken_over_by_one_that_is_behind_when_it_is_dead(weir):
    _taken_over_when_dead(weir, 'ahead', 'behind')


def _set_server_clock(server, seconds):
    """libfaketime reads the file anew with each look at the clock; the rename makes it appear as a whole."""
    path = server.path('clock')
    with open(path + '.new', 'w') as file:
        file.write(f'{seconds:+d}s\n')
    os.chmod(path + '.new', 0o644)
    os.rename(path + '.new', path)


def _server_with_a_clock(seconds):
    server = PostgresServer(environment={'LD_PRELOAD': _library(), 'FAKETIME_TIMESTAMP_FILE': '/tmp/none',
                                         'FAKETIME_NO_CACHE': '1', 'FAKETIME_DONT_FAKE_MONOTONIC': '1',
                                         'FAKETIME_FORCE_MONOTONIC_FIX': '0', 'FAKETIME_DISABLE_SHM': '1'})
    server.stop()
    server.environment['FAKETIME_TIMESTAMP_FILE'] = server.path('clock')
    _set_server_clock(server, seconds)
    server.start()
    return server


class SetBackScene(Scene):
    def complete(self, it):
        it.store_clock_went_back = True


def a_node_that_dies_while_the_servers_clock_is_set_back_is_taken_over_soon(weir):
    """By an hour, once with a server that started while its clock was ahead. The node is of another machine, as its row has
    it: nothing but its lease tells of its death."""
    server = _server_with_a_clock(3600)
    url = server.url(server.database())
    weir.environment['WEIR_STORE'] = url

    def sql(text):
        return server.sql(text, url.rpartition('/')[2])
    ahead_us = int(sql('SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint')) - time.time_ns() // 1000
    assert abs(ahead_us - 3600 * SECOND_US) < WRONG_US, f'the clock of the server is ahead by {ahead_us} us'
    scene = SetBackScene(weir, milliseconds=1500)
    nodes = {name: weir.spawn('serve', '--allow-exec', '--node', name, env={'WEIR_NODE_LEASE': '3s'})
             for name in ('dies', 'heir')}
    wait_for('both nodes', lambda: sql('SELECT count(DISTINCT name) FROM weir.nodes') == '2', pause=SHORT)
    weir.good('node', 'pause', 'heir', '-q')  # from then on it is given nothing
    server.stop(signal.SIGQUIT)  # the rows now have a start of the server that is ahead as well
    server.start()
    scene.enqueue(pro_co=3)
    wait_for('steps at work', lambda: len(scene.runs()) >= 3, pause=SHORT)
    sql("UPDATE weir.nodes SET boot_id = 'another machine' WHERE name = 'dies'")
    nodes['dies'].send_signal(signal.SIGSTOP)  # no heartbeat after the clock was set
    _set_server_clock(server, 0)
    behind_us = int(sql('SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint')) - time.time_ns() // 1000
    assert abs(behind_us) < WRONG_US, f'the clock of the server is wrong by {behind_us} us'
    nodes['dies'].kill()
    nodes['dies'].wait()
    # The node that has the scheduler's role takes it anew.
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'weir%'")
    weir.good('node', 'resume', 'heir', '-q')
    dead = "SELECT dead_at IS NOT NULL FROM weir.nodes WHERE name = 'dies'"
    wait_for('the death of the node', lambda: sql(dead) == 't')
    scene.drain()
    _stop(nodes['heir'])
    scene.check()


def nodes_that_live_keep_their_executions_while_the_servers_clock_is_set_forward(weir):
    """By an hour, again and again, each time soon after a heartbeat of the node that seldom sends one: all that the other
    one sends before the next show a lease that is over by the server's clock. The nodes are of different machines, as their
    rows have it, so only their heartbeats tell of their lives."""
    server = _server_with_a_clock(0)
    url = server.url(server.database())
    weir.environment['WEIR_STORE'] = url

    def sql(text):
        return server.sql(text, url.rpartition('/')[2])

    def beats(name):
        return int(sql(f"SELECT beats FROM weir.nodes WHERE name = '{name}' ORDER BY id DESC LIMIT 1"))
    scene = Scene(weir, milliseconds=20000)
    nodes = [weir.spawn('serve', '--allow-exec', '--node', name,
                        env={'WEIR_NODE_LEASE': lease, 'WEIR_EXECUTOR_MAX_RUNNING': '2'})
             for name, lease in (('often', '6s'), ('seldom', '36s'))]
    wait_for('both nodes', lambda: sql('SELECT count(DISTINCT name) FROM weir.nodes') == '2', pause=SHORT)
    sql("UPDATE weir.nodes SET boot_id = 'machine ' || name")
    scene.enqueue(pro_co=4)
    wait_for('steps at work', lambda: len(scene.runs()) >= 4, pause=SHORT)
    stayed = 0
    for round in range(1, 7):
        wait_for('a heartbeat', lambda: beats('seldom') >= round - 1, pause=SHORT)
        epoch = sql('SELECT epoch FROM weir.scheduler')
        _set_server_clock(server, round * 3600)
        before = beats('often')
        wait_for('heartbeats by the new time', lambda: beats('often') > before + 2, pause=SHORT)
        assert sql('SELECT count(dead_at) FROM weir.nodes') == '0'
        stayed += sql('SELECT epoch FROM weir.scheduler') == epoch  # it goes to the other if a node stands still for 3 s
        if stayed == 2:
            break
    assert stayed == 2, 'another node has taken the role'
    scene.drain()
    for node in nodes:
        _stop(node)
    assert sql('SELECT count(*), count(dead_at) FROM weir.nodes') == '2|0'
    assert sql('SELECT sum(handovers) + sum(interruptions) FROM weir.workflow_executions') == '0'
    assert all(run.attempt == 1 for run in scene.runs()), 'a step was interrupted'


def executions_that_wait_for_a_time_start_when_the_servers_clock_is_set_to_it(weir):
    """Two of them: the scheduler has noted the time of the first one, and learns of the second one by news."""
    server = _server_with_a_clock(0)
    weir.environment['WEIR_STORE'] = server.url(server.database())
    Scene(weir, milliseconds=1)
    ids = [weir.enqueue('-w', 'pro-co', 'recorded', '--run-at', '+1h')]
    node = weir.spawn('serve', '--allow-exec')
    ran = weir.enqueue('-w', 'pro-co', 'recorded')
    weir.good('wait', ran)  # the node schedules
    ids.append(weir.enqueue('-w', 'pro-co', 'recorded', '--run-at', '+1h'))
    weir.good('wait', weir.enqueue('-w', 'pro-co', 'recorded'))
    assert [weir.show(id)['status'] for id in ids] == ['PENDING', 'PENDING']
    _set_server_clock(server, 3700)
    for id in ids:
        weir.good('wait', id)
    _stop(node)


def steps_have_the_clock_of_the_machine_and_nothing_of_their_nodes_environment(weir):
    weir.make_store()
    weir.write('look.yaml', 'name: look\nsteps:\n  clock: {exec: [date, "+%s"]}\n  environment: {exec: [env]}\n')
    weir.good('workflow', 'apply', 'look.yaml', '-q')
    node = _node(weir, 'ahead', 600)
    id = weir.enqueue('-w', 'acme', 'look')
    weir.good('wait', id)
    steps = {step['step']: step['output'] for step in weir.good('show', id, '--json').json()['steps']}
    assert abs(int(steps['clock']) - time.time()) < WRONG_US / SECOND_US, steps
    assert 'FAKETIME' not in steps['environment'] and 'LD_PRELOAD' not in steps['environment'], steps
    _stop(node)


def clients_of_a_server_do_not_notice_jumps_of_its_clock(weir):
    """A connection, a stream, a wait and a token go on while the clock of the server jumps by up to a month."""
    weir.make_store()
    rights = ('--role', 'operate', '--all-workspaces', '--expires-at', '10m')
    secret = weir.good('token', 'create', 'short', *rights, '-q').out.strip()
    late = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    environment, jump_file = dict(weir.environment), weir.write('jump', '+0')
    weir.environment.update({**_clock(0), 'FAKETIME_TIMESTAMP_FILE': jump_file, 'FAKETIME_NO_CACHE': '1'})
    del weir.environment['FAKETIME']
    listener = Listener(weir).ready()
    weir.environment = environment
    atexit.register(_tidy_up, listener.process.pid)
    fields = {'authorization': f'Bearer {secret}'}
    head = f'HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n\r\n'
    with listener.connect() as kept, listener.connect() as stream, ThreadPoolExecutor(1) as pool:
        stream.sendall(f'GET /v1/stream {head}'.encode())
        assert not read_until(stream, b'{"reason":"new"}')[1]
        end = pool.submit(listener.ask, f'/v1/executions/{late}?wait=5m', **fields)
        for jump, seconds in (('+1h', 3600), ('-1h', -3600), ('+30d', 30 * 86400), ('-30d', -30 * 86400), ('+0', 0)):
            weir.write('jump', jump)

            def off(seconds=seconds):
                kept.sendall(f'GET /v1/plans {head}'.encode())
                answer = read_answer(kept)
                assert answer.status == 200, answer
                return abs(parsedate_to_datetime(answer.head['date']).timestamp() - time.time() - seconds)
            wait_for(f'the jump of {jump}', lambda off=off: off() < WRONG_US / SECOND_US, pause=SHORT)
            made = listener.ask('/v1/workspaces/acme/executions', 'POST', body={'workflow': 'hello'}, **fields)
            assert made.status == 202, made
            of_id_us = int(made.json()['id'].replace('-', '')[:12], 16) * 1000  # lists and bulk acts go by it
            assert abs(of_id_us - time.time_ns() // 1000) < WRONG_US, (jump, made)
            assert not read_until(stream, made.json()['id'].encode())[1]
            ended = listener.ask(f'/v1/executions/{made.json()["id"]}?wait=1m', **fields).json()
            assert ended['status'] == 'COMPLETED', ended
            assert abs(_micros(ended['finished_at']) - time.time_ns() // 1000) < WRONG_US, ended
        assert not end.done()
        weir.good('cancel', late, '-q')
        assert end.result(SECONDS_MOST).json()['status'] == 'CANCELLED'
    listener.stop()


if __name__ == '__main__':
    crash_test.POSTGRES = True
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _prepare))
