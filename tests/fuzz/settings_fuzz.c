/* A weir.yaml. What is refused names its place; what is accepted has all its values within their limits. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/settings/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 16 * 1024 * 1024 };

static void look_at(const struct settings *settings)
{
    for (size_t i = 0; i < settings->node_count; i++) {
        struct settings own = settings_of_node(settings, i);
        INVARIANT(settings_text(&own, SETTING_EXECUTOR_GROUP)[0] != '\0');
        INVARIANT(own.node_count == 0);
    }
    INVARIANT(settings_text(settings, SETTING_STORE)[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    char path[64];
    struct arena arena;
    struct settings settings;
    struct weir_error error = {.status = WEIR_OK};
    if (file < 0) {
        file = memfd_create("weir.yaml", 0);
    }
    if (file < 0 || ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    arena_init(&arena, MEMORY_MAX);
    memset(&settings, 0, sizeof settings);
    enum weir_status status = settings_load(&settings, &arena, path, &error);
    if (status == WEIR_OK) {
        look_at(&settings);
    } else {
        INVARIANT(error.message[0] != '\0');
    }
    arena_close(&arena);
    return 0;
}
