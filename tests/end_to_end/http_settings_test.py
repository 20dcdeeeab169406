#!/usr/bin/env python3
"""The routes of settings, workflows, nodes, locks, the record of acts, logs, failures and the store: each is asked with
success and with a refusal, and each answer is compared with /openapi.json.

usage: http_settings_test.py BINARY [TEST ...] [--postgres]
"""

import base64
import contextlib
import sqlite3
import sys
import time

from harness import run_tests
from http_client import Listener, problem
from postgres_server import PostgresServer
from waiting import SHORT, wait_for

POSTGRES = PostgresServer() if '--postgres' in sys.argv else None
NO_ID = '01a215fd-f18a-7002-b43c-a0d8f870aebd'


def _use_postgres(weir):
    weir.environment['WEIR_STORE'] = POSTGRES.url(POSTGRES.database())


class Recorder(Listener):
    """Notes the operations that were answered with success and those that were refused."""

    def __init__(self, weir):
        super().__init__(weir)
        self.done, self.refused = set(), set()

    def ask(self, path, method='GET', **options):
        answer = super().ask(path, method, **options)
        if path != '/openapi.json':
            operation = self.api().operation(method, path)
            (self.done if answer.status < 400 else self.refused).add(operation['operationId'])
        return answer

    def get(self, path):
        answer = self.ask(path)
        assert answer.status == 200, answer
        return answer.json()

    def change(self, path, method='POST', status=200, **options):
        answer = self.ask(path, method, **options)
        assert answer.status == status, answer
        return answer.json()

    def refuse(self, path, method='GET', status=400, code='invalid_argument', **options):
        return problem(self.ask(path, method, **options), status, code)

    def end(self, *places):
        """Each operation whose path begins with one of the places was asked in both ways."""
        elsewhere = ('/executions', '/history')
        wanted = {operation['operationId'] for path, operations in self.api().document['paths'].items()
                  for operation in operations.values() if path.startswith(places) and not path.endswith(elsewhere)}
        assert wanted and not wanted - self.done, f'not answered with success: {sorted(wanted - self.done)}'
        assert not wanted - self.refused, f'not refused: {sorted(wanted - self.refused)}'
        self.stop()


def _start(weir):
    weir.make_store()
    return Recorder(weir).ready()


def _program(listener, name, program):
    body = {'name': name, 'steps': {'only': {'exec': ['sh', '-c', program], 'retry': {'attempts': 1}}}}
    return listener.change('/v1/workflows', status=201, body=body)


def _enqueue(listener, workflow, end=None):
    """The id of an execution, once it is in the state `end`."""
    id = listener.change('/v1/workspaces/acme/executions', status=202, body={'workflow': workflow})['id']
    if end is not None:
        wait_for(f'{end} of {id}', lambda: listener.get(f'/v1/executions/{id}')['status'] == end, pause=SHORT)
    return id


# --- the description ---


def every_schema_that_is_named_is_described_and_none_is_left_over(weir):
    listener = _start(weir)
    listener.api().check_references()
    listener.stop()


def the_description_names_the_acts_that_compare_a_tag(weir):
    listener = _start(weir)
    later = {'workflow': 'hello', 'run_at': '2100-01-01T00:00:00Z'}
    id = listener.change('/v1/workspaces/acme/executions', status=202, body=later)['id']
    compared, ignored = [], []
    for path, operations in listener.api().document['paths'].items():
        for method, operation in operations.items():
            if method == 'get' or not path.startswith('/v1/executions/{id}/'):
                continue
            fields = {parameter['name'] for parameter in operation['parameters'] if parameter['in'] == 'header'}
            body = {'name': 'x', 'status': 'COMPLETED', 'state': 'x', 'to_version': 1}
            described = listener.api().resolve(operation['requestBody']['content']['application/json']['schema']) \
                if 'requestBody' in operation else None
            body = described and {name: body[name] for name in body if name in described['properties']}
            answer = listener.ask(path.replace('{id}', id), method.upper(), body=body, if_match='"stale"')
            assert (answer.status == 412) == ('If-Match' in fields), (path, fields, answer)
            (compared if answer.status == 412 else ignored).append(operation['operationId'])
    assert len(compared) == 11 and not ignored, (compared, ignored)
    assert listener.get(f'/v1/executions/{id}')['status'] == 'PENDING'
    listener.stop()


