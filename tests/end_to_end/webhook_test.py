#!/usr/bin/env python3
"""Webhooks and hooks on real nodes: each end is delivered once, signed, again after failures and kills, and nowhere else.

The receiver listens at 127.0.0.5, which the nodes may reach. The check of a signature is the one of docs/webhooks.md.

usage: webhook_test.py BINARY [--postgres] [TEST ...]
"""

import json
import os
import re
import signal
import sys
import time

import http_steps_test
from harness import TIMEOUT_SECONDS, assert_error, run_tests
from http_steps_test import SECRET, Server
from waiting import wait_for

DOCUMENT = os.path.join(os.path.dirname(__file__), '..', '..', 'docs', 'webhooks.md')


def _documented_check():
    """The function is_from_weir() of the document."""
    with open(DOCUMENT) as file:
        code, = (part for part in re.findall(r'```py\n(.*?)```', file.read(), re.DOTALL) if 'def is_from_weir' in part)
    names = {}
    exec(code, names)
    return names['is_from_weir']


def _receiver(statuses=()):
    """Answers with these statuses, and then 200."""
    answers = iter(statuses)
    return Server(lambda request: (next(answers, 200), {}, b''))


def _prepare(weir, more=''):
    http_steps_test._store(weir, more='exec.allow: true\nsecrets.directory: secrets\n' + more)
    os.mkdir(weir.path('secrets'))
    os.chmod(weir.write('secrets/hook-key', SECRET), 0o600)
    weir.write('fail.yaml', 'name: fail\nsteps:\n  stop:\n    exec: [sh, -c, "echo no disk >&2; exit 3"]\n')
    weir.good('workflow', 'apply', 'fail.yaml', '-q')


def _events(server):
    return [json.loads(request['body']) for request in server.requests]


def _ids(server):
    return [event['id'] for event in _events(server)]


def _ended(weir, workflow, workspace='acme', *words):
    id = weir.enqueue('-w', workspace, workflow, *words)
    weir.run('wait', id)
    return id


def _hook(weir, name):
    row, = (row for row in weir.items('hook', 'list') if row['name'] == name)
    return row


def _settled(weir, name):
    """All events became executions, and all of these have ended."""
    return _hook(weir, name)['waiting'] == 0 and all(
        row['status'] not in ('PENDING', 'CLAIMED', 'DISPATCHED') for row in weir.items('list', '-w', 'webhook-' + name))


def each_end_is_delivered_once_with_a_signature_that_verifies(weir):
    server, is_from_weir = _receiver(), _documented_check()
    _prepare(weir)
    weir.spawn('serve')
    weir.good('webhook', 'set', 'crm', server.url + '/weir', '--sign', 'hook-key', '-q')
    ids = [_ended(weir, 'hello', 'acme', '--idempotency-key', 'order-7'), _ended(weir, 'fail', 'tiny')]
    scheduled = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1d')
    weir.good('cancel', scheduled, '-q')
    ids.append(scheduled)
    wait_for('the deliveries', lambda: len(server.requests) >= 3)
    wait_for('their ends', lambda: _settled(weir, 'crm'))
    assert sorted(_ids(server)) == sorted(ids)
    for request, event in zip(server.requests, _events(server)):
        header = request['headers']['Weir-Signature']
        assert (request['method'], request['path']) == ('POST', '/weir')
        assert is_from_weir(SECRET.encode(), header, request['body'], time.time())
        assert not is_from_weir(SECRET.encode(), header, request['body'] + b' ', time.time())
        assert not is_from_weir(b'another key', header, request['body'], time.time())
        assert not is_from_weir(SECRET.encode(), header, request['body'], time.time() + 3600)
        time_of, mark = (part.split('=')[1] for part in header.split(','))
        for wrong in (None, '', 't', 'v1', 't=1', f'v1={mark}', f't=,v1={mark}', f't=now,v1={mark}', f't={time_of},v1=é',
                      f't=²,v1={mark}', f't={"9" * 5000},v1={mark}', f't={time_of}', f't={time_of},v1'):
            assert not is_from_weir(SECRET.encode(), wrong, request['body'], time.time()), wrong
        shown = weir.good('show', event['id'], '--json').json()
        assert event.pop('hook') == 'crm'
        assert event == {name: shown[name] for name in event}
    by_id = {event['id']: event for event in _events(server)}
    assert [by_id[id]['status'] for id in ids] == ['COMPLETED', 'FAILED', 'CANCELLED']
    assert by_id[ids[0]]['idempotency_key'] == 'order-7'
    assert by_id[ids[1]]['workspace'] == 'tiny' and by_id[ids[1]]['error_code'] == 'exit_3'
    assert 'no disk' in by_id[ids[1]]['error']
    deliveries = weir.items('list', '-w', 'webhook-crm')
    assert [row['status'] for row in deliveries] == ['COMPLETED'] * 3
    assert {row['idempotency_key'] for row in deliveries} == {f'hook/crm/{id}' for id in ids}


