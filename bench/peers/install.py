"""Installs the pinned versions of the queues into the build folder, from their registries: npm ci, go build, Maven, and pip
in a virtual environment. A stamp with the hash of everything that decides the result skips an installation that exists.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
NODE_MIN = (22, 18)  # graphile-worker; pg-boss needs 22.12
GO_MIN = (1, 21)  # fetches by itself the version that go.mod names
INSTALL_SECONDS = 1200


class InstallError(Exception):
    """The text says what is missing and what to install."""


def run(words, what, **options):
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=INSTALL_SECONDS, **options)
    except subprocess.TimeoutExpired as error:
        raise InstallError(f'{what}: `{" ".join(words[:3])}` took longer than {INSTALL_SECONDS} s') from error
    if done.returncode != 0:
        raise InstallError(f'{what}: `{" ".join(words[:3])}` ended with {done.returncode}:\n{done.stdout.strip()[-2000:]}')
    return done.stdout


def tool(name, what, package):
    path = shutil.which(name)
    if path is None:
        raise InstallError(f'`{name}` is not installed; it is needed for {what} (Debian: the package {package})')
    return path


def hash_of(paths, *more):
    """Of files below this folder, and of the texts `more`."""
    digest = hashlib.sha256(repr((paths, more)).encode())
    for path in paths:
        with open(os.path.join(HERE, path), 'rb') as file:
            digest.update(file.read())
    return digest.hexdigest()


def once(target, stamp, make, say, what):
    """Calls `make` unless the folder has this stamp. An interrupted installation leaves no stamp."""
    path = os.path.join(target, 'stamp')
    try:
        with open(path) as file:
            if file.read() == stamp:
                return
    except OSError:
        pass
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    say(f'installing {what}')
    make()
    with open(path, 'w') as file:
        file.write(stamp)


def require(program, version, minimum, what):
    """`version`: what the program prints of itself."""
    if tuple(map(int, re.findall(r'\d+', version)[:2])) < minimum:
        wanted = '.'.join(map(str, minimum))
        raise InstallError(f'{what}: version {wanted} or newer of {os.path.basename(program)} is needed; {program} is '
                           f'{version.strip()}')


def node_program(folder):
    """The Node.js of the lock file, which npm installs on Linux (x86_64, arm64); elsewhere the one in the path."""
    own = os.path.join(folder, 'node_modules/.bin/node')
    what = 'graphile-worker, pg-boss and BullMQ'
    program = own if os.path.exists(own) else tool('node', what, 'nodejs')
    require(program, run([program, '--version'], what), NODE_MIN, what)
    return program


def install_node(build, say):
    """Command prefix: the words before the name of a program of node/."""
    folder = os.path.join(build, 'node')
    what = 'graphile-worker, pg-boss and BullMQ'
    locks = ['node/package.json', 'node/package-lock.json']

    def make():
        for path in locks:
            shutil.copy(os.path.join(HERE, path), folder)
        # The Node.js that runs npm only installs; the programs run with the one of the lock file.
        npm = tool('npm', what, 'npm')
        run([npm, 'ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], what, cwd=folder)
    once(folder, hash_of(locks), make, say, what)
    for name in os.listdir(os.path.join(HERE, 'node')):
        if name.endswith('.mjs'):
            shutil.copy(os.path.join(HERE, 'node', name), folder)  # they find their modules beside themselves
    program = node_program(folder)
    return lambda name, *words: [program, os.path.join(folder, name), *words]


def install_river(build, say):
    folder = os.path.join(build, 'river')
    go = tool('go', 'River', 'golang-go')
    version = run([go, 'version'], 'River')
    require(go, version, GO_MIN, 'River')

    def make():
        run([go, 'build', '-trimpath', '-o', os.path.join(folder, 'river'), '.'], 'River', cwd=os.path.join(HERE, 'river'))
    once(folder, hash_of(['river/go.mod', 'river/go.sum', 'river/main.go'], version), make, say, 'River')
    return lambda *words: [os.path.join(folder, 'river'), *words]


def install_python(build, say):
    folder = os.path.join(build, 'python')
    what = 'Procrastinate, Celery, huey and DBOS'

    def make():
        run([sys.executable, '-m', 'venv', '--clear', os.path.join(folder, 'venv')],
            f'{what} (Debian: the package python3-venv)')
        run([os.path.join(folder, 'venv/bin/pip'), 'install', '--disable-pip-version-check', '--quiet', '-r',
             os.path.join(HERE, 'python/requirements.txt')], what)
    once(folder, hash_of(['python/requirements.txt'], sys.version), make, say, what)
    return lambda name, *words: [os.path.join(folder, 'venv/bin/python'), os.path.join(HERE, 'python', name), *words]


def install_weir(build, wheel, package, say):
    """The packages of weir beside the other queues of the same language, in the folders of install()."""
    def hash_of_file(path):
        with open(path, 'rb') as file:
            return hashlib.sha256(file.read()).hexdigest()

    def install_wheel():
        run([os.path.join(build, 'python/venv/bin/pip'), 'install', '--disable-pip-version-check', '--quiet', '--no-index',
             '--force-reinstall', wheel], 'the wheel of weir')

    def unpack_package():
        modules = os.path.join(build, 'node/node_modules')
        folder = os.path.join(modules, 'weir')
        shutil.rmtree(folder, ignore_errors=True)
        with tarfile.open(package) as archive:
            archive.extractall(modules)
        os.rename(os.path.join(modules, 'package'), folder)

    for language, path, make in (('python', wheel, install_wheel), ('node', package, unpack_package)):
        # The stamp of the other queues is part of it: a new installation of them has no weir.
        with open(os.path.join(build, language, 'stamp')) as file:
            stamp = file.read() + hash_of_file(path)
        once(os.path.join(build, f'weir-{language}'), stamp, make, say, f'weir for {language}')


def install_java(build, say):
    folder = os.path.join(build, 'java')
    what = 'nFlow'
    java = tool('java', what, 'openjdk-17-jdk-headless')
    maven = tool('mvn', what, 'maven')
    source = 'java/src/main/java/weir/bench/NflowPeer.java'
    path = os.path.join(folder, 'classpath')

    def make():
        shutil.copytree(os.path.join(HERE, 'java/src'), os.path.join(folder, 'src'))
        shutil.copy(os.path.join(HERE, 'java/pom.xml'), folder)
        run([maven, '-q', '-B', 'compile', 'dependency:build-classpath', f'-Dmdep.outputFile={path}'], what, cwd=folder)
    once(folder, hash_of(['java/pom.xml', source], run([java, '--version'], what)), make, say, what)

    def words(*more):
        with open(path) as file:
            classes = os.path.join(folder, 'target/classes') + ':' + file.read().strip()
        return [java, '-cp', classes, 'weir.bench.NflowPeer', *more]
    return words


INSTALLERS = {'node': install_node, 'river': install_river, 'python': install_python, 'java': install_java}


def install(build, kinds, say):
    """Kind -> a function that makes the words of a command, or an InstallError. `say` takes a line for the user."""
    os.makedirs(build, exist_ok=True)
    prefixes = {}
    for kind in kinds:
        try:
            prefixes[kind] = INSTALLERS[kind](os.path.abspath(build), say)
        except InstallError as error:
            prefixes[kind] = error
    return prefixes
