#!/usr/bin/env python3
"""The verbs of `weir store` from outside, on SQLite: what makes, migrates, checks and copies a store, and what is none.

usage: cli_store_test.py BINARY [TEST ...]
"""

import json
import os
import re
import shutil
import signal
import sys
import time

from harness import assert_error, run_tests
from waiting import SECONDS_MOST, SHORT, process_state, wait_for


# --- stores ---

def a_missing_store_is_one_line_with_the_command_that_makes_it(weir):
    for words in (('list',), ('enqueue', '-w', 'a', 'b'), ('status',), ('show', '0198c2f1'), ('store', 'check'),
                  ('store', 'migrate'), ('purge', '0198c2f1-0000-7000-8000-000000000000')):
        result = weir.soon(*words)
        assert_error(result, 6, 'store_unreachable', 'weir.db', 'weir store init', 'weir dev')
        assert result.out == ''
    assert os.listdir(weir.folder) == ['home']


def store_init_makes_the_store_once_and_prints_its_url(weir):
    weir.good('store', 'init', '--dry-run')
    assert not os.path.exists(weir.path('weir.db'))
    first = weir.good('store', 'init')
    assert first.out == f'sqlite:{os.path.realpath(weir.path("weir.db"))}\n'
    assert '0001_initial' in first.err
    again = weir.good('store', 'init')
    assert again.out == first.out and '0001' not in again.err
    assert weir.good('store', 'init', '--json').json()['applied'] == 0


def a_store_may_be_named_by_flag_variable_and_file(weir):
    weir.good('store', 'init', '--store', 'sqlite:a.db')
    weir.good('store', 'init', env={'WEIR_STORE': 'b.db'})
    weir.write('weir.yaml', 'store: sqlite:./c.db\n')
    weir.good('store', 'init')
    assert {'a.db', 'b.db', 'c.db'} <= set(os.listdir(weir.folder))
    weir.good('list', '--store=b.db')


def a_file_that_is_not_a_store_is_refused_and_unchanged(weir):
    os.mkdir(weir.path('folder'))
    weir.write('text.db', 'this is not a database at all, only some words ' * 20)
    other = weir.database('other.db')
    other.execute('CREATE TABLE t (x)')
    other.close()
    before = open(weir.path('text.db')).read()
    for verb in (('list',), ('store', 'init'), ('store', 'migrate')):
        assert_error(weir.run(*verb, '--store', 'folder'), 6, 'store_unreachable', 'folder')
        assert_error(weir.run(*verb, '--store', 'text.db'), 6, 'store_not_weir', 'text.db')
        assert_error(weir.run(*verb, '--store', 'other.db'), 6, 'store_not_weir', 'other.db')
    for verb in (('store', 'init'), ('dev',)):
        assert_error(weir.run(*verb, '--store', 'no/such/folder/weir.db'), 6, 'store_unreachable',
                     'no/such/folder/weir.db: ', 'its folder must be there')
    assert_error(weir.run('list', '--store', 'mysql://host/x'), 2, 'invalid_argument', 'mysql', 'sqlite:')
    assert open(weir.path('text.db')).read() == before


def a_store_of_a_newer_version_is_refused(weir):
    weir.make_store()
    weir.database().execute('PRAGMA user_version = 999')
    assert_error(weir.run('list'), 6, 'schema_newer', '999')
    assert_error(weir.run('store', 'migrate'), 6, 'schema_newer')


def a_store_without_tables_or_with_old_ones_names_the_command_that_mends_it(weir):
    open(weir.path('weir.db'), 'w').close()
    assert_error(weir.run('list'), 6, 'schema_missing', 'weir store init')
    weir.good('store', 'init', '-q')
    plan = weir.good('store', 'plan')
    assert 'CREATE TABLE workflow_execution_queue' in plan.out and '(applied)' in plan.out
    assert all(row['applied'] for row in weir.items('store', 'plan'))


def migrate_names_the_files_and_dry_run_applies_none(weir):
    open(weir.path('weir.db'), 'w').close()
    dry = weir.good('store', 'migrate', '--dry-run')
    assert 'would apply 0001_initial.sql' in dry.err
    assert os.path.getsize(weir.path('weir.db')) <= 4096
    wet = weir.good('store', 'migrate')
    assert 'applying 0001_initial.sql' in wet.err and 'applied' in wet.err
    assert '0 migrations applied' in weir.good('store', 'migrate').err


def a_corrupt_store_is_reported(weir):
    weir.make_store()
    weir.enqueue_many(50)
    weir.database().execute('PRAGMA wal_checkpoint(TRUNCATE)')
    size = os.path.getsize(weir.path('weir.db'))
    with open(weir.path('weir.db'), 'r+b') as file:
        file.seek(4096)
        file.write(b'\xa5' * (size - 4096))
    result = weir.run('store', 'check')
    assert result.code in (1, 6), repr(result)
    assert weir.run('list').code == 6


