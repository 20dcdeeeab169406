/* The evaluator: the protocol of both sides, and the life of the child.
 *
 * Confinement and limits, in this order:
 *
 *   1. SIGKILL at the death of the parent (the keeper).
 *   2. jq_confine_process(): a memory limit, no environment, no files but the two pipes, a filter of system calls. After it
 *      a crash or a takeover of libjq reaches nothing but the pipes.
 *   3. Before each request a limit of processor time, behind the deadline of the parent.
 *
 * Compiling a program takes most of the time, so the child caches compiled programs by their text.
 * The parent trusts no answer: evaluator_answer_read() checks the length and the form before use. A frame that breaks the
 * protocol ends the evaluator on both sides, because the start of the next frame is unknown then. The functions up to
 * evaluator_answer_read() run in the node's loop; the rest runs in the child, which has one thread.
 */
#include "engine/in_process/evaluator_process.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "definition/jq.h"

enum {
    EVALUATOR_CPU_SECONDS_MAX = 30, /* for one request; the parent's deadline comes earlier */
    EVALUATOR_PROGRAM_BYTES_MAX = 64 * 1024
};

struct cached_program {
    char *text; /* NULL: a free place */
    struct jq_program *program;
    uint64_t used_at; /* number of the request */
};

struct evaluator {
    int in_fd;
    int out_fd;
    struct cached_program cached[EVALUATOR_PROGRAMS_MAX];
    uint64_t requests;
    char *frame; /* EVALUATOR_FRAME_BYTES_MAX */
    struct text answer;
};

/* --- frames --- */

static void put_length(char *to, size_t length)
{
    for (int i = 0; i < EVALUATOR_HEADER_BYTES; i++) {
        to[i] = (char)(unsigned char)(length >> (8 * (EVALUATOR_HEADER_BYTES - 1 - i)));
    }
}

static size_t get_length(const char *from)
{
    size_t length = 0;
    for (int i = 0; i < EVALUATOR_HEADER_BYTES; i++) {
        length = length << 8 | (unsigned char)from[i];
    }
    return length;
}

/* Appends `message` behind its length. WEIR_FAILED when it is larger than a frame or than the text's maximum. */
static enum weir_status add_frame(const json_t *message, struct text *to, struct weir_error *error)
{
    size_t before = to->length;
    enum weir_status status = text_add(to, "\0\0\0\0", EVALUATOR_HEADER_BYTES);
    status = status == WEIR_OK ? json_write(message, to, error) : status;
    size_t length = to->length - before - EVALUATOR_HEADER_BYTES;
    if (status == WEIR_OK && length <= EVALUATOR_FRAME_BYTES_MAX) {
        put_length(to->data + before, length);
        return WEIR_OK;
    }
    to->length = before;
    return status == WEIR_OUT_OF_MEMORY
               ? error_out_of_memory(error)
               : error_set(error, WEIR_FAILED, "the data of the expression is larger than %d bytes",
                           EVALUATOR_FRAME_BYTES_MAX);
}

enum weir_status evaluator_request_write(int64_t id, const char *program, const json_t *input, struct text *to,
                                         struct weir_error *error)
{
    INVARIANT(program != NULL && input != NULL);
    json_t *message = json_pack("{s:I, s:s, s:O}", "id", (json_int_t)id, "program", program, "input", input);
    enum weir_status status = message == NULL ? error_out_of_memory(error) : add_frame(message, to, error);
    json_decref(message);
    return status;
}

static enum weir_status parse_answer(const json_t *message, struct evaluator_answer *ret_answer, struct weir_error *error)
{
    const json_t *id = json_object_get(message, "id");
    json_t *value = json_object_get(message, "value");
    const char *text = json_string_value(json_object_get(message, "error"));
    if (!json_is_integer(id) || (value == NULL) == (text == NULL)) {
        return error_set(error, WEIR_FAILED, "the evaluator's answer has neither a value nor an error");
    }
    ret_answer->id = json_integer_value(id);
    ret_answer->value = value == NULL ? NULL : json_incref(value);
    text_copy(ret_answer->error, sizeof ret_answer->error, text == NULL ? "" : text[0] == '\0' ? "error" : text);
    text_make_safe(ret_answer->error);
    return WEIR_OK;
}

enum weir_status evaluator_answer_read(const char *bytes, size_t length, struct evaluator_answer *ret_answer,
                                       size_t *ret_used, struct weir_error *error)
{
    INVARIANT((bytes != NULL || length == 0) && ret_answer != NULL && ret_used != NULL);
    size_t body = length < EVALUATOR_HEADER_BYTES ? 0 : get_length(bytes);
    if (body > EVALUATOR_FRAME_BYTES_MAX) {
        return error_set(error, WEIR_FAILED, "the evaluator announces an answer of %zu bytes", body);
    }
    if (length < EVALUATOR_HEADER_BYTES || length - EVALUATOR_HEADER_BYTES < body) {
        *ret_used = 0;
        return WEIR_OK;
    }
    json_t *message = NULL;
    enum weir_status status = json_read(bytes + EVALUATOR_HEADER_BYTES, body, &message, error);
    if (status == WEIR_INVALID_ARGUMENT) {
        error_prefix(error, "the evaluator's answer");
        return WEIR_FAILED;
    }
    if (status == WEIR_OK) {
        status = parse_answer(message, ret_answer, error);
        *ret_used = status == WEIR_OK ? EVALUATOR_HEADER_BYTES + body : *ret_used;
        json_decref(message);
    }
    return status;
}

/* --- the child --- */

