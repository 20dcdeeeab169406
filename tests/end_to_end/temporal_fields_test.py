#!/usr/bin/env python3
"""The fields of a definition's `temporal:` section on a real Temporal service: expressions over the params, workflow ids of
one's own, search attributes, and what people ask about such workflows.

usage: temporal_fields_test.py BINARY [TEST ...]
"""

import json
import sys

from harness import run_tests
from temporal_parts import skip_unless_installed
from temporal_scene import TOLD, ended, enqueue, prepare, serve, shared, show, the_server, the_step
from waiting import wait_for


def _apply(weir, name, section):
    weir.write(f'{name}.yaml', f'name: {name}\ntemporal: {json.dumps(section)}\n')
    weir.good('workflow', 'apply', f'{name}.yaml', '-q')


def _add_attributes(server, **types):
    server.ask('attributes', *(f'{name}={kind}' for name, kind in types.items()))


def every_field_may_depend_on_the_params(weir):
    server = the_server()
    _add_attributes(server, Customer='KEYWORD', Total='DOUBLE', Rush='BOOL', Tags='KEYWORD_LIST', Due='DATETIME')
    prepare(weir, server, queue='nobody')
    _apply(weir, 'several', {
        'workflow_type': 'Several', 'workflow_id': 'several-${.input.order}', 'task_queue': '${.input.queue}',
        'args': ['${.input.order}', '${.input.lines}'], 'execution_timeout': '${.input.limit}', 'run_timeout': '30m',
        'task_timeout': '${.input.seconds}s', 'start_delay': '${.input.delay}', 'priority': '${.input.priority}',
        'memo': {'for': 'order ${.input.order} of ${.execution.workspace}', 'lines': '${.input.lines}'},
        'headers': {'_tracer-data': {'traceparent': '${.input.trace}'}},
        'search_attributes': {'Customer': '${.input.customer}', 'Total': '${.input.total}', 'Rush': '${.input.rush}',
                              'Tags': '${.input.tags}', 'Due': '${.input.due}'}})
    serve(weir)
    id = enqueue(weir, 'several', {
        'order': 17, 'lines': [1, {'a': 2}], 'queue': 'q', 'limit': '2h', 'seconds': 7, 'delay': '1s', 'priority': 2,
        'trace': '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
        'customer': 4711, 'total': 12.5, 'rush': True, 'tags': ['a', 'b'], 'due': '2026-11-21T10:00:00Z'})
    execution = ended(weir, id, 'COMPLETED')
    assert the_step(execution)['output'] == {'order': 17, 'lines': [1, {'a': 2}]}, execution
    about = json.loads(server.ask('about', 'several-17'))
    assert about == {
        'queue': 'q', 'execution_timeout': 7200, 'run_timeout': 1800, 'task_timeout': 7, 'delay': 1, 'priority': 2,
        'memo': {'weir_execution': id, 'weir_workspace': 'acme', 'for': 'order 17 of acme', 'lines': [1, {'a': 2}]},
        'headers': {'_tracer-data': {'traceparent': '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'}},
        'attributes': {'Customer': '4711', 'Total': 12.5, 'Rush': True, 'Tags': ['a', 'b'],
                       'Due': '2026-11-21T10:00:00Z', **({'WeirWorkspace': 'acme'} if 'has_workspace' in shared else {})},
    }, about
    wait_for('it in the list', lambda: json.loads(server.ask('query', "Customer = '4711'")) == ['several-17'])


def the_trace_context_of_the_request_is_a_header(weir):
    traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    server = the_server()
    prepare(weir, server, queue='nobody')
    _apply(weir, 'traced', {'workflow_type': 'Several', 'workflow_id': 'traced-${.execution.id}', 'task_queue': 'q'})
    serve(weir)
    id = weir.good('enqueue', '-w', 'acme', 'traced', '--traceparent', traceparent).out.strip()
    wait_for('the start', lambda: weir.good('show', id, '--json').json()['status'] == 'DISPATCHED')
    assert json.loads(server.ask('about', f'traced-{id}'))['headers'] == {'_tracer-data': {'traceparent': traceparent}}


def a_workflow_id_is_used_once(weir):
    server = the_server()
    prepare(weir, server)
    _apply(weir, 'order', {'workflow_type': 'Signalled', 'workflow_id': 'order-${.input.order}'})
    serve(weir)
    first = enqueue(weir, 'order', {'order': 1})
    wait_for('its start', lambda: shared['worker'].runs_of_workflow('order-1'))
    second = enqueue(weir, 'order', {'order': 1})
    refused = ended(weir, second, 'FAILED')
    assert refused['error_code'] == 'workflow_id_taken' and first in refused['error'], refused
    weir.good('signal', first, 'go', '--data', '{"done": 1}', '--timeout', TOLD)
    assert the_step(ended(weir, first, 'COMPLETED'))['output'] == {'word': {'done': 1}}
    third = ended(weir, enqueue(weir, 'order', {'order': 1}), 'FAILED')
    assert third['error_code'] == 'workflow_id_taken', third
    assert len(shared['worker'].runs_of_workflow('order-1')) == 1
    server.ask('start', 'order-2', 'Slow', 'nobody')
    foreign = ended(weir, enqueue(weir, 'order', {'order': 2}), 'FAILED')
    assert foreign['error_code'] == 'workflow_id_taken' and 'weir did not start' in foreign['error'], foreign
    bad = ended(weir, enqueue(weir, 'order', {'order': 'x' * 300}), 'FAILED')
    assert bad['error_code'] == 'workflow_id_invalid' and '255 bytes' in bad['error'], bad