def a_delivery_belongs_to_the_trace_of_the_execution(weir):
    caller = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    server = _receiver()
    _prepare(weir)
    weir.good('webhook', 'set', 'crm', server.url, '-q')

    def contexts():
        """Of the deliveries, by their executions; a node without spans of its own has no other ones to name."""
        found = {event['id']: request['headers'].get('traceparent')
                 for request, event in zip(server.requests, _events(server))}
        server.requests.clear()
        return found

    node = weir.spawn('serve')
    with_one, without = _ended(weir, 'hello', 'acme', '--traceparent', caller), _ended(weir, 'hello')
    wait_for('the deliveries', lambda: len(server.requests) >= 2)
    assert contexts() == {with_one: caller, without: None}
    wait_for('their ends', lambda: _settled(weir, 'crm'))
    assert {row['traceparent'] for row in weir.items('list', '-w', 'webhook-crm')} == {caller, None}
    node.terminate()
    assert node.wait(TIMEOUT_SECONDS) == 0

    # Nobody listens at the collector's address: the ids of spans do not depend on it.
    weir.spawn('serve', env={'WEIR_OTEL_ENDPOINT': 'http://127.0.0.1:9'})
    with_one, without = _ended(weir, 'hello', 'acme', '--traceparent', caller), _ended(weir, 'hello')
    wait_for('the deliveries', lambda: len(server.requests) >= 2)
    found = contexts()
    assert set(found) == {with_one, without}, found
    for id, trace in ((with_one, caller[3:35]), (without, without.replace('-', ''))):
        delivery, = (row for row in weir.items('list', '-w', 'webhook-crm') if row['idempotency_key'] == f'hook/crm/{id}')
        # The request is a child of the step of the delivery, and the delivery a child of the execution.
        assert found[id][3:35] == delivery['traceparent'][3:35] == trace, (found[id], delivery)
        spans = {found[id][36:52], delivery['traceparent'][36:52], caller[36:52]}
        assert len(spans) == 3, spans


def a_receiver_that_fails_gets_the_event_again(weir):
    server = _receiver([500, 503])
    _prepare(weir)
    weir.spawn('serve')
    weir.good('webhook', 'set', 'crm', server.url, '--on', 'failed', '-q')
    # Its own workflow with shorter waits; the rest is as weir made it.
    rows = weir.items('workflow', 'list', '-w', 'webhook-crm')
    definition, = (row['definition'] for row in rows if row['name'] == 'deliver')
    assert definition['steps']['post']['retry'] == {'attempts': 10, 'backoff': '10s', 'max': '10m'}
    definition['steps']['post']['retry'] = {'attempts': 5, 'backoff': '10ms'}
    weir.write('deliver.json', json.dumps({'workspace': 'webhook-crm', **definition}))
    weir.good('workflow', 'apply', 'deliver.json', '-q')
    _ended(weir, 'hello')
    id = _ended(weir, 'fail')
    wait_for('the delivery', lambda: len(server.requests) >= 3)
    wait_for('its end', lambda: _settled(weir, 'crm'))
    assert _ids(server) == [id] * 3
    keys = {request['headers']['Idempotency-Key'] for request in server.requests}
    assert len(keys) == 1