def check_is_silent_about_a_good_store_and_finds_wrong_books(weir):
    weir.make_store()
    weir.enqueue()
    assert weir.good('store', 'check', '--json').json() == {'ok': True, 'problems': []}
    weir.database().execute('DELETE FROM news')
    result = weir.run('store', 'check', code=1)
    assert 'books and news' in result.out, repr(result)
    assert not weir.run('store', 'check', '--json').json()['ok']


def a_backup_is_a_store_and_never_overwrites(weir):
    weir.make_store()
    ids = weir.enqueue_many(3)
    weir.good('store', 'backup', 'copy.db', '--dry-run')
    assert not os.path.exists(weir.path('copy.db'))
    weir.good('store', 'backup', 'copy.db')
    assert {row['id'] for row in weir.items('list', '--store', 'copy.db')} == set(ids)
    assert_error(weir.run('store', 'backup', 'copy.db'), 4, 'conflict', 'copy.db')


def a_store_locked_by_another_program_is_reported_within_the_deadline(weir):
    weir.make_store()
    other = weir.database()
    other.execute('BEGIN IMMEDIATE')
    for words in (('cancel', '0198c2f1-0000-7000-8000-000000000000'), ('workspace', 'set', 'new')):
        # Without the option it would be 5 s.
        result = weir.soon(*words, '--timeout', '300ms', seconds=4.5, code=6, may_be_busy=True)
        assert 'store_busy' in result.err and result.seconds > 0.2, repr(result)
    other.execute('ROLLBACK')
    weir.good('workspace', 'set', 'new')


def a_full_disk_is_reported_and_loses_nothing(weir):
    weir.make_store()
    line = json.dumps({'workspace': 'acme', 'workflow': 'hello', 'params': {'x': 'y' * 4000}}) + '\n'
    result = weir.run('enqueue', '-', stdin=line * 3000, limit_file=7 * 1024 * 1024)
    assert result.code == 6 and '(store_' in result.err, repr(result)
    assert 'tail -n +' in result.err
    acknowledged = result.out.split()
    weir.good('store', 'check')
    kept = weir.good('list', '--count', '--limit', '1', '--json').json()['count']
    assert kept >= len(acknowledged)


def a_backup_onto_a_full_disk_fails_and_leaves_no_file(weir):
    weir.make_store()
    weir.enqueue_many(500)
    result = weir.run('store', 'backup', 'copy.db', limit_file=64 * 1024)
    assert_error(result, 6, 'store_full', 'copy', 'another disk')
    assert not os.path.exists(weir.path('copy.db'))
    weir.good('store', 'backup', 'copy.db')


def a_file_without_permission_is_named_by_its_path(weir):
    weir.make_store()
    os.chmod(weir.folder, 0o755)
    mine = {'XDG_CONFIG_HOME': weir.path('secret')}
    for name in ('binary', 'counts', 'secret/weir'):
        os.makedirs(weir.path(name))
    os.chmod(weir.path('counts'), 0o777)
    weir.environment['GCOV_PREFIX'] = weir.path('counts')  # of a build for coverage: it complains where it cannot write
    os.chmod(weir.path('secret'), 0o700)
    shutil.copy(weir.binary, weir.path('binary/weir'))
    weir.binary = weir.path('binary/weir')
    weir.user = 65534 if os.geteuid() == 0 else None
    if weir.user is None:  # its own files: nobody else can be asked
        os.chmod(weir.path('secret'), 0)
        os.chmod(weir.path('weir.db'), 0o444)
        os.chmod(weir.folder, 0o555)
    try:
        assert_error(weir.run('list', env=mine), 2, 'invalid_config', 'secret/weir/weir.yaml', 'let this user', '--config')
        for words in (('list',), ('enqueue', '-w', 'acme', 'hello'), ('dev',)):
            assert_error(weir.run(*words), 6, 'store_unreachable', os.path.realpath(weir.path('weir.db')), 'run as a user')
        assert_error(weir.run('dev', '--store', 'new.db'), 6, 'store_unreachable', '/new.db: ', 'allowed to write to it')
    finally:
        os.chmod(weir.folder, 0o755)


def _await_stopped(process):
    wait_for('the stop at its failpoint', lambda: process_state(process.pid) in ('T', 'Z', None), pause=SHORT)
    assert process_state(process.pid) == 'T'