# --- settings ---


def a_condition_that_a_path_does_not_compare_is_refused(weir):
    """Otherwise a client would take its change for one under the condition."""
    listener = _start(weir)
    later = {'workflow': 'hello', 'run_at': '2100-01-01T00:00:00Z'}
    id = listener.change('/v1/workspaces/acme/executions', status=202, body=later)['id']
    enqueue = '/v1/workspaces/acme/executions', 'POST', {'workflow': 'hello'}
    workspace = '/v1/workspaces/new', 'PUT', {}
    for path, method, body in (enqueue, workspace, ('/v1/plans/new', 'PUT', {'max_concurrent': 1}),
                               ('/v1/executions:batch', 'POST', {'items': [{'workspace': 'acme', 'workflow': 'hello'}]}),
                               ('/v1/bulk', 'POST', {'action': 'cancel', 'filter': {'workspace': 'acme'}}),
                               ('/v1/workspaces/acme/pause', 'POST', None), ('/v1/workspaces/acme', 'DELETE', None)):
        for field in ('If-Match', 'If-None-Match'):
            refused = problem(listener.ask(path, method, body=body, **{field: '*'}), 400, 'invalid_argument')
            assert field in refused['detail'] and 'leave the field out' in refused['hint'], refused
    problem(listener.ask(f'/v1/executions/{id}/cancel', 'POST', if_none_match='*'), 400, 'invalid_argument')
    problem(listener.ask(f'/v1/executions/{id}', if_match='"other"'), 400, 'invalid_argument')
    assert listener.ask('/v1/executions?workspace=acme', if_none_match='"other"').status == 200  # nothing is equal
    assert [row['id'] for row in weir.items('list')] == [id]
    assert [row['name'] for row in weir.items('workspace', 'list') if row['name'] == 'new'] == []
    listener.stop()


def workspaces_are_made_changed_paused_and_deleted(weir):
    listener = _start(weir)
    path = '/v1/workspaces/new'
    made = listener.change(path, 'PUT', body={'plan': 'pro', 'max_concurrent': 3})
    assert made['name'] == 'new' and made['before'] is None and made['after']['max_concurrent'] == 3, made
    changed = listener.change(path, 'PATCH', body={'max_concurrent': None})
    assert changed['before']['max_concurrent'] == 3 and changed['after']['max_concurrent'] is None, changed
    assert listener.change(path + '/pause')['after']['paused'] is True
    assert listener.get(path)['paused'] is True
    assert listener.change(path + '/resume')['after']['paused'] is False
    assert listener.get(path + '/usage')['slots_used'] == 0
    assert listener.get(path + '/slot_timeline')['items'] == []
    page = listener.get('/v1/workspaces?limit=1')
    assert len(page['items']) == 1 and page['next_cursor'] is not None, page
    rest = listener.get(f'/v1/workspaces?cursor={page["next_cursor"]}')
    assert 'new' in [row['name'] for row in rest['items']] and rest['next_cursor'] is None, rest
    listener.refuse('/v1/workspaces?limit=0')
    assert [row['name'] for row in listener.get('/v1/workspaces?prefix=ne')['items']] == ['new']
    assert listener.get('/v1/workspaces?prefix=New')['items'] == []
    listener.refuse(f'/v1/workspaces?prefix={"a" * 129}')
    refused = listener.refuse(path, 'PUT', body={'plan': 'pro', 'max_concurent': 3})
    assert refused['errors'][0]['pointer'] == '/max_concurent' and 'max_concurrent' in refused['hint'], refused
    missing = {'status': 404, 'code': 'workspace_not_found'}
    assert 'new' in listener.refuse('/v1/workspaces/nwe', 'PATCH', body={'max_concurrent': 3}, **missing)['hint']
    for act in ('pause', 'resume'):
        listener.refuse(f'/v1/workspaces/nwe/{act}', 'POST', **missing)
    for part in ('', '/usage', '/slot_timeline'):
        listener.refuse('/v1/workspaces/nwe' + part, **missing)
    listener.refuse('/v1/workspaces/nwe', 'DELETE', **missing)
    listener.refuse('/v1/workspaces/none/history', 'DELETE', **missing)
    refused = listener.refuse(path + '/history', 'DELETE', **missing)
    assert 'delete it first' in refused['hint'] and '"new"' in refused['detail'], refused
    renamed = listener.change(path + '/rename', body={'name': 'a/b c'})
    assert (renamed['name'], renamed['before']['name'], renamed['after']['name']) == ('a/b c', 'new', 'a/b c'), renamed
    refused = listener.refuse(path + '/rename', 'POST', body={'name': 'other'}, **missing)
    assert refused['hint'] == 'the workspace was renamed to "a/b c"', refused
    listener.refuse('/v1/workspaces/a%2Fb%20c/rename', 'POST', status=409, code='conflict', body={'name': 'acme'})
    for body in ({}, {'name': 7}, {'name': '..'}, {'name': 'a/b c'}, {'name': 'new', 'reason': 'x'}):
        listener.refuse('/v1/workspaces/a%2Fb%20c/rename', 'POST', body=body)
    assert listener.change('/v1/workspaces/a%2Fb%20c/rename', body={'name': 'new'})['after'] == renamed['before']
    deleted = listener.change(path + '?fail_waiting', 'DELETE')
    assert deleted == {'name': 'new', 'failed': 0, 'erased': 0}, deleted
    assert listener.change(path + '/history', 'DELETE') == {'name': 'new', 'erased': 0}
    listener.end('/v1/workspaces')


