"""The settings: which store, which database's transactions, and the checks of `manage.py check`."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core import checks
from django.db import connections

from weir import _sqlite
from weir.errors import Misuse
from weir.store import Store

_KEYS = ('STORE', 'USING', 'MIGRATE')
#: Of libpq, as Django passes them on from OPTIONS; its other options are no business of a store.
_LIBPQ = ('sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'sslcrl', 'passfile', 'connect_timeout', 'target_session_attrs')
_POSTGRES = ('django.db.backends.postgresql', 'django.contrib.gis.db.backends.postgis')
_SQLITE = ('django.db.backends.sqlite3', 'django.contrib.gis.db.backends.spatialite')


def _value(key: str) -> Any:
    given = getattr(settings, 'WEIR', {})
    return given.get(key) if isinstance(given, dict) else None


def alias() -> str | None:
    """Of the database whose transactions enqueue() takes part in; none when the store is elsewhere."""
    using = _value('USING')
    return str(using) if using else None if _value('STORE') else 'default'


def migrates(using: str) -> bool:
    """Whether the migration of this database makes the store. `weir store init` makes one that the settings name."""
    wanted = _value('MIGRATE')
    if using != alias() or (wanted is None and _value('STORE')) or wanted is False:
        return False
    return not _in_memory(connections[using].settings_dict) or bool(_value('STORE'))


def find_transaction() -> Any:
    """The open transaction that enqueue() takes part in."""
    using = alias()
    if using is None or not connections[using].in_atomic_block:
        return None
    if _in_memory(connections[using].settings_dict) and not _value('STORE'):
        raise Misuse('the database is in memory, where no worker could see an execution', _IN_MEMORY_HINT)
    return connections[using]


def make_store() -> Store:
    return Store(store_url())


def store_url() -> str:
    if _value('STORE'):
        return str(_value('STORE'))
    using = alias()
    assert using is not None
    return url_of(connections[using].settings_dict)


def is_on_sqlite() -> bool:
    using = alias()
    return using in settings.DATABASES and settings.DATABASES[using].get('ENGINE') in _SQLITE


_IN_MEMORY_HINT = (
    'in tests use weir.testing.run_inline(), or a file: DATABASES["default"]["TEST"] = {"NAME": "test.sqlite3"}'
)


def _in_memory(database: dict[str, Any]) -> bool:
    name = str(database.get('NAME') or '')
    return database.get('ENGINE') in _SQLITE and (name == ':memory:' or 'mode=memory' in name)


def url_of(database: dict[str, Any]) -> str:
    """The store in a database of Django's setting DATABASES."""
    engine, options = database.get('ENGINE'), database.get('OPTIONS') or {}
    if engine in _SQLITE:
        if _in_memory(database):
            raise Misuse('the database is in memory, where no worker could see an execution', _IN_MEMORY_HINT)
        return f'sqlite:{os.path.abspath(str(database["NAME"]))}'
    if engine not in _POSTGRES:
        raise Misuse(
            f'the database has the engine {engine}, and a store is on PostgreSQL or in a SQLite file',
            'set WEIR = {"STORE": "postgres://..."} or {"STORE": "sqlite:PATH"}',
        )
    if options.get('service'):
        raise Misuse(
            'the database is a service of pg_service.conf', 'set WEIR = {"STORE": "postgres://...", "USING": "default"}'
        )
    user, password = (quote(str(database.get(key) or ''), safe='') for key in ('USER', 'PASSWORD'))
    host, port = str(database.get('HOST') or ''), str(database.get('PORT') or '')
    more = {key: str(options[key]) for key in _LIBPQ if key in options}
    if '/' in host:  # the folder of a socket
        more['host'] = host
        if port:
            more['port'] = port
    who = '' if not user else f'{user}{f":{password}" if password else ""}@'
    where = '' if '/' in host else f'{f"[{host}]" if ":" in host else host}{f":{port}" if port else ""}'
    query = f'?{urlencode(more, quote_via=quote)}' if more else ''
    return f'postgres://{who}{where}/{quote(str(database.get("NAME") or ""), safe="")}{query}'


# --- checks ---


def check_settings(**unused: Any) -> list[checks.CheckMessage]:
    """Registered with Django: `manage.py check`, and the start of each command of it."""
    given = getattr(settings, 'WEIR', {})
    if not isinstance(given, dict):
        return [checks.Error('WEIR is no dict', hint='WEIR = {"STORE": "postgres://..."}, or leave it out', id='weir.E001')]
    unknown = [key for key in given if key not in _KEYS]
    if unknown:
        hint = f'it has {", ".join(_KEYS)}'
        return [checks.Error(f'WEIR has no setting {key!r}', hint=hint, id='weir.E001') for key in unknown]
    using = alias()
    if using is None:
        return []
    if using not in settings.DATABASES:
        hint = f'WEIR["USING"] names one of {", ".join(settings.DATABASES) or "none"}'
        return [checks.Error(f'DATABASES has no {using!r}, in which weir should keep its store', hint=hint, id='weir.E002')]
    database = settings.DATABASES[using]
    if not _value('STORE'):
        if _in_memory(database):
            return [checks.Warning('the database is in memory: no worker can see it', hint=_IN_MEMORY_HINT, id='weir.W001')]
        try:
            url_of(database)
        except Misuse as problem:
            return [checks.Error(f'weir has no store: {problem.message}', hint=problem.hint, id='weir.E003')]
    return _check_sqlite(database)


def _check_sqlite(database: dict[str, Any]) -> list[checks.CheckMessage]:
    if database.get('ENGINE') not in _SQLITE or _sqlite.shares_sqlite():
        return []
    return [
        checks.Error(
            "this Python's sqlite3 has a copy of SQLite of its own: with libweir's on the same file, locks would be lost",
            hint="use a Python that uses the system's libsqlite3, as the one of Debian, or PostgreSQL",
            id='weir.E004',
        )
    ]
