#!/usr/bin/env python3
"""Workspaces that are deleted, and workflows that are disabled and deleted, by the command line under a running node.

usage: cli_tenants_test.py BINARY [TEST ...]
"""

import sys

from harness import assert_error, run_tests


def a_workspace_is_deleted_under_a_running_node(weir):
    weir.make_store()
    weir.spawn('serve', '--allow-exec', '-q')
    done = weir.enqueue()
    weir.good('wait', done)
    waiting = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    assert_error(weir.run('workspace', 'delete', 'acme', '-n'), 4, 'illegal_state', '1 waiting')
    assert_error(weir.run('workspace', 'delete', 'acme', '-n'), 4, 'illegal_state', '--fail-waiting')
    assert_error(weir.run('workspace', 'delete', 'acme', '--fail-waiting'), 2, 'invalid_argument', '--yes')
    assert_error(weir.run('workspace', 'delete', 'acme', '--yes'), 4, 'illegal_state', '--fail-waiting')
    answer = weir.good('workspace', 'delete', 'acme', '--fail-waiting', '--reason', 'left us', '--yes', '--json').json()
    assert answer == {'act': 'workspace delete', 'name': 'acme', 'failed': 1, 'erased': 0, 'dry_run': False}, answer
    shown = weir.good('show', waiting, '--json').json()
    assert shown['status'] == 'FAILED' and shown['error_code'] == 'workspace_deleted' and 'left us' in shown['error']
    for words in (('show', done), ('show', waiting), ('list',), ('why', done), ('list', '--json')):
        weir.good(*words)
    assert_error(weir.run('enqueue', '-w', 'acme', 'hello'), 3, 'workspace_not_found')
    assert_error(weir.run('workspace', 'delete', 'acme', '--yes'), 3, 'workspace_not_found')
    weir.good('wait', weir.enqueue('-w', 'tiny', 'hello'))
    weir.good('workspace', 'set', 'acme', '-q')
    weir.good('wait', weir.enqueue())
    assert 'erased: 3' in weir.good('workspace', 'delete', 'acme', '--erase', '--yes').err
    assert_error(weir.run('show', done), 3, 'execution_not_found')
    weir.good('store', 'check')


def a_workspace_is_renamed_under_a_running_node(weir):
    weir.make_store()
    weir.spawn('serve', '--allow-exec', '-q')
    done = weir.enqueue()
    weir.good('wait', done)
    waiting = weir.enqueue('-w', 'acme', 'hello', '--run-at', '+1h')
    assert 'acme would be renamed to acme-eu' in weir.good('workspace', 'rename', 'acme', 'acme-eu', '-n').err
    for wrong, code, status, word in ((('acm', 'x'), 3, 'workspace_not_found', 'acme'),
                                      (('acme', 'tiny'), 4, 'conflict', 'tiny'),
                                      (('acme', '.'), 2, 'invalid_argument', 'name'),
                                      (('acme', 'acme'), 2, 'invalid_argument', 'already')):
        assert_error(weir.run('workspace', 'rename', *wrong), code, status, word)
        if status != 'invalid_argument':
            assert_error(weir.run('workspace', 'rename', *wrong, '-n'), code, status, word)
    answer = weir.good('workspace', 'rename', 'acme', 'acme-eu', '--reason', 'moved', '--json').json()
    assert answer == {'act': 'workspace rename', 'name': 'acme', 'new_name': 'acme-eu', 'dry_run': False}, answer
    for id in (done, waiting):
        assert weir.show(id)['workspace'] == 'acme-eu'
    assert_error(weir.run('enqueue', '-w', 'acme', 'hello'), 3, 'workspace_not_found', 'was renamed to "acme-eu"')
    weir.good('wait', weir.enqueue('-w', 'acme-eu', 'hello'))
    assert {row['id'] for row in weir.items('list', '-w', 'acme-eu')} >= {done, waiting}
    act = weir.items('audit', '--act', 'workspace rename')[0]
    assert (act['subject'], act['reason'], act['after']['name']) == ('acme', 'moved', 'acme-eu'), act
    assert 'name acme -> acme-eu' in weir.good('audit', '--act', 'workspace rename').out
    weir.good('workspace', 'rename', 'acme-eu', 'acme')
    weir.good('store', 'check')