def plans_are_made_and_changed(weir):
    listener = _start(weir)
    made = listener.change('/v1/plans/gold', 'PUT', body={'max_concurrent': 9, 'weight': 2})
    assert made['before'] is None and made['after']['weight'] == 2, made
    assert listener.get('/v1/plans/gold') == {'name': 'gold', 'max_concurrent': 9, 'max_pending': 0, 'weight': 2,
                                             'workspace_count': 0}
    assert [row['name'] for row in listener.get('/v1/plans?name=gold')['items']] == ['gold']
    assert listener.change('/v1/plans/gold', 'PUT', body={'max_pending': 7})['after']['max_pending'] == 7
    assert listener.change('/v1/plans/gold', 'PUT', body={'weight': 3})['after']['max_pending'] == 7
    assert listener.change('/v1/plans/gold', 'PUT', body={'max_pending': 0})['after']['max_pending'] == 0
    listener.refuse('/v1/plans/gold', 'PUT', body={'max_pending': -1})
    listener.refuse('/v1/plans/gold', 'PUT', body={'weight': 'two'})
    listener.refuse('/v1/plans/golt', status=404, code='plan_not_found')
    listener.refuse('/v1/plans?nmae=gold')
    listener.end('/v1/plans')


def workflows_are_published_disabled_and_deleted(weir):
    listener = _start(weir)
    source = b'# The author is known.\nname: greet\nsteps:\n  only:\n    exec: [echo, hi]\n'
    new = listener.change('/v1/workflows', status=201, body=source, content_type='application/yaml')
    assert (new['name'], new['version'], new['unchanged']) == ('greet', 1, False), new
    again = listener.change('/v1/workflows', status=200, body=source, content_type='application/yaml')
    assert again['unchanged'] is True and again['definition_id'] == new['definition_id'], again
    listener.change('/v1/workflows', status=201, body={'name': 'greet', 'steps': {'only': {'exec': ['echo', 'you']}}})
    versions = listener.get('/v1/workflows/greet')['items']
    assert [(row['version'], row['source']) for row in versions] == [(1, source.decode()), (2, None)], versions
    newest, = [row for row in listener.get('/v1/workflows')['items'] if row['name'] == 'greet']
    assert newest['version'] == 2 and newest['disabled'] is False, newest
    text = listener.get(f'/v1/definitions/{new["definition_id"]}')
    assert text['name'] == 'greet' and text['text'] == versions[0]['definition'], text
    assert listener.change('/v1/workflows/greet/disable') == {'name': 'greet', 'state': 'disabled'}
    body = {'workflow': 'greet'}
    listener.refuse('/v1/workspaces/acme/executions', 'POST', status=409, code='workflow_disabled', body=body)
    assert listener.change('/v1/workflows/greet/enable') == {'name': 'greet', 'state': 'enabled'}
    assert listener.change('/v1/workflows/greet', 'DELETE') == {'name': 'greet', 'state': 'deleted'}
    timed = {'name': 'timed', 'steps': {'only': {'exec': ['true']}},
             'schedules': {'hourly': {'every': '1h', 'workspaces': ['acme']}}}
    dry = listener.change('/v1/workflows?dry_run=true', status=200, body=timed)
    assert (dry['version'], dry['schedules_added']) == (1, ['hourly']), dry
    listener.refuse('/v1/workflows/timed', status=404, code='workflow_not_found')
    assert listener.change('/v1/workflows', status=201, body=timed)['schedules_added'] == ['hourly']
    del timed['schedules']
    gone = listener.change('/v1/workflows', status=201, body=timed)
    assert (gone['schedules_added'], gone['schedules_deleted']) == ([], ['hourly']), gone
    wrong = listener.refuse('/v1/workflows', 'POST', status=422, code='definition_invalid', body={'name': 'x', 'stpes': {}})
    assert 'stpes' in wrong['detail'], wrong
    listener.refuse('/v1/workflows?limit=x')
    listener.refuse('/v1/definitions/one')
    missing = {'status': 404, 'code': 'workflow_not_found'}
    listener.refuse('/v1/workflows/greet', **missing)
    listener.refuse('/v1/workflows/greet', 'DELETE', **missing)
    for act in ('enable', 'disable'):
        listener.refuse(f'/v1/workflows/greet/{act}', 'POST', **missing)
    listener.end('/v1/workflows', '/v1/definitions')