def a_delivery_is_sent_again_on_demand(weir):
    server = _receiver([404])
    _prepare(weir)
    weir.spawn('serve')
    weir.good('webhook', 'set', 'crm', server.url, '-q')
    id = _ended(weir, 'hello')
    wait_for('the delivery', lambda: len(server.requests) == 1)
    wait_for('its end', lambda: _settled(weir, 'crm') and weir.items('list', '-w', 'webhook-crm'))
    delivery, = weir.items('list', '-w', 'webhook-crm')
    assert (delivery['status'], delivery['error_code']) == ('FAILED', 'http_404')
    weir.good('retry', delivery['id'], '-q')
    wait_for('the second one', lambda: len(server.requests) == 2)
    wait_for('its end', lambda: _settled(weir, 'crm'))
    assert _ids(server) == [id] * 2
    assert server.requests[0]['body'] == server.requests[1]['body']
    delivered = weir.items('list', '-w', 'webhook-crm')[0]
    assert delivered['status'] == 'COMPLETED'
    assert weir.run('retry', delivered['id']).code == 4
    weir.good('enqueue', '-w', 'webhook-crm', 'deliver', '-p', json.dumps(weir.show(delivered['id'])['params']), '-q')
    wait_for('the third one', lambda: len(server.requests) == 3)
    assert server.requests[2]['body'] == server.requests[0]['body']


def an_address_that_is_not_allowed_gets_nothing(weir):
    canary = Server(lambda request: (200, {}, b''), http_steps_test.FORBIDDEN)
    _prepare(weir)
    weir.spawn('serve')
    urls = [f'http://localhost:{canary.port}/', canary.url, 'http://10.0.0.1/']
    for place, url in enumerate(urls):
        weir.good('webhook', 'set', f'to-{place}', url, '--on', 'completed', '-q')
    _ended(weir, 'hello')
    for place in range(len(urls)):
        wait_for('the refusal', lambda: weir.items('list', '-w', f'webhook-to-{place}', '--status', 'FAILED'))
        delivery, = weir.items('list', '-w', f'webhook-to-{place}')
        assert delivery['error_code'] == 'http_not_allowed'
    assert canary.connections == 0


def a_hook_is_of_its_workspace_workflow_and_ends(weir):
    server = _receiver()
    _prepare(weir)
    weir.spawn('serve')
    weir.good('webhook', 'set', 'acme', server.url + '/acme', '-w', 'acme', '-q')
    weir.good('webhook', 'set', 'failed', server.url + '/failed', '--on', 'failed', '-q')
    weir.good('webhook', 'set', 'fail', server.url + '/fail', '--workflow', 'fail', '-q')
    ours, theirs, broken = _ended(weir, 'hello'), _ended(weir, 'hello', 'tiny'), _ended(weir, 'fail', 'tiny')
    wait_for('the deliveries', lambda: len(server.requests) >= 3)
    for name in ('acme', 'failed', 'fail'):
        wait_for('their ends', lambda: _settled(weir, name))
    assert theirs not in _ids(server)
    assert sorted((request['path'], event['id']) for request, event in zip(server.requests, _events(server))) == [
        ('/acme', ours), ('/fail', broken), ('/failed', broken)]


def a_killed_node_loses_no_event_and_sends_none_twice(weir):
    server = _receiver()
    _prepare(weir)
    weir.good('webhook', 'set', 'crm', server.url, '-w', 'acme', '-q')
    # 1. Killed in the commit of an end. 2. Killed between the enqueue of the executions and the removal of the events.
    ids = [weir.enqueue('-w', 'acme', 'hello') for _ in range(5)]
    for point in ('after_record:kill:1', 'after_hook_enqueue:kill:1'):
        node = weir.spawn('serve', '--node', 'killed-' + point[:10], env={'WEIR_FAILPOINT': point})
        assert node.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
    assert _hook(weir, 'crm')['waiting'] > 0  # the last kill left events whose executions exist
    assert weir.items('list', '-w', 'webhook-crm')
    weir.spawn('serve', '--node', 'survivor')
    for id in ids:
        weir.run('wait', id)
    wait_for('the deliveries', lambda: len(set(_ids(server))) == len(ids))
    wait_for('their ends', lambda: _settled(weir, 'crm'))
    assert sorted(row['idempotency_key'] for row in weir.items('list', '-w', 'webhook-crm')) == sorted(
        f'hook/crm/{id}' for id in ids)
    # The step of a killed node may run again, with the same key; so the receiver counts keys.
    keys = {request['headers']['Idempotency-Key'] for request in server.requests}
    assert len(keys) == len(ids)


