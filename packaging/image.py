"""The OCI image: Debian's essential packages and the package weir, in one layer.

mmdebstrap makes the file system from the archive that this machine uses itself. The layout around it is a tar of JSON files
(the OCI image specification, version 1.0), written here. The node runs as the user of the package, needs no file to be
writable but its volume, and has a health check.

usage, for the tests alone: image.py TAR PACKAGE...     a file system of Debian with these packages
"""

import glob
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

import sbom

ARCHITECTURES = {'x86_64': 'amd64', 'aarch64': 'arm64'}
# systemd itself is not needed to make the user; libpq5 is loaded for a store on PostgreSQL, libcurl4 for payload codecs.
# tzdata is not essential to Debian: schedules read its time zones.
INCLUDED = 'weir,systemd-standalone-sysusers,libpq5,libcurl4,libmicrohttpd12,ca-certificates,tzdata'
STATE = '/var/lib/weir'
SECOND = 1_000_000_000
CREATOR = 'weir packaging'


def sources_of_debian():
    """The lists of this machine that name Debian's archive; other archives are not part of the image."""
    texts = []
    for path in sorted(glob.glob('/etc/apt/sources.list') + glob.glob('/etc/apt/sources.list.d/*.list') +
                       glob.glob('/etc/apt/sources.list.d/*.sources')):
        with open(path, encoding='utf-8') as file:
            text = file.read()
        if 'debian-archive-keyring' in text or 'deb.debian.org' in text:
            texts.append((path, text))
    if not texts:
        sys.exit('package: no file in /etc/apt names the archive of Debian: the image is made of its packages')
    return texts


def release_of_debian():
    with open('/etc/os-release', encoding='utf-8') as file:
        return dict(line.rstrip().split('=', 1) for line in file if '=' in line)['VERSION_CODENAME']


def write_lists(folder):
    """Copies of the machine's lists, for mmdebstrap."""
    paths = []
    for number, (path, text) in enumerate(sources_of_debian()):
        ending = 'sources' if path.endswith('.sources') else 'list'
        paths.append(os.path.join(folder, f'{number}.{ending}'))
        with open(paths[-1], 'w', encoding='utf-8') as file:
            file.write(text)
    return paths


