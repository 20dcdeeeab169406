/* Parsing that survives a refused allocation. Any thread; each has its own reserve.
 *
 * jansson collects a token in a buffer that grows. When the growth is refused it drops bytes of the token and goes on.
 * Then it ends the process by an assertion (a number) or reads behind the buffer (a string). So the growth must not
 * fail.
 *
 * 1. Before parsing a reserve is allocated that is large enough for every buffer of this text.
 * 2. jansson allocates by our functions, which pass on to those that were set before. Only a refused allocation of a thread
 *    that parses here is served from the reserve of that thread.
 * 3. From then on the reader delivers no more bytes. At most CHUNK_BYTES are parsed after the refusal, which the reserve
 *    covers.
 * 4. The result is dropped and the answer is "out of memory". Nothing from the reserve outlives the call. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum {
    CHUNK_BYTES = 32,
    RESERVE_BYTES = 16 * 1024, /* memory of the values of one chunk: an object is the largest, with one byte of text */
    RESERVE_FACTOR = 4,        /* of the text: the buffer after it has grown, and copies of one token */
    ALIGNMENT = 16
};

struct load {
    const char *bytes;
    size_t length;
    size_t at;
    char *reserve;
    size_t reserve_size;
    size_t reserve_used;
    bool ran_out;
};

static _Thread_local struct load *current;
static json_malloc_t outer_malloc;
static json_free_t outer_free;

static void *load_malloc(size_t size)
{
    void *memory = outer_malloc(size);
    if (memory != NULL || current == NULL) {
        return memory;
    }
    current->ran_out = true;
    if (size > current->reserve_size - current->reserve_used) {
        return NULL;
    }
    memory = current->reserve + current->reserve_used;
    size_t left = current->reserve_size - current->reserve_used;
    size_t rounded = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    current->reserve_used += rounded > left ? left : rounded;
    return memory;
}

static void load_free(void *memory)
{
    uintptr_t at = (uintptr_t)memory;
    uintptr_t from = current == NULL ? 0 : (uintptr_t)current->reserve;
    if (current == NULL || at < from || at >= from + current->reserve_size) {
        outer_free(memory);
    }
}

static void set_functions(void)
{
    json_get_alloc_funcs(&outer_malloc, &outer_free);
    json_set_alloc_funcs(load_malloc, load_free);
}

static size_t read_chunk(void *to, size_t size, void *context)
{
    struct load *load = context;
    size_t left = load->ran_out ? 0 : load->length - load->at;
    size_t count = left < size ? left : size;
    count = count < CHUNK_BYTES ? count : CHUNK_BYTES;
    memcpy(to, load->bytes + load->at, count);
    load->at += count;
    return count;
}

json_t *json_load_bytes(const char *bytes, size_t length, size_t flags, json_error_t *ret_error, bool *ret_ran_out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct load load = {.bytes = bytes, .length = length, .reserve_size = RESERVE_BYTES + RESERVE_FACTOR * length};
    json_t *value = NULL;
    (void)pthread_once(&once, set_functions);
    load.reserve = malloc(load.reserve_size);
    if (load.reserve != NULL) {
        current = &load;
        value = json_load_callback(read_chunk, &load, flags, ret_error);
        if (load.ran_out) {
            json_decref(value);
            value = NULL;
        }
        current = NULL;
    }
    *ret_ran_out = load.reserve == NULL || load.ran_out;
    free(load.reserve);
    return value;
}

json_t *json_load_text(const char *text, size_t flags)
{
    bool ran_out;
    json_error_t error;
    return json_load_bytes(text, strlen(text), flags, &error, &ran_out);
}