def a_full_workspace_refuses_requests(weir):
    listener = _start(weir)
    place = '/v1/workspaces/new'
    listener.change(place, 'PUT', body={'plan': 'pro', 'max_pending': 2, 'paused': True})
    row = listener.get(place)
    assert (row['pending_max'], row['max_pending']) == (2, 2), row
    listener.change(place + '/executions', status=202, body={'workflow': 'hello'})
    items = [{'workspace': 'new', 'workflow': 'hello'}] * 2
    results = listener.change('/v1/executions:batch', status=202, body={'items': items})['items']
    assert 'id' in results[0] and (results[1]['status'], results[1]['code']) == (429, 'queue_full'), results
    answer = listener.ask(place + '/executions', 'POST', body={'workflow': 'hello'})
    assert answer.head['retry-after'] == '5', answer
    assert 'max_pending' not in problem(answer, 429, 'queue_full')['detail']
    changed = listener.change(place, 'PATCH', body={'max_pending': None})
    assert (changed['before']['max_pending'], changed['after']['max_pending']) == (2, None), changed
    listener.change(place + '/executions', status=202, body={'workflow': 'hello'})
    assert listener.change(place, 'PATCH', body={'max_pending': 0})['after']['max_pending'] == 0
    listener.refuse(place, 'PATCH', body={'max_pending': -1})
    listener.stop()


# --- the queue ---


def the_queue_its_groups_and_nodes_are_shown_and_paused(weir):
    listener = _start(weir)
    node = listener.get('/v1/nodes')['items'][0]['name']
    group = listener.get('/v1/groups')['items'][0]['name']
    assert listener.change('/v1/pause') == {'executor_group': None, 'paused': True}
    assert listener.change(f'/v1/pause?executor_group={group}') == {'executor_group': group, 'paused': True}
    id = _enqueue(listener, 'hello')
    status = listener.get('/v1/status?workspaces=1')
    assert status['queue_paused'] is True and len(status['workspaces']) == 1, status
    assert status['pending_reasons']['queue_paused'] == 1, status
    why = listener.get(f'/v1/executions/{id}/why')
    assert why['pending_reason'] == 'queue_paused' and why['place'] == 1, why
    assert listener.change(f'/v1/resume?executor_group={group}')['paused'] is False
    for act, state in (('pause', 'pause'), ('resume', 'run'), ('drain', 'drain')):
        assert listener.change(f'/v1/nodes/{node}/{act}') == {'name': node, 'desired_state': state}
        listener.refuse(f'/v1/nodes/{node}-2/{act}', 'POST', status=404, code='not_found')
    assert listener.get(f'/v1/nodes?name={node}')['items'][0]['desired_state'] == 'drain'
    assert listener.change('/v1/resume') == {'executor_group': None, 'paused': False}
    for path in ('/v1/status?workspaces=-1', '/v1/nodes?limit=x', '/v1/groups?limit=x'):
        listener.refuse(path)
    for act in ('pause', 'resume'):
        listener.refuse(f'/v1/{act}?executor_group={group}-2', 'POST', status=404, code='not_found')
    listener.end('/v1/status', '/v1/pause', '/v1/resume', '/v1/groups', '/v1/nodes')


