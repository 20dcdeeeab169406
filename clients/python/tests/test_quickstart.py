"""The first steps of both READMEs, as a reader takes them: a clean environment, the built wheel (WEIR_WHEEL), and no
network but for Django itself."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import SOURCE

sys.path.insert(0, str(SOURCE / 'tests' / 'end_to_end'))
from ports import free_port  # noqa: E402

README = pathlib.Path(__file__).resolve().parent.parent / 'README.md'


def test_the_first_steps_of_the_readme(tmp_path):
    wheel = os.environ['WEIR_WHEEL']
    blocks = dict(re.findall(r'```(\w+)\n(.*?)```', README.read_text(), re.DOTALL))
    subprocess.run([sys.executable, '-m', 'venv', tmp_path / 'venv'], check=True)
    environment = {'PATH': f'{tmp_path}/venv/bin:/usr/bin:/bin', 'HOME': str(tmp_path)}
    steps = [line.split('#')[0].strip() for line in blocks['sh'].splitlines()]
    assert steps[0] == 'pip install weir'
    steps[0] = f'pip install -q --no-index {wheel}'
    (tmp_path / 'tasks.py').write_text(blocks['python'])

    def step(line, check=True):
        shell = ['sh', '-ec', line]
        return subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True, check=check)

    step(steps[0])
    assert steps[1].endswith('&')
    worker = subprocess.Popen(['sh', '-c', f'exec {steps[1][:-1]}'], cwd=tmp_path, env=environment)
    try:
        # The command fails until the worker has made the store.
        while 'send-invoice' not in step('weir worker list', check=False).stdout:
            assert worker.poll() is None
            time.sleep(0.05)
        step(steps[2])
        id = step(steps[3]).stdout.strip()
        step(f'weir wait {id} --timeout 60s')
        assert id[:8] in step(steps[4]).stdout
        shown = step(f'weir show {id} --json').stdout
        assert '"sent":42' in shown.replace(' ', '')
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0


def test_five_commands_lead_to_a_view_of_django_whose_function_runs(tmp_path):
    django = pytest.importorskip('django')
    text = (SOURCE / 'README.md').read_text().split('### A view of Django')[1].split('\n## ')[0]
    first, *steps = re.search(r'```sh\n(.*?)```', text, re.DOTALL)[1].splitlines()
    files = dict(re.findall(r'```py (\S+)\n(.*?)```', text, re.DOTALL))
    assert len(steps) == 4
    port = free_port()
    environment = {'PATH': f'{tmp_path}/.venv/bin:/usr/bin:/bin', 'HOME': os.environ['HOME']}
    started = []

    def step(line):
        done = subprocess.run(['sh', '-c', line], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f'{line}: {done.stdout}{done.stderr}'
        return done.stdout

    offline = f'pip install -q --no-index {os.environ["WEIR_WHEEL"]} && pip install -q django=={django.__version__}'
    assert 'pip install weir django' in first
    step(first.replace('pip install weir django', offline))
    step(steps[0])
    for path, content in files.items():
        with open(tmp_path / path, 'a' if path.endswith('settings.py') else 'w') as file:
            file.write(content)
    step(steps[1])
    try:
        for line in steps[2].rstrip('&').split(' & '):
            line = line.replace('runserver', f'runserver {port}')
            started.append(subprocess.Popen(['sh', '-c', line], cwd=tmp_path, env=environment, start_new_session=True))
        id = json.loads(step(steps[3].replace(':8000', f':{port}')))['execution']
        step(f'python manage.py weir wait {id} --timeout 60s')
        assert id[:8] in step('python manage.py weir list')
        assert 'welcome to acme, ada' in step(f'python manage.py weir show {id} --json')
    finally:
        for child in started:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait(60)
