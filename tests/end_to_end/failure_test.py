#!/usr/bin/env python3
"""Failures of workflows on real nodes: undos, `on_failure`, `finally`, steps that may fail, dismissals; and kills of nodes.

usage: failure_test.py BINARY [--postgres] [TEST ...]
"""

import json
import os
import re
import signal
import subprocess
import sys

from harness import run_tests
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = '--postgres' in sys.argv
SERVER = None
# The first records of a node are its own. A saga has some twenty records, so each of these lies in one of its stages.
KILL_POINTS = {'before_step_report': (1, 3, 4, 5, 6), 'before_record': (2, 6, 8, 10, 12, 14),
               'after_record': (3, 7, 9, 11, 13)}


def _use_postgres(weir):
    global SERVER
    SERVER = SERVER or PostgresServer()
    weir.environment['WEIR_STORE'] = SERVER.url(SERVER.database())


def _noted(weir, word, status=0):
    """A program that writes the word to a file, and ends so."""
    return ['sh', '-c', 'echo "$0" >> "$1"; exit $2', word, weir.path('noted'), str(status)]


def _apply(weir, name, **sections):
    weir.write(f'{name}.json', json.dumps({'name': name, **sections}))
    weir.good('workflow', 'apply', f'{name}.json', '-q')


def _saga(weir):
    """hotel -> car -> flight, which fails; two undos, and a step in each of the last sections."""
    weir.make_store()
    _apply(weir, 'trip', steps={
        'hotel': {'exec': _noted(weir, 'hotel'), 'undo': {'exec': _noted(weir, 'hotel.undo')}},
        'car': {'needs': ['hotel'], 'exec': _noted(weir, 'car'), 'undo': {'exec': _noted(weir, 'car.undo')}},
        'flight': {'needs': ['car'], 'exec': _noted(weir, 'flight', 3)}},
        on_failure={'tell': {'exec': ['sh', '-c', 'echo tell >> "$1"; echo "$0"', '${.failure.step} ${.failure.code}',
                                      weir.path('noted')]}},
        **{'finally': {'clean': {'exec': _noted(weir, 'clean')}}})


def _node(weir, **env):
    return weir.spawn('serve', '--allow-exec', env={'WEIR_LOG_LEVEL': 'warn', **env}, stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL)


def _words(weir):
    with open(weir.path('noted')) as file:
        return file.read().split()


def _states(shown):
    return {row['step']: row['status'] for row in shown['steps']}


def _output(shown, step):
    return [row['output'] for row in shown['steps'] if row['step'] == step]


def a_failed_execution_is_undone_in_reverse_order(weir):
    _saga(weir)
    _node(weir)
    id = weir.enqueue('-w', 'tiny', 'trip')
    shown = weir.ended(id)
    assert (shown['status'], shown['error_code']) == ('FAILED', 'exit_3'), shown
    assert _words(weir) == ['hotel', 'car', 'flight', 'car.undo', 'hotel.undo', 'tell', 'clean'], _words(weir)
    assert _states(shown) == {'hotel': 'COMPLETED', 'car': 'COMPLETED', 'flight': 'FAILED', 'car.undo': 'COMPLETED',
                              'hotel.undo': 'COMPLETED', 'tell': 'COMPLETED', 'clean': 'COMPLETED'}, shown
    assert _output(shown, 'tell') == ['flight exit_3'], shown
    assert 'car.undo' in weir.good('show', id).out
    logs = weir.good('logs', id, '--step', 'tell').out
    assert 'flight exit_3' in logs, logs
    logs = weir.good('logs', id, '--step', 'car.undo').out
    assert 'hotel' not in logs, logs
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def a_retry_runs_undone_steps_again(weir):
    _saga(weir)
    _node(weir)
    first = weir.ended(weir.enqueue('-w', 'tiny', 'trip'))
    os.unlink(weir.path('noted'))
    weir.good('retry', first['id'], '--keep-finished', '-q')
    (second,) = [item for item in weir.items('list', '-w', 'tiny') if item['id'] != first['id']]
    assert weir.ended(second['id'])['status'] == 'FAILED'
    assert _words(weir)[:3] == ['hotel', 'car', 'flight'], _words(weir)


