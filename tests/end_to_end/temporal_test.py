#!/usr/bin/env python3
"""weir before a real Temporal service and a real worker: every kind of end, what people ask, and what is missing.

usage: temporal_test.py BINARY [TEST ...]
"""

import json
import sys

from harness import run_tests
from temporal_parts import Server, skip_unless_installed
from temporal_scene import (TOLD, all_items, apply_unheeded, drain, ended, enqueue, enqueue_many, let_go, prepare,
                            prepare_settings, serve, shared, show, the_server, the_step)
from waiting import wait_for

# --- every kind of end ---

def a_workflow_runs_with_the_input_as_it_was_enqueued(weir):
    server = the_server()
    prepare(weir, server)
    serve(weir)
    given = {'customer': 7, 'name': 'Zoë', 'deep': [1, {'a': None}]}
    id = weir.enqueue('-w', 'acme', 'noop', '-p', json.dumps(given), '--priority', '80')
    execution = ended(weir, id, 'COMPLETED')
    assert the_step(execution)['output'] == {'given': given}, execution
    assert shared['worker'].runs_of(id) and len(shared['worker'].runs_of(id)) == 1
    memo = json.loads(server.ask('memo', 'execution-' + id))
    assert memo['memo'] == {'weir_execution': id, 'weir_workspace': 'acme'}, memo
    assert memo['fairness'] == 'acme' and memo['priority'] == 1, memo
    shown = weir.good('show', id).out
    assert f'workflow id      execution-{id}' in shown and 'namespace        default' in shown, shown
    assert the_step(execution)['variables']['run_id'] in shared['worker'].runs_of(id), execution


def a_failure_comes_back_with_its_causes(weir):
    prepare(weir, the_server())
    serve(weir)
    execution = ended(weir, enqueue(weir, 'fail'), 'FAILED')
    assert execution['error_code'] == 'CardDeclined', execution
    assert 'CardDeclined: the card was declined' in execution['error'], execution


def a_chain_is_followed_to_its_end_and_a_retried_workflow_too(weir):
    server = the_server()
    prepare(weir, server)
    weir.write('retried.yaml', 'name: retried\ntemporal:\n  workflow_type: Retried\n'
               '  retry: {attempts: 5, backoff: 100ms, max: 1s}\n  memo: {team: billing}\n')
    weir.good('workflow', 'apply', 'retried.yaml', '-q')
    serve(weir)
    chain, retried = enqueue(weir, 'chain', {'left': 3}), enqueue(weir, 'retried')
    assert the_step(ended(weir, chain, 'COMPLETED'))['output'] == {'left': 0}
    assert the_step(ended(weir, retried, 'COMPLETED'))['output'] == {'attempt': 3}
    assert len(shared['worker'].runs_of(chain)) == 4
    assert len(shared['worker'].runs_of(retried)) == 3
    assert server.roots(chain) == 1 and server.roots(retried) == 1
    assert json.loads(server.ask('memo', 'execution-' + retried))['memo']['team'] == 'billing'


def a_result_that_is_too_large_stays_in_the_service(weir):
    prepare(weir, the_server())
    serve(weir)
    small = the_step(ended(weir, enqueue(weir, 'big', {'bytes': 500000}), 'COMPLETED'))
    large = the_step(ended(weir, enqueue(weir, 'big', {'bytes': 1500000}), 'COMPLETED'))
    assert small['output'] == 'x' * 500000
    assert large['output'] is None and large['error_code'] == 'result_too_large', large