def a_hook_starts_any_workflow_and_waits_for_one_that_is_missing(weir):
    _prepare(weir)
    weir.good('workspace', 'set', 'ops', '-q')
    weir.spawn('serve')
    made = weir.good('hook', 'set', 'page', '--on', 'failed', '--start-workflow', 'page', '--start-workspace', 'ops',
                     '--json').json()
    assert made['is_new'] and made['on'] == ['FAILED']
    id = _ended(weir, 'fail')
    wait_for('the refusal', lambda: _hook(weir, 'page')['error_code'])
    assert (_hook(weir, 'page')['error_code'], _hook(weir, 'page')['waiting']) == ('workflow_not_found', 1)
    assert 'refused' in weir.good('hook', 'list').out
    warning, = (row for row in weir.run('doctor', '--json').json()['items'] if row['check'] == 'hook')
    assert 'page cannot start its workflow, 1 wait' in warning['detail'], warning
    weir.write('page.yaml', 'name: page\nsteps:\n  call:\n'
               '    exec: [echo, "${.input.workflow} of ${.input.workspace}: ${.input.error_code}"]\n')
    weir.good('workflow', 'apply', 'page.yaml', '-q')
    started = wait_for('the start', lambda: weir.items('list', '-w', 'ops', '--status', 'COMPLETED'))
    result = weir.good('wait', started[0]['id'])
    assert result.out.splitlines()[-1] == 'fail of acme: exit_3', result
    assert started[0]['idempotency_key'] == 'hook/page/' + id
    wait_for('the end of the refusals', lambda: _hook(weir, 'page')['error_code'] is None)  # after the start


def a_hook_never_sets_itself_off(weir):
    _prepare(weir)
    weir.good('workspace', 'set', 'ops', '-q')
    weir.spawn('serve')
    weir.good('hook', 'set', 'loop', '--on', 'failed', '--start-workflow', 'fail', '--start-workspace', 'ops', '-q')
    weir.good('hook', 'set', 'other', '--on', 'failed', '--start-workflow', 'hello', '--start-workspace', 'tiny', '-q')
    first = _ended(weir, 'fail')
    started = wait_for('the start', lambda: weir.items('list', '-w', 'ops', '--status', 'FAILED'))
    weir.good('retry', started[0]['id'], '-q')
    wait_for('the end of the retry', lambda: len(weir.items('list', '-w', 'ops', '--status', 'FAILED')) == 2)

    def keys(workspace):
        return {row['idempotency_key'] for row in weir.items('list', '-w', workspace)} - {None}

    second = _ended(weir, 'fail')  # its events are behind all that the executions above may have made
    wait_for('its starts', lambda: 'hook/loop/' + second in keys('ops') and 'hook/other/' + second in keys('tiny'))
    assert keys('ops') == {'hook/loop/' + first, 'hook/loop/' + second}
    assert keys('tiny') == {'hook/other/' + first, 'hook/other/' + second}


def a_hook_is_paused_resumed_and_deleted(weir):
    server = _receiver()
    _prepare(weir)
    weir.spawn('serve')
    weir.good('webhook', 'set', 'crm', server.url, '-q')
    weir.good('hook', 'pause', 'crm', '-q')
    id = _ended(weir, 'hello')
    assert (_hook(weir, 'crm')['waiting'], _hook(weir, 'crm')['paused']) == (1, True)
    weir.good('hook', 'resume', 'crm', '-q')
    wait_for('the delivery', lambda: _ids(server) == [id])
    weir.good('hook', 'delete', 'crm', '-q')
    assert weir.items('hook', 'list') == []
    _ended(weir, 'hello')
    acts = [row['act'] for row in weir.items('audit', '--act', 'hook')]
    assert acts == ['hook delete', 'hook resume', 'hook pause', 'hook set']
    assert 'on COMPLETED,FAILED,CANCELLED' in weir.good('audit', '--act', 'hook set').out