def locks_are_taken_extended_and_released(weir):
    listener = _start(weir)
    path = '/v1/locks/report'
    hour = 3_600_000_000
    body = {'holder': 'one', 'at_most_us': hour}
    assert listener.change(path, body=body) == {'name': 'report', 'holder': 'one'}
    listener.refuse(path, 'POST', status=409, code='conflict', body={**body, 'holder': 'two'})
    assert listener.change(path, 'PATCH', body={**body, 'at_most_us': 2 * hour})['holder'] == 'one'
    listener.refuse(path, 'PATCH', status=409, code='conflict', body={**body, 'holder': 'two'})
    row, = listener.get('/v1/locks?name=report')['items']
    assert row['held'] is True and row['left_us'] > hour, row
    listener.refuse('/v1/locks?held')
    listener.refuse(path + '?at_least_us=x', 'DELETE')
    assert listener.change(path + '?holder=one', 'DELETE') == {'name': 'report', 'holder': None}
    row, = listener.get('/v1/locks?name=report')['items']
    assert row['held'] is False and row['left_us'] == 0, row
    listener.end('/v1/locks')


def schedules_are_set_paused_triggered_and_deleted(weir):
    listener = _start(weir)
    path = '/v1/schedules/night'
    body = {'cron': '30 4 * * *', 'zone': 'Europe/Berlin', 'workflow': 'hello', 'workspaces': ['acme'],
            'params': {'deep': 1}, 'starts_at': '2030-01-01T00:00:00Z', 'overlap': 'queue_one'}
    assert listener.change(path, 'PUT', body=body) == {'name': 'night', 'is_new': True}
    row, = listener.get('/v1/schedules?name=night')['items']
    names = ('cron', 'zone', 'params', 'workspaces', 'overlap')
    assert [row[name] for name in names] == [body[name] for name in names], row
    assert (row['next_at'], row['starts_at']) == ('2030-01-01T03:30:00.000000Z', '2030-01-01T00:00:00.000000Z'), row
    shown = listener.get(path)
    assert [time['local_at'] for time in shown['times'][:2]] == ['2030-01-01T04:30:00+01:00', '2030-01-02T04:30:00+01:00']
    assert (shown['last_status'], shown['workspaces_deleted'], len(shown['times'])) == (None, [], 5), shown
    near = listener.refuse('/v1/schedules/nigt', status=404, code='not_found')
    assert 'night' in near['hint'], near
    for wrong in ({'cron': 7}, {'every_us': 1}, {'workspaces': 'acme'}, {'workspaces': [7]}, {'overlap': 'both'},
                  {'starts_at': 'soon'}, {'ends_at': '2020-01-01T00:00:00Z'}, {'zone': 'Europe/Berln'}, {'plan': 'pro'},
                  {'workspaces': ['acme'] * 101}, {'catch_up_us': 1}, {'catch_up_us': 0}, {'every_us': 0},
                  {'workspaces': ['acme\0x']}):
        listener.refuse(path, 'PUT', body={**body, **wrong})
    listener.refuse(path, 'PUT', body={**body, 'every': '15m'})
    listener.refuse(path, 'PUT', status=422, code='params_invalid', body={**body, 'params': []})
    listener.refuse(path, 'PUT', status=404, code='workspace_not_found', body={**body, 'workspaces': ['acmee']})
    missing = {'status': 404, 'code': 'not_found'}
    for act, paused in (('pause', True), ('resume', False)):
        assert listener.change(f'{path}/{act}') == {'name': 'night', 'paused': paused}
        assert listener.get('/v1/schedules')['items'][0]['paused'] is paused
        listener.refuse(f'/v1/schedules/none/{act}', 'POST', **missing)
    assert listener.change(f'{path}/trigger') == {'name': 'night', 'firings': 1, 'skipped': 0, 'existing': 0,
                                                    'rest': 0}
    wait_for('the execution', lambda: listener.get('/v1/schedules')['items'][0]['fired'] == 1)
    wait_for('its end', lambda: listener.get(path)['last_status'] == 'COMPLETED')
    listener.refuse('/v1/schedules/none/trigger', 'POST', **missing)
    again = listener.change(f'{path}/trigger', body={'at': '2026-01-01T00:00:00Z', 'workspaces': ['acme']})
    assert (again['firings'] + again['skipped'], again['existing']) == (1, 0), again
    for wrong in ({'at': 7}, {'at': 'soon'}, {'at': '2040-01-01T00:00:00Z'}, {'at': '10m'}, {'workspaces': 'acme'},
                  {'workspaces': []}, {'workspaces': ['acme\0']}, {'when': 'now'}):
        listener.refuse(f'{path}/trigger', 'POST', body=wrong)
    every = {'every_us': 60000000, 'workflow': 'hello', 'plan': 'pro'}
    assert listener.change('/v1/schedules/minute', 'PUT', body=every) == {'name': 'minute', 'is_new': True}
    assert listener.get('/v1/schedules?name=minute')['items'][0]['every_us'] == 60000000
    assert listener.change('/v1/schedules/minute', 'DELETE') == {'name': 'minute'}
    assert listener.change(path, 'DELETE') == {'name': 'night'}
    listener.refuse(path, 'DELETE', **missing)
    listener.refuse('/v1/schedules?nmae=night')
    listener.end('/v1/schedules')