def a_worker_may_tell_the_end_before_the_service_does(weir):
    server = the_server()
    prepare(weir, server)
    weir.good('workspace', 'set', 'acme', '--max-concurrent', '1', '-q')
    serve(weir)
    first, second = enqueue(weir, 'signalled'), enqueue(weir, 'noop')
    wait_for('the start on record', lambda: [step for step in show(weir, first)['steps'] if step['variables']])
    assert weir.run('complete', second).code == 4
    assert weir.run('complete', first, '--error', 'oops').code == 2
    assert f'would end {first}' in weir.good('complete', first, '-n', '--result', '{"invoice": 7}').err
    assert weir.run('complete', second, '-n').code == 4
    assert weir.run('complete', second, '--run-id', 'another').code == 4  # it waits, and has no run
    run, fence = the_step(show(weir, first))['variables']['run_id'], show(weir, first)['fence']
    for of in (('--run-id', 'another'), ('--fence', str(fence + 1)), ('--run-id', run, '--fence', str(fence + 1))):
        refused = weir.run('complete', first, '--result', '0', *of)
        assert refused.code == 4 and 'conflict' in refused.err, refused
    weir.good('complete', first, '--run-id', run, '--fence', str(fence), '--result', '{"invoice": 7}')
    assert weir.run('complete', first, '--run-id', 'another').code == 4
    assert 'nothing would change' in weir.good('complete', first, '-n').err
    ended(weir, second, 'COMPLETED')  # the slot is free though the workflow is still open
    server.ask('terminate', 'execution-' + first)
    weir.good('complete', first)
    assert weir.run('complete', first, '--failed').code == 4
    wait_for('the node to let go of it', lambda: weir.good('status', '--json').json()['running'] == 0)
    execution = ended(weir, first, 'COMPLETED')
    assert the_step(execution)['output'] == {'invoice': 7} and the_step(execution)['variables']['run_id'], execution
    assert weir.good('store', 'check', '--json').json()['problems'] == []


def an_operator_who_terminates_a_workflow_ends_it(weir):
    server = the_server()
    prepare(weir, server)
    serve(weir)
    id = enqueue(weir, 'signalled')
    wait_for('the start', lambda: show(weir, id)['status'] == 'DISPATCHED')
    server.ask('terminate', 'execution-' + id)
    execution = ended(weir, id, 'FAILED')
    assert execution['error_code'] == 'terminated' and 'by an operator' in execution['error'], execution


def a_signal_is_passed_on_with_its_input(weir):
    prepare(weir, the_server())
    serve(weir)
    id = enqueue(weir, 'signalled')
    early = weir.run('signal', '01a00000-0000-7000-8000-000000000000', 'go')
    assert early.code == 3, early
    wait_for('the start', lambda: show(weir, id)['status'] == 'DISPATCHED')
    assert weir.run('signal', id, 'go', '--data', '{oops').code == 2
    weir.good('signal', id, 'go', '--data', '{"by": "eve"}', '--timeout', TOLD)
    assert the_step(ended(weir, id, 'COMPLETED'))['output'] == {'word': {'by': 'eve'}}
    late = weir.run('signal', id, 'go')
    assert late.code == 4 and 'has ended' in late.err, late


def a_termination_does_not_ask_the_workflow(weir):
    server = the_server()
    prepare(weir, server)
    apply_unheeded(weir)
    serve(weir)
    id = enqueue(weir, 'unheeded')
    wait_for('the start', lambda: show(weir, id)['status'] == 'DISPATCHED')
    done = enqueue(weir, 'noop')
    ended(weir, done, 'COMPLETED')
    # The one is not the other's fault.
    refused = weir.run('cancel', done, id, '--terminate', '--timeout', TOLD, '--reason', 'enough')
    assert refused.code == 4 and '1 cancel requested, 1 refused' in refused.err, refused
    ended(weir, id, 'CANCELLED')
    wait_for('the termination in the list',
             lambda: [run for run in server.runs() if run['id'] == 'execution-' + id and run['status'] == 'TERMINATED'])


def a_workflow_that_is_reset_is_followed_to_its_new_end(weir):
    server = the_server()
    prepare(weir, server)
    serve(weir)
    id = enqueue(weir, 'signalled')
    wait_for('the first run', lambda: shared['worker'].runs_of(id))
    server.ask('reset', 'execution-' + id)
    weir.good('signal', id, 'go', '--data', '{"again": true}', '--timeout', TOLD)
    assert the_step(ended(weir, id, 'COMPLETED'))['output'] == {'word': {'again': True}}


