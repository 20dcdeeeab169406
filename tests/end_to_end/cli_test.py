#!/usr/bin/env python3
"""The command line from outside: every verb, every exit code, every format, and what goes wrong.

usage: cli_test.py BINARY [TEST ...]
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

from dev_node import publish_program, start_dev_node
from harness import UUID, assert_error, catches, run_tests
from waiting import SECONDS_MOST, SHORT, process_state, wait_for


# --- plans, workspaces ---

def plans_and_workspaces_are_set_and_listed(weir):
    weir.good('store', 'init', '-q')
    assert {row['name']: row['max_concurrent'] for row in weir.items('plan', 'list')} == \
        {'free': 1, 'pro': 5, 'enterprise': 20}
    weir.good('plan', 'set', 'gold', '--max-concurrent', '50', '--weight', '4')
    weir.good('plan', 'set', 'free', '--max-concurrent', '2', '--dry-run')
    plans = {row['name']: row for row in weir.items('plan', 'list')}
    assert plans['gold']['max_concurrent'] == 50 and plans['gold']['weight'] == 4 and plans['free']['max_concurrent'] == 1
    assert '--max-concurrent' in weir.run('plan', 'set', 'silver', '--weight', '2').err
    assert_error(weir.run('plan', 'set', 'free'), 2, 'invalid_argument', '--max-concurrent')
    assert 'made' in weir.good('workspace', 'set', 'acme').err
    assert 'changed' in weir.good('workspace', 'set', 'acme', '--plan', 'gold').err
    weir.good('workspace', 'set', 'acme', '--max-concurrent', '7')
    assert weir.good('workspace', 'show', 'acme', '--json').json()['slots_max'] == 7
    weir.good('workspace', 'set', 'acme', '--as-plan')
    assert weir.good('workspace', 'show', 'acme', '--json').json()['slots_max'] == 50
    weir.good('workspace', 'set', 'other', '--dry-run')
    assert [row['name'] for row in weir.items('workspace', 'list')] == ['acme']
    assert_error(weir.run('workspace', 'set', 'acme', '--plan', 'golf'), 3, 'plan_not_found', 'gold')
    assert_error(weir.run('workspace', 'set', 'acme'), 2, 'invalid_argument')
    assert_error(weir.run('workspace', 'show', 'acne'), 3, 'workspace_not_found', 'did you mean "acme"?')


def a_workspace_is_paused_and_resumed(weir):
    weir.make_store()
    weir.good('workspace', 'pause', 'acme', '--dry-run')
    assert not weir.good('workspace', 'show', 'acme', '--json').json()['paused']
    weir.good('workspace', 'pause', 'acme')
    assert weir.good('workspace', 'show', 'acme', '--json').json()['paused'] is True
    assert weir.good('why', weir.enqueue(), '--json').json()['pending_reason'] == 'workspace_paused'
    weir.good('workspace', 'resume', 'acme')
    assert weir.good('workspace', 'show', 'acme', '--json').json()['paused'] is False
    assert_error(weir.run('workspace', 'pause', 'acmee'), 3, 'workspace_not_found', 'acme')


# --- enqueue ---

def enqueue_prints_the_id_and_nothing_else_on_stdout(weir):
    weir.make_store()
    result = weir.good('enqueue', '-w', 'acme', 'hello')
    assert UUID.match(result.out.strip()) and result.out.count('\n') == 1
    answer = weir.good('enqueue', '-w', 'acme', 'hello', '--json').json()
    assert UUID.match(answer['id']) and answer['status'] == 'PENDING' and answer['duplicate'] is False


def params_reach_the_store_byte_for_byte(weir):
    weir.make_store()
    params = '{ "b": 1.50,\t"a" : "é\\u00e9 \'quoted\' 😀 \u202e", "n":[1e3, -0] }'
    weir.write('params.json', params)
    by_flag = weir.enqueue('-w', 'acme', 'hello', '--params', params)
    by_file = weir.enqueue('-w', 'acme', 'hello', '-p', '@params.json')
    by_pipe = weir.good('enqueue', '-w', 'acme', 'hello', '-p', '-', stdin=params).out.strip()
    line = '{"workspace":"acme","workflow":"hello","params":' + params + '}\n'
    by_line = weir.good('enqueue', '-', stdin=line).out.strip()
    for execution in (by_flag, by_file, by_pipe, by_line):
        kept = weir.database().execute('SELECT params FROM execution_params WHERE id = ?', (execution,)).fetchone()[0]
        assert (kept.decode() if isinstance(kept, bytes) else kept) == params
        assert weir.good('show', execution, '--json').json()['params'] == json.loads(params)


def each_refusal_of_enqueue_has_its_own_code(weir):
    weir.make_store()
    weir.write('mine.yaml', 'name: mine\nworkspace: tiny\nsteps:\n  a:\n    exec: [echo]\n')
    weir.good('workflow', 'apply', 'mine.yaml')
    acme = ('enqueue', '-w', 'acme')
    assert_error(weir.run('enqueue', '-w', 'acne', 'hello'), 3, 'workspace_not_found', 'acme')
    assert_error(weir.run(*acme, 'helo'), 3, 'workflow_not_found', 'did you mean "hello"?')
    assert_error(weir.run(*acme, 'mine'), 5, 'workflow_of_another_workspace')
    assert_error(weir.run(*acme, 'hello', '--params', '{'), 2, 'params_invalid')
    assert_error(weir.run(*acme, 'hello', '--params', '[1]'), 2, 'params_invalid', 'object')
    assert_error(weir.run(*acme, 'hello', '--params', '{"a":1,"a":2}'), 2, 'params_invalid')
    weir.write('large.json', json.dumps({'x': 'y' * 1024 * 1024}))
    assert_error(weir.run(*acme, 'hello', '--params', '@large.json'), 2, 'params_too_large')
    assert_error(weir.run(*acme, 'hello', '--params', '@none.json'), 3, 'not_found', 'none.json')
    assert_error(weir.run('enqueue', 'hello'), 2, 'invalid_argument', '--workspace')
    assert_error(weir.run(*acme, 'hello', '--run-at', 'tomorrow'), 2, 'invalid_argument', '2026-11-21T10:00:00Z')
    assert_error(weir.run(*acme, 'hello', '--priority', '1000'), 2, 'invalid_argument', '-100 to 100')
    assert weir.items('list') == []


def a_key_gives_one_execution(weir):
    weir.make_store()
    words = ('-w', 'acme', 'hello', '--params', '{"a":1}', '-k', 'key-1')
    first = weir.enqueue(*words)
    again = weir.good('enqueue', *words, '--json').json()
    assert again['id'] == first and again['duplicate'] is True
    result = weir.run('enqueue', '-w', 'acme', 'hello', '--params', '{"a":2}', '-k', 'key-1')
    assert_error(result, 4, 'idempotency_key_reused')
    assert len(weir.items('list')) == 1


def enqueue_dry_changes_nothing(weir):
    weir.make_store()
    assert 'would enqueue' in weir.good('enqueue', '-w', 'acme', 'hello', '--dry-run').err
    assert_error(weir.run('enqueue', '-w', 'acme', 'helo', '-n'), 3, 'workflow_not_found', 'hello')
    lines = '{"workspace":"acme","workflow":"hello"}\n{"workspace":"acme"}\n'
    dry = weir.run('enqueue', '-', '-n', stdin=lines, code=1)
    assert dry.out == '' and 'line 2' in dry.err
    lines = ''.join('{"workspace":"%s","workflow":"%s","run_at":"%s"}\n' % line for line in
                    [('acme', 'hello', '2030-01-01T00:00:00Z'), ('acmi', 'hello', '2030-01-01T00:00:00Z'),
                     ('acme', 'helo', '2030-01-01T00:00:00Z'), ('acme', 'hello', '1960-01-01T00:00:00Z')])
    dry = weir.run('enqueue', '-', '-n', stdin=lines, code=1)
    assert '3 of 4 executions would be refused, 1 would be enqueued' in dry.err, repr(dry)
    for words in ('line 2: there is no workspace "acmi"', 'line 3: there is no workflow "helo"', 'line 4: run_at is'):
        assert words in dry.err, repr(dry)
    told = [json.loads(line) for line in weir.run('enqueue', '-', '-n', '--json', stdin=lines, code=1).err.splitlines()]
    assert told[0]['error']['hint'] == 'did you mean "acme"?', told
    result = weir.run('enqueue', '-w', 'acme', 'hello', '-n', '--run-at', '1960-01-01T00:00:00Z')
    assert_error(result, 2, 'invalid_argument', '1970')
    assert weir.items('list') == []


def a_dry_run_refuses_a_workflow_of_another_workspace(weir):
    weir.make_store()
    weir.good('workspace', 'set', 'globex')
    weir.write('mine.yaml', 'name: mine\nworkspace: globex\nsteps: {a: {exec: ["true"]}}\n')
    weir.good('workflow', 'apply', 'mine.yaml')
    for flags in ((), ('-n',)):
        assert_error(weir.run('enqueue', '-w', 'acme', 'mine', *flags), 5, 'workflow_of_another_workspace', 'mine')
    lines = '{"workspace":"acme","workflow":"mine"}\n{"workspace":"globex","workflow":"mine"}\n'
    dry = weir.run('enqueue', '-', '-n', stdin=lines, code=1)
    assert 'line 1: workflow "mine" belongs to another workspace' in dry.err and '1 would be enqueued' in dry.err, repr(dry)


def a_dry_run_of_complete_predicts_complete(weir):
    weir.make_store()
    id = weir.enqueue()
    for flags in ((), ('-n',)):
        assert_error(weir.run('complete', id, *flags), 4, 'illegal_state', 'runs inside a node')
        assert_error(weir.run('complete', '01a00000-0000-7000-8000-000000000000', *flags), 3, 'execution_not_found')
        assert_error(weir.run('complete', id, '--result', '{oops', *flags), 2, 'invalid_argument', 'the result is no')
        weir.write('empty', '')
        empty = weir.run('complete', id, '--result', '@' + weir.path('empty'), *flags)
        assert_error(empty, 2, 'invalid_argument', 'no JSON')
        weir.write('nul', b'7\0garbage')
        nul = weir.run('complete', id, '--result', '@' + weir.path('nul'), *flags)
        assert_error(nul, 2, 'invalid_argument', 'NUL')


def a_dry_run_answers_in_json_when_json_is_asked_for(weir):
    weir.make_store()
    assert weir.good('enqueue', '-w', 'acme', 'hello', '-n', '--json').json() == \
        {'workspace': 'acme', 'workflow': 'hello', 'dry_run': True}
    weir.write('fine.yaml', 'name: fine\nsteps: {a: {exec: ["true"]}}\n')
    assert weir.good('workflow', 'apply', 'fine.yaml', '-n', '--json').json()['dry_run'] is True
    id = weir.enqueue()
    tried = weir.good('signal', id, 'go', '-n', '--json').json()
    assert tried == {'act': 'signal', 'id': id, 'signal': 'go', 'dry_run': True}, tried
    assert_error(weir.run('status', '--metrics', '-o', 'table', '--timeout', '1x'), 2, 'invalid_argument')
    error = json.loads(weir.run('status', '--metrics', '--json', code=2).err)['error']
    assert 'no JSON form' in error['message'], error


def ids_and_reasons_of_a_filter_are_taken_in_any_case(weir):
    weir.make_store()
    id = weir.enqueue()
    for where in (f'id={id.upper()}', f'id={id[:8].upper()}', 'pending_reason=NO_NODE_in_group', 'status=PenDing'):
        assert [item['id'] for item in weir.items('list', '--where', where)] == [id], where
    assert_error(weir.run('list', '--where', 'id=xyz'), 2, 'invalid_argument', '"xyz" is not an execution id')
    assert_error(weir.run('list', '--where', 'since=yesterday'), 2, 'invalid_argument', '1h means an hour ago')
    assert weir.good('list', '--status', 'failed').err == 'no execution matches\n'
    long = 'g' * 65
    assert_error(weir.run('serve', '--executor-group', long), 2, 'invalid_config', 'longer than 64 bytes')
    assert_error(weir.run('list', env={'WEIR_EXECUTOR_GROUP': long}), 2, 'invalid_config', 'longer than 64 bytes')


def a_wrong_flag_is_refused_with_its_verb_at_any_place(weir):
    for words in (('workflow', 'apply', 'x.yaml', '--publish'), ('workflow', '--publish', 'apply', 'x.yaml'),
                  ('workflow', 'apply', '--publish')):
        said = weir.run(*words, code=2).err
        assert 'has no flag --publish' in said, said
    assert '`weir workflow apply` has no flag --publish' in weir.run('workflow', 'apply', 'x.yaml', '--publish', code=2).err
    for flag, key in (('--since', 'since'), ('--error-code', 'error_code'), ('--executor-group', 'executor_group')):
        assert_error(weir.run('list', flag, '1h'), 2, 'invalid_argument', f'`weir list` has no flag {flag} ',
                     f"did you mean --where '{key}=...'?")


def times_and_groups_are_kept(weir):
    weir.make_store()
    weir.make_groups('slow')
    later = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h', '--executor-group', 'slow', '--priority', '-5')
    shown = weir.good('show', later, '--json').json()
    assert shown['pending_reason'] == 'scheduled' and shown['priority'] == -5 and shown['executor_group'] == 'slow'
    past = weir.enqueue('-w', 'acme', 'hello', '--run-at', '2020-01-01T00:00:00Z')
    assert weir.good('show', past, '--json').json()['run_at'].startswith('2020-01-01T00:00:00')
    configured = weir.good('enqueue', '-q', '-w', 'acme', 'hello', env={'WEIR_EXECUTOR_GROUP': 'slow'}).out.strip()
    assert weir.good('show', configured, '--json').json()['executor_group'] == 'slow'


def an_unknown_group_is_refused_unless_the_configuration_names_it(weir):
    weir.make_store()
    words = 'there is no executor group "nogroup"; there are: "default"'
    line = json.dumps({'workspace': 'acme', 'workflow': 'hello', 'executor_group': 'nogroup'})
    for refused in (weir.run('enqueue', '-w', 'acme', 'hello', '--executor-group', 'nogroup'),
                    weir.run('enqueue', '-', stdin=line),
                    weir.run('enqueue', '-w', 'acme', 'hello', '--executor-group', 'nogroup', '--dry-run'),
                    weir.run('enqueue', '-', '--dry-run', stdin=line)):
        assert refused.code in (1, 3) and words in refused.err, repr(refused)
        assert 'weir serve --executor-group NAME' in refused.err, repr(refused)
    assert weir.items('list') == []
    weir.write('weir.yaml', 'executor.group: nogroup\n')
    id = weir.enqueue('-w', 'acme', 'hello')
    assert weir.good('show', id, '--json').json()['executor_group'] == 'nogroup'
    misspelt = weir.run('enqueue', '-w', 'acme', 'hello', '--executor-group', 'nogruop', code=3)
    assert 'did you mean "nogroup"?' in misspelt.err


def doctor_copes_with_many_groups(weir):
    weir.make_store()
    database = weir.database()
    database.executemany('INSERT INTO executor_groups (name) VALUES (?)', ((f'group-{n}',) for n in range(20000)))
    database.execute("INSERT INTO nodes (name, executor_group, host, boot_id, pid, keeper_pid, version, engine, lease,"
                     " started_at, active_at, expires_at) VALUES ('n', 'default', '', '', 0, 0, '', '', 1, 0, 0, 9e18)")
    database.commit()
    lines = (json.dumps({'workspace': 'acme', 'workflow': 'hello', 'executor_group': f'group-{n}'}) + '\n'
             for n in range(20000))
    weir.good('enqueue', '-', '-q', stdin=''.join(lines))
    told = weir.run('doctor')
    assert 'the store is whole' in told.out and told.code == 0, repr(told)


def doctor_checks_the_modes_of_secret_files(weir):
    weir.make_store()
    weir.write('key', 'secret')
    weir.write('weir.yaml', f'temporal.api_key_file: {weir.path("key")}\n')
    os.chmod(weir.path('key'), 0o644)
    told = weir.run('doctor').out
    wanted = f'temporal.api_key_file may be read or written by other users (mode 0644): chmod 600 {weir.path("key")}'
    assert wanted in told, told
    os.chmod(weir.path('key'), 0o600)
    assert 'other users' not in weir.run('doctor').out


def nodes_are_shown_as_they_can_be_written(weir):
    weir.write('weir.yaml', 'nodes:\n  - executor.group: steps\n    exec.allow: [sh, wc]\n'
               '  - {executor: {group: "b: c"}, engine: temporal, temporal.namespace: billing}\n')
    shown = weir.good('config', 'show').out
    assert shown.endswith('nodes:\n  - executor.group: steps\n    exec.allow: [sh, wc]\n  - engine: temporal\n'
                          '    executor.group: "b: c"\n    temporal.namespace: billing\n'), shown
    weir.write('again.yaml', shown)
    assert weir.good('config', 'show', '--config', 'again.yaml').out == shown
    items = {item['key']: item for item in weir.items('config', 'show')}
    assert items['nodes[1].temporal.namespace']['value'] == 'billing', items
    assert items['nodes[1].temporal.namespace']['origin'] == './weir.yaml:4', items
    assert 'nodes[0].engine' not in items
    assert re.search(r'nodes\[1\]\.engine +temporal +\./weir\.yaml:4', weir.good('config', 'show', '--origin').out)


def a_workflow_says_where_its_executions_go(weir):
    weir.make_store()
    weir.write('bill.yaml', 'name: bill\nexecutor_group: billing\nsteps: {s: {sleep: 1s}}\n')
    weir.good('workflow', 'apply', 'bill.yaml')
    weir.make_groups('mine', 'flag', 'line')
    setting = {'WEIR_EXECUTOR_GROUP': 'slow'}

    def group(*arguments, env=None, stdin=None):
        id = weir.good('enqueue', '-q', *arguments, env=env, stdin=stdin).out.strip()
        return weir.good('show', id, '--json').json()['executor_group']
    assert group('-w', 'acme', 'bill') == 'billing'
    assert group('-w', 'acme', 'bill', env=setting) == 'billing' and group('-w', 'acme', 'hello', env=setting) == 'slow'
    assert group('-w', 'acme', 'bill', '--executor-group', 'mine', env=setting) == 'mine'
    line = {'workspace': 'acme', 'workflow': 'bill'}
    assert group('-', stdin=json.dumps(line)) == 'billing'
    assert group('-', '--executor-group', 'flag', stdin=json.dumps(line)) == 'flag'
    assert group('-', '--executor-group', 'flag', stdin=json.dumps({**line, 'executor_group': 'line'})) == 'line'
    assert 'bill v1, for every workspace, executor group billing, published' in weir.good('workflow', 'show', 'bill').out
    assert weir.items('workflow', 'show', 'bill')[0]['definition']['executor_group'] == 'billing'
    rows = {line.split()[0]: line.split()[3] for line in weir.good('workflow', 'list').out.splitlines()}
    assert rows['bill'] == 'billing' and rows['hello'] == '-', rows


def lines_give_ids_in_their_order_and_refusals_by_number(weir):
    weir.make_store()
    lines = [{'workspace': 'acme', 'workflow': 'hello', 'params': {'n': n}} for n in range(2500)]
    text = [json.dumps(line) for line in lines]
    text[10] = '{"workspace":"acme","workflow":"hello"'
    text[11] = ''
    text[1500] = '{"workspace":"nobody","workflow":"hello"}'
    text[2000] = '{"workspace":"acme","workflow":"hello","parms":{}}'
    result = weir.run('enqueue', '-', stdin='\n'.join(text), code=1)
    ids = result.out.split()
    assert len(ids) == 2496 and len(set(ids)) == 2496
    for number, word in ((11, 'not JSON'), (1501, 'workspace_not_found'), (2001, 'params')):
        assert any(line.startswith(f'line {number}: ') and word in line for line in result.err.splitlines()), result.err
    assert '3 of 2499 executions were refused, 2496 enqueued' in result.err
    kept = dict(weir.database().execute('SELECT id, params FROM execution_params'))
    wanted = [n for n in range(2500) if n not in (10, 11, 1500, 2000)]
    for execution, n in zip(ids, wanted):
        assert json.loads(kept[execution])['n'] == n


def lines_speak_json(weir):
    weir.make_store()
    text = '{"workspace":"acme","workflow":"hello","idempotency_key":"k"}\nrubbish\n' * 2
    result = weir.run('enqueue', '-', '--json', stdin=text, code=1)
    answer = result.json()
    assert [item['line'] for item in answer['items']] == [1, 3]
    assert [item['duplicate'] for item in answer['items']] == [False, True]
    assert answer['enqueued'] == 2 and answer['refused'] == 2 and answer['duplicates'] == 1
    errors = [json.loads(line) for line in result.err.splitlines()]
    assert [error.get('line') for error in errors] == [2, 4, None] and errors[2]['error']['exit'] == 1
    assert weir.good('enqueue', '-', '--json', stdin='').json()['items'] == []
    assert [item['line'] for item in weir.run('enqueue', '-', '-o', 'jsonl', stdin=text).jsonl()] == [1, 3]


def lines_take_defaults_from_flags(weir):
    weir.make_store()
    execution = weir.good('enqueue', '-', '-w', 'tiny', '--priority', '7', stdin='{"workflow":"hello"}').out.strip()
    shown = weir.good('show', execution, '--json').json()
    assert shown['workspace'] == 'tiny' and shown['priority'] == 7
    assert_error(weir.run('enqueue', '-', '--params', '{}', stdin=''), 2, 'invalid_argument')


def a_line_that_is_too_long_is_refused_and_the_rest_is_enqueued(weir):
    weir.make_store()
    good = '{"workspace":"acme","workflow":"hello"}'
    long = json.dumps({'workspace': 'acme', 'workflow': 'hello', 'params': {'x': 'y' * (3 * 1024 * 1024)}})
    for text in (f'{good}\n{long}\n{good}\n', f'{good}\n{good}\n{long}', f'{long}\n{good}\n{good}'):
        result = weir.run('enqueue', '-', stdin=text, code=1)
        assert len(result.out.split()) == 2 and 'params_too_large' in result.err, repr(result)


def a_slow_producer_gets_its_ids_at_once(weir):
    weir.make_store()
    process = weir.spawn('enqueue', '-', stdin=subprocess.PIPE)
    for _ in range(3):
        process.stdin.write(b'{"workspace":"acme","workflow":"hello"}\n')
        process.stdin.flush()
        assert UUID.match(process.stdout.readline().decode().strip())  # the end of the input never comes
    process.stdin.close()
    assert process.wait(SECONDS_MOST) == 0


def an_interrupted_stream_names_its_last_line(weir):
    weir.make_store()
    process = weir.spawn('enqueue', '-', stdin=subprocess.PIPE)
    process.stdin.write(b'{"workspace":"acme","workflow":"hello"}\n')
    process.stdin.flush()
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS_MOST) == 130
    said = process.stderr.read().decode()
    assert 'after line 1: 1 enqueued' in said and 'tail -n +2' in said, said


# --- looking ---

def lists_page_without_missing_or_repeating(weir):
    weir.make_store()
    ids = weir.enqueue_many(130)
    seen, cursor = [], None
    while True:
        words = ['list', '--limit', '50', '--count', '--json'] + (['--cursor', cursor] if cursor else [])
        page = weir.good(*words).json()
        assert page['count'] == 130 and page['count_is_exact'] is True
        seen += [item['id'] for item in page['items']]
        cursor = page['next_cursor']
        weir.enqueue_many(1, 'tiny') and weir.good('purge', '--where', 'workspace=tiny', '-q')
        weir.good('cancel', '-w', 'tiny', '-q')
        weir.good('purge', '-w', 'tiny', '-q')
        if cursor is None:
            break
    assert sorted(seen) == sorted(ids) and len(set(seen)) == 130
    assert seen == sorted(seen, reverse=True)
    assert len(weir.good('list', '-o', 'jsonl', '--limit', '1000').jsonl()) == 130
    assert '--cursor' in weir.good('list').err
    assert_error(weir.run('list', '--cursor', 'abc'), 2, 'invalid_argument', 'cursor')
    assert_error(weir.run('list', '--limit', '0'), 2, 'invalid_argument')


def filters_select_executions(weir):
    weir.make_store()
    mine = weir.enqueue_many(3)
    tiny = weir.enqueue_many(2, 'tiny')
    keyed = weir.enqueue('-w', 'acme', 'hello', '-k', 'the key')
    weir.good('cancel', mine[0], '-q')
    with weir.database() as database:  # as a start that was refused has left it
        database.execute("UPDATE workflow_execution_queue SET error_code = 'engine_busy' WHERE id = ?", (tiny[1],))
    chosen = {
        ('-w', 'tiny'): tiny,
        ('--status', 'cancelled'): mine[:1],
        ('-s', 'Pending,CANCELLED', '-w', 'acme'): mine + [keyed],
        ('--where', 'workspace=acme status=pending'): mine[1:] + [keyed],
        ('--where', "idempotency_key='the key'"): [keyed],
        ('--where', 'since=1h', '-w', 'tiny'): tiny,
        ('--where', 'until=1h'): [],
        ('--where', 'pending_reason=no_node_in_group workspace=tiny'): tiny,
        ('--where', 'error_code=engine_busy'): tiny[1:],
        ('--where', 'workflow=hello executor_group=default workspace=tiny'): tiny,
    }
    for words, ids in chosen.items():
        assert sorted(item['id'] for item in weir.items('list', *words)) == sorted(ids), words
    assert_error(weir.run('list', '-w', 'acmee'), 3, 'workspace_not_found', 'acme')
    assert_error(weir.run('list', '--where', 'workflow=helo'), 3, 'workflow_not_found', 'hello')
    assert_error(weir.run('list', '--where', 'workspce=acme'), 2, 'invalid_argument', 'workspace')
    assert_error(weir.run('list', '--status', 'faild'), 2, 'invalid_argument', 'FAILED')
    assert_error(weir.run('list', '-w', 'acme', '--where', 'workspace=acme'), 2, 'invalid_argument', 'twice')


def ids_may_be_short_when_they_are_unique(weir):
    weir.make_store()
    ids = weir.enqueue_many(2)
    assert weir.good('show', ids[0][:18], '--json').json()['id'] in ids
    assert weir.good('show', ids[0].upper(), '--json').json()['id'] == ids[0]
    for verb in ('show', 'why', 'logs', 'wait', 'cancel', 'retry', 'release', 'purge'):
        result = weir.run(verb, ids[0][:6])
        assert result.code == 2 and 'more than one' in result.err, repr(result)
        assert_error(weir.run(verb, '0198c2f1-0000-7000-8000-000000000000'), 3, 'execution_not_found')
        assert_error(weir.run(verb, 'nonsense'), 2, 'invalid_argument')
    assert len(weir.items('list', '--status', 'pending')) == 2


def show_why_and_logs_describe_the_execution(weir):
    weir.make_store()
    execution = weir.enqueue('-w', 'tiny', 'hello', '--params', '{"a":1}')
    shown = weir.good('show', execution, '--json').json()
    assert shown['params'] == {'a': 1} and shown['steps'] == [] and shown['events'][0]['event'] == 'enqueue'
    text = weir.good('show', execution).out
    assert execution in text and 'PENDING (no_node_in_group)' in text and 'enqueue' in text
    why = weir.good('why', execution, '--json').json()
    assert why['pending_reason'] == 'no_node_in_group' and why['slots_max'] == 1 and why['place'] == 1
    result = weir.good('why', execution)
    assert 'waiting because  no_node_in_group' in result.out and '0 of 1 used' in result.out and 'weir serve' in result.err
    assert weir.good('logs', execution).out == '' and weir.items('logs', execution) == []
    assert_error(weir.run('logs', execution, '--step', 'x'), 3, 'not_found')


def wait_ends_in_four_ways(weir):
    weir.make_store()
    execution = weir.enqueue()
    late = weir.run('wait', execution, '--timeout', '200ms')
    assert_error(late, 7, 'timed_out', 'PENDING (no_node_in_group)', 'weir why')
    assert 0.15 < late.seconds
    late = weir.run('enqueue', '-w', 'acme', 'hello', '--wait', '--timeout', '100ms')
    assert late.code == 7 and UUID.match(late.out.strip())
    process = weir.spawn('wait', execution)
    wait_for('its own handler', lambda: catches(process, signal.SIGINT), pause=SHORT)
    process.send_signal(signal.SIGINT)
    assert process.wait(SECONDS_MOST) == 130 and b'continues' in process.stderr.read()
    process = weir.spawn('wait', execution, '--json')
    weir.good('cancel', execution)
    assert process.wait(SECONDS_MOST) == 1
    assert json.loads(process.stdout.read())['status'] == 'CANCELLED'
    assert_error(weir.run('wait', execution), 1, 'failed', 'CANCELLED')


# --- acting ---

def cancel_retry_release_purge_by_id(weir):
    weir.make_store()
    first, second = weir.enqueue_many(2)
    weir.good('cancel', first, second, '--reason', 'a test')
    assert 'a test' in weir.good('show', first).out
    assert_error(weir.run('cancel', first), 4, 'illegal_state', 'CANCELLED')
    result = weir.run('cancel', first, '0198c2f1-0000-7000-8000-000000000000', code=4)
    assert '2 refused' in result.err
    new = weir.good('retry', first).out.strip()
    assert UUID.match(new) and new != first
    assert weir.good('show', new, '--json').json()['retry_of'] == first
    assert weir.run('retry', first).code == 4
    assert weir.good('retry', second, '-o', 'jsonl').jsonl()[0]['new_id']
    later = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    weir.good('release', later)
    assert weir.good('show', later, '--json').json()['pending_reason'] != 'scheduled'
    assert weir.run('release', later).code == 4
    assert weir.run('purge', later).code == 4
    weir.good('purge', first)
    assert weir.run('show', first).code == 3


def by_filter_the_count_comes_first_and_only_fitting_states_are_taken(weir):
    weir.make_store()
    weir.enqueue_many(5)
    weir.good('cancel', weir.items('list')[0]['id'], '-q')
    result = weir.good('cancel', '--where', 'workspace=acme')
    assert '4 executions match' in result.err and '4 cancelled, 0 refused' in result.err and result.out == ''
    answer = weir.good('retry', '-w', 'acme', '--json').json()
    assert answer == {'act': 'retry', 'matched': 5, 'matched_is_exact': True, 'changed': 5, 'refused': 0, 'dry_run': False}
    assert len(weir.items('list')) == 10
    assert weir.good('purge', '--where', 'finished_before=1h', '--json').json()['matched'] == 0
    assert weir.good('purge', '-w', 'acme', '--json').json()['changed'] == 5
    assert weir.good('cancel', '--where', 'status=dispatched', '--json').json()['changed'] == 0
    assert_error(weir.run('cancel'), 2, 'invalid_argument', 'ids or --where')
    assert_error(weir.run('cancel', 'x', '--where', 'status=pending'), 2, 'invalid_argument', 'not both')
    assert_error(weir.run('purge', '-w', ''), 2, 'invalid_argument', 'empty')
    assert_error(weir.run('purge', '--where', ''), 2, 'invalid_argument', 'empty')


def dry_runs_and_wrong_expectations_change_nothing(weir):
    weir.make_store()
    weir.enqueue_many(7)
    dry = weir.good('cancel', '-w', 'acme', '--dry-run')
    assert '7 executions match' in dry.err and 'nothing was changed' in dry.err
    assert weir.good('cancel', '-w', 'acme', '-n', '--json').json()['dry_run'] is True
    assert_error(weir.run('cancel', '-w', 'acme', '--expect', '6', '-q'), 4, 'conflict', '7 executions match, not 6')
    assert_error(weir.run('cancel', weir.items('list')[0]['id'], '--expect', '2'), 4, 'conflict')
    assert len(weir.items('list', '--status', 'pending')) == 7
    weir.good('cancel', '-w', 'acme', '--expect', '7')
    assert len(weir.items('list', '--status', 'cancelled')) == 7


def a_dry_run_counts_the_refusals(weir):
    weir.make_store()
    waiting, ended = weir.enqueue(), weir.enqueue()
    weir.good('cancel', ended, '-q')
    assert 'would cancel 1, 0 refused' in weir.good('cancel', waiting, '-n').err
    assert_error(weir.run('cancel', ended, '-n', '-q'), 4, 'illegal_state', 'is CANCELLED')
    both = weir.run('cancel', waiting, ended, '-n')
    assert both.code == 4 and 'would cancel 1, 1 refused' in both.err and ended in both.err, repr(both)
    assert_error(weir.run('purge', '0198c2f1-7a3b-7c01-8000-000000000000', '-n', '-q'), 3, 'execution_not_found')
    assert weir.good('purge', '--where', 'status=pending', '-n', '--json').json()['refused'] == 1
    assert weir.good('purge', '--where', 'status=pending,cancelled', '-n', '--json').json()['refused'] == 1
    assert weir.good('purge', '--where', f'id={waiting}', '-n', '--json').json()['refused'] == 1
    assert weir.good('purge', '--where', f'id={ended}', '-n', '--json').json()['refused'] == 0
    assert len(weir.items('list', '--status', 'pending')) == 1 and len(weir.items('list')) == 2


def refusals_are_reported_once_with_a_remedy(weir):
    weir.make_store()
    ids = weir.enqueue_many(2)
    weir.good('cancel', *ids, '-q')
    said = weir.run('cancel', *ids, code=4).err
    assert '2 refused, the first: execution' in said, said
    released = weir.run('release', ids[0], code=4).err
    assert 'it has ended' in released and 'weir retry' not in released, released


def a_time_beyond_the_year_9999_is_refused(weir):
    weir.make_store()
    for time_text in ('9999-12-31T23:59:60Z', '9999-12-31T23:59:59-23:59'):
        result = weir.run('enqueue', '-w', 'acme', 'hello', '--run-at', time_text)
        assert_error(result, 2, 'invalid_argument', 'after the year 9999')
    id = weir.enqueue('-w', 'acme', 'hello', '--run-at', '9999-12-31T23:59:59Z')
    assert weir.good('show', id, '--json').json()['run_at'] == '9999-12-31T23:59:59.000000Z'


def an_act_on_more_than_a_hundred_asks(weir):
    weir.make_store()
    weir.enqueue_many(101)
    assert_error(weir.run('cancel', '-w', 'acme', '-q'), 2, 'invalid_argument', '--yes', '101')
    wrong = weir.terminal('cancel', '-w', 'acme', answer='100')
    assert wrong.code == 1 and 'Type 101 to cancel them' in wrong.out and 'nothing was changed' in wrong.out
    assert len(weir.items('list', '--status', 'cancelled')) == 0
    right = weir.terminal('cancel', '-w', 'acme', answer='101')
    assert right.code == 0 and '101 cancelled' in right.out, repr(right)
    weir.good('retry', '-w', 'acme', '--yes')
    weir.good('cancel', '-w', 'acme', '-y', '--expect', '101')


def an_interrupted_act_reports_its_progress(weir):
    weir.make_store()
    weir.enqueue_many(30000)
    # The writer stands still after its first commit until it is told to go on: the signal never comes too late.
    process, writer = weir.spawn_with_failpoint('after_commit:stop:1', 'cancel', '-w', 'acme', '--yes', '--timeout', '90s')
    wait_for('the stop after a commit', lambda: process_state(writer.pid) == 'T', pause=SHORT)
    watcher = weir.database()
    count = "SELECT count(*) FROM workflow_executions WHERE status = 'CANCELLED'"
    process.send_signal(signal.SIGINT)
    writer.send_signal(signal.SIGCONT)
    assert process.wait(SECONDS_MOST) == 130
    said = process.stderr.read().decode()
    done = watcher.execute(count).fetchone()[0]
    assert 0 < done < 30000 and f'{done} of 30000 cancelled' in said, (done, said)
    weir.good('store', 'check')
    weir.good('cancel', '-w', 'acme', '--yes', '--expect', str(30000 - done))


# --- operating ---

def the_queue_and_a_group_pause(weir):
    weir.make_store()
    execution = weir.enqueue()
    weir.good('pause', '--dry-run')
    assert weir.good('status', '--json').json()['queue_paused'] is False
    weir.good('pause')
    assert weir.good('status', '--json').json()['queue_paused'] is True
    assert weir.good('why', execution, '--json').json()['pending_reason'] == 'queue_paused'
    assert weir.good('why', execution).err == 'now: weir resume\n'
    weir.good('pause', '--executor-group', 'default')
    assert weir.good('why', execution).err == 'now: weir resume\nnow: weir resume --executor-group default\n'
    weir.good('resume')
    assert weir.good('why', execution, '--json').json()['pending_reason'] == 'queue_paused'
    said = weir.good('why', execution)
    assert 'its executor group is paused' in said.out, repr(said)
    assert said.err == 'now: weir resume --executor-group default\n', repr(said)
    for verb in ('status', 'doctor'):
        said = weir.run(verb).out
        assert 'default is paused' in said and 'weir resume --executor-group default' in said, said
    weir.good('resume', '-g', 'default')
    assert 'paused' not in weir.good('status').out
    assert weir.good('why', execution, '--json').json()['pending_reason'] == 'no_node_in_group'
    assert_error(weir.run('pause', '--executor-group', 'defualt'), 3, 'not_found', 'default')


def status_and_doctor_report_every_part(weir):
    weir.make_store()
    doctor = weir.good('doctor')
    lines = doctor.out.splitlines()
    assert all(line[0] in '✓!✗' for line in lines), repr(doctor)
    for check in ('store', 'schema', 'mode', 'clock', 'disk', 'nodes', 'stuck', 'claims', 'books'):
        assert any(line[2:].startswith(check) for line in lines), check
    weir.enqueue()
    sick = weir.run('doctor', code=1)
    assert any(line.startswith('✗ nodes') for line in sick.out.splitlines()) and '1 problem' in sick.err
    answer = weir.run('doctor', '--json', code=1).json()
    assert answer['problem_count'] == 1 and {item['outcome'] for item in answer['items']} >= {'ok', 'problem'}
    status = weir.good('status', '--json').json()
    assert status['pending'] == 1 and status['slots_used'] == 0
    assert 'pending   1' in weir.good('status').out
    assert weir.run('doctor', '--store', 'none.db').code == 6


def nodes_and_locks_that_are_not_there(weir):
    weir.make_store()
    assert weir.items('node', 'list') == [] and weir.items('lock', 'list') == []
    for verb in ('pause', 'resume', 'drain'):
        assert_error(weir.run('node', verb, 'host-a'), 3, 'not_found')
    assert_error(weir.run('lock', 'release', 'x'), 3, 'not_found')


def a_lock_is_released_only_after_confirmation(weir):
    weir.make_store()
    now = time.clock_gettime(time.CLOCK_REALTIME)
    weir.database().execute('INSERT INTO shedlock VALUES (?, ?, ?, ?)',
                            ('recoverStaleQueueItems', int((now + 3600) * 1e6), int(now * 1e6), 'host-a:1'))
    assert weir.items('lock', 'list')[0]['held'] is True
    weir.good('lock', 'release', 'recoverStaleQueueItems', '--dry-run')
    assert_error(weir.run('lock', 'release', 'recoverStaleQueueItems'), 2, 'invalid_argument', 'host-a:1', '--yes')
    assert weir.items('lock', 'list')[0]['held'] is True
    weir.good('lock', 'release', 'recoverStaleQueueItems', '--yes')
    assert weir.items('lock', 'list')[0]['held'] is False


def settings_are_shown_with_their_origin_and_checked(weir):
    weir.write('weir.yaml', 'starts: {max: 4}\nexec.allow: [sh, wc]\n')
    rows = {row['key']: row for row in weir.good('config', 'show', '--origin', '--json', '--store', 'x.db',
                                                 env={'WEIR_LOG_LEVEL': 'debug'}).json()['items']}
    assert (rows['starts.max']['value'], rows['starts.max']['origin']) == ('4', './weir.yaml:1')
    assert (rows['log.level']['value'], rows['log.level']['origin']) == ('debug', 'WEIR_LOG_LEVEL')
    assert (rows['store']['value'], rows['store']['origin']) == ('x.db', '--store')
    assert rows['stop.grace']['origin'] == 'default'
    assert './weir.yaml:1' in weir.good('config', 'show', '--origin').out
    again = weir.write('again.yaml', weir.good('config', 'show').out)
    weir.good('config', 'check', '--config', again)
    assert './weir.yaml is valid' in weir.good('config', 'check').err
    assert 'WEIR_STOR' in weir.good('config', 'check', env={'WEIR_STOR': 'x'}).err
    assert 'WEIR_TOKEN' not in weir.good('config', 'check', env={'WEIR_TOKEN': 'x'}).err
    weir.write('weir.yaml', 'starts:\n  maximum: 4\n')
    for words in (('config', 'check'), ('config', 'show'), ('list',), ('serve',)):
        assert_error(weir.run(*words), 2, 'invalid_config', './weir.yaml:2:3', 'starts.max')
    assert_error(weir.run('list', '--config', 'none.yaml'), 2, 'invalid_config', 'none.yaml', 'an existing weir.yaml')
    weir.good('version')
    weir.good('help')


def the_output_of_config_show_reads_back_as_the_same_settings(weir):
    words = ['null', '~', 'true', '0x1f', '1e3', '.inf', ' x ', 'a: b', 'x:', 'a #b', '- x', '-', '?', 'a\nb\t', '@x',
             "a'b", 'a"b\\c', '[a]', '{a}', '%x', '!x', '&x', '*x', '|', '>', '`', 'a, b', 'ä€😀', '\u202eevil',
             '\x1b[31m', '\x7f\x85', '=', '<<', 'no', '2026-11-22', 'a' * 4000]
    keys = ['temporal.namespace', 'node.name', 'temporal.task_queue', 'temporal.api_key_file', 'executor.group']
    programs = ['"null"', '"1"', "'[x]'", '"a:"', '"#x"', '"-x"', 'sh', '/usr/bin/env', '"a\\"b"', '"{}"', '"~"', '"ä"',
                '"*"']

    def values(*flags, env=None):
        return {item['key']: item['value']
                for item in weir.good('config', 'show', '--json', *flags, env=env).json()['items']}
    weir.write('weir.yaml', f'exec.allow: [{", ".join(programs)}]\n'
                            'nodes:\n  - executor.group: "a: [b]"\n    engine: temporal\n')
    for start in range(0, len(words), len(keys)):
        given = dict(zip(keys, words[start:start + len(keys)]))
        env = {'WEIR_' + key.upper().replace('.', '_'): word for key, word in given.items()}
        before = values(env=env)
        for key, word in given.items():
            assert before[key] == word, (key, word, before[key])
        shown = weir.good('config', 'show', env=env).out
        assert not re.search('[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]', shown), repr(shown)
        again = weir.write('again.yaml', shown)
        assert values('--config', again) == before, shown
    long = 'sqlite:/' + 'x' * 900
    assert values('--store', long)['store'] == long


# --- with a node ---

def an_execution_runs_and_its_end_is_reported(weir):
    weir.make_store()
    publish_program(weir, 'good', 'printf \'{"id": 7}\'')
    publish_program(weir, 'bad', 'echo "it broke" >&2; exit 3')
    start_dev_node(weir)
    fine = weir.good('enqueue', '-w', 'acme', 'good', '--wait', '--timeout', '90s')
    execution = fine.out.strip()
    assert UUID.match(execution) and 'COMPLETED' in fine.err
    assert weir.good('wait', execution, '--json').json()['status'] == 'COMPLETED'
    assert weir.items('logs', execution)[0]['output'] == {'id': 7}
    assert '== only, attempt 1, COMPLETED, exit code 0' in weir.good('logs', execution).out
    assert weir.good('logs', execution, '--step', 'only').out.endswith('Z stdout {"id": 7}\n')
    assert_error(weir.run('logs', execution, '--step', 'onyl'), 3, 'not_found', 'only')
    story = [event['event'] for event in weir.good('show', execution, '--json').json()['events']]
    assert story[0] == 'enqueue' and story[-1] == 'complete' and 'step_end' in story
    assert 'ended' in weir.good('why', execution, '--json').json()['because']
    broken = weir.run('enqueue', '-w', 'acme', 'bad', '--wait', '--timeout', '90s')
    assert broken.code == 1 and 'FAILED' in broken.err and 'it broke' in broken.err, repr(broken)
    failed = weir.items('list', '--where', 'status=failed error_code=exit_3')
    assert [row['id'] for row in failed] == [broken.out.strip()]
    again = weir.good('retry', broken.out.strip(), '-q').out.strip()
    assert weir.run('wait', again, '--timeout', '90s').code == 1


def _story(weir, execution):
    shown = weir.good('show', execution, '--json').json()
    events = shown['events']
    assert [event['at'] for event in events] == sorted(event['at'] for event in events), events
    names = [event['event'] for event in events]
    assert names.count('dispatch') == names.count('claim') and names.index('claim') < names.index('dispatch'), events
    # When a start is on record depends on what else was to be written: steps may be there before it.
    events = [event for event in events if event['event'] != 'dispatch']
    return shown, events, [(event['event'], event['attempt'], (event['detail'] or '').split(':')[0]) for event in events]


def a_step_that_failed_is_shown_with_every_attempt(weir):
    weir.make_store()
    weir.write('w.json', json.dumps({'name': 'third', 'steps': {'only': {
        'exec': ['sh', '-c', 'test "$WEIR_ATTEMPT" = 3 || { echo "no answer" >&2; exit "$WEIR_ATTEMPT"; }'],
        'retry': {'attempts': 3, 'backoff': '1ms'}}}}))
    weir.good('workflow', 'apply', 'w.json', '-q')
    start_dev_node(weir)
    execution = weir.good('enqueue', '-w', 'acme', 'third', '--wait', '--timeout', '90s').out.strip()
    shown, events, story = _story(weir, execution)
    assert story == [('enqueue', None, ''), ('claim', None, ''),
                     ('step_start', 1, ''), ('step_end', 1, 'FAILED'), ('step_start', 2, ''), ('step_end', 2, 'FAILED'),
                     ('step_start', 3, ''), ('step_end', 3, 'COMPLETED'), ('complete', None, '')], story
    assert events[3]['detail'] == 'FAILED: exit code 1: no answer', events[3]
    earlier = shown['earlier_attempts']
    assert [(row['step'], row['attempt'], row['status'], row['exit_code'], row['error_code']) for row in earlier] == \
        [('only', 1, 'FAILED', 1, 'exit_1'), ('only', 2, 'FAILED', 2, 'exit_2')], earlier
    node = shown['node']
    assert all(row['node'] == node and row['started_at'] < row['finished_at'] for row in earlier), earlier
    assert earlier[1]['finished_at'] <= shown['steps'][0]['started_at'] < shown['steps'][0]['finished_at']
    rows = [line.split() for line in weir.good('show', execution).out.splitlines() if line.strip().startswith('only ')]
    assert [(row[1], row[2], row[3]) for row in rows] == \
        [('FAILED', '1', '1'), ('FAILED', '2', '2'), ('COMPLETED', '3', '0')], rows
    assert [re.sub('^[0-9T:.-]+Z', 'TIME', line) for line in weir.good('logs', execution).out.splitlines()] == [
        '== only, attempt 1, FAILED, exit code 1', 'TIME stderr no answer', 'exit_1: exit code 1: no answer',
        '== only, attempt 2, FAILED, exit code 2', 'TIME stderr no answer', 'exit_2: exit code 2: no answer',
        '== only, attempt 3, COMPLETED, exit code 0']
    assert [row['attempt'] for row in weir.items('logs', execution)] == [1, 2, 3]


def a_step_that_died_with_its_node_is_shown_as_interrupted(weir):
    weir.make_store()
    publish_program(weir, 'once', 'test "$WEIR_ATTEMPT" = 2 || sleep 600')
    first = start_dev_node(weir)
    execution = weir.enqueue('-w', 'acme', 'once')

    def runs():
        shown = weir.good('show', execution, '--json').json()
        return shown['status'] == 'DISPATCHED' and [step['status'] for step in shown['steps']] == ['RUNNING']

    wait_for('the run', runs)
    first.kill()
    first.wait()
    weir.spawn('dev', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    weir.good('wait', execution, '--timeout', '90s')
    shown, events, story = _story(weir, execution)
    assert story == [('enqueue', None, ''), ('claim', None, ''), ('step_start', 1, ''), ('step_end', 1, 'INTERRUPTED'),
                     ('hand_over', None, '1 of 5 while it ran only; suspicion 1'), ('claim', None, ''),
                     ('step_start', 2, ''), ('step_end', 2, 'COMPLETED'), ('complete', None, '')], story
    old, new = events[1]['node'], events[5]['node']
    assert old != new and [event['node'] for event in events] == [None] + [old] * 4 + [new] * 4, events
    assert [event['node'] for event in shown['events'] if event['event'] == 'dispatch'] == [old, new], shown['events']
    assert 'attempt 1, INTERRUPTED' in weir.good('logs', execution).out


def a_full_workspace_is_explained_and_running_work_is_cancelled(weir):
    weir.make_store()
    publish_program(weir, 'slow', 'exec sleep 600')
    start_dev_node(weir)
    running, waiting = weir.enqueue('-w', 'tiny', 'slow'), weir.enqueue('-w', 'tiny', 'slow')
    wait_for('the start', lambda: weir.good('show', running, '--json').json()['status'] == 'DISPATCHED')
    why = weir.good('why', waiting, '--json').json()
    assert why['pending_reason'] == 'workspace_at_capacity' and why['slots_used'] == why['slots_max'] == 1
    assert [holder['id'] for holder in why['slot_holders']] == [running] and why['place'] == 1
    text = weir.good('why', waiting)
    assert f'slot 1         {running}' in text.out and 'weir workspace set tiny' in text.err
    weir.good('cancel', running)
    assert weir.run('wait', running, '--timeout', '90s').code == 1
    assert weir.good('show', running, '--json').json()['status'] == 'CANCELLED'
    wait_for('the start', lambda: weir.good('show', waiting, '--json').json()['status'] == 'DISPATCHED')


def nodes_are_listed_paused_and_resumed(weir):
    weir.make_store()
    node = start_dev_node(weir)
    name = weir.items('node', 'list')[0]['name']
    assert name in weir.good('node', 'list').out
    weir.good('node', 'pause', name, '--dry-run')
    weir.good('node', 'pause', name)
    wait_for('the pause', lambda: weir.items('node', 'list')[0]['state'] == 'paused')
    execution = weir.enqueue()
    assert weir.run('wait', execution, '--timeout', '500ms').code == 7
    weir.good('node', 'resume', name)
    weir.good('wait', execution, '--timeout', '90s')
    assert_error(weir.run('node', 'pause', 'nobody'), 3, 'not_found')
    assert 'alive' in weir.good('doctor').out
    node.send_signal(signal.SIGTERM)
    assert node.wait(SECONDS_MOST) == 0
    assert weir.items('node', 'list') == [] and weir.items('node', 'list', '--all')[0]['state'] == 'stopped'


def a_stopped_node_is_not_shown_as_running_executions(weir):
    weir.make_store()
    node = start_dev_node(weir)
    publish_program(weir, 'slow', 'exec sleep 600')
    execution = weir.enqueue('-w', 'acme', 'slow')
    wait_for('a heartbeat that tells of it', lambda: weir.items('node', 'list')[0]['running'] == 1)
    node.kill()
    node.wait()
    other = start_dev_node(weir)

    def states():
        return sorted(row['state'] for row in weir.items('node', 'list', '--all'))
    wait_for('the handover', lambda: states() == ['alive', 'dead'])
    [row] = [line.split() for line in weir.good('node', 'list', '--all').out.splitlines() if ' dead ' in line]
    assert row[3:8] == ['default', '-', '-', '0', '-'], row
    weir.good('cancel', execution)
    assert weir.run('wait', execution, '--timeout', '90s').code == 1
    other.send_signal(signal.SIGTERM)
    assert other.wait(SECONDS_MOST) == 0


def metrics_are_prometheus_text(weir):
    weir.make_store()
    weir.enqueue()
    text = weir.good('status', '--metrics').out
    names = {line.split()[2] for line in text.splitlines() if line.startswith('# TYPE ')}
    assert 'weir_slots_used' in names and text.endswith('\n')
    for line in text.splitlines():
        assert line.startswith('#') or line.split('{')[0].split(' ')[0] in names, line
        assert line.startswith('#') or float(line.rsplit(' ', 1)[1]) >= 0


if __name__ == '__main__':
    # The file and its disk, which `doctor` looks at, are on the server's machine.
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], needs_store=('status_and_doctor_report_every_part',)))
