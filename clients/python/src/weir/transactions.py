"""Enqueue inside the caller's own transaction, on the connection given.

PostgreSQL: one call of the SQL function `weir.try_enqueue()`. SQLite: one call of `weir_enqueue()`, a function of the
loadable extension. Neither opens the store.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from datetime import timedelta, timezone
from typing import Any
from urllib.parse import parse_qs, urlsplit

from weir import _sqlite
from weir._time import Duration, microseconds, moment
from weir._trace import current_traceparent
from weir.errors import Kind, Misuse, StoreUnavailable, make
from weir.store import Request, Store, dump_params

_NAMES = (
    'workspace',
    'workflow',
    'params',
    'idempotency_key',
    'priority',
    'run_at',
    'executor_group',
    'execution_id',
    'traceparent',
    'business_key',
    'labels',
    'key_mode',
    'debounce',
    'debounce_max',
)
_NO_STORE_HINT = 'make one in this file: weir.Store(FILE).migrate(share=True), or in a project of Django: manage.py migrate'
_TYPES = (
    'text',
    'text',
    'text',
    'text',
    'integer',
    'timestamptz',
    'text',
    'uuid',
    'text',
    'text',
    'jsonb',
    'text',
    'interval',
    'interval',
)


Values = tuple[Any, ...]  # of a request, in the order of _NAMES


def _values_of(request: Request) -> Values:
    return (
        request.workspace,
        request.workflow,
        dump_params(request.params),
        request.key,
        request.priority,
        request.run_at,
        request.executor_group,
        request.id,
        request.traceparent or current_traceparent(),
        request.business_key,
        json.dumps(dict(request.labels)) if request.labels else None,
        request.key_mode,
        _span(request.debounce),
        _span(request.debounce_max),
    )


def enqueue(using: Any, store: Store, request: Request) -> str:
    """`using`: a connection or cursor of psycopg, psycopg2, sqlite3 or apsw, of SQLAlchemy (Connection, Session) or Django,
    or Django's alias."""
    values = _values_of(request)
    if isinstance(using, str):
        from django.db import connections

        using = connections[using]
    if isinstance(using, sqlite3.Cursor):
        using = using.connection
    if isinstance(using, sqlite3.Connection) or type(using).__module__.split('.')[0] == 'apsw':
        return _sqlite_connection(using, store, values)
    if getattr(using, 'vendor', None) == 'sqlite':
        using.ensure_connection()
        return _on_sqlite(using.connection, store, values)
    if hasattr(using, 'exec_driver_sql') or hasattr(using, 'get_bind'):
        return _sqlalchemy(using, store, values)
    if not hasattr(using, 'cursor') and hasattr(using, 'execute') and hasattr(using, 'fetchone'):
        using.execute(_sql(store, '%s'), values)
        return _answer(using.fetchone())
    if hasattr(using, 'cursor'):
        with using.cursor() as cursor:
            cursor.execute(_sql(store, '%s'), values)
            return _answer(cursor.fetchone())
    raise Misuse(
        f'using={using!r} is no connection that weir knows', 'give one of psycopg, sqlite3, apsw, SQLAlchemy or Django'
    )


def _span(duration: Duration | None) -> timedelta | None:
    return None if duration is None else timedelta(microseconds=microseconds(duration))


def _sqlalchemy(using: Any, store: Store, values: Values) -> str:
    from sqlalchemy import text

    connection = using.connection() if hasattr(using, 'get_bind') else using
    if connection.dialect.name == 'sqlite':
        if not connection.in_transaction():
            connection.begin()
        return _sqlite_connection(connection.connection.driver_connection, store, values)
    statement = _sql(store, None)
    return _answer(using.execute(text(statement), dict(zip(_NAMES, values))).fetchone())


# --- SQLite ---


def _sqlite_connection(connection: Any, store: Store, values: Values) -> str:
    """Begins a transaction where the module sqlite3 would begin one before an INSERT. A refusal ends that one again."""
    begins = (
        isinstance(connection, sqlite3.Connection)
        and connection.isolation_level is not None
        and getattr(connection, 'autocommit', None) is not True
        and not connection.in_transaction
    )
    if not begins:
        return _on_sqlite(connection, store, values)
    try:
        connection.execute(f'BEGIN {connection.isolation_level or "IMMEDIATE"}')
    except sqlite3.OperationalError as problem:
        raise StoreUnavailable(f'the transaction cannot begin: {problem}', status='store_busy') from problem
    try:
        return _on_sqlite(connection, store, values)
    except BaseException:
        connection.rollback()
        raise


