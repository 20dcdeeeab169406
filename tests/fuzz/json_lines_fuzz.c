/* One line of `weir enqueue -`. What is accepted must carry its params as a slice of the line that is the same JSON. */
#include <stdint.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "store/json_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY_MAX = 4 * 1024 * 1024 };

static void check_params(const char *line, size_t size, const struct enqueue_request *request)
{
    json_t *whole = NULL;
    json_t *part = NULL;
    INVARIANT(json_read(line, size, &whole, NULL) == WEIR_OK);
    INVARIANT(json_read(request->params, request->params_length, &part, NULL) == WEIR_OK);
    INVARIANT(json_equal(json_object_get(whole, "params"), part));
    INVARIANT(memmem(line, size, request->params, request->params_length) != NULL);
    json_decref(part);
    json_decref(whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct weir_error error = {.status = WEIR_OK};
    struct enqueue_request request = {.group = "default"};
    arena_init(&arena, MEMORY_MAX);
    if (json_line_read((const char *)data, size, 1000000, &arena, &request, NULL, &error) == WEIR_OK) {
        INVARIANT(request.workspace[0] != '\0' && request.workflow[0] != '\0');
        if (request.params != NULL) {
            check_params((const char *)data, size, &request);
        }
    } else {
        INVARIANT(error.message[0] != '\0');
    }
    arena_close(&arena);
    return 0;
}
