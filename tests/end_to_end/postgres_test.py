#!/usr/bin/env python3
"""The store on PostgreSQL as people meet it: what they may get wrong, rights, poolers, and nodes that share one database.

usage: postgres_test.py BINARY [TEST ...]
"""

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from datetime import datetime

from harness import UUID, run_tests
from ports import free_port
from postgres_server import PostgresServer, client_program
from scheduler_scene import gated, more_nodes_run_more
from waiting import SECONDS_MOST, SHORT, wait_for

SECRET = 'hunter2hunter2'
BEATS = 5  # heartbeats of an idle node during which its statements are counted
SERVER = None


def _server():
    """One for all tests: they take a database each."""
    global SERVER
    if SERVER is None:
        # Version 13 keeps an md5 hash unless it is told, which is of no use for scram.
        SERVER = PostgresServer("password_encryption = 'scram-sha-256'")
        with open(SERVER.path('data/pg_hba.conf'), 'w') as file:
            file.write('local all all trust\nhost all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n')
        SERVER.sql(f"CREATE ROLE locked LOGIN PASSWORD '{SECRET}'")
        SERVER.sql('CREATE ROLE node LOGIN')
        SERVER.sql('SELECT pg_reload_conf()')
    return SERVER


def _use(weir, **options):
    """Every command of this test works on a fresh database."""
    server = _server()
    name = server.database()
    weir.environment['WEIR_STORE'] = server.url(name, **options)
    return name


def _node(weir, *words, **options):
    process = weir.spawn('serve', '--allow-exec', *words, **options)
    line = process.stdout.readline()
    assert line, process.stderr.read()
    assert json.loads(line)['event'] == 'node.started', line
    return process


def _status_of(weir, id):
    return weir.good('show', id, '--json').json()['status']


# --- what people may get wrong ---


def _refuses(weir, url, code, *words, hint=None, verb=('list',)):
    """One line with the address, one with what to do; never the password; soon."""
    slow = 'ASAN_OPTIONS' in os.environ or 'TSAN_OPTIONS' in os.environ
    result = weir.soon(*verb, '--store', url, code=code, seconds=60 if slow else 3, may_be_busy=True)
    lines = result.err.splitlines()
    assert len(lines) == 2 and lines[0].startswith('weir: ') and lines[1].startswith('hint: '), result
    assert SECRET not in result.out + result.err, result
    for word in words:
        assert word in lines[0], (word, lines[0])
    assert hint is None or hint in lines[1], (hint, lines[1])


def libpq_is_needed_for_postgresql_alone(weir):
    """One that cannot be loaded, and one that has none of its functions, found before the real one."""
    maps = open(f'/proc/{os.getpid()}/maps').read()
    other = os.path.join(re.search(r'(/\S+)/libc[.-]', maps).group(1), 'libm.so.6')
    url = f'postgres://u:{SECRET}@127.0.0.1:{free_port()}/db'
    os.mkdir(weir.path('libraries'))
    weir.environment['LD_LIBRARY_PATH'] = weir.path('libraries')
    for content, word in ((b'no library', 'libpq.so.5'), (open(other, 'rb').read(), 'too old')):
        with open(weir.path('libraries/libpq.so.5'), 'wb') as file:
            file.write(content)
        _refuses(weir, url, 6, 'libpq', word, hint='libpq5')
    weir.environment['WEIR_STORE'] = 'sqlite:' + weir.path('weir.db')
    weir.good('store', 'init')
    assert weir.good('list', '--json').json()['items'] == []


def a_url_that_cannot_be_read_is_told_without_its_password(weir):
    for url in (f'postgres://u:{SECRET}@h:54x/db', f'postgres://u:{SECRET}/x@h/db', f'postgres://u:{SECRET}%zz@h/db',
                f'postgres:u:{SECRET}@h', f'postgres://u:x@{SECRET}@h/db'):
        _refuses(weir, url, 2, 'cannot be read', hint='%2F')
    _refuses(weir, f'postgres://u:{SECRET}@h/db?sslmod=require', 2, 'sslmod')
    _refuses(weir, f'postgres://u:{SECRET}@h/db?schema=No', 2, '"No"', hint='small letters')
    _refuses(weir, f'postgres://u:{SECRET}@h/db?pooler=session', 2, 'pooler=session', hint='transaction')


