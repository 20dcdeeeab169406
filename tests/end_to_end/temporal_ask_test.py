#!/usr/bin/env python3
"""What people ask of one workflow on a real Temporal service: weir temporal doctor, describe, query, update.

usage: temporal_ask_test.py BINARY [TEST ...]
"""

import json
import sys

from harness import run_tests
from temporal_parts import skip_unless_installed
from temporal_scene import (TOLD, apply_unheeded, ended, enqueue, let_go, prepare, serve, shared, show, the_server)
from waiting import wait_for


def _begin(weir):
    server = the_server()
    prepare(weir, server)
    serve(weir)
    id = enqueue(weir, 'signalled')
    wait_for('the first run', lambda: shared['worker'].runs_of(id))
    return server, id


def a_description_is_that_of_the_service(weir):
    _, id = _begin(weir)
    found = weir.good('temporal', 'describe', id, '--json', '--timeout', TOLD).json()
    run = next(iter(shared['worker'].runs_of(id)))
    assert (found['workflow_id'], found['run_id'], found['type']) == ('execution-' + id, run, 'Signalled'), found
    assert found['status'] == 'RUNNING' and found['task_queue'] == 'q' and found['closed_at'] is None, found
    assert found['memo'] == {'weir_execution': id, 'weir_workspace': 'acme'} and found['history_length'] > 2, found
    shown = weir.good('temporal', 'describe', id[:20], '--timeout', TOLD).out
    assert f'workflow id      execution-{id}' in shown and 'status           RUNNING' in shown, shown
    let_go(weir, [id])
    ended(weir, id, 'COMPLETED')
    found = weir.good('temporal', 'describe', id, '--json', '--timeout', TOLD).json()
    assert found['status'] == 'COMPLETED' and found['closed_at'], found


def a_query_is_answered_and_an_unknown_one_is_refused_in_words(weir):
    _, id = _begin(weir)
    asked = weir.good('temporal', 'query', id, 'has_word', '-p', '{"n": 1}', '--json', '--timeout', TOLD).json()
    assert asked == {'id': id, 'query': 'has_word', 'result': {'given': {'n': 1}, 'has': False}}, asked
    assert json.loads(weir.good('temporal', 'query', id, 'has_word', '-p', '{}', '--timeout', TOLD).out)['has'] is False
    unknown = weir.run('temporal', 'query', id, 'nothing', '--timeout', TOLD)
    assert unknown.code == 1 and 'nothing' in unknown.err and 'INVALID_ARGUMENT' in unknown.err, unknown
    assert weir.run('temporal', 'query', id, 'has_word', '-p', '{oops').code == 2
    let_go(weir, [id])


def a_query_that_no_worker_answers_says_so(weir):
    server = the_server()
    prepare(weir, server)
    apply_unheeded(weir)
    serve(weir)
    id = enqueue(weir, 'unheeded')
    wait_for('the start', lambda: show(weir, id)['status'] == 'DISPATCHED')
    unanswered = weir.run('temporal', 'query', id, 'has_word', '--timeout', '2s')
    assert unanswered.code == 7 and 'the query was not answered in the time' in unanswered.err, unanswered
    assert f'`weir why {id}`' in unanswered.err, unanswered
    weir.good('cancel', id, '--terminate', '--timeout', TOLD)


def an_update_gives_its_result_or_the_words_of_its_failure(weir):
    _, id = _begin(weir)
    assert 'would be sent' in weir.good('temporal', 'update', id, 'change', '-p', '{}', '-n').err
    changed = weir.good('temporal', 'update', id, 'change', '-p', '{"n": 1}', '--json', '--timeout', TOLD).json()
    assert changed == {'id': id, 'update': 'change', 'result': {'changed': {'n': 1}}}, changed
    failed = weir.run('temporal', 'update', id, 'change', '-p', '{"fails": true}', '--timeout', TOLD)
    assert failed.code == 1 and 'NotToday: not today' in failed.err, failed
    waits = weir.run('temporal', 'update', id, 'change', '-p', '{"waits": true}', '--timeout', '2s')
    assert waits.code == 7 and 'has not ended yet' in waits.err, waits
    let_go(weir, [id])
    ended(weir, id, 'COMPLETED')
    late = weir.run('temporal', 'update', id, 'change', '-p', '{}', '--timeout', TOLD)
    assert late.code == 3 and 'has ended' in late.err, late


def what_cannot_be_asked_is_told(weir):
    server = the_server()
    prepare(weir, server)
    apply_unheeded(weir)
    waiting = enqueue(weir, 'unheeded')  # no node: it is not started
    absent = weir.run('temporal', 'describe', waiting, '--timeout', TOLD)
    assert absent.code == 3 and 'has no workflow execution-' + waiting in absent.err, absent
    assert weir.run('temporal', 'describe', '01a00000-0000-7000-8000-000000000000').code == 3
    alone = weir.run('temporal')
    assert alone.code == 2 and 'describe' in alone.err, alone
    weir.write('weir.yaml', 'engine: temporal\ntemporal.address: 127.0.0.1:1\n')
    away = weir.run('temporal', 'describe', waiting)
    assert away.code not in (0, 2, 3) and '127.0.0.1:1' in away.err, away
    weir.write('weir.yaml', 'engine: in_process\n')
    for words in (['describe', waiting], ['doctor']):
        refused = weir.run('temporal', *words)
        assert refused.code == 2 and 'engine: temporal' in refused.err, refused


def acts_on_steps_name_what_reaches_a_workflow(weir):
    """It has no steps to wake or to approve. The words name the commands that do the like; nothing of it changes."""
    _, id = _begin(weir)
    for verb in ('wake', 'approve', 'reject'):
        refused = weir.run(verb, id)
        assert refused.code == 4 and 'on Temporal' in refused.err.replace('one of', 'on'), refused
        assert '`weir signal' in refused.err and '`weir temporal update' in refused.err, refused
        assert weir.run(verb, id, '-n').code == 4, verb
    step = weir.run('approve', id, 'workflow')  # its one step is that of its ids
    assert step.code == 4 and '`weir temporal update' in step.err, step
    asked = weir.run('wake', id, '--waiting-for', 'sleep', '--json')
    assert asked.code == 4 and 'Temporal' in asked.err, asked
    changes = {event['event'] for event in show(weir, id)['events']}
    assert not changes & {'wake', 'approve', 'reject', 'signal'}, changes
    let_go(weir, [id])
    ended(weir, id, 'COMPLETED')


def the_doctor_of_the_service_looks_at_nothing_else(weir):
    server = the_server()
    prepare(weir, server)
    found = {line['check'] for line in weir.good('temporal', 'doctor', '--json', '--timeout', TOLD).json()['items']}
    assert found == {'temporal', 'namespace', 'attributes', 'workers'}, found


if __name__ == '__main__':
    skip_unless_installed()
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
