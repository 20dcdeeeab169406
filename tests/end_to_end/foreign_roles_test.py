#!/usr/bin/env python3
"""Roles that may connect to the database and use the schema, and have no other right: they read nothing, write nothing, and
hold nothing up, whatever they lock, notify, create or keep open.

usage: foreign_roles_test.py BINARY [TEST ...]
"""

import json
import os
import re
import subprocess
import sys

from crash_test import ROOT
from harness import assert_error, run_tests
from postgres_server import PostgresServer, client_program, find_programs
from scheduler_scene import all_complete, held_by, living, serve
from waiting import SHORT, wait_for

SERVER = None
SECRET = 'sesame-open'  # in the params of executions: no answer to the outsider contains it
MODES = ('ACCESS SHARE', 'ROW SHARE', 'ROW EXCLUSIVE', 'SHARE UPDATE EXCLUSIVE', 'SHARE', 'SHARE ROW EXCLUSIVE',
         'EXCLUSIVE', 'ACCESS EXCLUSIVE')
# Every name that weir has for a lock, or had, with the schema's name where it is part of the key.
LOCK_NAMES = [name for part in ('migrate', 'acts', 'claim default', 'publish', 'freshen_lanes', 'schedule', 'role', 'books',
                                'processExecutionQueue', 'recoverStaleQueueItems')
              for name in (part, f'weir {part}', f'weir.{part}', f'weir {part} weir')]
PUBLIC_FUNCTIONS = {'store_time', 'time_of', 'lane_reason'}  # pure: the readers of views call them with their own rights
FLOOD = 20000
NOTIFY_PAGES, NOTIFY_PAGES_SINCE = 64, 17  # the least, of the versions of the server that have this setting


def _server_version():
    answer = subprocess.run([f'{find_programs()}/postgres', '--version'], capture_output=True, text=True, check=True)
    return int(answer.stdout.split()[2].split('.')[0])


def _use_postgres(weir):
    global SERVER
    if SERVER is None:
        queue = f'max_notify_queue_pages = {NOTIFY_PAGES}' if _server_version() >= NOTIFY_PAGES_SINCE else ''
        SERVER = PostgresServer(f'max_wal_size = 1GB\nmax_connections = 120\n{queue}')
    weir.database_name = SERVER.database()
    weir.environment['WEIR_STORE'] = SERVER.url(weir.database_name)
    _sql(weir, "DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'outsider') THEN"
               ' CREATE ROLE outsider LOGIN; CREATE ROLE app LOGIN; END IF; END $$')


def _sql(weir, text):
    return SERVER.sql(text, weir.database_name)


def _make_store(weir):
    weir.make_store()
    _sql(weir, 'GRANT USAGE ON SCHEMA weir TO outsider')


