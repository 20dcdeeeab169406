"""Enqueue inside the caller's own transaction on PostgreSQL: one call of `weir.try_enqueue()`, on the connection given."""

from __future__ import annotations

import re
import sqlite3
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from weir.errors import Kind, Misuse, make
from weir.store import Store

_NAMES = ('workspace', 'workflow', 'params', 'idempotency_key', 'priority', 'run_at', 'executor_group', 'execution_id')
_TYPES = ('text', 'text', 'text', 'text', 'integer', 'timestamptz', 'text', 'uuid')


def enqueue(
    using: Any,
    store: Store,
    workflow: str,
    workspace: str,
    params: str,
    key: str | None,
    group: str | None,
    priority: int,
    run_at: datetime | None,
    id: str | None,
) -> str:
    """`using`: a connection or cursor of psycopg, psycopg2, SQLAlchemy (Connection, Session), Django, or Django's alias."""
    values = (workspace, workflow, params, key, priority, run_at, group, id)
    if isinstance(using, sqlite3.Connection):
        raise Misuse(
            'an execution cannot be enqueued in a transaction of sqlite3',
            'enqueue after the commit, with a key, so that a repeated call makes no second one',
        )
    if isinstance(using, str):
        from django.db import connections

        using = connections[using]
    if hasattr(using, 'exec_driver_sql') or hasattr(using, 'get_bind'):
        return _answer(_sqlalchemy(using, store, values))
    if not hasattr(using, 'cursor') and hasattr(using, 'execute') and hasattr(using, 'fetchone'):
        using.execute(_sql(store, '%s'), values)
        return _answer(using.fetchone())
    if hasattr(using, 'cursor'):
        with using.cursor() as cursor:
            cursor.execute(_sql(store, '%s'), values)
            return _answer(cursor.fetchone())
    raise Misuse(f'using={using!r} is no connection that weir knows', 'give one of psycopg, SQLAlchemy or Django')


def _sqlalchemy(using: Any, store: Store, values: tuple[Any, ...]) -> Any:
    from sqlalchemy import text

    statement = _sql(store, None)
    return using.execute(text(statement), dict(zip(_NAMES, values))).fetchone()


async def enqueue_async(
    using: Any,
    store: Store,
    workflow: str,
    workspace: str,
    params: str,
    key: str | None,
    group: str | None,
    priority: int,
    run_at: datetime | None,
    id: str | None,
) -> str:
    """`using`: a connection of asyncpg, psycopg's AsyncConnection, or SQLAlchemy's AsyncConnection or AsyncSession."""
    values = (workspace, workflow, params, key, priority, run_at, group, id)
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


def schema_of(store: Store) -> str:
    """The schema that the store's URL names."""
    url = urlsplit(store.url)
    if url.scheme not in ('postgres', 'postgresql'):
        raise Misuse(
            'the store is a SQLite file: an execution in it cannot be part of this transaction',
            'configure(store="postgres://...") with the database of the transaction',
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
    return f'SELECT status, id::text, message, hint FROM {schema_of(store)}.try_enqueue({", ".join(places)})'


def _answer(row: Any) -> str:
    status, id, message, hint = row
    if status != 'ok':
        raise make(status, Kind.PERMANENT, message or status, hint or '')
    return str(id)
