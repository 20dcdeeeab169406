"""tools/install_temporal.sh when several run at once, fail or are killed. Go and pip are stand-ins here, found by the PATH:
what they fetch is not what is tested."""

import os
import signal
import subprocess
import sys

from harness import run_tests

SCRIPT = os.path.join(os.environ['WEIR_SOURCE_ROOT'], 'tools', 'install_temporal.sh')

# Says that it began, and builds when the test lets it: the pipe gives an answer for each build.
GO = '''#!/bin/sh
[ "$1" != env ] || { echo go1.19.8; exit 0; }
echo building >>"$RECORD"
read -r answer <"$PERMISSION"
[ "$answer" = yes ] || { echo 'no such module' >&2; exit 1; }
mkdir -p "$GOBIN" && echo server >"$GOBIN/temporal"
'''
PYTHON = '''#!/bin/sh
mkdir -p "$3/bin" && printf '#!/bin/sh\\n' >"$3/bin/python" && chmod +x "$3/bin/python"
'''


class Installers:
    def __init__(self, weir):
        self.weir = weir
        os.mkdir(weir.path('programs'))
        for name, text in (('go', GO), ('python3', PYTHON)):
            os.chmod(weir.write('programs/' + name, text), 0o755)
        os.mkfifo(weir.path('permission'))
        self.environment = {'PATH': weir.path('programs') + ':/usr/bin:/bin', 'HOME': weir.path('home'),
                            'WEIR_TEST_CACHE': weir.path('cache'), 'RECORD': weir.path('record'),
                            'PERMISSION': weir.path('permission')}

    def start(self, *words, held=()):
        process = subprocess.Popen(['sh', SCRIPT, *words], env=self.environment, stdin=subprocess.DEVNULL, pass_fds=held,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.weir.background.append(process)
        return process

    def answer(self, word):
        """Waits until a build asks."""
        with open(self.weir.path('permission'), 'w') as permission:
            permission.write(word + '\n')

    def builds(self):
        with open(self.weir.path('record')) as record:
            return len(record.readlines())

    def folder(self):
        return self.start('where').communicate()[0].strip()

    def assert_installed(self):
        """All of it is there, and beside it nothing but the lock and the log."""
        folder = self.folder()
        assert sorted(os.listdir(folder)) == ['bin', 'complete', 'venv'], os.listdir(folder)
        name = os.path.basename(folder)
        found = sorted(os.listdir(self.weir.path('cache')))
        assert found == [name, name + '.lock', name + '.log'], found


def ended(process, code):
    out, err = process.communicate(timeout=100)
    assert process.returncode == code, err
    return out, err


def of_two_at_once_one_installs_and_the_other_waits(weir):
    installers = Installers(weir)
    first = installers.start()
    assert 'building' in first.stderr.readline()
    second = installers.start()
    assert 'waiting' in second.stderr.readline()
    installers.answer('yes')
    ended(first, 0)
    out, _ = ended(second, 0)
    assert out.strip() == installers.folder()
    assert installers.builds() == 1, installers.builds()
    installers.assert_installed()


def who_waited_for_one_that_fails_tries_himself(weir):
    installers = Installers(weir)
    first = installers.start()
    assert 'building' in first.stderr.readline()
    second = installers.start()
    assert 'waiting' in second.stderr.readline()
    installers.answer('no')
    _, err = ended(first, 1)
    log = installers.folder() + '.log'
    assert f'could not be built: see {log}' in err and 'go1.19.8' in err, err
    installers.answer('yes')
    ended(second, 0)
    installers.assert_installed()


def what_a_killed_one_left_is_replaced(weir):
    installers = Installers(weir)
    ends, held = os.pipe()
    first = installers.start(held=[held])
    os.close(held)
    assert 'building' in first.stderr.readline()
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    # Its build may outlive it by a moment, and must not get the answer: each of its processes holds the pipe.
    assert os.read(ends, 1) == b''
    os.close(ends)
    folder = installers.folder()
    assert not os.path.exists(folder)
    # As older versions of the script left it: in its place, and not whole.
    os.makedirs(os.path.join(folder, 'bin'))
    second = installers.start()
    installers.answer('yes')
    ended(second, 0)
    installers.assert_installed()


def a_newer_server_is_installed_beside_the_other(weir):
    installers = Installers(weir)
    first = installers.start()
    installers.answer('yes')
    ended(first, 0)
    folder = installers.folder()
    installers.environment['WEIR_TEMPORAL_VERSION'] = '0.1'
    _, err = ended(installers.start(), 2)
    newer = err.split()[-1]
    assert 'set it to 1.29.1 or ' in err and newer != '1.29.1', err
    installers.environment['WEIR_TEMPORAL_VERSION'] = newer
    second = installers.start()
    installers.answer('yes')
    ended(second, 0)
    assert installers.folder() != folder and newer in installers.folder(), installers.folder()
    assert sorted(os.listdir(installers.folder())) == ['bin', 'complete', 'venv']
    assert installers.builds() == 2, installers.builds()


if __name__ == '__main__':
    sys.exit(run_tests(sys.modules[__name__], sys.argv[1]))
