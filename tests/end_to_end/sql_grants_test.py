#!/usr/bin/env python3
"""Roles of PostgreSQL that are limited to some workspaces by weir.grant_workspace(): to them a workspace or an execution of
another one is the same as a missing one, in every function and view that they may use.

usage: sql_grants_test.py BINARY [TEST ...]
"""

import json
import sys

from harness import run_tests
from sql_test import Session, _use
from waiting import SHORT, wait_for

import sql_test

MISSING = '01939b7e-7a5c-7c3e-8b3a-2f1d4c5b6a79'


def _scene(weir):
    """A store with acme and tiny, an execution of each, and sessions of the owner and of a role that has acme alone."""
    name = _use(weir)
    sql_test.SERVER.sql("DO $$ BEGIN IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'tenant') THEN"
                        ' CREATE ROLE tenant LOGIN; CREATE ROLE member LOGIN IN ROLE tenant;'
                        ' CREATE ROLE pool LOGIN NOINHERIT; GRANT tenant TO pool; CREATE ROLE another LOGIN;'
                        ' END IF; END $$')
    owner = Session(name)
    mine, theirs = (owner.good(f"SELECT weir.enqueue('{workspace}', 'hello', run_at => now() + interval '1 hour')")
                    for workspace in ('acme', 'tiny'))
    owner.good("SELECT weir.grant_workspace('tenant', 'acme')")
    return name, owner, Session(name, 'tenant'), mine, theirs