def a_dry_run_refuses_a_step_that_the_retry_refuses(weir):
    _saga(weir)
    _node(weir)
    id = weir.ended(weir.enqueue('-w', 'tiny', 'trip'))['id']
    of_all = ('retry', '--where', 'workflow=trip')

    def both_refuse(code, text, *words):
        for more in ('--dry-run', '--yes'):
            answer = weir.run('retry', id, *words, more)
            assert answer.code == code and text in answer.err, answer
        assert weir.good(*of_all, *words, '--dry-run', '--json').json()['refused'] == 1
        assert weir.run(*of_all, *words, '--yes').code == code
    for step in ('hotels', 'clean'):  # the latter is a step of `finally`
        both_refuse(2, 'no such step to begin from', '--from', step)
    for words in (('--from', 'flight'), ('--keep-finished',), ()):
        assert 'would retry 1' in weir.good('retry', id, *words, '--dry-run').err
        assert 'would retry 1' in weir.good(*of_all, *words, '--dry-run').err
    weir.good('workflow', 'disable', 'trip', '-q')
    both_refuse(4, 'disabled or deleted')
    weir.good('workflow', 'delete', 'trip', '-q')
    assert 'disabled or deleted' in weir.run('retry', id, '--from', 'flight', '--dry-run').err
    assert len(weir.items('list')) == 1


def a_step_that_may_fail_is_kept_by_a_retry(weir):
    weir.make_store()
    _node(weir)
    _apply(weir, 'soft', steps={
        'greet': {'exec': _noted(weir, 'greet', 4), 'continue_on_error': True},
        'next': {'needs': ['greet'], 'exec': ['sh', '-c', 'echo "$0"; exit 1', '${.steps.greet.error.code}']}})
    first = weir.ended(weir.enqueue('-w', 'tiny', 'soft'))
    assert _states(first) == {'greet': 'FAILED', 'next': 'FAILED'} and first['error_code'] == 'exit_1', first
    weir.good('retry', first['id'], '--keep-finished', '-q')
    (second,) = [item for item in weir.items('list', '-w', 'tiny') if item['id'] != first['id']]
    shown = weir.ended(second['id'])
    assert _words(weir) == ['greet'], _words(weir)
    logs = weir.good('logs', shown['id'], '--step', 'next').out
    assert 'exit_4' in logs, logs


def a_node_that_is_killed_is_followed_by_one_that_goes_on(weir):
    _saga(weir)
    for point, passes in KILL_POINTS.items():
        for count in passes:
            if os.path.exists(weir.path('noted')):
                os.unlink(weir.path('noted'))
            node = _node(weir, WEIR_FAILPOINT=f'{point}:kill:{count}')
            id = weir.enqueue('-w', 'tiny', 'trip')
            wait_for('a death or an end', lambda: node.poll() is not None or weir.show(id)['finished_at'] is not None,
                     pause=SHORT)
            assert node.poll() == -signal.SIGKILL, (point, count, weir.show(id))
            other = _node(weir)
            shown = weir.ended(id)
            place = (point, count, _words(weir), shown)
            assert (shown['status'], shown['error_code']) == ('FAILED', 'exit_3'), place
            assert _output(shown, 'tell') == ['flight exit_3'], place
            assert len(_states(shown)) == 7 and set(_states(shown).values()) == {'COMPLETED', 'FAILED'}, place
            runs = [word for n, word in enumerate(_words(weir)) if word not in _words(weir)[:n]]
            assert runs == ['hotel', 'car', 'flight', 'car.undo', 'hotel.undo', 'tell', 'clean'], place
            other.send_signal(signal.SIGTERM)
            other.wait()
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def a_signal_and_a_sleep_of_finally_wait_without_a_slot(weir):
    weir.make_store()
    _node(weir)
    _apply(weir, 'slow', steps={'a': {'exec': ['false']}},
           **{'finally': {'nap': {'sleep': '1500ms'},
                          'ask': {'needs': ['nap'], 'signal': 'approved'},
                          'say': {'needs': ['ask'], 'exec': ['echo', '${.failure.code} ${.steps.ask.output}']}}})
    id = weir.enqueue('-w', 'tiny', 'slow')
    wait_for('the wait for a signal', lambda: weir.show(id).get('waiting_for') == 'signal', pause=SHORT)
    assert weir.ended(weir.enqueue('-w', 'tiny', 'hello'))['status'] == 'COMPLETED'
    weir.good('signal', id, 'approved', '--data', '"yes"', '-q')
    shown = weir.ended(id)
    assert (shown['status'], shown['error_code']) == ('FAILED', 'exit_1'), shown
    assert _output(shown, 'say') == ['exit_1 yes'], shown


