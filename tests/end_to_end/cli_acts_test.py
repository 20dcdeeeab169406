#!/usr/bin/env python3
"""What acts answer, and what a slip is answered, seen from outside.

usage: cli_acts_test.py BINARY [TEST ...]
"""

import json
import os
import shlex
import subprocess
import sys

from dev_node import start_dev_node
from harness import TIMEOUT_SECONDS, assert_error, run_tests
from waiting import wait_for


def every_act_prints_its_change_as_json(weir):
    weir.make_store()
    weir.good('workspace', 'set', 'other', '-q')
    weir.database().execute("INSERT INTO shedlock VALUES ('a', 9e18, 0, 'gone')").connection.commit()
    weir.database().execute("INSERT INTO nodes (name, executor_group, host, boot_id, pid, keeper_pid, version, engine,"
                            " lease, started_at, active_at, expires_at)"
                            " VALUES ('n1', 'default', '', '', 0, 0, '', '', 1, 0, 0, 9e18)").connection.commit()
    url = f'sqlite:{os.path.realpath(weir.path("weir.db"))}'
    acts = (
        (('pause',), {'executor_group': None, 'paused': True}),
        (('resume', '-g', 'default'), {'executor_group': 'default', 'paused': False}),
        (('workspace', 'set', 'new'),
         {'name': 'new', 'is_new': True, 'plan': 'free', 'max_concurrent': None, 'max_pending': None, 'as_plan': False}),
        (('workspace', 'set', 'acme', '--max-concurrent', '7'),
         {'name': 'acme', 'is_new': False, 'plan': None, 'max_concurrent': 7, 'max_pending': None, 'as_plan': False}),
        (('workspace', 'set', 'acme', '--plan', 'pro', '--as-plan'),
         {'name': 'acme', 'is_new': False, 'plan': 'pro', 'max_concurrent': None, 'max_pending': None, 'as_plan': True}),
        (('workspace', 'pause', 'acme'), {'name': 'acme', 'paused': True}),
        (('workspace', 'resume', 'acme'), {'name': 'acme', 'paused': False}),
        (('plan', 'set', 'gold', '--max-concurrent', '9'),
         {'name': 'gold', 'max_concurrent': 9, 'weight': None, 'max_pending': None}),
        (('node', 'pause', 'n1'), {'name': 'n1', 'desired_state': 'pause'}),
        (('node', 'drain', 'n1'), {'name': 'n1', 'desired_state': 'drain'}),
        (('node', 'resume', 'n1'), {'name': 'n1', 'desired_state': 'run'}),
        (('store', 'migrate'), {'store': url, 'applied': 0}),
        (('store', 'backup', 'copy.db'), {'store': url, 'path': 'copy.db'}),
    )
    for words, facts in acts:
        name = ' '.join(words[:1] if words[0] in ('pause', 'resume') else words[:2])
        for is_dry in (True, False):
            result = weir.good(*words, '--json', *(('-n',) if is_dry else ()))
            assert result.json() == {'act': name, **facts, 'dry_run': is_dry}, repr(result)
    for words, _ in acts[:-1]:
        if words[-1] == 'new':
            continue  # there is nothing to change any more
        result = weir.good(*words, '-q')
        assert (result.out == '' or words[0] == 'store') and result.err == '', repr(result)
    lock = weir.good('lock', 'release', 'a', '--json', '-n').json()
    assert lock == {'act': 'lock release', 'name': 'a', 'holder': 'gone', 'changed': False, 'dry_run': True}, lock
    assert weir.good('lock', 'release', 'a', '--json', '--yes').json()['changed'] is True
    assert weir.good('lock', 'release', 'a', '--json', '--yes').json()['changed'] is False
    assert weir.good('store', 'init', '-n', '-o', 'jsonl').jsonl()[0]['dry_run'] is True
    weir.write('outside.yaml', 'name: outside\ntemporal: {task_queue: q}\n')
    weir.good('workflow', 'apply', 'outside.yaml', '-q')
    id = weir.enqueue('-w', 'acme', 'outside')
    weir.good('cancel', id, '-q')
    for is_dry in (True, False):  # the same end again is no failure
        ended = weir.good('complete', id, '--cancelled', '--json', *(('-n',) if is_dry else ())).json()
        assert ended == {'act': 'complete', 'id': id, 'status': 'CANCELLED', 'dry_run': is_dry}, ended