def hooks_are_set_paused_and_deleted(weir):
    listener = _start(weir)
    path = '/v1/hooks/page'
    body = {'on': ['FAILED'], 'start_workspace': 'acme', 'start_workflow': 'hello'}
    assert listener.change(path, 'PUT', body={**body, 'workspace': 'acme'}) == {'name': 'page', 'is_new': True}
    assert listener.change(path, 'PUT', body=body) == {'name': 'page', 'is_new': False}
    for wrong in ({'on': []}, {'on': ['PENDING']}, {'on': 'FAILED'}, {'on': [7]}, {'on': ['FAILED'] * 4}):
        listener.refuse(path, 'PUT', body={**body, **wrong})
    unknown = {**body, 'start_workspace': 'acmee'}
    refused = listener.refuse(path, 'PUT', status=404, code='workspace_not_found', body=unknown)
    assert 'acme' in refused['hint'], refused
    row, = listener.get('/v1/hooks?name=page')['items']
    assert (row['on'], row['workspace'], row['waiting'], row['paused']) == (['FAILED'], None, 0, False), row
    listener.refuse('/v1/hooks?nmae=page')
    missing = {'status': 404, 'code': 'not_found'}
    for act, paused in (('pause', True), ('resume', False)):
        assert listener.change(f'{path}/{act}') == {'name': 'page', 'paused': paused}
        assert listener.get('/v1/hooks')['items'][0]['paused'] is paused
        listener.refuse(f'/v1/hooks/none/{act}', 'POST', **missing)
    assert listener.change(path, 'DELETE') == {'name': 'page'}
    listener.refuse(path, 'DELETE', **missing)
    listener.end('/v1/hooks')


def acts_are_noted_and_listed(weir):
    listener = _start(weir)
    noted = listener.change('/v1/audit', body={'act': 'signal', 'subject': 'execution x', 'detail': 'go'}, weir_reason='r')
    assert noted == {'act': 'signal', 'subject': 'execution x'}, noted
    listener.change('/v1/pause')
    first, second = listener.get('/v1/audit?limit=2')['items']
    assert (first['act'], second['act'], second['reason']) == ('pause', 'signal', 'r'), (first, second)
    assert listener.get('/v1/audit?subject=execution+x&since=1h')['items'] == [second]
    assert listener.refuse('/v1/audit?since=soon')['errors'][0]['pointer'] == 'since'
    assert listener.refuse('/v1/audit', 'POST', body={'act': 'signal'})['errors'][0]['pointer'] == '/subject'
    listener.end('/v1/audit')


