"""The server of PostgreSQL that tests share. WEIR_SOURCE names the checkout, whose helpers start it."""

import os
import pathlib
import sys

import pytest

SOURCE = pathlib.Path(os.environ.get('WEIR_SOURCE', pathlib.Path(__file__).resolve().parents[3]))


@pytest.fixture(scope='session')
def postgres_server():
    sys.path.insert(0, str(SOURCE / 'tests' / 'end_to_end'))
    from postgres_server import PostgresServer

    server = PostgresServer('')
    yield server
    server.stop()


@pytest.fixture
def postgres_url(postgres_server):
    """Of a database of its own."""
    return postgres_server.url(postgres_server.database())
