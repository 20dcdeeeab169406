/* The file is read at each call, because operators rotate tokens. A token must never appear in a message. */
#include "base/bearer_token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"

#define VARIABLE_MARK "env:"

bool bearer_token_read(const char *from, char *to, size_t size)
{
    INVARIANT(from != NULL && to != NULL && size > 0);
    to[0] = '\0';
    if (strncmp(from, VARIABLE_MARK, sizeof VARIABLE_MARK - 1) == 0) {
        const char *value = getenv(from + sizeof VARIABLE_MARK - 1);
        text_copy(to, size, value == NULL ? "" : value);
    } else {
        FILE *file = fopen(from, "re");
        size_t length = file == NULL ? 0 : fread(to, 1, size - 1, file);
        to[length] = '\0';
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    to[strcspn(to, "\r\n")] = '\0';
    for (const char *c = to; *c != '\0'; c++) {
        if (*c < ' ' || *c > '~') {
            to[0] = '\0';
        }
    }
    return to[0] != '\0';
}

bool bearer_token_is_open(const char *from)
{
    struct stat facts;
    INVARIANT(from != NULL);
    bool is_file =
        strncmp(from, VARIABLE_MARK, sizeof VARIABLE_MARK - 1) != 0 && stat(from, &facts) == 0 && S_ISREG(facts.st_mode);
    return is_file && (facts.st_mode & S_IRWXO) != 0;
}
