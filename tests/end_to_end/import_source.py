"""Tables of nFlow and Riven in a database of a test, as their documents describe them, and rows in them."""

NFLOW = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TYPE {schema}.workflow_status AS ENUM ('created', 'executing', 'inProgress', 'finished', 'manual');
CREATE TABLE {schema}.nflow_workflow (
  id serial PRIMARY KEY, status {schema}.workflow_status NOT NULL, type varchar(64) NOT NULL,
  priority smallint NOT NULL DEFAULT 0, parent_workflow_id integer, parent_action_id integer, business_key varchar(64),
  external_id varchar(64) NOT NULL, state varchar(64) NOT NULL, state_text varchar(128), next_activation timestamptz,
  external_next_activation timestamptz, executor_id int, retries int NOT NULL DEFAULT 0,
  created timestamptz NOT NULL DEFAULT current_timestamp, modified timestamptz NOT NULL DEFAULT current_timestamp,
  started timestamptz, executor_group varchar(64) NOT NULL, workflow_signal int,
  UNIQUE (type, external_id, executor_group));
CREATE TABLE {schema}.nflow_workflow_state (
  workflow_id int NOT NULL REFERENCES {schema}.nflow_workflow (id), action_id int NOT NULL, state_key varchar(64) NOT NULL,
  state_value text NOT NULL, PRIMARY KEY (workflow_id, action_id, state_key));
"""

# Without types and rules: what a hostile or broken source may have in the same columns.
NFLOW_LOOSE = """
CREATE TABLE nflow_workflow (
  id text, status text, type text, priority text, parent_workflow_id text, business_key text, external_id text, state text,
  next_activation timestamptz, executor_id text, retries numeric, created timestamptz DEFAULT now(), started text,
  executor_group text);
CREATE TABLE nflow_workflow_state (workflow_id text, action_id int, state_key text, state_value text);
"""

RIVEN = """
CREATE TABLE {table} (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(), workspace_id uuid, workflow_definition_id uuid, execution_id uuid,
  status text NOT NULL DEFAULT 'PENDING', created_at timestamptz NOT NULL DEFAULT now(), claimed_at timestamptz,
  dispatched_at timestamptz, input jsonb, {counter} int NOT NULL DEFAULT 0, last_error text{more});
"""


def make_nflow(server, database, schema='public'):
    server.sql(NFLOW.format(schema=schema), database)


def make_riven(server, database, table='execution_queue'):
    is_old = table == 'workflow_execution_queue'
    more = '' if is_old else ", job_type varchar(30) DEFAULT 'WORKFLOW_EXECUTION', entity_id uuid"
    server.sql(RIVEN.format(table=table, counter='attempt_count' if is_old else 'attempts', more=more), database)


def quoted(value):
    return 'NULL' if value is None else "'" + str(value).replace("'", "''") + "'"


def add_nflow(server, database, variables=None, schema='public', **columns):
    """One instance that waits for its first start, but for `columns`; its id."""
    columns = {'status': 'created', 'type': 'hello', 'state': 'begin', 'next_activation': '2026-01-02T03:04:05Z',
               'executor_group': 'nflow', 'external_id': f'x-{add_nflow.count}', **columns}
    add_nflow.count += 1
    id = server.sql(f'INSERT INTO {schema}.nflow_workflow ({", ".join(columns)}) VALUES '
                    f'({", ".join(map(quoted, columns.values()))}) RETURNING id', database)
    for key, value in (variables or {}).items():
        server.sql(f'INSERT INTO {schema}.nflow_workflow_state VALUES ({quoted(id)}, 0, {quoted(key)}, {quoted(value)})',
                   database)
    return id


add_nflow.count = 0


def add_many_nflow(server, database, count):
    server.sql("INSERT INTO nflow_workflow (status, type, state, next_activation, executor_group, external_id)"
               f" SELECT 'created', 'hello', 'begin', now(), 'nflow', 'many-' || i FROM generate_series(1, {count}) i;"
               "INSERT INTO nflow_workflow_state SELECT id, 0, 'number', id::text FROM nflow_workflow", database)


def add_riven(server, database, table='execution_queue', **columns):
    return server.sql(f'INSERT INTO {table} ({", ".join(columns)}) VALUES ({", ".join(map(quoted, columns.values()))})'
                      ' RETURNING id', database)