def a_new_address_keeps_what_is_left_out(weir):
    _prepare(weir)
    url = 'http://127.0.0.5:1'

    def state():
        row, = weir.items('hook', 'list')
        rows = [row for row in weir.items('workflow', 'list', '-w', 'webhook-crm') if row['name'] == 'deliver']
        return row, rows[0]['definition']['steps']['post']

    filters = ('-w', 'acme', '--workflow', 'fail', '--on', 'failed')
    weir.good('webhook', 'set', 'crm', url, '--sign', 'hook-key', *filters, '-q')
    rows = weir.items('workflow', 'list', '-w', 'webhook-crm')
    definition, = (row['definition'] for row in rows if row['name'] == 'deliver')
    definition['steps']['post']['retry'] = {'attempts': 5, 'backoff': '10ms'}
    weir.write('deliver.json', json.dumps({'workspace': 'webhook-crm', **definition}))
    weir.good('workflow', 'apply', 'deliver.json', '-q')
    before, post = state()
    weir.good('webhook', 'set', 'crm', url + '/new', '-q')
    after, new_post = state()
    assert after == before
    assert new_post['http'].pop('url') == url + '/new'
    assert post['http'].pop('url') == url
    assert (new_post, post['http']['sign']) == (post, 'hook-key')
    both = weir.run('webhook', 'set', 'crm', url, '-w', 'acme', '--all-workspaces')
    assert_error(both, 2, 'invalid_argument', 'switch')
    weir.good('webhook', 'set', 'crm', url, '--all-workspaces', '--all-workflows', '--no-sign', '-q')
    after, post = state()
    assert (after['workspace'], after['workflow'], after['on']) == (None, None, ['FAILED'])
    assert 'sign' not in post['http']
    definition['steps'] = {'other': {'sleep': '1s'}}
    weir.write('deliver.json', json.dumps({'workspace': 'webhook-crm', **definition}))
    weir.good('workflow', 'apply', 'deliver.json', '-q')
    assert_error(weir.run('webhook', 'set', 'crm', url), 4, 'conflict', 'workflow apply')


def a_webhook_takes_over_nothing(weir):
    _prepare(weir)
    weir.good('workspace', 'set', 'webhook-crm', '-q')
    for words in ((), ('-n',)):
        refused = weir.run('webhook', 'set', 'crm', 'http://127.0.0.5:1', *words)
        assert_error(refused, 4, 'conflict', 'weir workspace delete webhook-crm')
    words = ('--on', 'failed', '--start-workflow', 'hello', '--start-workspace', 'acme', '-q')
    weir.good('hook', 'set', 'page', *words)
    assert_error(weir.run('webhook', 'set', 'page', 'http://127.0.0.5:1'), 4, 'conflict', 'weir hook delete page')
    assert [row['name'] for row in weir.items('hook', 'list')] == ['page']
    assert 'webhook-page' not in {row['name'] for row in weir.items('workspace', 'list')}
    for number in range(99):
        weir.good('hook', 'set', f'h{number}', *words)
    assert_error(weir.run('webhook', 'set', 'more', 'http://127.0.0.5:1'), 4, 'illegal_state', 'weir hook list')
    assert 'webhook-more' not in {row['name'] for row in weir.items('workspace', 'list')}


def a_hook_whose_program_may_start_it_again_gets_a_warning(weir):
    _prepare(weir)
    words = ('hook', 'set', 'loop', '--on', 'failed', '--start-workspace', 'acme', '--start-workflow')
    assert 'without end' in weir.good(*words, 'fail').err
    nap = {'sleep': '1s'}
    for number, more in enumerate(({'steps': {'a': {**nap, 'undo': {'exec': ['true']}}}},
                                   {'steps': {'a': nap}, 'on_failure': {'b': {'exec': ['true']}}},
                                   {'steps': {'a': nap}, 'finally': {'b': {'exec': ['true']}}})):
        weir.write('late.json', json.dumps({'name': f'late-{number}', **more}))
        weir.good('workflow', 'apply', 'late.json', '-q')
        assert 'without end' in weir.good(*words, f'late-{number}').err, more
    assert 'without end' not in weir.good(*words, 'fail', '--workflow', 'hello').err
    assert 'without end' not in weir.good(*words, 'missing').err