def a_workflow_is_disabled_enabled_and_deleted(weir):
    weir.make_store()
    id = weir.enqueue()
    assert 'would be' in weir.good('workflow', 'disable', 'hello', '-n').err
    assert_error(weir.run('workflow', 'disable', 'hello', '-w', 'acme', '-n'), 3, 'workflow_not_found', 'this workspace')
    assert_error(weir.run('workflow', 'disable', 'hello', '-w', 'acmee', '-n'), 3, 'workspace_not_found', 'acme')
    assert 'disabled' in weir.good('workflow', 'disable', 'hello').err
    assert weir.items('workflow', 'list')[0]['disabled'] is True and 'disabled' in weir.good('workflow', 'list').out
    assert_error(weir.run('enqueue', '-w', 'acme', 'hello'), 4, 'workflow_disabled', 'weir workflow enable hello')
    assert_error(weir.run('workflow', 'delete', 'hello'), 4, 'illegal_state', '1 execution')
    assert_error(weir.run('workflow', 'disable', 'helo'), 3, 'workflow_not_found', 'hello')
    assert_error(weir.run('workflow', 'disable', 'hello', '-w', 'acme'), 3, 'workflow_not_found')
    weir.good('cancel', id, '-q')
    assert weir.good('workflow', 'delete', 'hello', '--json').json()['state'] == 'deleted'
    assert_error(weir.run('enqueue', '-w', 'acme', 'hello'), 3, 'workflow_not_found')
    assert weir.good('show', id, '--json').json()['workflow'] == 'hello'
    assert weir.good('workflow', 'apply', 'hello.yaml').out == 'hello v2 new\n'
    weir.enqueue()


def a_full_workspace_refuses_an_enqueue(weir):
    weir.make_store()  # no node runs
    assert_error(weir.run('plan', 'set', 'free', '-q'), 2, 'invalid_argument', '--max-pending N')
    changed = weir.good('plan', 'set', 'free', '--max-pending', '2', '--json')
    assert changed.json()['max_pending'] == 2 and weir.items('plan', 'list')[1]['max_pending'] == 2
    weir.good('workspace', 'set', 'small', '--plan', 'free', '-q')
    weir.enqueue('-w', 'small', 'hello', '--run-at', '+1h')
    lines = '\n'.join(['{"workspace": "small", "workflow": "hello"}', '{"workspace": "small", "workflow": "hello"}',
                       '{"workspace": "acme", "workflow": "hello"}'])
    set_of_three = weir.run('enqueue', '-', '--json', stdin=lines, code=1)
    assert (set_of_three.json()['enqueued'], set_of_three.json()['refused']) == (2, 1), set_of_three
    assert '"line":2,"error":{"code":"queue_full"' in set_of_three.err, set_of_three
    assert_error(weir.run('enqueue', '-w', 'small', 'hello'), 4, 'queue_full', 'weir workspace set small --max-pending N')
    row = weir.good('workspace', 'show', 'small', '--json').json()
    assert (row['pending'], row['pending_max'], row['max_pending']) == (2, 2, None), row
    assert '2/2' in weir.good('workspace', 'list').out
    weir.good('workspace', 'set', 'small', '--max-pending', '3', '-q')
    assert '2/3 own' in weir.good('workspace', 'show', 'small').out
    weir.enqueue('-w', 'small', 'hello')
    assert_error(weir.run('enqueue', '-w', 'small', 'hello'), 4, 'queue_full')
    both = weir.run('workspace', 'set', 'small', '--max-pending', '3', '--as-plan')
    assert_error(both, 2, 'invalid_argument', 'contradict')
    weir.good('workspace', 'set', 'small', '--max-pending', '0', '-q')
    weir.enqueue('-w', 'small', 'hello')
    weir.good('workspace', 'set', 'small', '--as-plan', '-q')
    assert_error(weir.run('enqueue', '-w', 'small', 'hello'), 4, 'queue_full')
    weir.good('plan', 'set', 'free', '--max-pending', '0', '-q')
    weir.enqueue('-w', 'small', 'hello')
    weir.good('store', 'check')


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
