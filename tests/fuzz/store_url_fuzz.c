/* A store URL of PostgreSQL. Whatever it is, its text for people holds no password, and a refusal quotes none. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/link/address.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "s3cr3t-Pa55"

/* Behind a "!" the input goes on after the password. */
static char *make_url(const uint8_t *data, size_t size)
{
    char *url = malloc(size + sizeof "//user:@" SECRET);
    char *to = url;
    const char *from = (const char *)data;
    if (url == NULL) {
        return NULL;
    }
    if (size > 0 && data[0] == '!') {
        to = stpcpy(to, "//user:" SECRET "@");
        from++;
        size--;
    }
    for (size_t i = 0; i < size && from[i] != '\0'; i++) {
        *to++ = from[i];
    }
    *to = '\0';
    return url;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct address *address = NULL;
    struct weir_error error = {.status = WEIR_OK};
    char *url = memmem(data, size, SECRET, strlen(SECRET)) != NULL ? NULL : make_url(data, size);
    if (url == NULL) { /* the secret is in its place alone */
        return 0;
    }
    enum weir_status status = address_parse(url, &address, &error);
    if (status == WEIR_OK) {
        INVARIANT(strstr(address->shown, SECRET) == NULL);
        INVARIANT(address->host_count >= 1 && address->host_count <= ADDRESS_HOSTS_MOST);
        (void)address_optional_tls(address);
        address_release(address);
    } else {
        INVARIANT(error.message[0] != '\0' && strstr(error.message, SECRET) == NULL && strstr(error.hint, SECRET) == NULL);
    }
    free(url);
    return 0;
}