def long_lists_are_complete(weir):
    weir.good('store', 'init', '-q')
    database = weir.database()
    database.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1201) "
                     "INSERT INTO plans (name, max_concurrent, weight) SELECT 'p' || i, 1, 1 FROM n")
    database.close()
    answer = weir.good('plan', 'list', '--json').json()
    assert len({row['name'] for row in answer['items']}) == 1204 == answer['count'], answer['count']
    assert answer['next_cursor'] is None and answer['count_is_exact'] is True
    assert len(weir.good('plan', 'list').out.splitlines()) == 1205


def show_prints_the_last_events_and_all_on_demand(weir):
    weir.make_store()
    id = weir.enqueue('-w', 'acme', 'hello')
    database = weir.database()
    database.executemany('INSERT INTO workflow_execution_events (execution_id, seq, at, event) VALUES (?, ?, ?, ?)',
                         [(id, i, 9_000_000_000_000_000 + i, f'told{i}') for i in range(150)])
    database.commit()
    shown = weir.good('show', id).out
    assert '51 earlier events' in shown and 'told149' in shown and 'told49 ' not in shown, shown
    shown = weir.good('show', id, '--all-events').out
    assert 'earlier events' not in shown and 'enqueue' in shown and 'told0 ' in shown and 'told149' in shown, shown
    assert len(weir.good('show', id, '--json').json()['events']) == 100
    whole = weir.good('show', id, '--all-events', '--json').json()
    assert len(whole['events']) == 151 and whole['earlier_events'] == 0, whole


def acts_on_named_executions_list_them(weir):
    weir.make_store()
    ids = [weir.enqueue(), weir.enqueue()]
    items = weir.good('cancel', *ids, '--json').json()['items']
    assert items == [{'id': id, 'act': 'cancel', 'cancel_requested': False} for id in ids], items
    retried = weir.good('retry', *ids, '--json').json()
    assert retried['changed'] == 2 and [item['id'] for item in retried['items']] == ids, retried
    new = [item['new_id'] for item in retried['items']]
    assert {row['id'] for row in weir.items('list', '--status', 'pending')} == set(new)
    for flags in ((), ('-n',)):
        assert_error(weir.run('retry', ids[0], '-q', *flags), 4, 'conflict', 'retried already', new[0])
    assert weir.good('cancel', *new, '-n', '-o', 'jsonl').jsonl()[0]['dry_run'] is True
    assert 'items' not in weir.good('cancel', '-w', 'acme', '--json').json()
    weir.good('purge', *new, '-q')
    weir.good('retry', ids[0], '-n')  # what the retry made is gone
    weir.good('retry', ids[0], '-q')


def names_of_blanks_are_refused(weir):
    weir.good('store', 'init', '-q')
    for words in (('workspace', 'set', '   '), ('plan', 'set', '\u3000', '--max-concurrent', '2')):
        assert_error(weir.run(*words), 2, 'invalid_argument', 'nothing but blanks', 'that can be seen')
    assert "the node's name is nothing but blanks" in weir.run('serve', '--node', ' ', code=2).err


def names_without_an_address_are_refused(weir):
    weir.good('store', 'init', '-q')
    for name in ('.', '..'):
        for words in (('workspace', 'set', name), ('plan', 'set', name, '--max-concurrent', '2'),
                      ('token', 'create', name, '--role', 'read', '--all-workspaces')):
            assert_error(weir.run(*words), 2, 'invalid_argument', f'name must not be "{name}"', 'no address over HTTP')
        assert f'the node\'s name must not be "{name}"' in weir.run('serve', '--node', name, code=2).err
    assert weir.items('workspace', 'list') == []
    with weir.database() as database:
        assert database.execute('SELECT count(*) FROM tokens').fetchone() == (0,)


def a_timeout_of_zero_is_refused_except_by_wait(weir):
    weir.make_store()
    id = weir.enqueue()
    assert_error(weir.run('wait', id, '--timeout', '0'), 7, 'timed_out', 'PENDING')
    for words in (('enqueue', '-w', 'acme', 'hello'), ('list',), ('pause',)):
        assert_error(weir.run(*words, '--timeout', '0s'), 2, 'invalid_argument', '--timeout 0')
    assert len(weir.items('list')) == 1


def an_unreadable_or_unwritable_file_gets_a_remedy(weir):
    weir.make_store()
    weir.write('large.json', '{"a": "' + 'x' * (1 << 20) + '"}')
    enqueue = ('enqueue', '-w', 'acme', 'hello', '--params')
    assert_error(weir.run(*enqueue, '@none.json'), 3, 'not_found', 'none.json', 'that you may read')
    assert_error(weir.run(*enqueue, '@.'), 2, 'invalid_argument', 'directory', 'that you may read')
    assert_error(weir.run(*enqueue, '@large.json'), 2, 'params_too_large', 'a reference to it')
    assert_error(weir.run(*enqueue, '{x'), 2, 'params_invalid', "--params '{")
    assert_error(weir.run('enqueue', '-w', 'acme', 'hello', '--priority', 'x'), 2, 'invalid_argument', '-100 to 100')
    assert_error(weir.run('store', 'backup', 'none/copy.db'), 6, 'store_unreachable', 'its folder must be there')
    assert_error(weir.run('list', '--store', 'sqlite:weir.db/x.db'), 6, 'store_unreachable', 'for example sqlite:')