def a_limited_role_works_in_its_own_workspace(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    id = tenant.good("SELECT weir.enqueue('acme', 'hello', '{\"a\": 1}'::jsonb)")
    assert tenant.good("SELECT code FROM weir.try_enqueue('acme', 'hello')") == 'ok'
    assert tenant.good("SELECT code FROM weir.enqueue_many('[{\"workspace\": \"acme\", \"workflow\": \"hello\"}]')") == 'ok'
    assert tenant.good("SELECT name FROM weir.usage('acme')") == 'acme'
    assert tenant.good(f"SELECT weir.why('{id}') ->> 'workspace'") == 'acme'
    tenant.good(f"SELECT weir.cancel('{mine}')")
    assert tenant.good(f"SELECT status FROM weir.own_executions WHERE id = '{mine}'") == 'CANCELLED'
    assert 'cancel' in tenant.good(f"SELECT event FROM weir.own_execution_events WHERE execution_id = '{mine}'")
    assert weir.items('audit', '--act', 'cancel')[0]['actor'] == 'tenant'
    assert weir.items('audit', '--act', 'workspace grant')[0]['after'] == {'grantee': 'tenant'}
    weir.good('store', 'check')


def a_limited_role_signals_its_own_executions(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    weir.write('ask.json', '{"name": "ask", "steps": {"ask": {"signal": "approved"}}}')
    weir.good('workflow', 'apply', 'ask.json', '-q')
    id = tenant.good("SELECT weir.enqueue('acme', 'ask')")
    for seq, data in enumerate(("'1'::jsonb", "'2'::json", "'3'::text"), 1):
        assert tenant.good(f"SELECT weir.signal('{id}', 'approved', {data})") == str(seq), data
    assert weir.items('audit', '--act', 'signal')[0]['actor'] == 'tenant'
    foreign, missing = (tenant.refused(f"SELECT weir.signal('{some}', 'approved')") for some in (theirs, MISSING))
    assert foreign[0] == 'WR010', foreign
    assert [text and text.replace(theirs, MISSING) for text in foreign] == list(missing)


def a_role_decides_where_it_is_named(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    steps = {'ours': {'approve': {'by': ['tenant']}}, 'other': {'approve': {'by': ['token:ops']}}}
    weir.write('pay.json', json.dumps({'name': 'pay', 'steps': steps}))
    weir.good('workflow', 'apply', 'pay.json', '-q')
    id = tenant.good("SELECT weir.enqueue('acme', 'pay')")
    weir.spawn('serve')
    wait_for('the steps', lambda: weir.show(id)['status'] == 'WAITING', pause=SHORT)
    refused = tenant.refused(f"SELECT weir.approve('{id}', 'other')")
    assert refused[1:] == (f'tenant may not decide step other of execution {id}', 'not_permitted',
                           'these may: token:ops'), refused
    assert f'LOG:  tenant was refused to decide step other of execution {id}' in sql_test.SERVER.log()
    assert tenant.refused(f"SELECT weir.reject('{id}', 'none')")[2] == 'illegal_state'
    assert tenant.good(f"SELECT weir.reject('{id}', 'ours', 'no')") == 'ours'
    assert 'rejected already, by tenant' in tenant.refused(f"SELECT weir.approve('{id}', 'ours')")[1]
    foreign, missing = (tenant.refused(f"SELECT weir.approve('{some}')") for some in (theirs, MISSING))
    assert [text and text.replace(theirs, MISSING) for text in foreign] == list(missing)
    (row,) = weir.items('audit', '--act', 'reject')
    assert (row['actor'], row['subject']) == ('tenant', id), row


def an_end_by_a_limited_role_reaches_hooks_that_it_cannot_see(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    weir.good('hook', 'set', 'page', '--on', 'cancelled', '--start-workflow', 'hello', '--start-workspace', 'tiny', '-q')
    tenant.good(f"SELECT weir.cancel('{mine}')")
    assert weir.items('hook', 'list')[0]['waiting'] == 1
    for table in ('hooks', 'hook_outbox'):
        assert tenant.refused(f'SELECT count(*) FROM weir.{table}')[0] == '42501'


def a_foreign_workspace_is_as_a_missing_one(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    for call in ("weir.enqueue('NAME', 'hello')", "weir.enqueue('NAME', 'hello', '{}'::json)", "weir.usage('NAME')",
                 "weir.enqueue('NAME', 'no-such-workflow')",
                 "weir.enqueue('NAME', 'hello', execution_id => '%s')" % theirs):
        foreign, missing = (tenant.refused('SELECT ' + call.replace('NAME', name)) for name in ('tiny', 'zzzz'))
        assert foreign[0] == 'WR008' and foreign[1] == 'there is no workspace "tiny"', foreign
        assert [text and text.replace('tiny', 'zzzz') for text in foreign] == list(missing), call
    for call in ("weir.try_enqueue('NAME', 'hello')",
                 "weir.enqueue_many('[{\"workspace\": \"NAME\", \"workflow\": \"hello\"}]')"):
        foreign, missing = (tenant.good('SELECT * FROM ' + call.replace('NAME', name)) for name in ('tiny', 'zzzz'))
        assert 'workspace_not_found' in foreign and foreign.replace('tiny', 'zzzz') == missing, call
    assert 'tiny' not in (tenant.refused("SELECT weir.enqueue('tinyy', 'hello')")[3] or '')  # no hint at a foreign name
    assert 'acme' in tenant.refused("SELECT weir.enqueue('acm', 'hello')")[3]
    assert tenant.good('SELECT name FROM weir.usage()') == 'acme'
    assert owner.good("SELECT count(*) FROM weir.executions WHERE workspace = 'tiny'") == '1'


def a_foreign_execution_is_as_a_missing_one(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    owner.good("SELECT weir.cancel('%s')" % owner.good("SELECT weir.enqueue('tiny', 'hello')"))
    ended = owner.good("SELECT id FROM weir.executions WHERE status = 'CANCELLED'")
    for function in ('cancel', 'why', 'result'):
        for id in (theirs, ended):
            foreign, missing = (tenant.refused(f"SELECT weir.{function}('{some}')") for some in (id, MISSING))
            assert foreign[0] == 'WR010', (function, foreign)
            assert [text and text.replace(id, MISSING) for text in foreign] == list(missing), function
    for view, column in (('own_executions', 'id'), ('own_execution_events', 'execution_id')):
        assert tenant.good(f"SELECT count(*) FROM weir.{view} WHERE {column} IN ('{theirs}', '{ended}')") == '0', view
        assert tenant.good(f"SELECT count(*) > 0 FROM weir.{view} WHERE {column} = '{mine}'") == 't', view
        assert owner.good(f"SELECT count(DISTINCT {column}) FROM weir.{view}") == '3', view
    assert owner.good(f"SELECT status FROM weir.executions WHERE id = '{theirs}'") == 'PENDING'
    # Rights that were given by hand do not pass the wall either.
    owner.good('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO tenant')
    for function in ('retry', 'release', 'dismiss', 'complete'):
        foreign, missing = (tenant.refused(f"SELECT weir.{function}('{some}')") for some in (ended, MISSING))
        assert foreign[0] == 'WR010' and foreign[1].replace(ended, MISSING) == missing[1], (function, foreign)
    for call in ("pause_workspace('tiny')", "resume_workspace('tiny')", "delete_workspace('tiny', true, true)",
                 "rename_workspace('tiny', 'x')",
                 "disable_workflow('hello', 'tiny')", "enable_workflow('hello', 'tiny')",
                 "delete_workflow('hello', 'tiny')"):
        assert tenant.refused(f'SELECT weir.{call}')[0] == 'WR008', call
    assert tenant.refused("SELECT weir.disable_workflow('hello')")[0] == 'WR002'  # the one of all workspaces
    assert 'permission denied' in tenant.ask("SELECT weir.grant_workspace('tenant', 'tiny')")
    assert owner.good("SELECT count(*) FROM weir.usage() WHERE paused") == '0'
    weir.good('store', 'check')


def a_workflow_of_another_workspace_is_as_a_missing_one(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    weir.write('private.yaml', 'name: private\nworkspace: tiny\nsteps:\n  one: {exec: ["true"]}\n')
    weir.good('workflow', 'apply', 'private.yaml', '-q')
    foreign, missing = (tenant.refused(f"SELECT weir.enqueue('acme', '{flow}')") for flow in ('private', 'zzzzzzz'))
    assert foreign[0] == 'WR009', foreign
    assert [text and text.replace('private', 'zzzzzzz') for text in foreign] == list(missing), foreign
    assert owner.refused("SELECT weir.enqueue('acme', 'private')")[0] == 'WR018'


def no_function_of_the_reader_sees_a_row_behind_the_wall(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    tenant.good('CREATE FUNCTION pg_temp.spy(text) RETURNS boolean LANGUAGE plpgsql COST 0.000001 AS'
                " $$ BEGIN RAISE NOTICE 'seen %', $1; RETURN true; END $$")
    seen = tenant.good('SELECT count(*) FROM weir.own_executions WHERE pg_temp.spy(id::text)')
    assert mine in seen and theirs not in seen, seen
    seen = tenant.good('SELECT count(*) FROM weir.own_execution_events WHERE pg_temp.spy(execution_id::text)')
    assert mine in seen and theirs not in seen, seen


def a_role_stays_limited_when_its_workspaces_are_revoked(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    owner.good("SELECT weir.grant_workspace('tenant', 'tiny')")
    tenant.good("SELECT weir.enqueue('tiny', 'hello')")
    owner.good("SELECT weir.revoke_workspace('tenant', 'tiny')")
    assert tenant.refused("SELECT weir.enqueue('tiny', 'hello')")[0] == 'WR008'
    owner.good("SELECT weir.revoke_workspace('tenant', 'acme')")
    for workspace in ('acme', 'tiny'):
        assert tenant.refused(f"SELECT weir.enqueue('{workspace}', 'hello')")[0] == 'WR008'
    assert tenant.good('SELECT count(*) FROM weir.own_executions') == '0'
    assert owner.refused("SELECT weir.revoke_workspace('tenant', 'acme')")[0] == 'WR007'
    # A later workspace of the name is another one.
    owner.good("SELECT weir.grant_workspace('tenant', 'acme')")
    owner.good("SELECT weir.delete_workspace('acme', true, true)")
    weir.good('workspace', 'set', 'acme', '-q')
    assert tenant.refused("SELECT weir.enqueue('acme', 'hello')")[0] == 'WR008'
    assert len(weir.items('audit', '--act', 'workspace revoke')) == 2


def a_role_uses_its_workspace_under_the_new_name_and_renames_none(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    owner.good("SELECT weir.rename_workspace('acme', 'acme-eu')")
    owner.good("SELECT weir.rename_workspace('tiny', 'tiny-eu')")
    tenant.good("SELECT weir.enqueue('acme-eu', 'hello')")
    assert tenant.refused("SELECT weir.enqueue('acme', 'hello')")[3] == 'the workspace was renamed to "acme-eu"'
    foreign, missing = (tenant.refused(f"SELECT weir.enqueue('{some}', 'hello')") for some in ('tiny', 'zzzz'))
    assert [text and text.replace('tiny', 'zzzz') for text in foreign] == list(missing)  # no hint at a foreign name
    assert 'permission denied' in tenant.ask("SELECT weir.rename_workspace('acme-eu', 'tiny-eu')")
    owner.good('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA weir TO tenant')
    for new_name in ('tiny-eu', 'free'):
        assert tenant.refused(f"SELECT weir.rename_workspace('acme-eu', '{new_name}')")[2] == 'not_permitted', new_name
    owner.good("SELECT weir.rename_workspace('tiny-eu', 'acme')")  # the old name is another workspace now
    assert tenant.refused("SELECT weir.enqueue('acme', 'hello')")[0] == 'WR008'


def members_and_sessions_with_set_role_are_limited(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    member, pool = Session(name, 'member'), Session(name, 'pool')
    member.good("SELECT weir.enqueue('acme', 'hello')")
    assert member.refused("SELECT weir.enqueue('tiny', 'hello')")[0] == 'WR008'
    pool.good('SET ROLE tenant')
    pool.good("SELECT weir.enqueue('acme', 'hello')")
    assert pool.refused("SELECT weir.enqueue('tiny', 'hello')")[0] == 'WR008'
    pool.good('RESET ROLE')
    assert 'permission denied' in pool.ask("SELECT weir.enqueue('tiny', 'hello')")


def slips_of_the_owner_are_answered(weir):
    name, owner, tenant, mine, theirs = _scene(weir)
    assert owner.refused("SELECT weir.grant_workspace('nobody-here', 'acme')")[0] == 'WR007'
    assert owner.refused("SELECT weir.grant_workspace('tenant', 'acm')")[0] == 'WR008'
    assert owner.refused("SELECT weir.grant_workspace('owner', 'acme')")[0] == 'WR014'  # it can read all tables
    assert owner.refused("SELECT weir.revoke_workspace('tenant', 'tiny')")[0] == 'WR007'
    assert 'permission denied' in Session(name, 'another').ask("SELECT weir.grant_workspace('another', 'acme')")
    weir.good('enqueue', '-w', 'tiny', 'hello', '-q')  # the command line is not limited


def the_rights_to_an_older_function_go_to_the_new_one(weir):
    """A function gets one more argument: the one of before must not stay, or a call that names neither is ambiguous."""
    name, owner, tenant, mine, theirs = _scene(weir)
    listed = ("SELECT string_agg(p.oid::regprocedure::text, ', ' ORDER BY p.oid::regprocedure::text)"
              " FROM pg_proc p WHERE p.proname = 'enqueue'")
    now = owner.good(listed)
    owner.good(f'DROP FUNCTION {now}')
    older = 'text, text, text, text, integer, timestamptz, text, uuid, text, text, jsonb'
    arguments = 'workspace text, workflow text' + ''.join(
        f', a{place} {kind} DEFAULT NULL' for place, kind in enumerate(older.split(', ')[2:]))
    owner.good(f"CREATE FUNCTION weir.enqueue({arguments}) RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid'")
    owner.good(f'REVOKE ALL ON FUNCTION weir.enqueue({older}) FROM PUBLIC')
    owner.good(f'GRANT EXECUTE ON FUNCTION weir.enqueue({older}) TO tenant')
    owner.good(f'GRANT EXECUTE ON FUNCTION weir.enqueue({older}) TO another WITH GRANT OPTION')
    owner.good('CREATE FUNCTION weir.not_ours() RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$')
    owner.good("UPDATE weir.schema_migrations SET name = 'older' WHERE version = 0")
    weir.good('store', 'migrate', '-q')
    assert owner.good(listed) == now
    assert len(tenant.good("SELECT weir.enqueue('acme', 'hello')")) == 36
    assert tenant.refused("SELECT weir.enqueue('tiny', 'hello')")[0] == 'WR008'
    rights = ("SELECT count(*) FROM pg_proc p WHERE p.proname = 'enqueue'"
              " AND has_function_privilege('{}', p.oid, 'EXECUTE{}')")
    found = [owner.good(rights.format(role, more)) for role, more in
             (('tenant', ''), ('tenant', ' WITH GRANT OPTION'), ('another', ' WITH GRANT OPTION'), ('app', ''))]
    assert found == ['1', '0', '1', '0'], found  # those of the overload whose arguments begin as the older one's
    assert owner.good('SELECT weir.not_ours()') == '1'


def a_function_with_another_result_is_replaced_with_its_rights(weir):
    """The server refuses CREATE OR REPLACE for another result, another name of an argument and a default that is gone."""
    name, owner, tenant, mine, theirs = _scene(weir)
    signature = 'SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.proname = \'{}\''
    facts = ("SELECT p.proname, pg_get_function_result(p.oid), pg_get_function_arguments(p.oid) FROM pg_proc p"
             " JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'weir' ORDER BY p.oid::regprocedure::text")
    ours = owner.good(facts)
    caller = Session(name, 'owner')  # a program that has prepared its statement
    caller.good("PREPARE cancels AS SELECT count(*) FROM (SELECT weir.cancel($1::uuid)) c")
    for function, result, arguments, body in (
            ('publish_with_schedules', None, None, None),  # another row: without its last column
            ('cancel', 'text', 'execution_id uuid, reason text DEFAULT NULL', "SELECT 'older'"),
            ('enqueue_many', 'bigint', 'other_name jsonb', 'SELECT 1::bigint')):
        listed = owner.good(signature.format(function))
        if function == 'publish_with_schedules':
            types = listed[listed.index('(') + 1:-1]
            arguments = ', '.join(f'a{place} {kind}' for place, kind in enumerate(types.split(',')))
            result, body = 'TABLE (status text)', "SELECT 'older'"
        owner.good(f'DROP FUNCTION {listed} CASCADE')
        owner.good(f'CREATE FUNCTION weir.{function}({arguments}) RETURNS {result} LANGUAGE sql AS $$ {body} $$')
        owner.good(f'REVOKE ALL ON FUNCTION weir.{function} FROM PUBLIC')
        owner.good(f'GRANT EXECUTE ON FUNCTION weir.{function} TO tenant')
    owner.good("UPDATE weir.schema_migrations SET name = 'older' WHERE version = 0")
    weir.good('store', 'migrate', '-q')
    assert owner.good(facts) == ours
    waiting = tenant.good("SELECT weir.enqueue('acme', 'hello')")
    tenant.good(f"SELECT weir.cancel('{waiting}')")
    assert "permission denied" in Session(name, 'another').ask(f"SELECT weir.cancel('{waiting}')")
    assert weir.good('workflow', 'apply', weir.write('new.yaml', 'name: new\nsteps: {a: {exec: ["true"]}}\n')).code == 0
    again = owner.good("SELECT weir.enqueue('acme', 'hello')")
    assert caller.good(f"EXECUTE cancels('{again}')") == '1'


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