def long_calls_on_the_store_show_how_far_they_are(weir):
    weir.make_store()
    fresh = ('--store', 'sqlite:./fresh.db')
    weir.write('fresh.db', b'')
    for words, line in ((('store', 'backup', 'copy.db'), rb'copying pages +(\d+)/\1  100 %'),
                        (('store', 'check'), rb'checking +\d+/\d+  \d+ %'),
                        (('store', 'migrate', *fresh), rb'migrating +\d+/\d+  \d+ %')):
        quick = weir.good(*words[:2], *(('quick.db',) if 'backup' in words else ()))
        assert '%' not in quick.err or quick.seconds > 1, 'below a second there is nothing to show'
        process = weir.spawn(*words, env={'WEIR_FAILPOINT': 'in_progress:stop:2'})
        _await_stopped(process)
        time.sleep(1.1)  # what it lasts is what is shown
        process.send_signal(signal.SIGCONT)
        assert process.wait(SECONDS_MOST) == 0
        said = process.stderr.read()
        assert re.search(line, said), said


def a_command_waits_for_the_process_that_makes_the_store(weir):
    """From the first byte of the file to the commit of the schema."""
    for number, point in enumerate(('store_created:stop:1', 'in_progress:stop:1', 'in_progress:stop:2')):
        store = ('--store', f'sqlite:./new{number}.db')
        maker = weir.spawn('store', 'init', *store, env={'WEIR_FAILPOINT': point})
        _await_stopped(maker)
        readers = [weir.spawn(*words, *store, env={'WEIR_FAILPOINT': 'store_awaited:stop'})
                   for words in (('status',), ('list', '--json'), ('store', 'init'), ('store', 'check'))]
        for reader in readers:
            _await_stopped(reader)  # else it has ended: it has answered that the store has no tables
        maker.send_signal(signal.SIGCONT)
        assert maker.wait(SECONDS_MOST) == 0
        for reader in readers:
            reader.send_signal(signal.SIGCONT)
            assert reader.wait(SECONDS_MOST) == 0, reader.stderr.read()


def a_store_whose_maker_was_killed_is_empty_and_awaited_by_nobody(weir):
    for number, point in enumerate(('store_created:kill:1', 'in_progress:kill:2')):
        store = ('--store', f'sqlite:./new{number}.db')
        killed = weir.run('store', 'init', *store, env={'WEIR_FAILPOINT': point})
        assert killed.code == -signal.SIGKILL, killed
        assert_error(weir.run('list', *store), 6, 'schema_missing', 'weir store init')
        assert '0001_initial' in weir.good('store', 'init', *store).err, 'tables without views would be left'
        weir.good('list', *store)


def a_killed_backup_leaves_nothing_under_its_name(weir):
    weir.make_store()
    killed = weir.run('store', 'backup', 'copy.db', env={'WEIR_FAILPOINT': 'in_progress:kill:1'})
    assert killed.code == -signal.SIGKILL, killed
    assert not os.path.exists(weir.path('copy.db')) and os.path.exists(weir.path('copy.db.partial'))
    assert_error(weir.run('store', 'backup', 'copy.db'), 4, 'conflict', 'copy.db.partial', 'remove it if none runs')
    os.unlink(weir.path('copy.db.partial'))
    weir.good('store', 'backup', 'copy.db')
    assert sorted(name for name in os.listdir(weir.folder) if 'copy' in name) == ['copy.db']


def a_backup_writes_through_no_symbolic_link(weir):
    weir.make_store()
    for name in ('copy.db', 'copy.db.partial'):
        os.symlink(weir.path('elsewhere'), weir.path(name))
        assert_error(weir.run('store', 'backup', 'copy.db'), 4, 'conflict', name)
        assert not os.path.exists(weir.path('elsewhere'))
        os.unlink(weir.path(name))


def an_interrupted_backup_leaves_no_file(weir):
    weir.make_store()
    process = weir.spawn('store', 'backup', 'copy.db', env={'WEIR_FAILPOINT': 'in_progress:stop:1'})
    _await_stopped(process)
    assert os.path.exists(weir.path('copy.db.partial')) and not os.path.exists(weir.path('copy.db'))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    assert process.wait(SECONDS_MOST) == 130
    assert b'interrupted' in process.stderr.read()
    assert not [name for name in os.listdir(weir.folder) if 'copy' in name]


def a_row_that_cannot_be_true_ends_the_node_and_leads_to_the_check(weir):
    """Of a program that writes into the tables. What the node would do next cannot be right."""
    weir.make_store()
    weir.enqueue()
    weir.database().execute('UPDATE workflow_execution_queue SET lane_id = -1')
    ended = weir.run('serve')
    assert ended.code != 0 and 'memory does not fit the store' in ended.err, ended
    assert 'hint: `weir store check` names the rows' in ended.err, ended
    checked = weir.run('store', 'check')
    assert checked.code == 1 and 'lane -1' in checked.out, checked


if __name__ == '__main__':
    # The first one gives the command less time than the server has; the other two take rights and room from the command,
    # not from the server.
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], needs_store=(
        'a_store_locked_by_another_program_is_reported_within_the_deadline', 'a_full_disk_is_reported_and_loses_nothing',
        'a_file_without_permission_is_named_by_its_path')))