def the_run_that_is_shown_is_the_one_that_runs_now(weir):
    server = the_server()
    prepare(weir, server, ui_url='http://ui.example')
    weir.write('renewed.yaml', 'name: renewed\ntemporal: {workflow_type: Renewed}\n')
    weir.good('workflow', 'apply', 'renewed.yaml', '-q')
    serve(weir)
    id = enqueue(weir, 'renewed')

    def running():
        runs = [run['run'] for run in server.runs() if run['id'] == 'execution-' + id and run['status'] == 'RUNNING']
        return runs[0] if len(runs) == 1 and len(shared['worker'].runs_of(id)) == 2 else None
    run = wait_for('the second run', running)
    wait_for('the run on record', lambda: the_step(show(weir, id))['variables']['run_id'] == run)
    facts = the_step(show(weir, id))['variables']
    assert facts['first_run_id'] != run and 'start_sent_again' not in facts, facts
    shown = weir.good('show', id).out
    assert f'run id           {run}' in shown and 'sent again' not in shown, shown
    assert f'http://ui.example/namespaces/default/workflows/execution-{id}/{run}/history' in shown, shown
    let_go(weir, [id])
    assert the_step(ended(weir, id, 'COMPLETED'))['variables']['run_id'] == run


def a_workflow_that_is_deleted_gives_its_slot_back_and_is_not_started_again(weir):
    """The service would start it anew: it has forgotten the id. No node lives meanwhile, so the next one must find out."""
    server = the_server()
    prepare(weir, server, plan='free')
    node = serve(weir)
    deleted, next_one = enqueue(weir, 'signalled'), enqueue(weir, 'noop')
    wait_for('the first run', lambda: shared['worker'].runs_of(deleted))
    wait_for('the start', lambda: show(weir, deleted)['status'] == 'DISPATCHED')
    node.kill()
    node.wait()
    server.ask('delete', 'execution-' + deleted)
    wait_for('the deletion', lambda: server.problem('memo', 'execution-' + deleted))
    serve(weir)
    execution = ended(weir, deleted, 'FAILED')
    assert execution['error_code'] == 'workflow_gone' and 'deleted' in execution['error'], execution
    ended(weir, next_one, 'COMPLETED')
    assert len(shared['worker'].runs_of(deleted)) == 1
    # The list lags behind a deletion as behind everything else.
    wait_for('nothing that runs', lambda: not [run for run in server.runs() if run['id'] == 'execution-' + deleted and
                                               run['status'] == 'RUNNING'])


def the_doctor_looks_at_the_service(weir):
    server = the_server()
    prepare(weir, server, queue='nobody-here')
    def lines():
        result = weir.run('doctor', '--json', '--timeout', TOLD)
        return {line['check']: line for line in result.json()['items']}
    found = lines()
    assert 'server 1.' in found['temporal']['detail'] and 'without TLS' in found['temporal']['detail'], found
    assert 'for 1d' in found['namespace']['detail'], found
    assert found['workers']['outcome'] == 'warning' and "no worker polls 'nobody-here'" in found['workers']['detail'], found
    weir.write('onboard.yaml', 'name: onboard\ntemporal: {task_queue: q}\n')
    weir.good('workflow', 'apply', 'onboard.yaml', '-q')
    # A worker that has just come up has not polled yet.
    wait_for('the worker that polls', lambda: "1 worker polls 'q'" in weir.run('doctor').out)
    assert "no worker polls 'nobody-here'" in weir.run('doctor').out
    prepare_settings(weir, server, namespace='missing')
    assert 'missing' in lines()['namespace']['detail'] and lines()['namespace']['outcome'] == 'problem'
    prepare_settings(weir, server, address='127.0.0.1:1')
    assert lines()['temporal']['outcome'] == 'problem', lines()


def a_cancel_reaches_the_workflow(weir):
    prepare(weir, the_server())
    serve(weir)
    id = enqueue(weir, 'slow', {'seconds': 600})
    wait_for('the start', lambda: show(weir, id)['status'] == 'DISPATCHED')
    weir.good('cancel', id, '--yes')
    ended(weir, id, 'CANCELLED')


def a_slot_is_free_as_soon_as_its_workflow_has_ended(weir):
    prepare(weir, the_server(), plan='free')
    serve(weir)
    ids = enqueue_many(weir, 10)
    drain(weir, ids)
    the_server().check_one_chain_each(ids)


