"""A project of Django with the app weir.django, on both kinds of database. Each command runs as a user runs it."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import textwrap

import pytest

import weir

pytest.importorskip('django')
SETTINGS = """
import json, os
INSTALLED_APPS += ['weir.django', 'shop']
WEIR = json.loads(os.environ.get('TEST_WEIR', '{}'))
DATABASES = json.loads(os.environ['TEST_DATABASES'])
"""
WORKFLOWS = """
import threading
import weir
from django.contrib.auth.models import User
from django.db import connection, transaction

@weir.workflow(name='welcome', retry={'attempts': 1})
def welcome(user: int):
    return User.objects.get(pk=user).username

@weir.workflow(name='welcome-async', retry={'attempts': 1})
async def welcome_async(user: int):
    return (await User.objects.aget(pk=user)).username

@weir.workflow(name='passes-on', retry={'attempts': 1})
def passes_on(user: int, fails: bool = False):
    with transaction.atomic():
        id = welcome.enqueue('acme', user=user)
        transaction.set_rollback(fails)
    return id
"""
PROGRAM = """
import django, json
django.setup()
import weir
from django.contrib.auth.models import User
from django.db import connection, transaction
from shop.workflows import passes_on, welcome, welcome_async
store = weir.default_store()
"""


class Project:
    def __init__(self, folder, database):
        self.folder = folder
        self.environment = {
            **os.environ,
            'TEST_DATABASES': json.dumps({'default': database}),
            'DJANGO_SETTINGS_MODULE': 'shop.settings',
        }
        self.environment.pop('WEIR_STORE', None)
        subprocess.run([sys.executable, '-m', 'django', 'startproject', 'shop', folder], check=True)
        with open(folder / 'shop' / 'settings.py', 'a') as file:
            file.write(SETTINGS)
        (folder / 'shop' / 'workflows.py').write_text(WORKFLOWS)

    def run(self, *arguments, **more):
        environment = {**self.environment, **more}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.folder, env=environment, capture_output=True, text=True
        )

    def manage(self, *arguments, **more):
        return self.run('manage.py', *arguments, **more)

    def program(self, text):
        done = self.run('-c', PROGRAM + textwrap.dedent(text))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def start_worker(self, *arguments):
        return subprocess.Popen(
            [sys.executable, 'manage.py', 'weir_worker', *arguments], cwd=self.folder, env=self.environment
        )


def database_of(url, folder):
    if url is None:
        place = {'NAME': str(folder / 'db.sqlite3'), 'OPTIONS': {'timeout': 60}}
        return {'ENGINE': 'django.db.backends.sqlite3', **place}
    import psycopg

    with psycopg.connect(url) as connection:
        info = connection.info
        place = {'HOST': info.host, 'PORT': str(info.port), 'USER': info.user, 'NAME': info.dbname}
    return {'ENGINE': 'django.db.backends.postgresql', **place}


@pytest.fixture(params=['sqlite', 'postgres'])
def project(request, tmp_path):
    url = None if request.param == 'sqlite' else request.getfixturevalue('postgres_url')
    made = Project(tmp_path, database_of(url, tmp_path))
    migrated = made.manage('migrate')
    assert migrated.returncode == 0, migrated.stderr
    assert '3 workflows published' in migrated.stdout
    set = made.manage('weir', 'workspace', 'set', 'acme', '--plan', 'pro')
    assert set.returncode == 0, set.stderr
    return made


def test_an_enqueue_takes_part_in_the_transaction_of_django(project):
    seen = project.program("""
        seen = {'before': None}
        with transaction.atomic():
            user = User.objects.create_user('ada')
            kept = welcome.enqueue('acme', user=user.pk)
            transaction.on_commit(lambda: seen.update(at_commit=store.show(kept)['status']))
            seen['before'] = store.count(workspace='acme')
            try:
                with transaction.atomic():
                    welcome.enqueue('acme', user=user.pk)
                    raise ValueError
            except ValueError:
                pass
            try:
                welcome.enqueue('nobody', user=user.pk)
            except weir.WorkspaceNotFound:
                seen['refused'] = True
        try:
            with transaction.atomic():
                User.objects.create_user('bob')
                welcome.enqueue('acme', user=2)
                raise ValueError
        except ValueError:
            pass
        seen.update(after=store.count(workspace='acme'), users=User.objects.count(), outside=None)
        welcome.enqueue('acme', user=user.pk)
        seen['outside'] = store.count(workspace='acme')
        print(json.dumps(seen))
    """)
    assert seen == {'before': 0, 'at_commit': 'PENDING', 'refused': True, 'after': 1, 'users': 1, 'outside': 2}


def test_a_worker_runs_the_functions_of_installed_apps(project):
    worker = project.start_worker('--threads', '2')
    try:
        results = project.program("""
            user = User.objects.create_user('ada').pk
            first = welcome.enqueue('acme', user=user)
            second = welcome_async.enqueue('acme', user=user)
            passed_on = store.result(passes_on.enqueue('acme', user=user), 60)
            rolled_back = store.result(passes_on.enqueue('acme', user=user, fails=True), 60)
            try:
                gone = store.show(rolled_back)['status']
            except weir.ExecutionNotFound:
                gone = None
            print(json.dumps([store.result(first, 60), store.result(second, 60), store.result(passed_on, 60), gone]))
        """)
        assert results == ['ada', 'ada', 'ada', None]
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()


def test_a_worker_of_two_processes_ends_gracefully(project):
    worker = project.start_worker('--processes', '2', '--grace=5s')
    try:
        alive = project.program("""
            import time
            while len([node for node in store.nodes() if node['state'] == 'alive']) < 2:
                time.sleep(0.02)
            user = User.objects.create_user('ada').pk
            print(json.dumps(store.result(welcome.enqueue('acme', user=user), 60)))
        """)
        assert alive == 'ada'
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()


def test_tests_of_a_project_run_inline_and_see_the_store_of_the_test_database(project):
    (project.folder / 'shop' / 'tests.py').write_text(
        textwrap.dedent("""
        import weir
        from django.contrib.auth.models import User
        from django.db import connection
        from django.test import TestCase
        from weir.testing import run_inline
        from shop.workflows import welcome

        class Tests(TestCase):
            def test_inline(self):
                with run_inline() as runs:
                    welcome.enqueue('acme', user=User.objects.create_user('ada').pk)
                self.assertEqual(runs[0].result, 'ada')

            def test_in_the_transaction_of_the_test(self):
                if connection.vendor == 'sqlite':
                    with self.assertRaises(weir.Misuse) as caught:
                        welcome.enqueue('acme', user=1)
                    self.assertIn('run_inline', caught.exception.hint)
                else:
                    with self.assertRaises(weir.WorkspaceNotFound):
                        welcome.enqueue('acme', user=1)
    """)
    )
    done = project.manage('test')
    assert done.returncode == 0, done.stdout + done.stderr
    assert 'Ran 2 tests' in done.stderr


# --- settings ---


@pytest.fixture
def bare(tmp_path):
    return Project(tmp_path, {'ENGINE': 'django.db.backends.sqlite3', 'NAME': str(tmp_path / 'db.sqlite3')})


@pytest.mark.parametrize(
    ('settings', 'databases', 'id', 'words'),
    [
        ('[]', None, 'weir.E001', 'WEIR is no dict'),
        ('{"STOER": "x"}', None, 'weir.E001', "WEIR has no setting 'STOER'"),
        ('{"USING": "other"}', None, 'weir.E002', "DATABASES has no 'other'"),
        ('{}', {'ENGINE': 'django.db.backends.dummy'}, 'weir.E003', 'the engine django.db.backends.dummy'),
        ('{}', {'ENGINE': 'django.db.backends.postgresql', 'OPTIONS': {'service': 'a'}}, 'weir.E003', 'pg_service.conf'),
        ('{}', {'ENGINE': 'django.db.backends.sqlite3', 'NAME': ':memory:'}, 'weir.W001', 'in memory'),
    ],
)
def test_checks_name_the_setting_and_the_remedy(bare, settings, databases, id, words):
    more = {} if databases is None else {'TEST_DATABASES': json.dumps({'default': databases})}
    checked = bare.manage('check', TEST_WEIR=settings, **more)
    assert id in checked.stderr
    assert words in checked.stderr
    assert 'HINT: ' in checked.stderr
    assert checked.returncode == (0 if '.W' in id else 1)


def test_fine_settings_pass_the_checks(bare):
    for settings in ('{}', '{"STORE": "sqlite:elsewhere.db"}', '{"USING": "default", "MIGRATE": false}'):
        checked = bare.manage('check', TEST_WEIR=settings)
        assert (checked.returncode, checked.stderr) == (0, '')


def test_a_named_store_is_used_and_takes_part_in_no_transaction(bare):
    more = {'TEST_WEIR': '{"STORE": "sqlite:elsewhere.db"}'}
    assert bare.manage('migrate', **more).returncode == 0
    assert not (bare.folder / 'elsewhere.db').exists()
    assert bare.manage('weir', 'store', 'init', **more).returncode == 0
    assert bare.manage('weir', 'workspace', 'set', 'acme', '--plan', 'pro', **more).returncode == 0
    bare.environment.update(more)
    assert (
        bare.program("""
        with transaction.atomic():
            welcome.enqueue('acme', user=1)
            transaction.set_rollback(True)
        print(store.count(workspace='acme'))
    """)
        == 1
    )


def test_mistakes_of_a_worker_are_words(bare):
    (bare.folder / 'shop' / 'workflows.py').write_text('')
    refused = bare.manage('weir_worker')
    assert refused.returncode != 0
    assert 'no installed app has a module `workflows`' in refused.stderr
    (bare.folder / 'shop' / 'workflows.py').write_text("import weir\n@weir.workflow(name='A B')\ndef f(): pass\n")
    refused = bare.manage('weir_worker')
    assert refused.returncode != 0
    assert 'workflows.py:2' in refused.stderr
    assert 'Traceback' not in refused.stderr
    (bare.folder / 'shop' / 'workflows.py').write_text(WORKFLOWS)
    assert bare.manage('weir_worker', '--threads', '99').stderr.startswith('weir worker: threads=99')
    other = bare.manage(
        'shell', '-c', 'from django.core.management import call_command; call_command("weir_worker", processes=2)'
    )
    assert '--processes and --reload need a command line' in other.stderr


def test_the_store_is_the_database_of_django(tmp_path):
    from weir.django.conf import url_of

    postgres = {'ENGINE': 'django.db.backends.postgresql', 'NAME': 'a b'}
    assert url_of(postgres) == 'postgres:///a%20b'
    assert (
        url_of(
            {**postgres, 'USER': 'u@x', 'PASSWORD': 'p/:?', 'HOST': 'db', 'PORT': 5433, 'OPTIONS': {'sslmode': 'require'}}
        )
        == 'postgres://u%40x:p%2F%3A%3F@db:5433/a%20b?sslmode=require'
    )
    assert url_of({**postgres, 'HOST': '/run/pg', 'PORT': '5433'}) == 'postgres:///a%20b?host=%2Frun%2Fpg&port=5433'
    assert url_of({**postgres, 'HOST': '::1'}) == 'postgres://[::1]/a%20b'
    sqlite = {'ENGINE': 'django.db.backends.sqlite3', 'NAME': tmp_path / 'x'}
    assert url_of(sqlite) == f'sqlite:{tmp_path}/x'
    with pytest.raises(weir.Misuse, match='in memory'):
        url_of({**sqlite, 'NAME': 'file:memorydb_default?mode=memory&cache=shared'})
    assert re.match(r'\d', weir.__version__)
    assert pathlib.Path(weir.sqlite_extension_path()).exists()
