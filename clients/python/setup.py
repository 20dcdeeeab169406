"""Builds weir._weir against a built libweir: WEIR_BUILD names meson's build folder, WEIR_SOURCE the checkout.

WEIR_CARRIER: a library that depends on OpenSSL (tools/build_python_wheel.sh). Without it the one of the system is loaded.
"""

import os
import pathlib
import shutil

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = pathlib.Path(os.environ.get('WEIR_SOURCE', HERE.parent.parent))
BUILD = pathlib.Path(os.environ.get('WEIR_BUILD', SOURCE / 'build-release'))


class BuildWithLibrary(build_py):
    """Puts the library and the command beside the modules."""

    def run(self):
        super().run()
        library = BUILD / 'src' / 'libweir.so.0'
        extension = BUILD / 'src' / 'sqlite_extension' / 'libweir_sqlite.so'
        for built in (library, extension):
            if not built.exists():
                raise SystemExit(
                    f'{built} does not exist: build weir first (./dev build), or set WEIR_BUILD to its build folder'
                )
        package = pathlib.Path(self.build_lib) / 'weir'
        (package / 'bin').mkdir(parents=True, exist_ok=True)
        shutil.copy(library.resolve(), package / 'libweir.so.0')
        shutil.copy(extension, package / 'libweir_sqlite.so')
        if 'WEIR_CARRIER' in os.environ:
            shutil.copy(os.environ['WEIR_CARRIER'], package / 'libweir_ssl.so')
        shutil.copy(BUILD / 'weir', package / 'bin' / 'weir')


class StableWheel(bdist_wheel):
    """One wheel for CPython 3.9 and later."""

    def finalize_options(self):
        self.py_limited_api = 'cp39'
        super().finalize_options()


setup(
    cmdclass={'build_py': BuildWithLibrary, 'bdist_wheel': StableWheel},
    ext_modules=[
        Extension(
            'weir._weir',
            ['src/weir/_weir.c', 'src/weir/_node.c', 'src/weir/_problems.c'],
            include_dirs=[str(SOURCE / 'include'), 'src/weir'],
            library_dirs=[str(BUILD / 'src')],
            libraries=['weir'],
            runtime_library_dirs=['$ORIGIN'],
            define_macros=[('Py_LIMITED_API', '0x03090000')],
            # A function that the stable interface lacks would be taken for one that returns an int.
            extra_compile_args=['-std=gnu17', '-Wall', '-Wextra', '-Wshadow', '-Werror=implicit-function-declaration'],
            py_limited_api=True,
            depends=['src/weir/_binding.h'],
        )
    ],
)