def an_id_that_somebody_else_has_taken_fails_with_its_own_code(weir):
    server = the_server()
    prepare(weir, server)
    id = enqueue(weir, 'noop')
    server.ask('start', 'execution-' + id, 'Slow', 'nobody')
    serve(weir)
    execution = ended(weir, id, 'FAILED')
    assert execution['error_code'] == 'workflow_id_taken', execution


# --- what is missing ---

def a_namespace_that_is_missing_holds_executions_until_it_is_there(weir):
    server = the_server()
    prepare(weir, server, queue='late', namespace='late')
    serve(weir)
    ids = enqueue_many(weir, 5)
    why = wait_for('the reason', lambda: (lambda w: w if w.get('pending_reason') == 'engine_unreachable' else None)(
        weir.good('why', ids[0], '--json').json()))
    assert why['starts_refused'] == 0, why
    server.ask('create', namespace='late')
    # What the service has refused to know it does not know for a moment more; a worker that hears so ends.
    wait_for('the namespace', lambda: server.problem('runs', namespace='late') == '')
    worker = server.worker('late', 'late')
    drain(weir, ids)
    server.check_one_chain_each(ids, 'late')
    worker.close()


def _held_up(weir, id, by):
    why = wait_for(f'why to say {by}', lambda: (lambda w: w if w['held_up_by'] == by else None)(
        weir.good('why', id, '--json').json()))
    assert why['held_up_since'] and why['pending_reason'] is None, why
    assert f"since            {why['held_up_since']}" in weir.good('why', id).out
    return why['because']


def without_a_worker_executions_wait_in_the_service_and_say_so(weir):
    server = the_server()
    prepare(weir, server, queue='empty')
    serve(weir)
    ids = enqueue_many(weir, 5)
    wait_for('the starts', lambda: all(item['status'] == 'DISPATCHED' for item in all_items(weir)))
    assert "no worker polls its task queue 'empty'" in _held_up(weir, ids[0], 'no_worker_polls')
    worker = server.worker('empty')
    drain(weir, ids)
    worker.close()


def a_workflow_type_that_no_worker_has_is_named(weir):
    prepare(weir, the_server())
    weir.write('unknown.yaml', 'name: unknown\ntemporal: {workflow_type: NoSuchType}\n')
    weir.good('workflow', 'apply', 'unknown.yaml', '-q')
    serve(weir)
    unknown, known = enqueue(weir, 'unknown'), enqueue(weir, 'signalled')
    assert 'NoSuchType' in _held_up(weir, unknown, 'workflow_task_fails')
    wait_for('the other to run', lambda: shared['worker'].runs_of(known))
    why = weir.good('why', known, '--json').json()
    assert why['held_up_by'] is None and why['because'] == 'it is running', why
    weir.good('cancel', unknown, '--terminate', '--timeout', TOLD)


def a_list_that_fails_is_told_and_ends_are_seen_without_it(weir):
    server = Server(settings=['frontend.namespaceRPS.visibility=0'])
    worker = server.worker('q')
    prepare(weir, server)
    serve(weir)
    signalled = enqueue(weir, 'signalled')
    why = wait_for('why to say it', lambda: (lambda w: w if w['engine_impaired_since'] else None)(
        weir.good('why', signalled, '--json').json()))
    assert 'the list of closed workflows is impaired: ' in why['engine_error'], why
    assert why['engine_unreachable_since'] is None, why
    status = weir.good('status', '--json').json()
    assert status['engine_reachable'] and status['engine_impaired_since'] == why['engine_impaired_since'], status
    assert f"since {why['engine_impaired_since']}" in weir.good('status').out
    doctor = weir.run('doctor')
    assert doctor.code == 1 and 'a node detects ends late, since' in doctor.out, doctor
    ids = enqueue_many(weir, 5)
    let_go(weir, [signalled])
    drain(weir, [*ids, signalled])
    worker.close()
    server.close()


if __name__ == '__main__':
    skip_unless_installed()
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