def a_hook_of_a_deleted_workspace_is_shown(weir):
    _prepare(weir)
    words = ('--on', 'failed', '-w', 'tiny', '--start-workflow', 'hello', '--start-workspace', 'acme')
    weir.good('hook', 'set', 'page', *words, '-q')
    weir.good('workspace', 'delete', 'tiny', '--yes', '-q')
    weir.good('workspace', 'set', 'tiny', '-q')
    assert _hook(weir, 'page')['workspace_deleted'] is True
    assert 'deleted' in weir.good('hook', 'list').out
    warning, = (row for row in weir.run('doctor', '--json').json()['items'] if row['check'] == 'hook')
    assert 'page names a workspace that was deleted' in warning['detail'], warning


def a_reused_key_drops_its_event_alone(weir):
    _prepare(weir)
    weir.good('workflow', 'apply', weir.write('nap.yaml', 'name: nap\nsteps:\n  rest:\n    sleep: 1ms\n'), '-q')
    words = ('hook', 'set', 'page', '--on', 'failed', '--start-workspace', 'tiny', '--start-workflow')
    weir.good(*words, 'hello', '-q')
    id = weir.enqueue('-w', 'acme', 'fail')
    for point in ('after_record:kill:1', 'after_hook_enqueue:kill:1'):
        node = weir.spawn('serve', '--node', 'killed-' + point[:10], env={'WEIR_FAILPOINT': point})
        assert node.wait(TIMEOUT_SECONDS) == -signal.SIGKILL
    assert _hook(weir, 'page')['waiting'] == 1
    weir.good(*words, 'nap', '-q')  # the key of the event is that of an execution of hello
    weir.spawn('serve', '--node', 'survivor')
    wait_for('the drop', lambda: _hook(weir, 'page')['dropped'] == 1 and _hook(weir, 'page')['waiting'] == 0)
    assert _hook(weir, 'page')['error_code'] is None
    second = _ended(weir, 'fail')
    wait_for('the next event', lambda: 'hook/page/' + second in {
        row['idempotency_key'] for row in weir.items('list', '-w', 'tiny')})
    mine = weir.run('enqueue', '-w', 'tiny', 'hello', '--idempotency-key', 'hook/page/' + id)
    assert_error(mine, 2, 'invalid_argument', 'those of hooks')


def mistakes_are_named(weir):
    _prepare(weir)
    good = ['--on', 'failed', '--start-workflow', 'hello', '--start-workspace', 'acme']
    assert_error(weir.run('hook', 'set', 'page', '--on', 'failde', *good[2:]), 2, 'invalid_argument', 'failde')
    twice = weir.run('hook', 'set', 'page', '--on', 'failed,failed', *good[2:])
    assert_error(twice, 2, 'invalid_argument', 'each named once')
    assert_error(weir.run('hook', 'set', 'Page', *good), 2, 'invalid_argument', 'a-z')
    assert_error(weir.run('hook', 'set', 'page', *good[:4], '--start-workspace', 'acmr'), 3, 'workspace_not_found', 'acme')
    assert_error(weir.run('webhook', 'set', 'page', 'ftp://example.com/'), 2, 'definition_invalid', 'http://')
    assert_error(weir.run('webhook', 'set', 'page', 'http://example.com/', '-w', 'acmr'), 3, 'workspace_not_found', 'acme')
    assert_error(weir.run('webhook', 'set', 'P', 'http://example.com/'), 2, 'invalid_argument', 'a-z')
    weir.good('webhook', 'set', 'page', 'http://example.com/', '-n', '-q')
    weir.good('hook', 'set', 'page', *good, '-n', '-q')
    assert weir.items('hook', 'list') == []
    assert {row['name'] for row in weir.items('workspace', 'list')} == {'acme', 'tiny'}
    weir.good('hook', 'set', 'page', *good, '-q')
    assert_error(weir.run('hook', 'pause', 'pagee'), 3, 'not_found', 'page')
    assert_error(weir.run('hook', 'delete', 'pagee'), 3, 'not_found', 'page')


if __name__ == '__main__':
    code = run_tests(sys.modules[__name__], sys.argv[1])
    if http_steps_test.SERVER is not None:
        http_steps_test.SERVER.close()
    sys.exit(code)
