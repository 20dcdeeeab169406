"""Where the programs keep their jobs: a new database of the private PostgreSQL server, a new file, or the private Redis
server, filled without waiting for the disk and then written to it.
"""

import contextlib
import os
import shutil
import tempfile

from redis_server import RedisServer
from server import Server


class Places:
    def __init__(self, parent, with_redis=False):
        """`parent`: a folder on the disk that is measured."""
        self.server = self.redis = None
        self.folder = tempfile.mkdtemp(prefix='weir-peers-', dir=parent)
        try:
            self.server = Server(parent)
            if with_redis:
                self.redis = RedisServer(parent)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def filled(self, store, name, fill, path_prefix=''):
        """Calls `fill` with the URL, and gives the URL. `store`: postgres, sqlite, redis or redis_everysec; `name`: of the
        database or file; `path_prefix`: of the URL of a file."""
        with getattr(self, f'_filled_{store}')(name, fill, path_prefix) as place:
            yield place

    @contextlib.contextmanager
    def _filled_sqlite(self, name, fill, path_prefix):
        place = path_prefix + os.path.join(self.folder, f'{name}.db')
        try:
            fill(place)
            os.sync()
            yield place
        finally:
            for left in os.listdir(self.folder):
                os.remove(os.path.join(self.folder, left))

    @contextlib.contextmanager
    def _filled_postgres(self, name, fill, _):
        place = self.server.create(name)
        try:
            self.server.begin_fill()
            try:
                fill(place)
            finally:
                self.server.end_fill(name)
            yield place
        finally:
            self.server.drop(name)

    def _filled_redis(self, _, fill, __):
        return self._filled_redis_with('always', fill)

    def _filled_redis_everysec(self, _, fill, __):
        return self._filled_redis_with('everysec', fill)

    @contextlib.contextmanager
    def _filled_redis_with(self, fsync, fill):
        self.redis.begin_fill()
        try:
            fill(self.redis.url)
        finally:
            self.redis.end_fill(fsync)
        yield self.redis.url

    def close(self):
        for server in (self.server, self.redis):
            if server is not None:
                server.close()
        shutil.rmtree(self.folder, ignore_errors=True)
