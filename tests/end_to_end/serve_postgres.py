"""A server of PostgreSQL for tests in other languages: each line of the input is answered with a new database's URL."""

import sys

from postgres_server import PostgresServer

server = PostgresServer('')
for _ in sys.stdin:
    print(server.url(server.database()), flush=True)
server.stop()
