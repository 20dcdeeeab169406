#!/usr/bin/env python3
"""What happens to a PostgreSQL server in its life, while nodes work on it: a standby takes over, the disk runs full, a
table or a right is taken away, connections run out. Nodes say what is wrong, and go on without a restart when it is
mended (see crash_test.py for what must hold of the executions).

usage: postgres_faults_test.py BINARY [TEST ...]
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import crash_test
from crash_test import ROOT, Scene
from harness import run_tests
from postgres_server import PostgresServer, client_program
from waiting import SECONDS_MOST, SHORT, wait_for

FULL_DISK = os.path.abspath(os.environ.get('WEIR_FULL_DISK_LIBRARY') or
                            os.path.join(ROOT, 'build', 'tests', 'end_to_end', 'full_disk.so'))
LONG_LEASE = '60s'  # the fault shall not be mistaken for the node's death
SERVER = None


def _server():
    """One for the tests that leave it as they found it."""
    global SERVER
    SERVER = SERVER or PostgresServer()
    return SERVER


class Node:
    """A node whose words are kept."""

    def __init__(self, weir, name, **environment):
        self.log = weir.path(f'{name}.log')
        with open(self.log, 'w') as log:
            self.process = weir.spawn('serve', '--allow-exec', '--node', name, env=environment, stdout=log, stderr=log)

    def said(self):
        with open(self.log) as log:
            return log.read()

    def await_word(self, pattern, since=0):
        wait_for(f'"{pattern}" in the log of the node', lambda: re.search(pattern, self.said()[since:]),
                 pause=SHORT)

    def ready(self):
        self.await_word('node.started')
        return self

    def stop(self):
        assert self.process.poll() is None, self.said()[-3000:]
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(SECONDS_MOST)
        assert code == 0, (code, self.said()[-3000:])


def _finish(scene, nodes):
    scene.drain(120)
    for node in nodes:
        node.stop()
    scene.check()


def a_standby_is_promoted_under_load(weir):
    primary = PostgresServer(on_disk=True)
    standby = PostgresServer("synchronous_standby_names = ''", primary=primary, on_disk=True)
    # What is acknowledged is on both.
    primary.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
    primary.sql('SELECT pg_reload_conf()')
    wait_for('a synchronous standby', lambda: primary.sql('SELECT sync_state FROM pg_stat_replication') == 'sync')
    name = primary.database()
    weir.environment['WEIR_STORE'] = f'postgres://owner@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/{name}'
    scene = Scene(weir)
    scene.enqueue(pro_co=100, free_co=12)
    nodes = [Node(weir, f'node-{i}', WEIR_NODE_LEASE=LONG_LEASE).ready() for i in range(2)]
    wait_for('steps at work', lambda: len(scene.runs()) >= 20, pause=SHORT)
    scene.enqueue(pro_co=10)
    primary.stop(signal.SIGKILL)
    for node in nodes:
        node.await_word('store_unreachable')
    refused = weir.run('list', code=6)
    assert 'read-only' in refused.err and 'none of the servers in the URL takes writes now' in refused.err, refused
    assert standby.sql('SELECT pg_promote()') == 't'
    scene.enqueue(pro_co=10, free_co=2)
    _finish(scene, nodes)
    assert standby.sql("SELECT count(*) FROM weir.workflow_executions WHERE status = 'COMPLETED'", name) == '134'
    standby.close()


def an_outage_longer_than_the_leases_is_no_death_of_a_node(weir):
    """Steps stop when a lease is over. Were their nodes taken for dead, five outages would make poison of a long step."""
    server = PostgresServer()
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    weir.make_store()
    gate, runs = weir.path('gate'), weir.path('runs')
    weir.write('gated.yaml', 'name: gated\nsteps:\n  wait:\n'
                             '    exec: [sh, -c, \'echo $$ >>"$1"; until [ -e "$0" ]; do sleep 0.05; done\','
                             f' "{gate}", "{runs}"]\n')
    weir.good('workflow', 'apply', 'gated.yaml', '-q')

    def pids():
        return open(runs).read().split() if os.path.exists(runs) else []

    def at_work():
        return sum(os.path.exists(f'/proc/{pid}') for pid in pids())

    nodes = [Node(weir, f'node-{i}', WEIR_EXECUTOR_MAX_RUNNING='1', WEIR_NODE_LEASE='10s').ready() for i in range(2)]
    ids = [weir.enqueue('-w', 'acme', 'gated') for _ in nodes]
    wait_for('a step on each node', lambda: at_work() == 2, pause=SHORT)
    server.stop(signal.SIGKILL)
    wait_for('the end of both leases', lambda: at_work() == 0, pause=SHORT)
    server.start()
    wait_for('both steps again', lambda: at_work() == 2, pause=SHORT)
    weir.write('gate', '')
    for id in ids:
        weir.good('wait', id)
    assert server.sql('SELECT count(*) FROM weir.workflow_executions WHERE handovers > 0', name) == '0'
    assert server.sql('SELECT count(*) FROM weir.nodes WHERE dead_at IS NOT NULL', name) == '0'
    for node in nodes:
        node.stop()
    weir.good('store', 'check')
    server.close()


def a_backup_is_restored_while_nodes_run(weir):
    """What the nodes run then is unknown to the server. They give it up before it is assigned again."""
    server = PostgresServer(on_disk=True)
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    scene = Scene(weir, milliseconds=2500)
    nodes = [Node(weir, f'node-{i}').ready() for i in range(2)]
    weir.good('pause', '-q')
    scene.enqueue(pro_co=4, free_co=1)
    wait_for('a heartbeat of both nodes',
             lambda: server.sql('SELECT bool_and(active_at > started_at) FROM weir.nodes', name) == 't')
    server.stop(signal.SIGINT)
    server.call('/bin/cp', '-a', server.path('data'), server.path('backup'))
    server.start()
    weir.good('resume', '-q')
    wait_for('five steps', lambda: len({run.execution for run in scene.runs()}) == 5, pause=SHORT)
    server.stop(signal.SIGQUIT)
    shutil.rmtree(server.path('data'))
    server.call('/bin/mv', server.path('backup'), server.path('data'))
    server.start()
    weir.good('resume', '-q')
    for node in nodes:
        node.await_word('lease.lost')
    scene.drain(120)
    for node in nodes:
        node.stop()
    scene.runs()  # finds runs of one step that overlap
    assert weir.good('status', '--json').json()['completed'] == 5
    assert weir.good('store', 'check', '--json').json()['problems'] == []
    server.close()


def _enqueue_until_refused(weir, scene):
    """What is acknowledged on the way counts; the answer of the one that was refused."""
    for _ in range(30):
        text = os.urandom(100000).hex()  # which cannot be made much smaller
        line = json.dumps({'workspace': 'pro-co', 'workflow': 'recorded', 'params': {'text': text}}) + '\n'
        result = weir.run('enqueue', '-', '-q', stdin=line * 2)
        scene.workspace_of.update((id, 'pro-co') for id in result.out.split())
        if result.code != 0:
            return result
    raise AssertionError('nothing was refused')


def the_servers_disk_runs_full(weir):
    """First where the tables are: statements are refused. Then where the write-ahead log is: the server falls."""
    flag = weir.path('full')
    os.chmod(weir.folder, 0o755)
    library = shutil.copy(FULL_DISK, weir.path('full_disk.so'))  # where the server's user can read it
    os.chmod(library, 0o755)
    server = PostgresServer('wal_recycle = off\nmin_wal_size = 2MB\nfull_page_writes = on', initdb=['--wal-segsize=1'],
                            environment={'LD_PRELOAD': library, 'WEIR_FULL_DISK': flag}, on_disk=True)
    weir.environment['WEIR_STORE'] = server.url(server.database())
    scene = Scene(weir)
    node = Node(weir, 'node', WEIR_NODE_LEASE=LONG_LEASE).ready()
    scene.enqueue(pro_co=20, free_co=4)
    wait_for('steps at work', lambda: len(scene.runs()) >= 5, pause=SHORT)

    open(flag + '.data', 'w').close()
    refused = _enqueue_until_refused(weir, scene)
    assert 'store_full' in refused.err and 'No space left' in refused.err, refused
    os.remove(flag + '.data')
    scene.enqueue(pro_co=5)

    said = len(node.said())
    open(flag + '.wal', 'w').close()
    refused = _enqueue_until_refused(weir, scene)
    assert refused.code != 0 and 'weir: ' in refused.err and 'hint: ' in refused.err, refused
    node.await_word('store_unreachable|store_full|commit_unknown', said)
    assert re.search('PANIC: .*No space left on device', server.log()), server.log()[-3000:]
    os.remove(flag + '.wal')
    if not _answers(server):  # it may have given up, and then it is its operator's
        server.stop(signal.SIGKILL)
        server.start()
    scene.enqueue(pro_co=5)
    # What was not acknowledged may have been stored: then it runs like the others.
    scene.workspace_of.update((item['id'], item['workspace']) for item in weir.items('list', '--limit', '1000'))
    assert len(scene.workspace_of) < 1000
    _finish(scene, [node])
    server.close()


def _answers(server):
    deadline = time.monotonic() + SECONDS_MOST
    while server.process.poll() is None and time.monotonic() < deadline:
        try:
            server.sql('SELECT 1')
            return True
        except AssertionError:
            time.sleep(0.05)
    return False


def the_table_of_locks_is_dropped(weir):
    server = _server()
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    scene = Scene(weir)
    node = Node(weir, 'node').ready()
    server.sql('CREATE TABLE public.kept (LIKE weir.shedlock INCLUDING ALL); DROP TABLE weir.shedlock', name)
    scene.enqueue(pro_co=5, free_co=1)
    scene.drain()  # what needs no lock needs no table
    listed = weir.run('lock', 'list')
    assert listed.code != 0 and 'shedlock' in listed.err and 'hint: ' in listed.err, listed
    # A node that must hold the lock of the dispatcher cannot work, says why, and begins as soon as it can.
    node.stop()
    alone = Node(weir, 'alone', WEIR_DISPATCH_EXCLUSIVE='true', WEIR_DISPATCH_POLL_INTERVAL='200ms').ready()
    scene.enqueue(pro_co=5)
    alone.await_word('weir.shedlock is missing')
    assert weir.good('status', '--json').json()['pending'] == 5
    server.sql('ALTER TABLE public.kept SET SCHEMA weir; ALTER TABLE weir.kept RENAME TO shedlock', name)
    _finish(scene, [alone])


def a_role_loses_a_right_while_its_node_runs(weir):
    server = _server()
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    scene = Scene(weir)
    server.sql('DROP ROLE IF EXISTS worker')
    server.sql('CREATE ROLE worker LOGIN')
    weir.good('store', 'init', '--role', 'worker', '-q')
    node = Node(weir, 'node', WEIR_STORE=server.url(name, user='worker'), WEIR_NODE_LEASE=LONG_LEASE).ready()
    scene.enqueue(pro_co=5)
    wait_for('steps at work', lambda: len(scene.runs()) >= 5, pause=SHORT)
    server.sql('REVOKE UPDATE ON weir.workflow_execution_queue FROM worker', name)
    scene.enqueue(pro_co=5, free_co=2)
    node.await_word('permission denied for table workflow_execution_queue')
    assert node.process.poll() is None
    weir.good('store', 'init', '--role', 'worker', '-q')
    _finish(scene, [node])
    server.sql('DROP OWNED BY worker; DROP ROLE worker', name)


def a_role_is_dropped_and_made_anew_while_its_node_runs(weir):
    """Connections stay those of the role that is gone."""
    server = _server()
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    scene = Scene(weir)
    server.sql('CREATE ROLE mortal LOGIN')
    weir.good('store', 'init', '--role', 'mortal', '-q')
    node = Node(weir, 'node', WEIR_STORE=server.url(name, user='mortal')).ready()
    scene.enqueue(pro_co=5)
    scene.drain()
    server.sql('DROP OWNED BY mortal; DROP ROLE mortal', name)
    scene.enqueue(pro_co=5)
    node.await_word('mortal.* does not exist')
    server.sql('CREATE ROLE mortal LOGIN')
    weir.good('store', 'init', '--role', 'mortal', '-q')
    _finish(scene, [node])
    server.sql('DROP OWNED BY mortal; DROP ROLE mortal', name)


def a_node_begins_with_all_of_its_connections_or_not_at_all(weir):
    """With some of them it would claim what it cannot record, and keep it from the others."""
    server = _server()
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    scene = Scene(weir)
    for limit in range(1, 5):
        server.sql(f'CREATE ROLE narrow LOGIN CONNECTION LIMIT {limit}')
        weir.good('store', 'init', '--role', 'narrow', '-q')
        result = weir.run('serve', env={'WEIR_STORE': server.url(name, user='narrow')})
        assert result.code == 6 and 'too many connections for role "narrow"' in result.err, (limit, result)
        server.sql('DROP OWNED BY narrow; DROP ROLE narrow', name)
    assert server.sql('SELECT count(*) FROM weir.nodes', name) == '0'


def the_server_has_no_connection_left_for_another_node(weir):
    server = PostgresServer('max_connections = 20\nsuperuser_reserved_connections = 0')
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    scene = Scene(weir)
    first = Node(weir, 'first', WEIR_NODE_LEASE=LONG_LEASE).ready()
    scene.enqueue(pro_co=3)
    scene.drain()  # it has all the connections that it needs
    holders = []
    for _ in range(20):
        words = [client_program('psql'), '-qX', '-h', server.folder, '-p', str(server.port), '-U', 'owner', '-d', name]
        holders.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
    wait_for('the end of the free connections', lambda: weir.run('list').code != 0)
    result = weir.run('serve', '--node', 'second')
    assert result.code == 6, result
    assert 'too many clients' in result.err and 'max_connections' in result.err, result
    for holder in holders:
        holder.stdin.close()
        holder.wait()
        holder.stderr.close()
    others = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'psql' AND pid <> pg_backend_pid()"
    wait_for('room for others', lambda: weir.run('list').code == 0 and server.sql(others) == '0')
    second = Node(weir, 'second', WEIR_NODE_LEASE=LONG_LEASE)
    second.ready()
    scene.enqueue(pro_co=20, free_co=3)
    _finish(scene, [first, second])
    server.close()


def an_enqueue_that_is_not_confirmed_says_how_to_look(weir):
    """Repeated as it is it would be another execution, unless it has a key."""
    server = _server()
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name)
    weir.make_store()
    server.sql('CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS'
               ' $$ BEGIN PERFORM pg_sleep(12); RETURN NULL; END $$;'
               'CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON weir.workflow_execution_queue DEFERRABLE INITIALLY DEFERRED'
               ' FOR EACH ROW EXECUTE FUNCTION public.wait()', name)
    alone = weir.run('enqueue', '-w', 'acme', 'hello', '--timeout', '4s', code=6)
    id = re.search('hint: `weir show ([0-9a-f-]{36})` shows whether it was enqueued', alone.err)
    assert id and 'did not confirm' in alone.err, alone
    lines = ''.join(json.dumps({'workspace': 'acme', 'workflow': 'hello'}) + '\n' for _ in range(3))
    of_lines = weir.run('enqueue', '-', '--timeout', '4s', stdin=lines, code=6)
    first = re.search('hint: `weir show ([0-9a-f-]{36})` shows whether lines 1 to 3 are enqueued, all of them or none',
                      of_lines.err)
    assert first and 'tail -n +4 if they are, else +1' in of_lines.err, of_lines
    under_key = weir.run('enqueue', '-w', 'acme', 'hello', '--idempotency-key', 'k', '--timeout', '4s', code=6)
    assert 'hint: it may or may not have been done; the same call may be repeated' in under_key.err, under_key
    newest = weir.run('enqueue', '-w', 'acme', 'hello', '-k', 'n', '--key-mode', 'replace', '--timeout', '2s', code=6)
    assert re.search('hint: `weir show [0-9a-f-]{36}` shows whether it was done; with an id', newest.err), newest
    for told in (id[1], first[1]):
        wait_for('what was only slow', lambda told=told: weir.run('show', told).code == 0)


if __name__ == '__main__':
    crash_test.POSTGRES = True
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