def _run_suggestion(weir, text, before, after=''):
    """Gives a shell the command that stands between the two."""
    command = text.split(before)[1].split(after or '\n')[0]
    assert command.startswith('weir '), text
    done = subprocess.run(['sh', '-c', f'{shlex.quote(weir.binary)}{command[4:]}'], cwd=weir.folder, env=weir.environment,
                          capture_output=True, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, (command, done)


def suggested_commands_run_with_any_name(weir):
    weir.make_store()
    name, group = "it's two words", 'night $HOME; shift'
    told = weir.run('enqueue', '-w', name, 'hello')
    assert_error(told, 3, 'workspace_not_found', "make it with: weir workspace set 'it'\\''s two words' --plan free")
    _run_suggestion(weir, told.err, 'make it with: ')
    weir.make_groups(group)
    id = weir.enqueue('-w', name, 'hello', '-g', group)
    weir.good('workspace', 'pause', name)
    _run_suggestion(weir, weir.good('why', id).err, 'now: ')
    assert 'weir serve --executor-group \'night $HOME; shift\'\n' in weir.good('why', id).err
    weir.database().execute("INSERT INTO nodes (name, executor_group, host, boot_id, pid, keeper_pid, version, engine,"
                            " lease, started_at, active_at, expires_at, desired_state)"
                            " VALUES ('a `node`', ?, '', '', 0, 0, '', '', 1, 0, 0, 9e18, 'pause')",
                            (group,)).connection.commit()
    assert "weir node resume 'a `node`'`" in weir.run('doctor').out
    _run_suggestion(weir, weir.good('why', id).err, 'now: ')
    assert weir.items('node', 'list')[0]['desired_state'] == 'run'
    weir.good('pause', '-g', group)
    assert "(`weir resume --executor-group 'night $HOME; shift'`)" in weir.good('status').out
    assert "until `weir resume --executor-group 'night $HOME; shift'`" in weir.run('doctor').out
    _run_suggestion(weir, weir.good('why', id).err, 'now: ')
    assert 'paused' not in weir.good('status').out
    told = weir.run('list', '--store', 'my store.db')
    assert_error(told, 6, 'store_unreachable', 'my store.db')
    _run_suggestion(weir, told.err, 'make it with: ', ' (or start')
    assert weir.items('list', '--store', 'my store.db') == []
    weir.write('empty db', '')
    told = weir.run('list', '--store', 'empty db')
    assert_error(told, 6, 'schema_missing', 'make them with')
    _run_suggestion(weir, told.err, 'make them with: ')
    assert weir.items('list', '--store', 'empty db') == []


def suggested_commands_after_a_store_flag_act_on_the_same_store(weir):
    """Else they would act on the store of the environment: a look at one queue would resume another."""
    weir.make_store()
    flag = ('--store', 'other store.db')
    weir.good('store', 'init', *flag)
    told = weir.run('enqueue', '-w', 'nobody', 'hello', *flag)
    assert_error(told, 3, 'workspace_not_found',
                 "make it with: weir --store 'other store.db' workspace set nobody --plan free")
    _run_suggestion(weir, told.err, 'make it with: ')
    weir.write('hello2.yaml', 'name: hello2\nsteps:\n  a:\n    exec: [echo]\n')
    weir.good('workflow', 'apply', 'hello2.yaml', *flag)
    id = weir.good('enqueue', '-w', 'nobody', 'hello2', '--json', *flag).json()['id']
    weir.good('pause')
    weir.good('pause', *flag)
    why = weir.good('why', id.replace('-', ''), *flag)
    assert "now: weir --store 'other store.db' resume\n" in why.err, why
    _run_suggestion(weir, why.err, 'now: ')
    assert 'paused' not in weir.good('status', *flag).out and 'paused' in weir.good('status').out
    assert '--store' not in weir.run('enqueue', '-w', 'nowhere', 'hello').err
    secret = weir.run('list', '--store', 'postgresql://u:hidden@127.0.0.1:1/x')
    assert 'hidden' not in secret.out + secret.err, secret


def a_definition_that_is_too_large_is_refused_with_its_file(weir):
    weir.make_store()
    large = 'name: large\n# ' + 'x' * (1 << 20) + '\nsteps:\n  a:\n    exec: [echo]\n'
    weir.write('large.yaml', large)
    for path, source, stdin in (('large.yaml', 'large.yaml', None), ('-', 'stdin', large)):
        refused = weir.run('workflow', 'apply', path, stdin=stdin)
        assert_error(refused, 2, 'definition_invalid', f'weir: {source} is larger than ', ' bytes', 'files of their own')


def nodes_of_one_name_are_named_by_their_ids(weir):
    weir.make_store()
    for expires_at in (9e18, 9e18, 1):  # the last one is gone, and nobody has seen to it yet
        weir.database().execute("INSERT INTO nodes (name, executor_group, host, boot_id, pid, keeper_pid, version, engine,"
                                " lease, started_at, active_at, expires_at)"
                                " VALUES ('web', 'default', '', '', 0, 0, '', '', 1, 0, 0, ?)",
                                (expires_at,)).connection.commit()
    first, second, gone = (node['id'] for node in weir.items('node', 'list'))
    for dry_run in ((), ('-n',)):
        for act in ('pause', 'drain', 'resume'):
            assert_error(weir.run('node', act, 'web', *dry_run), 4, 'conflict', '2 live nodes have the name "web"',
                         f'by its id: {first}, {second};')
    assert [node['desired_state'] for node in weir.items('node', 'list')] == ['run'] * 3
    listed = weir.good('node', 'list').out
    assert f'web ({first})' in listed and f'web ({second})' in listed and f'web ({gone})' in listed, listed
    assert '2 live nodes have the name web' in weir.run('doctor').out
    weir.good('node', 'drain', str(second))
    assert [node['desired_state'] for node in weir.items('node', 'list')] == ['run', 'drain', 'run']
    weir.database().execute(f'UPDATE nodes SET stopped_at = 1, recovered_at = 1 WHERE id = {first}').connection.commit()
    weir.good('node', 'pause', 'web')  # one that is gone is in nobody's way
    assert 'have the name web' not in weir.run('doctor').out


def a_narrow_terminal_breaks_no_line_in_two(weir):
    weir.make_store()
    id = weir.enqueue()
    said = weir.terminal('list', env={'COLUMNS': '20', 'NO_COLOR': '1', 'LC_ALL': 'C'}).out
    assert f'ID         {id}' in said and 'STATUS     . PENDING' in said, repr(said)


def an_owner_that_does_not_exist_is_refused_with_its_place(weir):
    weir.make_store()
    source = 'name: mine\nworkspace: acne\nsteps:\n  a:\n    exec: [echo]\n'
    weir.write('mine.yaml', source)
    assert_error(weir.run('workflow', 'apply', 'mine.yaml'), 3, 'workspace_not_found',
                 'weir: mine.yaml:2:12: there is no workspace "acne"', 'did you mean "acme"?')
    assert_error(weir.run('workflow', 'apply', '-', stdin=source), 3, 'workspace_not_found', 'weir: stdin:2:12: there is')
    weir.write('mine.json', '{"name": "mine",\n  "workspace": "acne",\n  "steps": {"a": {"exec": ["echo"]}}}')
    assert_error(weir.run('workflow', 'apply', 'mine.json'), 3, 'workspace_not_found', 'weir: mine.json:2:16: there is')


def an_error_of_an_earlier_start_is_shown_as_earlier(weir):
    weir.make_store()
    weir.write('long.yaml', 'name: long\nhold_slot: true\nsteps:\n  rest:\n    sleep: 1h\n')
    weir.good('workflow', 'apply', 'long.yaml', '-q')
    id = weir.enqueue('-w', 'acme', 'long')
    with weir.database() as database:  # as two starts that were refused have left it
        database.execute("UPDATE workflow_execution_queue SET starts_refused = 2, error_code = 'engine_busy', "
                         "error = 'come again', due_at = run_at + 1000000")
    shown, why = weir.good('show', id).out, weir.good('why', id).out
    assert 'last error       engine_busy: come again' in why and '  due  ' in why, why
    assert '  error code       engine_busy' in shown and 'earlier' not in shown, shown
    weir.spawn('dev')
    wait_for('its start', lambda: 'DISPATCHED' in weir.good('why', id).out)
    shown, why = weir.good('show', id).out, weir.good('why', id).out
    assert 'earlier error    engine_busy: come again' in why and 'last error' not in why and '  due  ' not in why, why
    assert '  earlier code     engine_busy' in shown and '  error ' not in shown, shown


def a_retry_keeps_finished_steps(weir):
    weir.make_store()
    note, ready = weir.path('note'), weir.path('ready')
    weir.write('chain.json', json.dumps({'name': 'chain', 'steps': {
        'a': {'exec': ['sh', '-c', f'echo a >>{note}; echo 41']},
        'b': {'needs': ['a'], 'exec': ['sh', '-c', f'echo b $0 >>{note}; test -e {ready}', '${.steps.a.output}']},
        'c': {'needs': ['b'], 'exec': ['sh', '-c', f'echo c >>{note}']}}}))
    weir.good('workflow', 'apply', 'chain.json', '-q')

    def notes():
        with open(note, encoding='ascii') as file:
            return file.read().splitlines()
    start_dev_node(weir)
    first = weir.enqueue('-w', 'acme', 'chain')
    assert weir.ended(first)['status'] == 'FAILED'
    assert_error(weir.run('retry', first, '--from', 'no-step'), 2, 'invalid_argument', 'no such step')
    assert_error(weir.run('retry', first, '--from', 'No Step'), 2, 'invalid_argument', 'not the name of a step')
    second = weir.good('retry', first, '--keep-finished').out.strip()
    assert weir.ended(second)['status'] == 'FAILED'
    assert notes() == ['a', 'b 41', 'b 41']
    weir.write('ready', '')
    assert '1 retried' in weir.good('retry', '--where', f'id={second}', '--from', 'b').err
    third = weir.items('list')[0]['id']
    shown = weir.ended(third)
    assert shown['status'] == 'COMPLETED' and shown['retry_of'] == second, shown
    assert [(step['step'], step['attempt']) for step in shown['steps']] == [('a', 1), ('b', 1), ('c', 1)], shown
    assert notes() == ['a', 'b 41', 'b 41', 'b 41', 'c']
    weir.good('store', 'check')


def a_waiting_execution_goes_on_with_another_version(weir):
    weir.make_store()
    steps = {'a': {'exec': ['echo', '41']}, 'gate': {'needs': ['a'], 'sleep': '1h'},
             'b': {'needs': ['gate'], 'exec': ['sh', '-c', 'exit 3']}}
    weir.write('flow.json', json.dumps({'name': 'flow', 'steps': steps}))
    weir.good('workflow', 'apply', 'flow.json', '-q')
    start_dev_node(weir)
    ids = [weir.enqueue('-w', 'acme', 'flow') for _ in range(2)]
    wait_for('their waits', lambda: [row['status'] for row in weir.items('list')] == ['WAITING'] * 2)
    steps['b']['exec'] = ['echo', '${.steps.a.output}']
    weir.write('flow.json', json.dumps({'name': 'flow', 'steps': steps}))
    weir.good('workflow', 'apply', 'flow.json', '-q')
    del steps['gate']
    steps['b']['needs'] = ['a']
    weir.write('flow.json', json.dumps({'name': 'flow', 'steps': steps}))
    weir.good('workflow', 'apply', 'flow.json', '-q')
    assert_error(weir.run('workflow', 'migrate', ids[0]), 2, 'invalid_argument', '--to VERSION')
    assert_error(weir.run('workflow', 'migrate', '-w', 'acme', '--to', '2'), 2, 'invalid_argument', 'names the workflow')
    for words in ((), ('--dry-run',)):
        refused = weir.run('workflow', 'migrate', ids[0], '--to', '3', *words)
        assert refused.code == 4 and 'does not fit its steps on record: gate is not there' in refused.err, refused
    old = ('workflow', 'migrate', '--where', 'workflow=flow version=1')
    assert 'would migrate 0, 2 refused' in weir.good(*old, '--to', '3', '--dry-run').err
    assert 'would migrate 2, 0 refused' in weir.good(*old, '--to', '2', '--dry-run').err
    assert {row['version'] for row in weir.items('list')} == {1}
    assert '2 migrated, 0 refused' in weir.good(*old, '--to', '2', '--expect', '2', '--reason', 'b is mended').err
    shown = weir.good('show', ids[0], '--json').json()
    assert [(event['detail'], event['reason']) for event in shown['events'] if event['event'] == 'migrate'] == [
        ('version 1 to 2', 'b is mended')], shown
    row = weir.items('audit', '--act', 'migrate')[0]
    assert (row['affected'], row['after']) == (2, {'version': 2}), row
    weir.good('wake', ids[0])
    shown = weir.ended(ids[0])
    assert (shown['status'], shown['version'], shown['steps'][-1]['output']) == ('COMPLETED', 2, 41), shown
    weir.good('store', 'check')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
