/* Everything that a Temporal service may answer, as bytes: the first byte says which answer it is taken for. */
#include <stdint.h>
#include <stdlib.h>

#include "engine/temporal/encode.h"

static void ignore_row(void *context, const struct list_row *row)
{
    (void)context;
    (void)row;
}

static void read_list(const uint8_t *data, size_t size)
{
    struct list_answer answer;
    if (decode_list(data, size, ignore_row, NULL, &answer) == WEIR_OK) {
        free(answer.token.data);
    }
}

static void read_closing(const uint8_t *data, size_t size)
{
    struct close_event closing;
    if (decode_close_event(data, size, &closing) == WEIR_OK) {
        close_event_close(&closing);
    }
}

static void read_attributes(const uint8_t *data, size_t size)
{
    json_t *types = NULL;
    if (decode_attributes(data, size, &types) == WEIR_OK) {
        json_decref(types);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct start_answer start;
    struct describe_answer description;
    struct namespace_answer space;
    struct detail detail;
    char version[SERVER_VERSION_MAX];
    struct pollers_answer pollers;
    char failure[200];
    if (size == 0) {
        return 0;
    }
    const uint8_t *rest = data + 1;
    size_t length = size - 1;
    switch (data[0] % 8) {
    case 0:
        return decode_start(rest, length, &start) == WEIR_MISUSE;
    case 1:
        return decode_describe(rest, length, &description) == WEIR_MISUSE;
    case 2:
        return decode_namespace(rest, length, &space) == WEIR_MISUSE;
    case 3:
        return decode_task_queue(rest, length, &pollers) == WEIR_MISUSE ||
               decode_task_failure(rest, length, failure, sizeof failure) == WEIR_MISUSE;
    case 4:
        read_attributes(rest, length);
        return decode_system_info(rest, length, version, sizeof version) == WEIR_MISUSE;
    case 5:
        read_list(rest, length);
        break;
    case 6:
        read_closing(rest, length);
        break;
    default:
        decode_detail(rest, length, &detail);
        break;
    }
    return 0;
}