def mmdebstrap(*words, environment=None):
    done = subprocess.run(('mmdebstrap', '--mode=auto', *words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, env=environment)
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
        sys.exit('package: mmdebstrap could not make a file system; the lines above give the reason')


def make_root(commit, folder, debs):
    """A tar of the file system of the image."""
    shelf = os.path.join(folder, 'shelf')
    os.mkdir(shelf)
    for deb in debs:
        shutil.copy(deb, shelf)
    listed = subprocess.run(('dpkg-scanpackages', '--multiversion', '.'), cwd=shelf, check=True, capture_output=True).stdout
    with open(os.path.join(shelf, 'Packages'), 'wb') as file:
        file.write(listed)
    tar = os.path.join(folder, 'root.tar')
    mmdebstrap('--variant=essential', f'--include={INCLUDED}',
               '--dpkgopt=path-exclude=/usr/share/doc/*', '--dpkgopt=path-include=/usr/share/doc/*/copyright',
               '--dpkgopt=path-exclude=/usr/share/man/*', '--dpkgopt=path-exclude=/usr/share/locale/*',
               # The shelf's place differs from build to build, and the image has no apt.
               '--customize-hook=rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d',
               '--customize-hook=rm -f "$1"/etc/resolv.conf "$1"/etc/hostname "$1"/var/log/dpkg.log "$1"/var/log/apt/*',
               f'--customize-hook=install -d -m 700 "$1"{STATE} && chroot "$1" chown weir:weir {STATE}',
               release_of_debian(), tar, *write_lists(folder), f'deb [trusted=yes] copy://{shelf} ./',
               environment=commit.environment)
    return tar


def make_system(path, packages):
    """A tar of a Debian with apt and these packages, for the tests."""
    with tempfile.TemporaryDirectory(prefix='weir-package-') as folder:
        mmdebstrap('--variant=apt', '--include=' + ','.join(packages), release_of_debian(), path, *write_lists(folder))


def facts_of(tar, folder):
    """The ids of the user, and the packages that are inside."""
    root = os.path.join(folder, 'facts')
    with tarfile.open(tar) as members:
        passwd = members.extractfile('./etc/passwd').read().decode()
        os.makedirs(os.path.join(root, 'var/lib/dpkg/info'))
        with open(os.path.join(root, 'var/lib/dpkg/status'), 'wb') as status:
            status.write(members.extractfile('./var/lib/dpkg/status').read())
    fields = next(line.split(':') for line in passwd.splitlines() if line.startswith('weir:'))
    return f'{fields[2]}:{fields[3]}', sbom.installed((), root)


def configuration(commit, user, layer_digest):
    created = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(commit.time))
    return {
        'created': created, 'author': CREATOR, 'architecture': ARCHITECTURES.get(platform.machine(), platform.machine()),
        'os': 'linux',
        'config': {
            'User': user, 'Env': ['PATH=/usr/local/bin:/usr/bin:/bin', 'HOME=' + STATE], 'Entrypoint': ['/usr/bin/weir'],
            'Cmd': ['serve'], 'WorkingDir': STATE, 'Volumes': {STATE: {}}, 'StopSignal': 'SIGTERM',
            'Labels': {'org.opencontainers.image.version': commit.version, 'org.opencontainers.image.revision': commit.id,
                       'org.opencontainers.image.licenses': 'Apache-2.0', 'org.opencontainers.image.title': 'weir'},
            # Docker's own field; the OCI specification has none, and podman needs --health-cmd for such an image.
            'Healthcheck': {'Test': ['CMD', '/usr/bin/weir', 'doctor'], 'Interval': 30 * SECOND, 'Timeout': 10 * SECOND,
                            'StartPeriod': 20 * SECOND, 'Retries': 3},
        },
        'rootfs': {'type': 'layers', 'diff_ids': [layer_digest]},
        'history': [{'created': created, 'created_by': CREATOR}],
    }


class Layout:
    """A tar with the blobs of an image, each under its digest."""

    def __init__(self, path, moment):
        self.tar = tarfile.open(path, 'w', format=tarfile.USTAR_FORMAT)
        self.moment = moment

    def add(self, name, data):
        member = tarfile.TarInfo(name)
        member.size = len(data)
        member.mtime = self.moment
        self.tar.addfile(member, io.BytesIO(data))

    def add_blob(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        self.add('blobs/sha256/' + digest, data)
        return {'mediaType': f'application/vnd.oci.image.{kind}', 'digest': 'sha256:' + digest, 'size': len(data)}

    def add_json(self, value, kind):
        return self.add_blob(json.dumps(value, sort_keys=True).encode(), kind)


def build(commit, folder, debs):
    """Returns the path of the image and the packages inside."""
    tar = make_root(commit, folder, debs)
    user, packages = facts_of(tar, folder)
    with open(tar, 'rb') as file:
        layer = file.read()
    architecture = ARCHITECTURES.get(platform.machine(), platform.machine())
    path = os.path.join(folder, f'weir-{commit.version}-{architecture}.oci.tar')
    layout = Layout(path, commit.time)
    layout.add('oci-layout', b'{"imageLayoutVersion":"1.0.0"}')
    config = layout.add_json(configuration(commit, user, 'sha256:' + hashlib.sha256(layer).hexdigest()), 'config.v1+json')
    blob = layout.add_blob(gzip.compress(layer, 6, mtime=0), 'layer.v1.tar+gzip')
    manifest = layout.add_json({'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.manifest.v1+json',
                                'config': config, 'layers': [blob]}, 'manifest.v1+json')
    name = 'weir:' + commit.version.replace('~', '-')  # a tag has no "~"
    manifest['annotations'] = {'org.opencontainers.image.ref.name': name, 'io.containerd.image.name': 'localhost/' + name}
    layout.add('index.json', json.dumps({'schemaVersion': 2, 'manifests': [manifest]}, sort_keys=True).encode())
    layout.tar.close()
    return path, packages


if __name__ == '__main__':
    make_system(sys.argv[1], sys.argv[2:])