def a_parameter_with_a_wrong_value_is_told(weir):
    url = f'postgres://u:{SECRET}@127.0.0.1:{free_port()}/db'
    _refuses(weir, f'{url}?sslmode=maybe', 2, 'sslmode', 'maybe', hint='parameters')
    _refuses(weir, f'{url}?target_session_attrs=any-one', 2, 'any-one', hint='parameters')
    _refuses(weir, f'{url}?keepalives_idle=soon', 2, 'soon', hint='parameters')
    _refuses(weir, f'{url}?service=no_such_service', 2, 'no_such_service', hint='parameters')


def a_server_that_only_reads_is_told(weir):
    _refuses(weir, _server().url(password=SECRET, more='?target_session_attrs=standby'), 6, 'standby', hint='takes writes')


def a_server_that_is_not_there_is_told(weir):
    port = free_port()
    _refuses(weir, f'postgres://u:{SECRET}@127.0.0.1:{port}/db', 6, f'postgres://u@127.0.0.1:{port}/db', 'refused',
             hint='server runs')
    _refuses(weir, f'postgres://u:{SECRET}@no-such-host.invalid/db', 6, 'no-such-host.invalid', hint='host')
    _refuses(weir, 'postgres:///db?host=/nonexistent', 6, '/nonexistent')


def a_server_that_says_nothing_is_told_in_time(weir):
    with socket.create_server(('127.0.0.1', 0)) as silent:
        _refuses(weir, f'postgres://u:{SECRET}@127.0.0.1:{silent.getsockname()[1]}/db', 6, 'no answer in time')


def a_paused_server_is_told_in_time(weir):
    _use(weir)
    weir.good('store', 'init', '-q')
    _server().signal_all(signal.SIGSTOP)
    try:
        _refuses(weir, weir.environment['WEIR_STORE'], 6, 'no answer in time')
    finally:
        _server().signal_all(signal.SIGCONT)


def a_wrong_password_is_told(weir):
    server = _server()
    _refuses(weir, server.url(user='locked', password=SECRET + 'x'), 5, 'locked', 'password', hint='PGPASSWORD')
    _refuses(weir, server.url(user='locked'), 5, 'locked', 'asks for a password', hint='PGPASSWORD')


def a_wrong_role_or_database_is_told(weir):
    server = _server()
    _refuses(weir, server.url(user='nobody_here', password=SECRET), 5, 'nobody_here')
    _refuses(weir, server.url('no_such_database', password=SECRET), 6, 'no_such_database', hint='createdb')


def tls_that_is_demanded_and_not_offered_is_told(weir):
    _refuses(weir, _server().url(password=SECRET, more='?sslmode=require'), 6, 'SSL', hint='sslmode')