def people_reach_a_workflow_with_an_id_of_its_own(weir):
    server = the_server()
    prepare(weir, server, ui_url='http://ui.example')
    _apply(weir, 'order', {'workflow_type': 'Signalled', 'workflow_id': 'mine-${.input.order}', 'task_queue': 'nobody'})
    serve(weir)
    ids = [enqueue(weir, 'order', {'order': order}) for order in (1, 2)]
    for id in ids:
        wait_for('its start', lambda: show(weir, id)['steps'])
    shown = weir.good('show', ids[0]).out
    assert 'workflow id      mine-1' in shown and '/namespaces/default/workflows/mine-1/' in shown, shown
    why = wait_for('why to say it', lambda: (lambda w: w if w['held_up_by'] else None)(
        weir.good('why', ids[0], '--json').json()))
    assert why['held_up_by'] == 'no_worker_polls', why
    weir.good('cancel', ids[0], '--terminate', '--timeout', TOLD)
    ended(weir, ids[0], 'CANCELLED')
    worker = server.worker('nobody')
    described = weir.good('temporal', 'describe', ids[1], '--json', '--timeout', TOLD).json()
    assert (described['workflow_id'], described['memo']['weir_execution']) == ('mine-2', ids[1]), described
    asked = weir.good('temporal', 'query', ids[1], 'has_word', '-p', '{"n": 1}', '--json', '--timeout', TOLD).json()
    assert asked['result'] == {'given': {'n': 1}, 'has': False}, asked
    changed = weir.good('temporal', 'update', ids[1], 'change', '-p', '{"n": 2}', '--json', '--timeout', TOLD).json()
    assert changed['result'] == {'changed': {'n': 2}}, changed
    weir.good('signal', ids[1], 'go', '--data', '{}', '--timeout', TOLD)
    ended(weir, ids[1], 'COMPLETED')
    worker.close()


def a_worker_completes_its_execution_by_the_workflow_id(weir):
    server = the_server()
    prepare(weir, server)
    _apply(weir, 'order', {'workflow_type': 'Signalled', 'workflow_id': 'done-${.input.order}'})
    serve(weir)
    id = enqueue(weir, 'order', {'order': 1})
    wait_for('its start', lambda: show(weir, id)['steps'])
    told = weir.good('complete', 'done-1', '--result', '{"a": 1}', '--json').json()
    assert told['id'] == id, told
    assert the_step(ended(weir, id, 'COMPLETED'))['output'] == {'a': 1}
    server.ask('start', 'foreign-1', 'Slow', 'nobody')
    for other in ('foreign-1', 'absent-1'):
        assert weir.run('complete', other).code == 3, other
    server.ask('terminate', 'done-1')


def an_end_is_that_of_the_own_workflow_though_the_id_was_used_again(weir):
    server = the_server()
    prepare(weir, server)
    _apply(weir, 'order', {'workflow_type': 'Signalled', 'workflow_id': 'again-${.input.order}'})
    node = serve(weir)
    id = enqueue(weir, 'order', {'order': 1})
    wait_for('its start', lambda: show(weir, id)['steps'] and shared['worker'].runs_of_workflow('again-1'))
    node.kill()
    node.wait()
    server.ask('signal', 'again-1')
    wait_for('another workflow of the same id', lambda: server.problem('start', 'again-1', 'Slow', 'nobody') == '')
    weir.run('cancel', id, '--terminate', '--timeout', '1s')  # it must not reach the other workflow
    for words in (['describe', id], ['query', id, 'has_word'], ['update', id, 'change', '-p', '{}']):
        refused = weir.run('temporal', *words, '--timeout', TOLD)
        assert refused.code == 3 and 'no open workflow again-1 of this execution' in refused.err, refused
    serve(weir)
    execution = wait_for('the end', lambda: (lambda e: e if e['finished_at'] else None)(show(weir, id)))
    assert the_step(execution)['output'] == {'word': {}} and execution['status'] == 'COMPLETED', execution
    assert json.loads(server.ask('about', 'again-1'))['memo'] == {}
    server.ask('terminate', 'again-1')  # it was open until now


def a_namespace_is_set_up_and_lists_workflows_by_workspace(weir):
    server = the_server()
    prepare(weir, server)
    _apply(weir, 'unknown', {'workflow_type': 'Noop', 'search_attributes': {'NoSuchAttribute': '${.input.a}'}})
    assert 'no search attribute WeirWorkspace: `weir temporal setup` adds it' in weir.run('doctor').out
    assert 'would add' in weir.good('temporal', 'setup', '--dry-run').err
    told = weir.good('temporal', 'setup', '--json').json()
    assert [space['changed'] for space in told['namespaces']] == [True], told
    shared['has_workspace'] = True
    again = weir.good('temporal', 'setup', '--json').json()
    assert [space['changed'] for space in again['namespaces']] == [False], again
    assert 'default has the search attribute WeirWorkspace' in weir.run('doctor').out
    serve(weir)
    id = enqueue(weir, 'noop')
    ended(weir, id, 'COMPLETED')
    wait_for('it in the list', lambda: f'execution-{id}' in json.loads(server.ask('query', "WeirWorkspace = 'acme'")))
    refused = ended(weir, enqueue(weir, 'unknown', {'a': 'b'}), 'FAILED')
    assert refused['error_code'] == 'search_attribute_unknown' and 'NoSuchAttribute' in refused['error'], refused


if __name__ == '__main__':
    skip_unless_installed()
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
