"""The packages of `./dev package`, as a user gets them: installed in systems of their own, which podman runs.

usage: package_test.py FOLDER [TEST...]     (WEIR_PACKAGES_AGAIN: a second build of the same commit)
                                            (WEIR_PACKAGE_ROOT: a tar of Debian with systemd and the libraries of weir)

Nothing in the systems reaches a network. The control groups of the machine decide which runtime podman can use; runc takes
both versions. Limits are given, because a machine may not allow podman's defaults.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile

from harness import run_tests
from waiting import wait_for

PODMAN = ('podman', '--runtime', 'runc')
LIMITS = ('--ulimit=nofile=1024:4096', '--ulimit=nproc=1000:1000', '--network=none')
SYSTEM = 'localhost/weir-test-system'
# docs/install.md names these: the C library, OpenSSL, SQLite; libjq is carried along.
NEEDED = {'libc.so.6', 'libm.so.6', 'ld-linux-x86-64.so.2', 'libssl.so.3', 'libcrypto.so.3', 'libsqlite3.so.0',
          'libjq.so.1'}
NOT_NEEDED = 'libjq1 libonig5 libjansson4 libfyaml0 libnghttp2-14 libprotobuf-c1'
PROGRAM = '''#include <stdio.h>
#include <weir/weir.h>
int main(void) { return puts(weir_version()) < 0; }
'''


def run(*words, code=0, **options):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
                          **options)
    assert done.returncode == code, f'{words}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}'
    return done.stdout


def podman(*words, code=0):
    return run(*PODMAN, *words, code=code)


def package(case, pattern):
    found = glob.glob(os.path.join(case.binary, pattern))
    assert len(found) == 1, f'{pattern}: {found}'
    return found[0]


class System:
    """A Debian with systemd as its first process, without weir."""

    def __init__(self, weir):
        self.name = 'weir-test-' + os.path.basename(weir.folder)
        podman('run', '--detach', '--name', self.name, *LIMITS, '--systemd=always', SYSTEM, '/sbin/init')
        wait_for('the start of systemd', lambda: self.state() in ('running', 'degraded'))

    def state(self):
        done = subprocess.run((*PODMAN, 'exec', self.name, 'systemctl', 'is-system-running'), capture_output=True,
                              text=True, check=False, timeout=60)
        return done.stdout.strip()

    def run(self, script, code=0):
        return podman('exec', self.name, 'sh', '-c', script, code=code)

    def copy(self, path, place):
        podman('cp', path, f'{self.name}:{place}')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        podman('rm', '--force', '--time', '0', self.name)


def make_older(case):
    """The package weir with a lower version, which is all that dpkg looks at."""
    tree = case.path('older')
    run('dpkg-deb', '--raw-extract', package(case, 'weir_*.deb'), tree)
    control = os.path.join(tree, 'DEBIAN', 'control')
    with open(control) as file:
        text = file.read()
    with open(control, 'w') as file:
        file.write(re.sub('(?m)^Version: .*$', 'Version: 0.0.1', text))
    run('dpkg-deb', '--root-owner-group', '--build', tree, case.path('weir-older.deb'))
    return case.path('weir-older.deb')


def a_second_build_gives_the_same_bytes(weir):
    again = os.environ['WEIR_PACKAGES_AGAIN']
    assert sorted(os.listdir(weir.binary)) == sorted(os.listdir(again))
    assert len(os.listdir(weir.binary)) == 8, os.listdir(weir.binary)
    for name in os.listdir(weir.binary):
        run('cmp', os.path.join(weir.binary, name), os.path.join(again, name))


def a_build_refuses_a_folder_with_files_and_an_unknown_package(weir):
    build = os.path.join(os.environ['WEIR_SOURCE_ROOT'], 'packaging', 'build.py')
    weir.write('file', 'kept')
    for words, error in (((weir.folder,), 'is not empty: name a new folder'),
                         ((weir.path('new'), 'rpm'), 'usage: build.py'), ((), 'usage: build.py')):
        done = subprocess.run((sys.executable, build, *words), capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 1 and error in done.stderr, done
    # Without the history there is no commit.
    for name in ('build.py', 'image.py', 'sbom.py'):
        with open(os.path.join(os.path.dirname(build), name)) as file:
            os.makedirs(weir.path('copy/packaging'), exist_ok=True)
            weir.write('copy/packaging/' + name, file.read())
    done = subprocess.run((sys.executable, weir.path('copy/packaging/build.py'), weir.path('new')), capture_output=True,
                          text=True, check=False, timeout=60)
    assert done.returncode == 1 and 'clone the repository' in done.stderr, done
    with open(weir.path('file')) as file:
        assert file.read() == 'kept'


def checksums_and_materials_cover_each_package(weir):
    listed = run('sha256sum', '--check', 'SHA256SUMS', cwd=weir.binary)
    assert listed.count(': OK') == len(os.listdir(weir.binary)) - 1, listed
    with open(package(weir, '*.spdx.json')) as file:
        document = json.load(file)
    assert document['spdxVersion'] == 'SPDX-2.3' and document['SPDXID'] == 'SPDXRef-DOCUMENT'
    entries = {entry['SPDXID']: entry for entry in document['packages']}
    assert len(entries) == len(document['packages'])
    inside = {}
    for relation in document['relationships']:
        one, other = relation['spdxElementId'], relation['relatedSpdxElement']
        assert one in entries or one == 'SPDXRef-DOCUMENT'
        inside.setdefault(entries.get(one, {'name': ''})['name'], {})[entries[other]['name']] = relation['relationshipType']
    ours = sorted(name for name in os.listdir(weir.binary) if not name.endswith('.spdx.json') and name != 'SHA256SUMS')
    assert sorted(inside['']) == ours, inside['']
    for entry in entries.values():
        if entry['name'] in ours:
            with open(os.path.join(weir.binary, entry['name']), 'rb') as file:
                assert entry['checksums'][0]['checksumValue'] == hashlib.file_digest(file, 'sha256').hexdigest()
    of_tarball = {'libjansson-dev', 'libfyaml-dev', 'libnghttp2-dev', 'libprotobuf-c-dev', 'libjq1', 'libonig5'}
    assert set(inside[os.path.basename(package(weir, '*.tar.gz'))]) == of_tarball
    of_image = inside[os.path.basename(package(weir, '*.oci.tar'))]
    assert of_image['weir'] == of_image['libpq5'] == of_image['libssl3'] == 'CONTAINS', of_image
    assert inside[os.path.basename(package(weir, 'weir_*.deb'))]['libsqlite3-0'] == 'DEPENDS_ON'


def lintian_reports_no_error_and_no_warning(weir):
    debs = sorted(glob.glob(os.path.join(weir.binary, '*.deb')))
    assert len(debs) == 4, debs
    # Its remark on the rights of root goes to stderr.
    assert run('lintian', '--fail-on', 'error,warning', *debs) == ''


def the_manual_has_no_error_of_layout(weir):
    run('dpkg-deb', '--extract', package(weir, 'weir_*.deb'), weir.path('tree'))
    done = subprocess.run(('man', '--warnings', '-l', weir.path('tree/usr/share/man/man1/weir.1.gz')), check=True,
                          capture_output=True, text=True, env={**os.environ, 'LC_ALL': 'C.UTF-8', 'MANWIDTH': '100'})
    assert done.stderr == '' and 'weir serve' in done.stdout, done.stderr


def debian_installs_starts_upgrades_and_purges_weir(weir):
    install = 'DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install '
    with System(weir) as system:
        system.copy(make_older(weir), '/srv/older.deb')
        system.copy(package(weir, 'weir_*.deb'), '/srv/weir.deb')
        system.run(install + '/srv/older.deb')
        assert system.run('systemd-analyze --man=no verify weir.service 2>&1') == ''
        system.run('systemd-analyze --no-pager security --offline=true --threshold=40 /lib/systemd/system/weir.service')
        # Started by the package, as a user of its own, with its store.
        wait_for('the start of the node', lambda: system.run('systemctl is-active weir || true').strip() == 'active')
        assert system.run('ps -o user= -C weir | sort -u').split() == ['weir']
        assert system.run('stat -c "%U %a" /var/lib/weir /var/lib/weir/weir.db').split() == ['weir', '700', 'weir', '600']
        assert 'ok books' in system.run('runuser -u weir -- weir doctor')
        system.run("runuser -u weir -- weir workspace set acme --plan pro; echo 'log.level: debug' >>/etc/weir/weir.yaml")
        assert 'weir' in system.run('bash -c "source /usr/share/bash-completion/completions/weir; complete -p weir"')

        # An upgrade restarts the node, and keeps the store and the settings.
        first = system.run('systemctl show --property=MainPID --value weir')
        system.run(install + '/srv/weir.deb')
        assert '0.0.1' not in system.run("dpkg-query --show --showformat='${Version}' weir")
        wait_for('the new node', lambda: system.run('systemctl is-active weir || true').strip() == 'active')
        second = system.run('systemctl show --property=MainPID --value weir')
        assert second not in (first, '0\n'), (first, second)
        assert 'acme' in system.run('runuser -u weir -- weir workspace list')
        assert 'log.level: debug' in system.run('cat /etc/weir/weir.yaml')

        # A node with wrong settings is not started again and again.
        system.run("echo 'no.such: setting' >>/etc/weir/weir.yaml; systemctl restart weir", code=1)
        assert system.run('systemctl show --property=ActiveState --value weir').strip() == 'failed'
        assert 'no.such' in system.run('journalctl --unit=weir --lines=20')

        system.run('apt-get -q -y remove weir')
        assert system.run('systemctl is-active weir || true').strip() != 'active'
        system.run('test -s /var/lib/weir/weir.db && test -s /etc/weir/weir.yaml && ! test -e /usr/bin/weir')
        system.run('apt-get -q -y purge weir')
        left = system.run('ls -d /var/lib/weir /etc/weir /etc/systemd/system/*/weir.service 2>/dev/null || true')
        assert left == '', left
        assert system.run('dpkg --list weir 2>/dev/null | grep "^[ir]" || true') == ''


def a_program_links_the_library_of_the_packages(weir):
    tree = weir.path('tree')
    for name in ('libweir0', 'libweir-dev'):
        run('dpkg-deb', '--extract', package(weir, name + '_*.deb'), tree)
    weir.write('program.c', PROGRAM)
    folder = os.path.dirname(glob.glob(tree + '/usr/lib/*/pkgconfig')[0])
    found = {**os.environ, 'PKG_CONFIG_SYSROOT_DIR': tree, 'PKG_CONFIG_LIBDIR': folder + '/pkgconfig:' +
             folder.removeprefix(tree) + '/pkgconfig:/usr/share/pkgconfig'}
    flags = run('pkg-config', '--cflags', '--libs', 'weir', env=found).split()
    run('cc', weir.path('program.c'), '-o', weir.path('program'), *flags)
    with open(os.path.join(os.environ['WEIR_SOURCE_ROOT'], 'VERSION')) as file:
        version = file.read()
    assert run(weir.path('program'), env={'LD_LIBRARY_PATH': folder}) == version


def the_tarball_needs_glibc_openssl_and_sqlite_alone(weir):
    with tarfile.open(package(weir, '*.tar.gz')) as tar:
        tar.extractall(weir.path(''))
    tree = glob.glob(weir.path('weir-*'))[0]
    binary = os.path.join(tree, 'bin', 'weir')
    assert set(re.findall(r'NEEDED.*\[(.*)\]', run('readelf', '--dynamic', binary))) <= NEEDED
    versions = []
    for path in (binary, *glob.glob(tree + '/lib/weir/*')):
        text = run('objdump', '--dynamic-syms', path)
        versions += [tuple(map(int, found.split('.'))) for found in re.findall(r'GLIBC_([0-9.]+)', text)]
    assert max(versions) <= (2, 36), max(versions)
    with System(weir) as system:
        system.run('dpkg --purge ' + NOT_NEEDED)
        system.copy(package(weir, '*.tar.gz'), '/srv/weir.tar.gz')
        system.run('tar -xzf /srv/weir.tar.gz --strip-components=1 -C /usr/local')
        assert '/usr/local/bin/../lib/weir/libonig.so.5' in system.run('ldd /usr/local/bin/weir')
        assert '100 done' in system.run('cd /tmp && weir demo --once 2>&1')
        system.run('test -s /usr/local/share/doc/weir/licences/libjq1')


def the_image_runs_without_root_on_a_root_that_cannot_be_written(weir):
    loaded = podman('load', '--quiet', '--input', package(weir, '*.oci.tar'))
    image = loaded.split(': ')[1].strip()
    assert image.startswith('localhost/weir:0.'), loaded
    facts = json.loads(podman('image', 'inspect', image))[0]['Config']
    assert re.fullmatch('[1-9][0-9]*:[1-9][0-9]*', facts['User']), facts['User']
    name = 'weir-test-' + os.path.basename(weir.folder)
    options = (*LIMITS, '--read-only', '--cap-drop=all', '--security-opt=no-new-privileges',
               '--volume', name + ':/var/lib/weir')
    try:
        assert 'sqlite:/var/lib/weir/weir.db' in podman('run', '--rm', *options, image, 'store', 'init')
        podman('run', '--detach', '--name', name, '--health-cmd', 'weir doctor', *options, image, 'serve', '--allow-exec')
        wait_for('the start of the node', lambda: 'node.started' in podman('logs', name))
        podman('healthcheck', 'run', name)
        podman('exec', name, 'touch', '/etc/file', code=1)
        podman('exec', name, 'weir', 'schedule', 'next', '--cron', '@daily', '--zone', 'Europe/Berlin')
        weir.write('upper.yaml', 'name: upper\nsteps:\n  one:\n    exec: [echo, "${.input.name | ascii_upcase}"]\n')
        with open(weir.path('upper.yaml')) as file:
            podman('exec', name, 'sh', '-c', f"echo '{file.read()}' >/var/lib/weir/upper.yaml")
        podman('exec', name, 'weir', 'workspace', 'set', 'acme', '--plan', 'pro')
        podman('exec', name, 'weir', 'workflow', 'apply', '/var/lib/weir/upper.yaml')
        id = podman('exec', name, 'weir', 'enqueue', '-w', 'acme', 'upper', '--params', '{"name": "ada"}').strip()
        assert 'ADA' in podman('exec', name, 'weir', 'wait', id)
        podman('stop', '--time', '60', name)
        assert podman('inspect', '--format', '{{.State.ExitCode}}', name).strip() == '0'
    finally:
        podman('rm', '--force', '--time', '0', '--ignore', name)
        podman('volume', 'rm', '--force', name)
        podman('rmi', '--force', image)


def the_image_has_a_health_check_and_sound_digests(weir):
    blobs = {}
    with tarfile.open(package(weir, '*.oci.tar')) as tar:
        for member in tar:
            data = tar.extractfile(member).read()
            blobs[member.name] = data
            if member.name.startswith('blobs/'):
                assert member.name == 'blobs/sha256/' + hashlib.sha256(data).hexdigest()
    assert json.loads(blobs['oci-layout']) == {'imageLayoutVersion': '1.0.0'}
    def blob(entry):
        data = blobs['blobs/' + entry['digest'].replace(':', '/')]
        assert len(data) == entry['size'], entry
        return json.loads(data)
    manifest = blob(json.loads(blobs['index.json'])['manifests'][0])
    assert blob(manifest['config'])['config']['Healthcheck']['Test'] == ['CMD', '/usr/bin/weir', 'doctor']


if __name__ == '__main__':
    for program in ('podman', 'runc', 'lintian', 'man'):
        assert shutil.which(program), f'{program} is missing: ./dev check package installs it'
    podman('import', '--quiet', os.environ['WEIR_PACKAGE_ROOT'], SYSTEM)
    try:
        failed = run_tests(sys.modules[__name__], sys.argv[1])
    finally:
        podman('rmi', '--force', SYSTEM)
    sys.exit(failed)