class Outsider:
    """A session of the role, which goes on after errors; `end` returns everything that it was answered and refused."""

    def __init__(self, weir, user='outsider'):
        self.process = subprocess.Popen([client_program('psql'), '-qXAt', SERVER.url(weir.database_name, user=user)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        weir.background.append(self.process)
        self.number = 0

    def run(self, text):
        """The lines of its answers and errors."""
        self.number += 1
        mark = f'mark-{self.number}'
        self.process.stdin.write(f'{text}\n;\n\\echo {mark}\n')
        self.process.stdin.flush()
        lines = []
        while True:
            line = self.process.stdout.readline()
            assert line, f'the session ended: {lines[-3:]}'
            if line == mark + '\n':
                return ''.join(lines)
            lines.append(line)


def _relations(weir, kinds):
    return _sql(weir, "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'weir'::regnamespace"
                      f" AND strpos('{kinds}', c.relkind::text) > 0").split()


def _tables(weir):
    return _relations(weir, 'rv')


def _fingerprint(weir):
    """Of every table that a node does not write by itself."""
    return {table: _sql(weir, f"SELECT md5(coalesce(string_agg(o::text, '|' ORDER BY o::text), '')) FROM weir.{table} o")
            for table in _relations(weir, 'r')}


def _goes_on(weir, count):
    """Work, acts, a publication and a migration, beside whatever the outsider holds; `count` executions have ended
    before."""
    weir.enqueue_many(10)
    all_complete(weir, count + 10)
    weir.good('pause', '-q')
    weir.good('workspace', 'set', 'acme', '--max-concurrent', '3', '-q')
    weir.good('resume', '-q')
    weir.write('hello.yaml', f'name: hello\nsteps:\n  greet:\n    exec: [echo, "{count}"]\n')
    weir.good('workflow', 'apply', 'hello.yaml', '-q')
    weir.good('cancel', weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h'), '-q', '--yes')
    waits = weir.good('enqueue', '-q', '-w', 'acme', 'hello').out.strip()
    wait_for('the end of one more', lambda: weir.good('show', waits, '--json').json()['status'] == 'COMPLETED')
    assert weir.good('store', 'check', '--json').json()['problems'] == []


# --- nothing is read or written ---

def nothing_of_the_store_is_readable_or_writable(weir):
    _make_store(weir)
    weir.good('enqueue', '-q', '-w', 'acme', 'hello', '--params', json.dumps({'secret': SECRET}))
    before, outsider = _fingerprint(weir), Outsider(weir)
    statements = ['CREATE TABLE weir.mine (x integer)', 'CREATE VIEW weir.mine AS SELECT 1', 'DROP SCHEMA weir CASCADE',
                  "CREATE FUNCTION weir.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'"]
    for table in _tables(weir):
        statements += [f'TABLE weir.{table}', f'SELECT count(*) FROM weir.{table}', f'DELETE FROM weir.{table}',
                       f'INSERT INTO weir.{table} DEFAULT VALUES', f'TRUNCATE weir.{table}', f'DROP TABLE weir.{table}',
                       f'COPY weir.{table} TO STDOUT',
                       f'CREATE TRIGGER t AFTER INSERT ON weir.{table} EXECUTE FUNCTION now()',
                       f'SELECT 1 FROM weir.{table} FOR KEY SHARE', f'ANALYZE weir.{table}']
        statements += [f'BEGIN; LOCK TABLE weir.{table} IN {mode} MODE' for mode in MODES]
    sequences = _relations(weir, 'S')
    assert len(sequences) >= 2, sequences
    for sequence in sequences:
        statements += [f"SELECT nextval('weir.{sequence}')", f"SELECT setval('weir.{sequence}', 1)",
                       f'SELECT last_value FROM weir.{sequence}', f'ALTER SEQUENCE weir.{sequence} RESTART']
    for statement in statements:
        answer = outsider.run(statement)
        assert re.search('ERROR|WARNING: .*skipping', answer) and SECRET not in answer, (statement, answer)
        outsider.run('ROLLBACK')
    assert _fingerprint(weir) == before


def no_function_gives_the_outsider_anything(weir):
    """Each is called with arguments that are NULL, and with empty ones. Those with the rights of the owner are refused."""
    _make_store(weir)
    weir.good('enqueue', '-q', '-w', 'acme', 'hello', '--params', json.dumps({'secret': SECRET}))
    before, outsider = _fingerprint(weir), Outsider(weir)
    rows = _sql(weir, 'SELECT p.oid::regprocedure, p.proname, p.prosecdef,'
                      " has_function_privilege('outsider', p.oid, 'EXECUTE'), p.prorettype = 'trigger'::regtype,"
                      ' array_to_string(p.proargtypes::regtype[], \';\') FROM pg_proc p'
                      " WHERE p.pronamespace = 'weir'::regnamespace").splitlines()
    assert len(rows) > 60, rows
    for row in rows:
        signature, name, is_definer, may_execute, is_trigger, types = row.split('|')
        assert is_definer == 'f' or may_execute == 'f', f'{signature} has the rights of the owner and is for all'
        if is_trigger == 't':
            continue
        types = types.split(';') if types else []
        for values in (['NULL'] * len(types), ["'{}'" if '[]' in type or type.startswith('json') else
                                               'NULL' if type == 'uuid' else "'1'" for type in types]):
            call = ', '.join(f'{value}::{type}' for value, type in zip(values, types))
            answer = outsider.run(f'SELECT * FROM weir.{name}({call}) o')
            for word in (SECRET, 'tiny', 'greet', '"steps"'):
                assert word not in answer, (signature, answer)
            assert 'permission denied' not in answer or name not in PUBLIC_FUNCTIONS, (signature, answer)
    assert _fingerprint(weir) == before


# --- nothing is held up ---

def no_statement_of_the_store_takes_an_advisory_lock(weir):
    folder = os.path.join(ROOT, 'src', 'store', 'postgres')
    names = [os.path.join(place, name) for place, _, files in os.walk(folder) for name in files if name.endswith('.sql')]
    assert len(names) > 100, names
    for path in names:
        with open(path) as file:
            statements = ''.join(line for line in file if not line.startswith('--'))
        assert 'advisory' not in statements, path


def locks_and_long_transactions_hold_nothing_up(weir):
    """Each advisory lock by each of its keys, shared and exclusive ones; transactions that stay open with a snapshot."""
    _make_store(weir)
    serve(weir, 'n1')
    held_by(weir, 'n1')
    outsider, sleeper, other = Outsider(weir), Outsider(weir), Outsider(weir)
    for name in LOCK_NAMES:
        answer = outsider.run(f"SELECT pg_advisory_lock(hashtextextended('{name}', 0)),"
                              f" pg_advisory_lock(hashtext('{name}')),"
                              f" pg_advisory_lock(hashtext('weir'), hashtext('{name}')),"
                              f" pg_advisory_lock(hashtext('{name}'), hashtext('hello'))")
        assert 'ERROR' not in answer, answer
    assert int(_sql(weir, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")) >= 4 * len(LOCK_NAMES)
    for isolation in ('REPEATABLE READ', 'SERIALIZABLE'):
        held = sleeper if isolation == 'SERIALIZABLE' else other
        held.run(f'BEGIN ISOLATION LEVEL {isolation}; SELECT count(*) FROM pg_class; SELECT weir.store_time()')
    _goes_on(weir, 0)
    weir.good('store', 'migrate', '-q')
    assert sleeper.run('ROLLBACK') == other.run('ROLLBACK') == ''


def a_migration_needs_no_lock_that_the_outsider_can_take(weir):
    """Its advisory lock has any name that a migration may use, and it holds them before the schema is there."""
    outsider = Outsider(weir)
    for name in LOCK_NAMES:
        outsider.run(f"SELECT pg_advisory_lock(hashtextextended('{name}', 0)), pg_advisory_lock(hashtext('{name}'))")
    weir.good('store', 'init', '-q')
    _sql(weir, 'GRANT USAGE ON SCHEMA weir TO outsider')
    outsider.run('BEGIN; LOCK TABLE weir.schema_migrations IN ACCESS SHARE MODE')
    _sql(weir, 'DELETE FROM weir.schema_migrations WHERE version = 0')
    weir.good('store', 'migrate', '-q')
    assert _sql(weir, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") != '0'


def a_migration_names_the_session_that_it_waited_for(weir):
    weir.good('store', 'init', '-q')
    _sql(weir, 'DELETE FROM weir.schema_migrations WHERE version = 0')
    owner = Outsider(weir, user='owner')
    pid = owner.run("SET application_name = 'a long report'; BEGIN; LOCK TABLE weir.schema_migrations IN SHARE MODE;"
                    ' SELECT pg_backend_pid()')
    result = weir.run('store', 'migrate', '-q', '--timeout', '300ms')
    assert_error(result, 6, 'store_busy', f'process {pid.strip()} of the role "owner" (a long report)', 'schema_migrations',
                 f'pg_terminate_backend({pid.strip()})')
    owner.run('COMMIT')
    weir.good('store', 'migrate', '-q')


def forged_notifications_change_nothing(weir):
    """Payloads of every kind on the channel, in a flood; the largest ones too."""
    _make_store(weir)
    serve(weir, 'n1')
    held_by(weir, 'n1')
    node = _sql(weir, 'SELECT id FROM weir.nodes')
    outsider = Outsider(weir)
    for payload in ("'news'", "''", f"'node:{node}'", "'node:-1'", "'node:99999999999999999999'", "'node:'",
                    "repeat('x', 7999)",
                    "E'news\\n'", "'stop'"):
        assert outsider.run(f"SELECT pg_notify('weir', {payload})").strip() == ''
    outsider.run(f"DO $$ BEGIN FOR i IN 1..{FLOOD} LOOP PERFORM pg_notify('weir', 'news' || i); END LOOP; END $$")
    assert 'ERROR' not in outsider.run(f"LISTEN weir; NOTIFY weir, 'node:{node}'")
    _goes_on(weir, 0)


def _fill_the_queue(weir, listener):
    """Before version 17 that takes 8 GB, so there the function that reports the usage is replaced. The plans of the nodes
    contain the function, so they are made anew."""
    if _server_version() < NOTIFY_PAGES_SINCE:
        _sql(weir, 'CREATE OR REPLACE FUNCTION pg_catalog.pg_notification_queue_usage() RETURNS double precision'
                   " LANGUAGE sql VOLATILE AS 'SELECT 0.6::double precision'")
        _sql(weir, 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()'
                   " AND application_name = 'weir'")
        return
    listener.run('BEGIN; SELECT 1')
    flood = Outsider(weir)
    notify = "DO $$ BEGIN FOR i IN 1..20 LOOP PERFORM pg_notify('weir', i || repeat('x', 7900)); END LOOP; END $$"
    wait_for('a full queue', lambda: 'too many notifications' in flood.run(notify), pause=SHORT)


def a_full_queue_of_notifications_stops_no_commit(weir):
    """Any role can keep the server's queue of notifications from being emptied, by LISTEN and a transaction that stays
    open, and fill it. Then the commit of a transaction that notifies fails. So weir does not notify while the queue is
    half full, and polls."""
    _make_store(weir)
    serve(weir, 'n1')
    held_by(weir, 'n1')
    listener = Outsider(weir)
    listener.run('LISTEN weir')
    heard = 'Asynchronous notification "weir"'
    _sql(weir, "SELECT weir.enqueue('acme', 'hello')")
    all_complete(weir, 1)
    wait_for('a notification', lambda: heard in listener.run('SELECT 1'))
    _fill_the_queue(weir, listener)
    held_by(weir, 'n1')
    listener.run('SELECT 1')
    _goes_on(weir, 1)
    assert heard not in listener.run('SELECT 1')
    assert re.search('notifications .*% full, so nodes poll', re.sub(r'\s+', ' ', weir.run('doctor').out))


# --- names ---

def names_that_shadow_those_of_the_store_are_not_found(weir):
    """Temporary tables, functions and operators that fit better than those of the system, before them in the search path
    of a role that calls every function. What the outsider made fails when it is used."""
    _make_store(weir)
    serve(weir, 'n1')
    held_by(weir, 'n1')
    _sql(weir, f'GRANT CREATE ON DATABASE {weir.database_name} TO outsider; GRANT USAGE ON SCHEMA weir TO app;'
               ' GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO app;'
               ' GRANT SELECT ON weir.executions, weir.execution_events TO app')
    outsider = Outsider(weir)
    trap = "AS $$ BEGIN RAISE 'the trap was used'; END $$ LANGUAGE plpgsql"
    made = ['CREATE SCHEMA evil', 'GRANT USAGE ON SCHEMA evil TO PUBLIC']
    for name, types, result in (('now', '', 'timestamptz'), ('clock_timestamp', '', 'timestamptz'),
                                ('to_timestamp', 'float8', 'timestamptz'),
                                ('pg_notify', 'text, text', 'void'), ('store_time', '', 'bigint'),
                                ('unnest', 'bigint[]', 'bigint'),
                                ('hashtext', 'text', 'integer'), ('lower', 'text', 'text'),
                                ('current_setting', 'text, boolean', 'text'),
                                ('gen_random_uuid', '', 'uuid'), ('jsonb_typeof', 'jsonb', 'text'),
                                ('octet_length', 'text', 'integer')):
        made.append(f'CREATE FUNCTION evil.{name}({types}) RETURNS {result} {trap}')
    for symbol, left, right, result in [(symbol, type, type, 'boolean')
                                        for type in ('bigint', 'integer', 'text', 'uuid', 'boolean')
                                        for symbol in ('=', '<>', '<', '>', '>=', '<=')] + \
            [('+', 'bigint', 'bigint', 'bigint'), ('*', 'numeric', 'numeric', 'numeric'), ('||', 'text', 'text', 'text'),
             ('>>', 'bigint', 'integer', 'bigint'), ('*', 'numeric', 'integer', 'numeric'),
             ('=', 'bigint', 'integer', 'boolean')]:
        name = f'f{len(made)}'
        made += [f'CREATE FUNCTION evil.{name}({left}, {right}) RETURNS {result} {trap}',
                 f'CREATE OPERATOR evil.{symbol} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = evil.{name})']
    for statement in made:
        assert outsider.run(statement) == '', statement
    app = Outsider(weir, user='app')
    for table in _tables(weir):
        app.run(f'CREATE TEMP TABLE {table} (id integer)')
    app.run('SET search_path = evil, pg_temp, weir, pg_catalog')
    assert 'the trap was used' in app.run('SELECT now()') and 'the trap was used' in app.run('SELECT 1::bigint = 2::bigint')
    id = app.run("SELECT weir.enqueue('acme', 'hello', '{}', 'key')").strip()
    held = app.run("SELECT weir.enqueue('acme', 'hello', run_at => '2999-01-01')").strip()
    assert re.fullmatch('[0-9a-f-]{36}', id) and re.fullmatch('[0-9a-f-]{36}', held), (id, held)
    answers = [app.run(statement) for statement in (
        "SELECT * FROM weir.try_enqueue('acme', 'hello')", "SELECT * FROM weir.try_enqueue('acm', 'hello')",
        "SELECT * FROM weir.enqueue_many('[{\"workspace\": \"acme\", \"workflow\": \"hello\"}]')",
        'SELECT * FROM weir.usage()',
        f"SELECT weir.why('{held}')", f"SELECT weir.release('{held}', 'now')", f"SELECT weir.cancel('{held}')",
        "SELECT weir.pause_workspace('acme')", "SELECT weir.resume_workspace('acme')",
        'SELECT id, status, pending_reason FROM weir.executions', 'SELECT event, at FROM weir.execution_events')]
    assert not [answer for answer in answers if 'trap' in answer], answers
    wait_for('the end of all', lambda: not living(weir))
    assert weir.good('show', id, '--json').json()['status'] == 'COMPLETED'
    assert weir.good('store', 'check', '--json').json()['problems'] == []
    _sql(weir, 'DROP OWNED BY outsider, app CASCADE')


def settings_of_a_callers_session_do_not_change_a_calls_meaning(weir):
    """Everything that a role may set and that changes how the server reads or writes values."""
    _make_store(weir)
    _sql(weir, 'GRANT USAGE ON SCHEMA weir TO app; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO app;'
               ' GRANT SELECT ON weir.executions TO app')
    plain, odd = Outsider(weir, user='app'), Outsider(weir, user='app')
    odd.run("SET datestyle = 'German, DMY'; SET timezone = 'Asia/Kathmandu'; SET intervalstyle = 'iso_8601';"
            " SET array_nulls = off; SET transform_null_equals = on; SET bytea_output = 'escape';"
            ' SET extra_float_digits = -15; SET backslash_quote = off;'
            " SET standard_conforming_strings = off; SET enable_indexscan = off; SET enable_seqscan = off;"
            " SET default_transaction_isolation = 'serializable'; SET quote_all_identifiers = on; SET xmlbinary = 'hex';"
            ' SET jit_above_cost = 0; SET plan_cache_mode = force_generic_plan; SET force_parallel_mode = on')
    when = "timestamptz '2999-01-02 03:04:05.678901+00'"
    for session in (plain, odd):
        key = 'plain' if session is plain else 'odd'
        enqueue = f"SELECT weir.enqueue('acme', 'hello', '{{\"a\": 1}}', '{key}', 1, {when})"
        id, again = (session.run(enqueue).strip().splitlines()[-1] for _ in range(2))
        assert re.fullmatch('[0-9a-f-]{36}', id) and again == id, (id, again)
        many = session.run("SELECT code, duplicate FROM weir.enqueue_many("
                           "'[{\"workspace\": \"acme\", \"workflow\": \"hello\","
                           f" \"run_at\": \"2999-01-02T03:04:05.678901Z\", \"idempotency_key\": \"many-{key}\"}}]')")
        assert 'ok|f' in many, many
        answer = json.loads(session.run(f"SELECT weir.why('{id}')").strip().splitlines()[-1])
        assert answer['run_at'].startswith('2999-01-02T03:04:05'), answer
    shown = [{**item, 'id': '', 'idempotency_key': '', 'created_at': ''}
             for item in weir.items('list', '--limit', '10')]
    assert len(shown) == 4 and len({json.dumps(item, sort_keys=True) for item in shown}) == 2, shown
    _sql(weir, 'DROP OWNED BY app CASCADE')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres))
