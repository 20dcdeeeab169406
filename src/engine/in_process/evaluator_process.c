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
    EVALUATOR_CPU_SECONDS_MAX = 30, /* for one request; the parent's deadline is the one that counts */
    EVALUATOR_PROGRAM_BYTES_MAX = 64 * 1024
};

struct kept_program {
    char *text; /* NULL: a free place */
    struct jq_program *program;
    uint64_t used_at; /* number of the request */
};

struct evaluator {
    int in_fd;
    int out_fd;
    struct kept_program kept[EVALUATOR_PROGRAMS_MAX];
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
    json_t *message = json_pack("{s:I, s:s, s:O}", "id", (json_int_t)id, "program", program, "input", input);
    enum weir_status status = message == NULL ? error_out_of_memory(error) : add_frame(message, to, error);
    json_decref(message);
    return status;
}

static enum weir_status read_answer(const json_t *message, struct evaluator_answer *ret_answer, struct weir_error *error)
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
        status = read_answer(message, ret_answer, error);
        *ret_used = status == WEIR_OK ? EVALUATOR_HEADER_BYTES + body : *ret_used;
        json_decref(message);
    }
    return status;
}

/* --- the child --- */

/* False at the end of the input or when it failed; *ret_length tells how much came. */
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

/* The place of `text` among the kept programs, or the one to give up for it: a free one, else the longest unused. */
static struct kept_program *find_place(struct evaluator *evaluator, const char *text)
{
    struct kept_program *place = &evaluator->kept[0];
    for (size_t i = 0; i < EVALUATOR_PROGRAMS_MAX; i++) {
        struct kept_program *kept = &evaluator->kept[i];
        if (kept->text != NULL && strcmp(kept->text, text) == 0) {
            return kept;
        }
        if (place->text != NULL && (kept->text == NULL || kept->used_at < place->used_at)) {
            place = kept;
        }
    }
    return place;
}

static enum weir_status find_program(struct evaluator *evaluator, const char *text, struct jq_program **ret_program,
                                     struct weir_error *error)
{
    struct kept_program *place = find_place(evaluator, text);
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
        *place = (struct kept_program){.text = copy, .program = program};
    }
    place->used_at = evaluator->requests;
    *ret_program = place->program;
    return WEIR_OK;
}

static enum weir_status add_failure(struct evaluator *evaluator, json_int_t id, const char *what)
{
    char message[EVALUATOR_ERROR_BYTES_MAX];
    text_copy(message, sizeof message, what);
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

/* One request, one answer; false when the parent does not keep to the protocol or is gone. */
static bool serve_frame(struct evaluator *evaluator, size_t length)
{
    /* Not json_read(): params of the greatest depth come wrapped in two more objects. */
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
    const int kept_fds[] = {in_fd, out_fd};
    struct evaluator evaluator = {.in_fd = in_fd, .out_fd = out_fd};
    /* The end of the input tells of the parent's end only when no expression runs for ever. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    jq_confine_process(kept_fds, 2);
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
