#!/usr/bin/env python3
"""Workspaces that are deleted, and workflows that are disabled and deleted, in SQL on PostgreSQL under a running node.

usage: sql_tenants_test.py BINARY [TEST ...]
"""

import json
import sys

from harness import run_tests
from sql_test import Session, _node, _stop, _use


def workspaces_and_workflows_are_deleted_in_sql(weir):
    name = _use(weir)
    session = Session(name)
    node = _node(weir)
    done = session.good("SELECT weir.enqueue('acme', 'hello')")
    weir.good('wait', done)
    by_library = weir.good('show', done, '--json').json()['steps'][-1]['output']
    assert json.loads(session.good(f"SELECT weir.result('{done}')")) == by_library
    later = session.good("SELECT weir.enqueue('acme', 'hello', run_at => now() + interval '1 hour')")
    assert session.refused(f"SELECT weir.result('{later}')")[0] == 'WR014'
    session.good("SELECT weir.disable_workflow('hello')")
    for call in ("enqueue('acme', 'hello')", "enqueue('acme', 'hello', idempotency_key => 'k')"):
        assert session.refused(f'SELECT weir.{call}') == \
            ('WR035', 'workflow "hello" is disabled: it takes no new executions', 'workflow_disabled',
             'weir workflow enable hello'), call
    session.good("SELECT weir.enable_workflow('hello')")
    assert session.refused("SELECT weir.delete_workflow('hello')")[0] == 'WR014'
    assert session.refused("SELECT weir.delete_workflow('hello', 'acme')")[0] == 'WR009'
    assert session.refused("SELECT weir.delete_workspace('acm')")[:2] == ('WR008', 'there is no workspace "acm"')
    assert session.refused("SELECT weir.delete_workspace('acme')")[:2] == \
        ('WR014', 'workspace "acme" has 1 waiting and 0 running executions')
    session.good('BEGIN ISOLATION LEVEL REPEATABLE READ')
    assert session.refused("SELECT weir.delete_workspace('acme', true)")[0] == 'WR014'
    session.good('ROLLBACK')
    session.good('BEGIN')
    assert session.good("SELECT weir.delete_workspace('acme', true, reason => 'left us')") == '1'
    session.good('ROLLBACK')
    assert session.good("SELECT weir.delete_workspace('acme', true, true)") == '1'
    assert session.refused("SELECT weir.enqueue('acme', 'hello')")[0] == 'WR008'
    assert session.good('SELECT count(*) FROM weir.executions') == '0'
    session.good("SELECT weir.delete_workflow('hello')")
    assert session.refused("SELECT weir.enqueue('tiny', 'hello')")[0] == 'WR009'
    weir.good('store', 'check')
    _stop(node)
    session.close()


def a_workspace_is_renamed_in_sql(weir):
    name = _use(weir)
    session = Session(name)
    node = _node(weir)
    done = session.good("SELECT weir.enqueue('acme', 'hello', idempotency_key => 'k')")
    weir.good('wait', done)
    assert session.refused("SELECT weir.rename_workspace('acm', 'x')") == \
        ('WR008', 'there is no workspace "acm"', 'workspace_not_found', 'did you mean "acme"?')
    assert session.refused("SELECT weir.rename_workspace('acme', 'tiny')")[:3] == \
        ('WR013', 'a workspace "tiny" exists already', 'conflict')
    session.good('BEGIN')
    session.good("SELECT weir.rename_workspace('acme', 'acme-eu', reason => 'moved')")
    session.good('ROLLBACK')
    session.good("SELECT weir.rename_workspace('acme', 'acme-eu', reason => 'moved')")
    for call in ("SELECT weir.enqueue('acme', 'hello')", "SELECT * FROM weir.usage('acme')",
                 "SELECT weir.pause_workspace('acme')"):
        assert session.refused(call) == ('WR008', 'there is no workspace "acme"', 'workspace_not_found',
                                         'the workspace was renamed to "acme-eu"'), call
    assert session.good("SELECT weir.enqueue('acme-eu', 'hello', idempotency_key => 'k')") == done
    assert session.good(f"SELECT workspace FROM weir.executions WHERE id = '{done}'") == 'acme-eu'
    weir.good('wait', session.good("SELECT weir.enqueue('acme-eu', 'hello')"))
    assert len(weir.items('audit', '--act', 'workspace rename')) == 1
    weir.good('store', 'check')
    _stop(node)
    session.close()


# An enqueue that was not committed yet is not counted. The scheduler ends it when its workspace is gone.
def an_enqueue_that_commits_behind_the_deletion_ends_failed(weir):
    name = _use(weir)
    session, late = Session(name), Session(name)
    node = _node(weir)
    late.good('BEGIN')
    id = late.good("SELECT weir.enqueue('acme', 'hello')")
    session.good("SELECT weir.delete_workspace('acme')")
    late.good('COMMIT')
    weir.run('wait', id, code=1)
    assert session.good(f"SELECT error_code FROM weir.executions WHERE id = '{id}'") == 'workspace_not_found'
    weir.good('wait', weir.enqueue('-w', 'tiny', 'hello'))
    weir.good('store', 'check')
    _stop(node)
    session.close()
    late.close()


def a_full_workspace_refuses_enqueues_in_sql(weir):
    name = _use(weir)
    weir.good('workspace', 'set', 'acme', '--max-pending', '3', '-q')
    session, other = Session(name), Session(name)  # no node runs
    session.good('BEGIN')
    session.good("SELECT weir.enqueue('acme', 'hello') FROM generate_series(1, 3)")
    refusal = ('WR016', 'workspace "acme" has 3 pending executions, as many as it may have', 'queue_full',
               'repeat it later, or raise the limit: weir workspace set acme --max-pending N')
    assert session.refused("SELECT weir.enqueue('acme', 'hello')") == refusal
    session.good('ROLLBACK')
    session.good("SELECT weir.enqueue('acme', 'hello', idempotency_key => 'k')")  # the undone ones take no room
    rows = session.good('''SELECT place, code FROM weir.enqueue_many('[{"workspace": "acme", "workflow": "hello"},
        {"workspace": "tiny", "workflow": "hello"}, {"workspace": "acme", "workflow": "hello", "idempotency_key": "k"},
        {"workspace": "acme", "workflow": "hello"}, {"workspace": "acme", "workflow": "hello"}]')''')
    assert rows.split() == ['1|ok', '2|ok', '3|ok', '4|ok', '5|queue_full'], rows
    assert other.refused("SELECT weir.enqueue('acme', 'hello')") == refusal
    assert other.good("SELECT code FROM weir.try_enqueue('acme', 'hello')") == 'queue_full'
    assert other.good("SELECT duplicate FROM weir.try_enqueue('acme', 'hello', idempotency_key => 'k')") == 't'
    assert session.good("SELECT pending, pending_max, max_pending FROM weir.usage('acme')") == '3|3|3'
    assert session.good("SELECT oldest_pending_age_us BETWEEN 1 AND 600000000 FROM weir.usage('acme')") == 't'
    assert weir.good('store', 'check')
    session.close()
    other.close()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