/* False at the end of the input or when it failed; *ret_length is the number of bytes read. */
static bool read_fully(int fd, char *to, size_t length, size_t *ret_length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t got = read(fd, to + done, length - done);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        done += (size_t)got;
    }
    *ret_length = done;
    return done == length;
}

static bool write_fully(int fd, const char *from, size_t length)
{
    while (length > 0) {
        ssize_t put = write(fd, from, length);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return false;
        }
        from += put;
        length -= (size_t)put;
    }
    return true;
}

/* The place of `text` in the cache, or the place to use for it: a free one, else the least recently used. */
static struct cached_program *find_place(struct evaluator *evaluator, const char *text)
{
    struct cached_program *place = &evaluator->cached[0];
    for (size_t i = 0; i < EVALUATOR_PROGRAMS_MAX; i++) {
        struct cached_program *cached = &evaluator->cached[i];
        if (cached->text != NULL && strcmp(cached->text, text) == 0) {
            return cached;
        }
        if (place->text != NULL && (cached->text == NULL || cached->used_at < place->used_at)) {
            place = cached;
        }
    }
    return place;
}

/* The compiled program, from the cache if it is there. */
static enum weir_status find_program(struct evaluator *evaluator, const char *text, struct jq_program **ret_program,
                                     struct weir_error *error)
{
    struct cached_program *place = find_place(evaluator, text);
    if (place->text == NULL || strcmp(place->text, text) != 0) {
        struct jq_program *program = NULL;
        enum weir_status status = jq_program_open(text, &program, error);
        if (status != WEIR_OK) {
            return status;
        }
        char *copy = strdup(text);
        if (copy == NULL) {
            jq_program_close(program);
            return error_out_of_memory(error);
        }
        jq_program_close(place->program);
        free(place->text);
        *place = (struct cached_program){.text = copy, .program = program};
    }
    place->used_at = evaluator->requests;
    *ret_program = place->program;
    return WEIR_OK;
}

/* Answers with the message of an error. */
static enum weir_status add_failure(struct evaluator *evaluator, json_int_t id, const char *error)
{
    char message[EVALUATOR_ERROR_BYTES_MAX];
    text_copy(message, sizeof message, error);
    text_make_safe(message);
    json_t *answer = json_pack("{s:I, s:s}", "id", id, "error", message);
    enum weir_status status = answer == NULL ? WEIR_OUT_OF_MEMORY : add_frame(answer, &evaluator->answer, NULL);
    json_decref(answer);
    return status;
}

/* An answer that is too large for a frame is a failure of the expression like any other. */
static enum weir_status answer_request(struct evaluator *evaluator, json_int_t id, const char *text, const json_t *input)
{
    struct weir_error error = {.status = WEIR_OK};
    struct jq_program *program = NULL;
    json_t *value = NULL;
    enum weir_status status = find_program(evaluator, text, &program, &error);
    status = status == WEIR_OK ? jq_program_run(program, input, &value, &error) : status;
    if (status == WEIR_OK) {
        json_t *answer = json_pack("{s:I, s:o}", "id", id, "value", value);
        status = answer == NULL ? error_out_of_memory(&error) : add_frame(answer, &evaluator->answer, &error);
        json_decref(answer);
    }
    return status == WEIR_OK ? WEIR_OK : add_failure(evaluator, id, error.message);
}

/* Reads one request and writes one answer. False when the parent breaks the protocol or is gone. */
static bool serve_frame(struct evaluator *evaluator, size_t length)
{
    /* Not json_read(), which limits the depth: a request wraps params of the greatest depth in two more objects. */
    bool ran_out;
    json_error_t native;
    json_t *request = json_load_bytes(evaluator->frame, length, JSON_ALLOW_NUL, &native, &ran_out);
    if (request == NULL) {
        return false;
    }
    const json_t *id = json_object_get(request, "id");
    const char *text = json_string_value(json_object_get(request, "program"));
    const json_t *input = json_object_get(request, "input");
    text_clear(&evaluator->answer);
    evaluator->requests++;
    jq_confine_cpu(EVALUATOR_CPU_SECONDS_MAX);
    bool is_fine = json_is_integer(id) && text != NULL && input != NULL && strlen(text) <= EVALUATOR_PROGRAM_BYTES_MAX &&
                   answer_request(evaluator, json_integer_value(id), text, input) == WEIR_OK;
    json_decref(request);
    return is_fine && write_fully(evaluator->out_fd, evaluator->answer.data, evaluator->answer.length);
}

_Noreturn void evaluator_main(int in_fd, int out_fd)
{
    const int own_fds[] = {in_fd, out_fd};
    struct evaluator evaluator = {.in_fd = in_fd, .out_fd = out_fd};
    /* During an endless expression the evaluator does not read, so it would not notice the end of its input. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    jq_confine_process(own_fds, 2);
    evaluator.answer.max = EVALUATOR_FRAME_BYTES_MAX + EVALUATOR_HEADER_BYTES;
    evaluator.frame = malloc(EVALUATOR_FRAME_BYTES_MAX);
    while (evaluator.frame != NULL) {
        char header[EVALUATOR_HEADER_BYTES];
        size_t got = 0;
        if (!read_fully(in_fd, header, sizeof header, &got)) {
            _exit(got == 0 ? 0 : 1);
        }
        size_t length = get_length(header);
        if (length > EVALUATOR_FRAME_BYTES_MAX || !read_fully(in_fd, evaluator.frame, length, &got) ||
            !serve_frame(&evaluator, length)) {
            break;
        }
    }
    _exit(1);
}