def _on_sqlite(connection: Any, store: Store, values: Values) -> str:
    if not store.is_sqlite():
        raise Misuse(
            f'the store is {_kind_of(store)}: an execution in it cannot be part of a transaction on SQLite',
            'enqueue after the commit, with a key, so that a repeated call makes no second one',
        )
    _sqlite.require_one_copy(connection, store)
    run_at, spans = values[5], values[-2:]
    moment(run_at)  # refuses a time without a zone
    at = None if run_at is None else run_at.astimezone(timezone.utc).strftime('%Y-%m-%dT%H:%M:%S.%fZ')
    windows = (None if duration is None else f'{duration // timedelta(milliseconds=1)}ms' for duration in spans)
    arguments = (*values[:5], at, *values[6:-2], *windows)
    sql = f'SELECT weir_enqueue({", ".join("?" * len(arguments))})'

    def call() -> str:
        if connection.in_transaction:
            _take_write_lock(connection)
        return str(connection.cursor().execute(sql, arguments).fetchone()[0])

    try:
        return _loaded(connection, call)
    except Exception as problem:
        if not _is_sqlite_error(problem):
            raise
        raise _refusal(str(problem)) from None


def _take_write_lock(connection: Any) -> None:
    """By a write that changes nothing, as the first statement of a deferred transaction: it waits for other writers as long
    as the busy timeout allows. The extension reads before it writes, and SQLite lets no such transaction wait."""
    try:
        connection.cursor().execute('DELETE FROM main.news WHERE 0')
    except Exception as problem:
        if 'no such table' not in str(problem):  # weir_enqueue() says that the file is no store
            raise


def _loaded(connection: Any, call: Callable[[], str]) -> str:
    """Loads the extension at the first call on a connection."""
    try:
        return call()
    except Exception as problem:
        if 'no such function: weir_enqueue' not in str(problem):
            raise
    _sqlite.load(connection)
    return call()


def _is_sqlite_error(problem: Exception) -> bool:
    return isinstance(problem, sqlite3.Error) or type(problem).__module__.split('.')[0] == 'apsw'


def _refusal(text: str) -> Exception:
    """Of the text "status: message; hint" that the functions of the extension fail with."""
    found = re.fullmatch(r'(?:SQLError: )?([a-z_]+): (.*?)(?:; (.*))?', text, re.DOTALL)
    if found is None:
        hint = 'begin with BEGIN IMMEDIATE, and set a busy timeout' if 'locked' in text else 'repeat the transaction'
        return StoreUnavailable(f'SQLite: {text}', hint, status='store_busy' if 'locked' in text else None)
    kind = Kind.TRANSIENT if found[1] == 'store_busy' else Kind.PERMANENT
    hint = _NO_STORE_HINT if found[1] == 'store_not_weir' else found[3] or ''
    return make(found[1], kind, found[2], hint)


async def enqueue_async(using: Any, store: Store, request: Request) -> str:
    """`using`: a connection of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's AsyncConnection or AsyncSession."""
    values = _values_of(request)
    module = type(using).__module__
    if module.startswith('asyncpg'):
        return _answer(tuple(await using.fetchrow(_sql(store, '$'), *values)))
    if module.startswith('sqlalchemy'):
        from sqlalchemy import text

        return _answer((await using.execute(text(_sql(store, None)), dict(zip(_NAMES, values)))).fetchone())
    if module.startswith('psycopg'):
        cursor = await using.execute(_sql(store, '%s'), values)
        return _answer(await cursor.fetchone())
    raise Misuse(
        f'using={using!r} is no asynchronous connection that weir knows', 'give one of asyncpg, psycopg or SQLAlchemy'
    )


def _kind_of(store: Store) -> str:
    return 'on PostgreSQL' if store.is_postgres() else 'behind a server' if store.is_server() else 'a SQLite file'


def schema_of(store: Store) -> str:
    """The schema that the store's URL names."""
    url = urlsplit(store.url)
    if not store.is_postgres():
        raise Misuse(
            f'the store is {_kind_of(store)}: an execution in it cannot be part of this transaction',
            'configure(store="postgres://...") with its database, or enqueue after the commit, with a key',
        )
    schema = parse_qs(url.query).get('schema', ['weir'])[-1]
    if not re.fullmatch(r'[a-z_][a-z0-9_]{0,62}', schema):
        raise Misuse(f'{schema!r} is no name of a schema')
    return schema


def _sql(store: Store, marker: str | None) -> str:
    """`marker`: how the driver marks its parameters; None = by name, as SQLAlchemy's text()."""
    places = []
    for number, (name, kind) in enumerate(zip(_NAMES, _TYPES), 1):
        mark = f':{name}' if marker is None else marker if marker == '%s' else f'${number}'
        places.append(f'{name} => CAST({mark} AS {kind})')
    return f'SELECT code, id::text, message, hint FROM {schema_of(store)}.try_enqueue({", ".join(places)})'


def _answer(row: Any) -> str:
    code, id, message, hint = row
    if code != 'ok':
        raise make(code, Kind.PERMANENT, message or code, hint or '')
    return str(id)