def the_store_is_shown_and_checked(weir):
    listener = _start(weir)
    assert listener.get('/v1/store')['now_at'] <= listener.get('/v1/status')['now_at']
    assert listener.get('/v1/store/check') == {'problems': []}
    assert {row['applied'] for row in listener.get('/v1/store/migrations')['items']} == {True}
    for path in ('/v1/store', '/v1/store/check', '/v1/store/migrations'):
        listener.refuse(path + '?all')
    listener.end('/v1/store')


# --- executions ---


def logs_and_failures_are_read(weir):
    listener = _start(weir)
    _program(listener, 'bad', r'echo begun; printf "\377\376" >&2; exit 3')
    ids = [_enqueue(listener, 'bad', 'FAILED') for _ in range(2)]
    group, = listener.get('/v1/failures?workspace=acme')['items']
    assert group['count'] == 2 and group['workflow'] == 'bad' and group['sample_id'] == ids[1], group
    dismissed = listener.ask(f'/v1/executions/{ids[1]}/dismiss', 'POST')
    assert (dismissed.status, dismissed.json()) == (202, {'id': ids[1], 'act': 'dismiss'}), dismissed
    group, = listener.get('/v1/failures')['items']
    assert (group['count'], group['workspace'], group['sample_id']) == (1, 'acme', ids[0]), group
    group, = listener.get('/v1/failures?dismissed=yes')['items']
    assert group['sample_id'] == ids[1], group
    assert listener.get(f'/v1/executions/{ids[0]}/why')['status'] == 'FAILED'
    path = f'/v1/executions/{ids[0]}/logs'
    attempt, = listener.get(path)['items']
    chunks = listener.get(f'{path}/only/{attempt["attempt"]}')['items']
    assert listener.get(f'/v1/executions/{ids[0].upper()}/logs/only/1')['items'] == chunks  # ids are taken in any case
    pieces = {piece['stream']: piece for chunk in chunks for piece in chunk['pieces']}
    assert pieces['stdout']['text'].rstrip('\n') == 'begun', pieces
    assert base64.b64decode(pieces['stderr']['base64']).startswith(b'\xff\xfe'), pieces
    assert listener.get(f'{path}/only/1?after={attempt["last_position"]}')['items'] == []
    listener.refuse('/v1/failures?workspaec=acme')
    listener.refuse(f'/v1/executions/{NO_ID}/logs', status=404, code='execution_not_found')
    listener.refuse(f'{path}/only/zero')
    listener.stop()
    wanted = {'listFailures', 'listLogs', 'readLog'}
    assert wanted <= listener.done and wanted <= listener.refused, (listener.done, listener.refused)


def _write_history(weir, at_us, facts):
    if POSTGRES:
        POSTGRES.sql(f"INSERT INTO weir.history VALUES (false, {at_us}, 60000000, '\\x{facts.hex()}')",
                     weir.environment['WEIR_STORE'].rpartition('/')[2])
        return
    with contextlib.closing(sqlite3.connect(weir.path('weir.db'))) as database, database:
        database.execute('INSERT INTO history VALUES (0, ?, 60000000, ?)', (at_us, facts))


def the_history_is_shown_for_the_queue_and_for_a_workspace(weir):
    """The bytes are those of src/queue/history.h: counts, totals, waits by phase, the first workspace (acme)."""
    listener = _start(weir)
    now_us = time.time_ns() // 1000
    waits = bytes([0, 1, 4, 0, 1, 4, 0, 1, 4, 10, 1, 4])  # four starts after 23 to 32 ms in the queue, of the last phase
    _write_history(weir, now_us - 120_000_000, bytes([1, 4, 3, 1, 0, 3, 8]) + waits + bytes([1, 2 * 1 + 1, 5, 2, 7]))
    _write_history(weir, now_us - 60_000_000, bytes([1, 0, 0, 0, 0, 0, 0] + [54, 0] * 4 + [0]))
    _write_history(weir, now_us - 50_000_000, b'damaged')
    first, second = listener.get('/v1/history')['items']
    assert first['at'] < second['at'] and first['span_us'] == 60_000_000, first
    assert [first[name] for name in ('starts', 'completed', 'failed', 'cancelled', 'slots_used', 'pending')] == \
        [4, 3, 1, 0, 3, 8], first
    assert first['wait_p95_us'] == 1000 and 22_627 < first['dispatch_wait_p95_us'] <= 32_000, first
    assert second['starts'] == 0 and second['wait_p50_us'] is None, second
    assert len(listener.get('/v1/history?since=90s')['items']) == 1
    own = listener.get('/v1/workspaces/acme/history')['items']
    assert [(point['slots_used'], point['slots_max'], point['pending']) for point in own] == [(2, 5, 7), (0, None, 0)], own
    listener.refuse('/v1/history?since=yesterday')
    listener.refuse('/v1/workspaces/nobody/history', status=404, code='workspace_not_found')
    listener.stop()
    assert {'showHistory', 'showWorkspaceHistory'} <= listener.done & listener.refused, (listener.done, listener.refused)


