"""A server of PostgreSQL for the tests in JavaScript: each line of the input is answered with the URL of a new database."""

import os
import sys

sys.path.insert(0, os.path.join(os.environ['WEIR_SOURCE'], 'tests', 'end_to_end'))
from postgres_server import PostgresServer  # noqa: E402

server = PostgresServer('')
for _ in sys.stdin:
    print(server.url(server.database()), flush=True)
server.stop()
