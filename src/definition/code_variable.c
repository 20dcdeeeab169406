/* The list of environment variables that make a program run code. Pure; any thread.
 *
 * A value in one of these variables is run, or names a file to run, so an expression in it is refused (step_reader.c). The
 * list is grouped by the kind of program; a new widespread program adds its variables here. Names are compared exactly,
 * because variables of the environment are case-sensitive.
 */
#include "definition/code_variable.h"

#include <stddef.h>
#include <string.h>

/* A name that ends in '*' stands for all that begin so. */
static const char *const names[] = {
    /* the program that a name stands for, and the libraries in it */
    "PATH", "LD_*", "DYLD_*", "GCONV_PATH", "GLIBC_TUNABLES", "OPENSSL_CONF", "OPENSSL_ENGINES", "OPENSSL_MODULES",
    /* shells */
    "ENV", "BASH_ENV", "BASH_FUNC_*", "BASHOPTS", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "ZDOTDIR", "SHELL",
    /* interpreters */
    "PYTHON*", "PERL5*", "PERLLIB", "RUBYOPT", "RUBYLIB", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "NODE_OPTIONS",
    "NODE_PATH", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE*", "R_ENVIRON*", "R_LIBS*",
    "TCLLIBPATH", "AWKPATH", "AWKLIBPATH", "JULIA_LOAD_PATH", "GUILE_LOAD_PATH", "EMACSLOADPATH", "VIMINIT", "EXINIT",
    "CLASSPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "JAVA_OPTS", "MAVEN_OPTS", "GRADLE_OPTS",
    "ANT_OPTS", "DOTNET_STARTUP_HOOKS", "CORECLR_*", "COR_PROFILER*", "ERL_FLAGS", "ERL_AFLAGS", "ERL_ZFLAGS",
    /* tools that start another program */
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_PROXY_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "GIT_EDITOR",
    "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_EXEC_PATH", "GIT_TEMPLATE_DIR", "GIT_CONFIG*", "SSH_ASKPASS", "SUDO_ASKPASS",
    "RSYNC_RSH", "CVS_RSH", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS", "PAGER", "MANPAGER", "EDITOR", "VISUAL",
    "BROWSER", "LESSOPEN", "LESSCLOSE", "PSQLRC", "PSQL_EDITOR", "PSQL_PAGER", "TAR_OPTIONS"};

bool code_variable_is(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t length = strlen(names[i]);
        bool is_prefix = names[i][length - 1] == '*';
        if (is_prefix ? strncmp(name, names[i], length - 1) == 0 : strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}