def a_chunk_of_executions_is_changed(weir):
    listener = _start(weir)
    listener.change('/v1/pause')
    for _ in range(3):
        _enqueue(listener, 'hello')
    path = '/v1/executions:act?workspace=acme&status=PENDING'
    chunk = listener.change(path, body={'action': 'cancel', 'limit': 2})
    assert (chunk['matched'], chunk['changed'], chunk['more'], chunk['first_refusal']) == (2, 2, True, None), chunk
    rest = listener.change(path, body={'action': 'cancel', 'after': chunk['last_id']})
    assert (rest['changed'], rest['more']) == (1, False), rest
    ended = '/v1/executions:act?workspace=acme'
    refused = listener.change(ended, body={'action': 'release'})
    assert refused['refused'] == 3 and refused['first_refusal']['code'] == 'illegal_state', refused
    assert listener.refuse(ended, 'POST', body={'action': 'stop'})['errors'][0]['pointer'] == '/action'
    listener.end('/v1/executions:act')


def hints_name_the_request_of_each_command(weir):
    """A reader with curl alone: the command line gets the same hints without the requests, as from a store."""
    weir.make_store()
    listener = Listener(weir).ready()
    missing = '01a215fd-f18a-7002-b43c-a0d8f870aebd'
    for path, method, body, expected in (
            (f'/v1/executions/{missing}', 'GET', None, '`weir list` (GET /v1/executions)'),
            (f'/v1/executions/{missing}/cancel', 'POST', None, '`weir list` (GET /v1/executions)'),
            ('/v1/workspaces/nobody/pause', 'POST', None, '`weir workspace list` (GET /v1/workspaces)'),
            ('/v1/workspaces/nobody/executions', 'POST', {'workflow': 'hello'},
             'make it with: weir workspace set nobody --plan free (PUT /v1/workspaces/nobody)'),
            ('/v1/workflows/nothing/disable', 'POST', None, '`weir workflow list` (GET /v1/workflows)'),
            ('/v1/schedules/nothing', 'GET', None, '`weir schedule list` (GET /v1/schedules)')):
        hint = listener.ask(path, method, body=body).json()['hint']
        assert expected in hint, (path, hint)
        plain = listener.ask(path, method, body=body, user_agent='weir/0.1.0').json()['hint']
        assert 'weir ' in plain and '/v1/' not in plain, (path, plain)
    page = listener.ask('/docs/problems/params_invalid').body.decode()
    assert '`weir workflow show` (GET /v1/workflows/{workflow})' in page, page
    assert listener.ask('/v1/workspaces/tiny/pause', 'POST').status == 200
    id = listener.ask('/v1/workspaces/tiny/executions', 'POST', body={'workflow': 'hello'}).json()['id']
    why = listener.ask(f'/v1/executions/{id}/why')
    assert why.json()['hint'] == ('`weir workspace resume tiny` (POST /v1/workspaces/tiny/resume) lets its executions '
                                  'start'), why
    assert 'hint' not in listener.ask(f'/v1/executions/{id}/why', user_agent='weir/0.1.0').json()
    assert listener.ask('/v1/workspaces/tiny/resume', 'POST').status == 200
    assert weir.ended(id)['status'] == 'COMPLETED'
    listener.stop()


if __name__ == '__main__':
    try:
        sys.exit(run_tests(sys.modules[__name__], sys.argv[1], _use_postgres if POSTGRES else None))
    finally:
        if POSTGRES:
            POSTGRES.close()