def _offers_tls(listener):
    """Agrees to TLS, as much of a server as it takes for libpq to look for its authorities."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            if len(client.recv(8)) == 8:
                client.sendall(b'S')
                client.recv(1)


def a_certificate_that_cannot_be_proved_is_told(weir):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        threading.Thread(target=_offers_tls, args=(listener,), daemon=True).start()
        _refuses(weir, f'postgres://u:{SECRET}@127.0.0.1:{listener.getsockname()[1]}/db?sslmode=verify-full'
                 '&sslrootcert=/nonexistent', 6, 'certificate', hint='sslrootcert')


def _old_server(listener):
    """Speaks as much of the protocol as a server needs to say that it is PostgreSQL 12."""
    def message(kind, body):
        return kind + struct.pack('!i', len(body) + 4) + body

    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            while True:
                head = client.recv(8)
                if len(head) < 8:
                    break
                length, code = struct.unpack('!ii', head)
                if code in (80877103, 80877104):  # TLS? GSS?
                    client.sendall(b'N')
                    continue
                client.recv(length - 8)
                client.sendall(message(b'R', struct.pack('!i', 0)) + message(b'S', b'server_version\x0012.22\0') +
                               message(b'S', b'client_encoding\0UTF8\0') + message(b'K', struct.pack('!ii', 1, 2)) +
                               message(b'Z', b'I'))
                client.settimeout(SECONDS_MOST)
                while True:  # libpq may ask whether it takes writes
                    kind = client.recv(1)
                    if kind != b'Q':
                        break
                    client.recv(struct.unpack('!i', client.recv(4))[0] - 4)
                    client.sendall(message(b'T', struct.pack('!h', 1) + b'transaction_read_only\0' +
                                           struct.pack('!ihihih', 0, 0, 25, -1, -1, 0)) +
                                   message(b'D', struct.pack('!hi', 1, 3) + b'off') + message(b'C', b'SHOW\0') +
                                   message(b'Z', b'I'))
                break


def a_server_that_is_too_old_is_refused(weir):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        threading.Thread(target=_old_server, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        _refuses(weir, f'postgres://u:{SECRET}@127.0.0.1:{port}/db', 6, 'PostgreSQL 12', 'too old', hint='13')


def a_database_of_another_encoding_is_refused_before_anything_is_made(weir):
    server = _server()
    for encoding in ('SQL_ASCII', 'LATIN1'):
        name = 'of_' + encoding.lower()
        server.sql(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        for verb in (('store', 'plan'), ('store', 'init'), ('store', 'migrate')):
            _refuses(weir, server.url(name, password=SECRET), 6, encoding, 'UTF8', hint='createdb --encoding=UTF8',
                     verb=verb)
        assert server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'weir'", name) == '0'


def a_schema_that_is_missing_older_newer_or_somebody_elses_is_told(weir):
    server = _server()
    name = _use(weir)
    url = server.url(name, password=SECRET)
    _refuses(weir, url, 6, 'no tables yet', hint='weir store init')
    weir.good('store', 'init', '-q')
    newest = int(server.sql('SELECT max(version) FROM weir.schema_migrations', name))

    server.sql(f"INSERT INTO weir.schema_migrations VALUES ({newest + 1}, '{newest + 1:04}_from_tomorrow', '9.9')", name)
    _refuses(weir, url, 6, f'schema {newest + 1}', f'up to {newest}', hint='install that version')
    _refuses(weir, url, 6, f'schema {newest + 1}', verb=('store', 'migrate'))
    server.sql(f'DELETE FROM weir.schema_migrations WHERE version > {newest}', name)

    server.sql("UPDATE weir.schema_migrations SET name = '0001_other' WHERE version = 1", name)
    _refuses(weir, url, 6, 'not in this program')
    server.sql("UPDATE weir.schema_migrations SET name = '0001_initial' WHERE version = 1", name)

    server.sql('CREATE SCHEMA taken; CREATE TABLE taken.something ()', name)
    _refuses(weir, url + '?schema=taken', 6, 'not a weir store', hint='schema=NAME')
    _refuses(weir, url + '?schema=taken', 6, 'not a weir store', verb=('store', 'init'))


def a_migration_that_stopped_half_way_goes_on(weir):
    server = _server()
    name = _use(weir)
    # The tables stay; of the functions and views, which come in one transaction, none does.
    server.sql("""CREATE FUNCTION public.stop() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM weir.schema_migrations) = 1 THEN RAISE 'no more today'; END IF;
        EXCEPTION WHEN undefined_table THEN NULL; END $$;
        CREATE EVENT TRIGGER stop ON ddl_command_start EXECUTE FUNCTION public.stop()""", name)
    result = weir.run('store', 'init')
    assert result.code != 0 and 'no more today' in result.err, result
    assert server.sql('SELECT count(*) FROM weir.schema_migrations', name) == '1'
    assert server.sql("SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
                      " WHERE n.nspname = 'weir' AND p.proname = 'enqueue'", name) == '0'
    server.sql('DROP EVENT TRIGGER stop', name)
    assert 'applying functions_and_views' in weir.good('store', 'migrate').err
    assert weir.good('store', 'check').code == 0


def a_migration_waits_for_a_table_in_short_turns(weir):
    """Each turn is a transaction of its own; what others ask of the table meanwhile is answered between two of them."""
    server = _server()
    name = _use(weir)
    # A migration that needs a table which somebody reads; a sequence counts its turns, since no rollback undoes it.
    server.sql("""CREATE TABLE public.wanted (); CREATE SEQUENCE public.turns;
        CREATE FUNCTION public.want() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        IF (SELECT count(*) FROM weir.schema_migrations) = 1 THEN
            PERFORM nextval('public.turns'); LOCK TABLE public.wanted;
        END IF;
        EXCEPTION WHEN undefined_table THEN NULL; END $$;
        CREATE EVENT TRIGGER want ON ddl_command_start EXECUTE FUNCTION public.want()""", name)
    reader = subprocess.Popen([client_program('psql'), '-qXAt', '-h', server.folder, '-p', str(server.port), '-U', 'owner',
                               '-d', name],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        reader.stdin.write('BEGIN; SELECT count(*) FROM public.wanted;\n')
        reader.stdin.flush()
        assert reader.stdout.readline() == '0\n'
        process = weir.spawn('store', 'init', '-q')
        wait_for('a third turn',
                 lambda: process.poll() is not None or int(server.sql('SELECT last_value FROM public.turns', name)) > 2)
        assert process.poll() is None, process.stderr.read()
        assert server.sql('SELECT count(*) FROM public.wanted', name) == '0'
    finally:
        reader.communicate('COMMIT;\n')
    assert process.wait(SECONDS_MOST) == 0, process.stderr.read()
    server.sql('DROP EVENT TRIGGER want', name)
    assert weir.good('store', 'check').code == 0


def migrations_at_the_same_time_wait_for_each_other(weir):
    server = _server()
    name = _use(weir)
    racers = [weir.start('store', 'init', '-q') for _ in range(6)]
    assert [racer.wait(SECONDS_MOST) for racer in racers] == [0] * 6, [racer.stderr.read() for racer in racers]
    assert server.sql('SELECT count(*) FROM weir.schema_migrations', name) == '2'  # tables; functions and views


def the_plan_shows_what_will_be_run(weir):
    _use(weir, more='?schema=queue')
    plan = weir.items('store', 'plan')
    assert plan and not any(item['applied'] for item in plan)
    assert 'CREATE TABLE "queue".' in plan[0]['sql'] and ':schema' not in plan[0]['sql']
    weir.good('store', 'init', '-q')
    assert all(item['applied'] for item in weir.items('store', 'plan'))
    assert weir.good('store', 'migrate').err.count('applying') == 0


def a_backup_names_the_tool_of_the_server(weir):
    name = _use(weir, password=SECRET)
    weir.good('store', 'init', '-q')
    result = weir.run('store', 'backup', 'copy', code=2)
    assert SECRET not in result.err, result
    assert "hint: pg_dump --format=custom --schema=weir --file='copy' 'postgres://" in result.err, result
    # What would not fit, or is no URL of libpq, is left to the reader.
    for words in (['d' * 200], ["it's"], ['copy', '--store', _server().url(name, more='?listen=off')]):
        result = weir.run('store', 'backup', *words, code=2)
        assert '--file=FILE URL' in result.err and 'without schema' in result.err and 'ddd' not in result.err, result


def a_url_is_never_shown_with_its_password(weir):
    _use(weir, password=SECRET)
    for words in (('store', 'init'), ('config', 'show'), ('config', 'show', '--json'), ('config', 'show', '--origin'),
                  ('store', 'init', '-n'), ('doctor',), ('status',), ('store', 'plan'), ('list',)):
        result = weir.run(*words)
        assert SECRET not in result.out + result.err, (words, result)


def a_password_is_in_no_log_no_metric_no_step_and_no_command_line(weir):
    _use(weir, password=SECRET, user='locked')
    _server().sql(f'GRANT CREATE ON DATABASE {weir.environment["WEIR_STORE"].rsplit("/", 1)[1]} TO locked')
    weir.good('store', 'init', '-q')
    weir.good('workspace', 'set', 'acme', '-q')
    weir.write('nosy.json', json.dumps({'name': 'nosy', 'steps': {
        'looks': {'exec': ['sh', '-c', 'env; cat /proc/*/cmdline 2>/dev/null | tr "\\0" " "']}}}))
    weir.good('workflow', 'apply', 'nosy.json', '-q')
    with open(weir.path('log'), 'wb') as log:
        process = weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'debug'}, stdout=log)
    id = weir.good('enqueue', '-w', 'acme', 'nosy', '--wait').out.strip()
    execution = weir.good('show', id, '--json').json()
    assert 'WEIR_EXECUTION_ID' in json.dumps(execution), execution  # the step has looked
    said = [json.dumps(execution)] + [weir.good(*words).out + weir.good(*words).err for words in (
        ('status', '--metrics'), ('status', '--json'), ('list', '--json'), ('why', id), ('logs', id), ('node', 'list'))]
    _server().sql("ALTER ROLE locked PASSWORD 'another'")
    try:
        _server().sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'locked'")
        wait_for('a refused password', lambda: b'store.failed' in open(weir.path('log'), 'rb').read(), pause=SHORT)
    finally:
        _server().sql(f"ALTER ROLE locked PASSWORD '{SECRET}'")
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS_MOST) == 0
    with open(weir.path('log')) as log:
        said += [log.read(), process.stderr.read().decode()]
    assert 'store.called' in said[-2] and 'store.failed' in said[-2]
    assert not any(SECRET in text for text in said), [text for text in said if SECRET in text]


def _ends_with_a_core(process):
    """A signal whose default is a core; whether there was one is in the status of its end. (Not SIGQUIT: what a
    shell starts in the background ignores it.)"""
    ends = []
    resource.prlimit(process.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    process.send_signal(signal.SIGABRT)

    def has_ended():
        ended, status = os.waitpid(process.pid, os.WNOHANG)
        ends.append(status)
        return ended == process.pid

    wait_for('the end of an aborted process', has_ended, pause=SHORT)
    process.returncode = -signal.SIGABRT
    assert os.WTERMSIG(ends[-1]) == signal.SIGABRT
    return os.WCOREDUMP(ends[-1])


def a_node_leaves_no_core_with_its_password(weir):
    _use(weir, password=SECRET)
    weir.good('store', 'init', '-q')
    process = _node(weir)
    assert not _ends_with_a_core(process)
    # The same signal to a program that guards nothing, to see that this machine writes cores at all.
    other = subprocess.Popen(['sleep', '1000'], cwd=weir.folder)
    assert _ends_with_a_core(other) or not os.access(weir.folder, os.W_OK) or _core_pattern() != 'core'


def _core_pattern():
    with open('/proc/sys/kernel/core_pattern') as file:
        return file.read().strip()


def the_doctor_says_when_acknowledged_work_can_be_lost(weir):
    server = _server()
    name = _use(weir)
    weir.good('store', 'init', '-q')
    checks = {item['check']: item for item in weir.items('doctor')}
    assert checks['mode']['outcome'] == 'ok' and 'waits for the disk' in checks['mode']['detail'], checks
    assert checks['books']['outcome'] == 'ok', checks
    server.sql(f'ALTER DATABASE {name} SET synchronous_commit = off')
    checks = {item['check']: item for item in weir.run('doctor', '--json', code=1).json()['items']}
    assert checks['mode']['outcome'] == 'problem' and 'acknowledged' in checks['mode']['detail'], checks


# --- rights ---


def a_role_without_rights_is_told_how_to_get_them(weir):
    server = _server()
    name = _use(weir)
    weir.good('store', 'init', '-q')
    _refuses(weir, server.url(name, user='node', password=SECRET), 5, 'permission denied', hint='--role')
    result = weir.run('store', 'init', '--role', 'no_such_role', code=3)
    assert 'no_such_role' in result.err and 'CREATE ROLE' in result.err, result


def rights_that_cannot_be_given_are_told(weir):
    server = _server()
    name = _use(weir)
    weir.good('store', 'init', '--role', 'node', '-q')
    result = weir.run('store', 'init', '--role', 'locked', '--store', server.url(name, user='node'), code=5)
    assert '"locked"' in result.err and 'schema weir' in result.err and 'owner' in result.err, result
    assert '\u2713' not in result.err and result.out == '', result
    assert server.sql("SELECT has_schema_privilege('locked', 'weir', 'USAGE')", name) == 'f'
    weir.good('store', 'init', '--role', 'locked', '-q')


def a_role_may_run_everything_and_change_no_table(weir):
    server = _server()
    name = _use(weir)
    weir.good('store', 'init', '--role', 'node', '-q')
    weir.good('store', 'init', '--role', 'node', '-q')
    weir.environment['WEIR_STORE'] = server.url(name, user='node')
    weir.make_store()
    node = _node(weir)
    id = weir.enqueue()
    weir.good('wait', id)
    weir.good('cancel', weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h'), '--yes')
    for words in (('list',), ('status',), ('show', id), ('why', id), ('workspace', 'list'), ('node', 'list'),
                  ('lock', 'list'), ('plan', 'list'), ('workflow', 'list'), ('store', 'check')):
        weir.good(*words)
    weir.good('purge', id, '--yes')
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS_MOST) == 0
    server.sql('CREATE SCHEMA payroll; CREATE TABLE payroll.salaries (amount int)', name)
    for statement in ('CREATE TABLE weir.mine ()', 'DROP TABLE weir.workflow_execution_queue',
                      'ALTER TABLE weir.workspaces ADD COLUMN mine int', "DELETE FROM weir.schema_migrations",
                      'CREATE OR REPLACE FUNCTION weir.store_time() RETURNS bigint LANGUAGE sql AS $$ SELECT 1::bigint $$',
                      'TABLE payroll.salaries', 'CREATE TABLE payroll.mine ()', 'CREATE SCHEMA mine', 'TABLE pg_authid',
                      'CREATE ROLE mine', "COPY weir.plans TO PROGRAM 'cat'", "COPY weir.plans FROM PROGRAM 'echo'",
                      "COPY weir.plans TO '/tmp/plans'", "SELECT pg_read_file('/etc/passwd')", 'ALTER SYSTEM SET port = 1'):
        try:
            server.sql(statement, name, user='node')
        except AssertionError as refusal:
            # The words about programs and files are those of versions 13 to 18.
            words = ('permission denied', 'must be owner', 'must be superuser')
            assert any(word in str(refusal) for word in words), refusal
        else:
            raise AssertionError(f'the role could do: {statement}')


# --- nodes ---


def two_nodes_share_one_database(weir):
    server = _server()
    name = _use(weir)
    weir.make_store()
    weir.good('workspace', 'set', 'acme', '--plan', 'enterprise', '-q')
    nodes = [_node(weir, env={'WEIR_NODE_NAME': f'node-{i}', 'WEIR_EXECUTOR_MAX_RUNNING': '5'}) for i in range(2)]
    names = {node['name'] for node in weir.items('node', 'list') if node['state'] == 'alive'}
    assert names == {'node-0', 'node-1'}, weir.items('node', 'list')
    enqueued = 0

    def both_have_worked():
        """One that stands still for a moment finds nothing left of 300."""
        nonlocal enqueued
        ids = weir.enqueue_many(300)
        assert len(set(ids)) == 300 and all(UUID.match(id) for id in ids)
        enqueued += 300
        completed = "SELECT count(*) FROM weir.workflow_executions WHERE status = 'COMPLETED'"
        wait_for('the end of all', lambda: server.sql(completed, name) == str(enqueued))
        return server.sql('SELECT count(DISTINCT node_id) FROM weir.workflow_executions', name) == '2'

    wait_for('work of both nodes', both_have_worked)
    for node in nodes:
        node.send_signal(signal.SIGTERM)
        assert node.wait(SECONDS_MOST) == 0
    weir.good('store', 'check')


def three_nodes_run_three_times_as_much_as_one(weir):
    _use(weir)
    weir.make_store()
    more_nodes_run_more(weir, lambda variables: _node(weir, env=variables))


def _starts_soon(weir):
    """The scheduler also finds new work when it renews its role, every two seconds. By chance that may be soon, but not
    five times in a row; and on a busy machine five in a row are undisturbed at some time."""
    waits = []
    deadline = time.monotonic() + SECONDS_MOST
    while (len(waits) < 5 or max(waits[-5:]) >= 0.5) and time.monotonic() < deadline:
        id = weir.enqueue()
        weir.good('wait', id)
        shown = weir.show(id)
        created, claimed = (datetime.fromisoformat(shown[key].replace('Z', '+00:00'))
                            for key in ('created_at', 'claimed_at'))
        waits.append((claimed - created).total_seconds())
    assert max(waits[-5:]) < 0.5, waits


def an_enqueue_wakes_a_node_of_another_process(weir):
    _use(weir)
    weir.make_store()
    _node(weir, env={'WEIR_DISPATCH_POLL_INTERVAL': '10m'})
    _starts_soon(weir)


def acts_of_the_command_line_wake_a_node(weir):
    """One of them would wait for each poll, and the next one is minutes away."""
    _use(weir)
    weir.make_store()
    weir.write('slow.yaml', 'name: slow\nsteps:\n  only:\n    exec: [sleep, 600]\n')
    weir.write('bad.yaml', 'name: bad\nsteps:\n  only:\n    exec: ["false"]\n')
    for name in ('slow', 'bad'):
        weir.good('workflow', 'apply', name + '.yaml', '-q')
    _node(weir, env={'WEIR_DISPATCH_POLL_INTERVAL': '10m', 'WEIR_NODE_LEASE': '10m'})
    slow, bad = weir.enqueue('-w', 'acme', 'slow'), weir.enqueue('-w', 'acme', 'bad')
    later = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    wait_for('the start', lambda: _status_of(weir, slow) == 'DISPATCHED')
    weir.good('cancel', slow)
    assert weir.run('wait', slow, '--timeout', '90s').code == 1 and _status_of(weir, slow) == 'CANCELLED'
    weir.good('release', later)
    weir.good('wait', later, '--timeout', '90s')
    assert weir.run('wait', bad, '--timeout', '90s').code == 1
    again = weir.good('retry', bad, '--json').json()['items'][0]['new_id']
    assert weir.run('wait', again, '--timeout', '90s').code == 1


def without_listening_a_node_polls(weir):
    _use(weir, more='?listen=off')
    weir.make_store()
    _node(weir, env={'WEIR_DISPATCH_POLL_INTERVAL': '200ms'})
    _starts_soon(weir)


def a_node_works_behind_a_pooler_in_transaction_mode(weir):
    server = _server()
    name = _use(weir)
    weir.make_store()
    port = server.pool('default_pool_size = 4')
    weir.environment['WEIR_STORE'] = server.url(name, port=port)
    nodes = [_node(weir, env={'WEIR_DISPATCH_POLL_INTERVAL': '200ms'}) for _ in range(2)]
    for id in weir.enqueue_many(50):
        weir.good('wait', id)
    weir.good('store', 'check')
    for node in nodes:
        node.send_signal(signal.SIGTERM)
        assert node.wait(SECONDS_MOST) == 0


def what_a_killed_node_ran_is_taken_over(weir):
    _use(weir)
    weir.make_store()
    gated(weir)
    first = _node(weir, env={'WEIR_NODE_NAME': 'first'})
    id = weir.enqueue('-w', 'acme', 'gated')
    wait_for('the start', lambda: _status_of(weir, id) == 'DISPATCHED')
    _node(weir, env={'WEIR_NODE_NAME': 'second'})
    first.send_signal(signal.SIGKILL)
    wait_for('the takeover', lambda: weir.good('show', id, '--json').json()['node'] == 'second')
    weir.write('go', '')
    weir.good('wait', id)
    execution = weir.good('show', id, '--json').json()
    assert execution['status'] == 'COMPLETED' and execution['handovers'] == 1, execution


def _statements(server, offset):
    """The names of the statements that were run on databases with log_statement on, without the number of their text."""
    lines = re.findall(r'LOG:  (?:execute ([^:]+)_[0-9a-f]{16}|statement): (.*)', server.log()[offset:])
    return [name or text for name, text in lines]


def an_idle_scheduler_asks_little_and_writes_only_heartbeats_and_its_lease(weir):
    """Its rounds, which renew the role's lease, do not depend on the heartbeat: at defaults both come 30 times a minute.
    Here it beats twice as often."""
    server = _server()
    name = _use(weir)
    weir.make_store()
    server.sql('ALTER SYSTEM SET autovacuum = off')  # it takes transaction ids as well
    server.sql('SELECT pg_reload_conf()')
    server.sql(f"ALTER DATABASE {name} SET log_statement = 'all'")
    offset = len(server.log())
    _node(weir, env={'WEIR_NODE_LEASE': '3s', 'WEIR_DISPATCH_POLL_INTERVAL': '2500ms'})

    def await_beats(count):
        wait_for(f'heartbeat {count}', lambda: _statements(server, offset).count('beat_node') >= count, pause=SHORT)
        return len(_statements(server, offset)), int(server.sql('SELECT pg_snapshot_xmax(pg_current_snapshot())'))

    def asks_little(first_beat):
        before, first_write = await_beats(first_beat)
        _, last_write = await_beats(first_beat + BEATS)
        asked = _statements(server, offset)[before:]
        beats = asked.count('beat_node')
        is_little = set(asked) == {'beat_node', 'schedule'} and len(asked) <= 2 * beats + 2 and \
            last_write - first_write <= len(asked) + 2
        return is_little, (first_write, last_write, asked)

    # Until the third heartbeat some of its loops may still be starting. And a node that stands still for longer than its
    # leases asks for more, but not all the time.
    looks = (asks_little(first_beat) for first_beat in range(3, 3 + 15 * BEATS, BEATS))
    told = []
    assert any(is_little or told.append(facts) for is_little, facts in looks), told


def a_node_that_is_silent_is_taken_over_by_the_second_heartbeat_after_its_lease(weir):
    """At defaults the lease is 6 s and the others beat every 2 s, so it happens within 10 s. Here all is half of that."""
    server = _server()
    name = _use(weir)
    weir.make_store()
    gated(weir)
    silent = _node(weir, env={'WEIR_NODE_NAME': 'silent', 'WEIR_NODE_LEASE': '3s'})
    id = weir.enqueue('-w', 'acme', 'gated')
    wait_for('the start', lambda: _status_of(weir, id) == 'DISPATCHED')
    silent.send_signal(signal.SIGSTOP)  # its process is there, so only its lease tells
    server.sql(f"ALTER DATABASE {name} SET log_statement = 'all'")
    offset = len(server.log())
    _node(weir, env={'WEIR_NODE_NAME': 'other', 'WEIR_NODE_LEASE': '3s'})
    expires_at = int(server.sql("SELECT expires_at FROM weir.nodes WHERE name = 'silent'", name))
    wait_for('the takeover', lambda: 'recover_items' in _statements(server, offset), pause=SHORT)
    weir.write('go', '')
    weir.good('wait', id)
    asked = _statements(server, offset)
    until = asked[:asked.index('recover_items')]
    dead_at = int(server.sql("SELECT dead_at FROM weir.nodes WHERE name = 'silent'", name))
    assert dead_at > expires_at, (expires_at, dead_at)
    assert until.count('beat_node') <= 5 and until.count('nodes_to_recover') <= 3, until
    silent.send_signal(signal.SIGKILL)


def _stop_without_server(weir, leave, come_back):
    """With work in hand; what the node says, and its last words."""
    _use(weir)
    weir.good('store', 'init', '-q')
    weir.good('workspace', 'set', 'acme', '--plan', 'pro', '-q')
    weir.write('long.yaml', 'name: long\nsteps:\n  only:\n    exec: [sleep, "600"]\n')
    weir.good('workflow', 'apply', 'long.yaml', '-q')
    node = _node(weir, env={'WEIR_STOP_GRACE': '1s'})
    ids = [weir.enqueue('-w', 'acme', 'long') for _ in range(2)]
    wait_for('two at work', lambda: all(_status_of(weir, id) == 'DISPATCHED' for id in ids))
    leave()
    try:
        node.send_signal(signal.SIGTERM)
        out, err = (text.decode() for text in node.communicate(timeout=SECONDS_MOST))
    finally:
        come_back()
    assert node.returncode == 6, (node.returncode, err)
    assert 'the store is unreachable: 2 executions could not be given back' in err, err
    events = [json.loads(line) for line in out.splitlines()]
    [stopped] = [event for event in events if event['event'] == 'node.stopped']
    assert stopped['reason'] == 'store_away' and stopped['count'] == 2, stopped
    assert not [event for event in events if event.get('reason') == 'node_stop'], 'it asked once more'
    second = _node(weir, '--node', 'second')
    wait_for('takeover of both', lambda: all(weir.good('show', id, '--json').json()['node'] == 'second' for id in ids))
    second.send_signal(signal.SIGKILL)
    second.wait()


def a_stop_without_its_server_is_soon_over_and_says_what_it_leaves(weir):
    _stop_without_server(weir, lambda: _server().stop(signal.SIGQUIT), _server().start)


def a_stop_while_its_server_is_paused_is_soon_over(weir):
    _stop_without_server(weir, lambda: _server().signal_all(signal.SIGSTOP), lambda: _server().signal_all(signal.SIGCONT))


def nodes_survive_the_servers_restart(weir):
    server = _server()
    name = _use(weir)
    weir.make_store()
    node = _node(weir)
    for how in (signal.SIGKILL, signal.SIGQUIT, signal.SIGINT):
        before = weir.enqueue_many(20)
        server.stop(how)
        time.sleep(0.2)  # the node meets it while it is away
        server.start()
        for id in before + weir.enqueue_many(20):
            weir.good('wait', id)
        assert node.poll() is None, node.stderr.read()
    weir.good('store', 'check')
    assert server.sql("SELECT count(*) FROM weir.workflow_executions WHERE status = 'COMPLETED'", name) == '120'


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