def a_timeout_that_no_step_shows_stands_behind_a_park(weir):
    weir.make_store()
    _node(weir)
    _apply(weir, 'late', timeout='1s', steps={
        'a': {'exec': ['sh', '-c', 'trap "exit 0" TERM; sleep 30 & wait'], 'undo': {'exec': _noted(weir, 'a.undo')}},
        'b': {'needs': ['a'], 'exec': _noted(weir, 'b')}},
        on_failure={'nap': {'sleep': '4s'}, 'tell': {'needs': ['nap'], 'exec': _noted(weir, 'tell')}})
    id = weir.enqueue('-w', 'tiny', 'late')
    wait_for('the park', lambda: weir.show(id)['status'] == 'WAITING', pause=SHORT)
    shown = weir.ended(id)
    assert (shown['status'], shown['error_code']) == ('FAILED', 'execution_timeout'), shown
    assert _words(weir) == ['a.undo', 'tell'], _words(weir)
    assert _states(shown) == {'a': 'COMPLETED', 'b': 'CANCELLED', 'a.undo': 'COMPLETED', 'nap': 'COMPLETED',
                              'tell': 'COMPLETED'}, shown
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def a_cancel_runs_none_of_these_steps(weir):
    weir.make_store()
    _node(weir)
    _apply(weir, 'long', steps={
        'a': {'exec': _noted(weir, 'a'), 'undo': {'exec': _noted(weir, 'a.undo')}},
        'nap': {'needs': ['a'], 'sleep': '1h', 'hold_slot': True}},
        on_failure={'tell': {'exec': _noted(weir, 'tell')}}, **{'finally': {'clean': {'exec': _noted(weir, 'clean')}}})
    id = weir.enqueue('-w', 'tiny', 'long')
    wait_for('the sleep', lambda: _states(weir.show(id)).get('nap') == 'WAITING', pause=SHORT)
    weir.good('cancel', id, '-q')
    assert weir.ended(id)['status'] == 'CANCELLED'
    assert _words(weir) == ['a'], _words(weir)


def failures_are_counted_until_they_are_retried_or_dismissed(weir):
    weir.make_store()
    _node(weir)
    _apply(weir, 'bad', steps={'a': {'exec': ['sh', '-c', 'exit 7']}})
    ids = [weir.ended(weir.enqueue('-w', 'tiny', 'bad'))['id'] for _ in range(3)]
    other = weir.ended(weir.enqueue('-w', 'acme', 'bad'))['id']

    def groups(*words):
        return [(row['error_code'], row['workflow'], row['workspace'], row['count'], row['sample_id'])
                for row in weir.good('failures', '--json', *words).json()['items']]
    assert groups() == [('exit_7', 'bad', 'tiny', 3, ids[2]), ('exit_7', 'bad', 'acme', 1, other)], groups()
    assert groups('-w', 'acme') == [('exit_7', 'bad', 'acme', 1, other)]
    text = weir.good('failures').out
    assert 'exit_7' in text and ids[2] in text and 'tiny' in text, text
    weir.good('dismiss', ids[2], '--reason', 'by hand', '-q')
    weir.good('dismiss', ids[2], '-q')
    assert groups('-w', 'tiny') == [('exit_7', 'bad', 'tiny', 2, ids[1])]
    assert [item['id'] for item in weir.items('list', '--where', 'dismissed=yes')] == [ids[2]]
    events = [(event['event'], event['reason']) for event in weir.show(ids[2])['events']]
    assert events[-1] == ('dismiss', 'by hand') and sum(event == 'dismiss' for event, _ in events) == 1, events
    acts = weir.items('audit', '--act', 'dismiss')
    assert {act['subject'] for act in acts} == {ids[2]} and 'by hand' in [act['reason'] for act in acts], acts
    weir.good('dismiss', '--where', 'workspace=tiny status=failed dismissed=no', '--yes', '-q')
    assert groups() == [('exit_7', 'bad', 'acme', 1, other)]
    weir.good('pause', '-q')
    weir.good('retry', other, '-q')
    assert groups() == [] and 'no failed execution' in weir.good('failures').err + weir.good('failures').out
    refused = weir.run('dismiss', weir.enqueue('-w', 'acme', 'bad'), code=4)
    assert 'only a FAILED one can be dismissed' in refused.err, refused


def a_statement_dismisses_a_failure(weir):
    if not POSTGRES:
        return  # extension_test.c has weir_dismiss() of the SQLite extension
    weir.make_store()
    _node(weir)
    _apply(weir, 'bad', steps={'a': {'exec': ['false']}})
    id = weir.ended(weir.enqueue('-w', 'tiny', 'bad'))['id']
    database = weir.environment['WEIR_STORE'].partition('?')[0].rpartition('/')[2]
    for _ in range(2):
        SERVER.sql(f"SELECT weir.dismiss('{id}', 'by hand')", database)
    assert [item['id'] for item in weir.items('list', '--where', 'dismissed=yes')] == [id]
    events = [(event['event'], event['reason']) for event in weir.show(id)['events'] if event['event'] == 'dismiss']
    assert events == [('dismiss', 'by hand')], events


def a_dismissal_of_nothing_is_found_by_the_check(weir):
    weir.make_store()
    id = '01a215fd-f18a-7002-b43c-a0d8f870aebd'
    if POSTGRES:
        SERVER.sql(f"INSERT INTO weir.dismissals (execution_id, at) VALUES ('{id}', 1)",
                   weir.environment['WEIR_STORE'].partition('?')[0].rpartition('/')[2])
    else:
        weir.database().execute('INSERT INTO dismissals (execution_id, at) VALUES (?, 1)', (id,))
    problems = weir.run('store', 'check', '--json').json()['problems']
    assert problems == [f'dismissal of {id} belongs to nothing'], problems


def the_example_of_the_document_runs(weir):
    weir.make_store()
    _node(weir)
    with open(os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'definitions.md')) as file:
        (text,) = re.findall(r'```yaml\n(name: trip\n.*?)```', file.read(), re.DOTALL)
    weir.write('trip.yaml', text)
    weir.good('workflow', 'apply', 'trip.yaml', '-q')
    shown = weir.ended(weir.enqueue('-w', 'tiny', 'trip', '-p', '{"guest": "Ada"}'))
    assert (shown['status'], shown['error_code']) == ('FAILED', 'exit_3'), shown
    assert 'no seat, greeting: exit_4' in shown['error'], shown
    assert _output(shown, 'hotel.undo') == ['cancelled: room 7 for Ada'], shown
    assert _output(shown, 'tell') == ['flight failed with exit_3'], shown
    assert _output(shown, 'clean') == ['the end, failed: true'], shown


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
