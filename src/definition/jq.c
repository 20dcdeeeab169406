/* libjq, and the confinement of the processes that run it. jq.h gives the reasons.
 *
 * Confinement (jq_confine_process()), in a child process before it sees a program:
 *
 *   1. Default signal handlers, nothing blocked: a handler of the parent must not run with the child's descriptors.
 *   2. An empty environment: jq's `env` and ~/.jq find nothing.
 *   3. Standard streams on /dev/null, all other descriptors closed but the kept ones.
 *   4. Limits: memory beyond the present size, no core file, no further descriptor. With RLIMIT_NOFILE 0 no file can be
 * opened.
 *   5. A system call filter as the last step, because the steps before need calls that it forbids.
 *
 * Checking the programs of a definition (jq_check()):
 *
 *   1. Fork a child with all programs; it confines itself and limits its CPU time.
 *   2. Compile all programs as one, since a compilation costs 40 ms at any size. If that succeeds, all are right.
 *   3. Otherwise find the first wrong one by halves, and compile it alone for jq's message.
 *   4. A child that dies was killed by one of them: each program then gets a child of its own, so the culprit is named.
 *   5. The parent waits until a deadline, then kills the child.
 *
 * Nothing here may run libjq in the caller's process, except a struct jq_program in a confined child.
 */
#include "definition/jq.h"

#include <errno.h>
#include <fcntl.h>
#include <jq.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/syscall_filter.h"
#include "base/text.h"
#include "base/thread.h"

enum { JQ_MESSAGE_MAX = 300, JQ_COMBINED_BYTES_MAX = 8 * 1024 * 1024 };

/* Beyond this a double no longer counts every integer. */
#define JQ_EXACT_INTEGER_MAX 9007199254740992.0

struct jq_program {
    jq_state *state;
    char message[JQ_MESSAGE_MAX]; /* the first error of jq */
};

/* --- confinement --- */

/* Soft and hard limit, so that the process cannot raise it again. */
static void set_limit(__rlimit_resource_t resource, rlim_t value)
{
    struct rlimit limit = {.rlim_cur = value, .rlim_max = value};
    (void)setrlimit(resource, &limit);
}

static bool is_kept(int fd, const int *keep_fds, size_t keep_count)
{
    for (size_t i = 0; i < keep_count; i++) {
        if (keep_fds[i] == fd) {
            return true;
        }
    }
    return false;
}

static void close_other_fds(const int *keep_fds, size_t keep_count)
{
    unsigned first = 3;
    for (;;) { /* the gaps between the kept ones, each in one call */
        unsigned next = UINT32_MAX;
        for (size_t i = 0; i < keep_count; i++) {
            unsigned fd = (unsigned)keep_fds[i];
            next = fd >= first && fd < next ? fd : next;
        }
        if (next > first) {
            (void)close_range(first, next - 1, 0);
        }
        if (next == UINT32_MAX) {
            return;
        }
        first = next + 1;
    }
}

/* A child starts with the mappings of its parent, so the limit is for further memory. */
static void limit_memory(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* a sanitizer's shadow memory is larger than any limit */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
    return;
#endif
#endif
    char numbers[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, numbers, sizeof numbers - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (length > 0 && page_bytes > 0) {
        set_limit(RLIMIT_AS, (rlim_t)strtoull(numbers, NULL, 10) * (rlim_t)page_bytes + JQ_MEMORY_BYTES_MAX);
    }
}

void jq_confine_process(const int *keep_fds, size_t keep_count)
{
    for (int number = 1; number < NSIG; number++) {
        (void)signal(number, SIG_DFL);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* An empty list, and no clearenv(): jq's `env` looks behind the pointer. */
    static char *no_environment[] = {NULL};
    environ = no_environment;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2; fd++) {
        if (null_fd >= 0 && !is_kept(fd, keep_fds, keep_count)) {
            (void)dup2(null_fd, fd);
        }
    }
    limit_memory();
    close_other_fds(keep_fds, keep_count);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_NOFILE, 0);
    (void)syscall_filter_install(); /* without a filter on this machine, the limits above remain */
}

void jq_confine_cpu(unsigned seconds)
{
    struct rusage usage;
    struct rlimit limit;
    if (getrusage(RUSAGE_SELF, &usage) == 0 && getrlimit(RLIMIT_CPU, &limit) == 0) {
        limit.rlim_cur = (rlim_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec + 1) + seconds;
        (void)setrlimit(RLIMIT_CPU, &limit);
    }
}

/* --- values --- */

/* jq has doubles alone: integers beyond 2^53 lose digits here. */
static jv to_jv(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: {
        jv object = jv_object();
        const char *key;
        json_t *item;
        json_object_foreach((json_t *)(uintptr_t)value, key, item)
        {
            object = jv_object_set(object, jv_string(key), to_jv(item));
        }
        return object;
    }
    case JSON_ARRAY: {
        jv array = jv_array_sized((int)json_array_size(value));
        size_t at;
        json_t *item;
        json_array_foreach(value, at, item)
        {
            array = jv_array_append(array, to_jv(item));
        }
        return array;
    }
    case JSON_STRING:
        return jv_string_sized(json_string_value(value), (int)json_string_length(value));
    case JSON_INTEGER:
        return jv_number((double)json_integer_value(value));
    case JSON_REAL:
        return jv_number(json_real_value(value));
    case JSON_TRUE:
        return jv_true();
    case JSON_FALSE:
        return jv_false();
    case JSON_NULL:
        return jv_null();
    }
    return jv_null();
}

/* As jq prints numbers: NaN is null, infinity is the largest number. */
static json_t *number_from_jv(double number)
{
    if (isnan(number)) {
        return json_null();
    }
    if (isinf(number)) {
        return json_real(number > 0 ? 1.7976931348623157e308 : -1.7976931348623157e308);
    }
    if (number == floor(number) && fabs(number) <= JQ_EXACT_INTEGER_MAX) {
        return json_integer((json_int_t)number);
    }
    return json_real(number);
}

static json_t *from_jv(jv value, int depth);

static json_t *array_from_jv(jv value, int depth)
{
    json_t *array = json_array();
    int length = jv_array_length(jv_copy(value));
    for (int i = 0; i < length; i++) {
        json_t *item = from_jv(jv_array_get(jv_copy(value), i), depth);
        if (item == NULL || json_array_append_new(array, item) != 0) {
            json_decref(array);
            array = NULL;
            break;
        }
    }
    jv_free(value);
    return array;
}

static json_t *object_from_jv(jv value, int depth)
{
    json_t *object = json_object();
    for (int at = jv_object_iter(value); jv_object_iter_valid(value, at); at = jv_object_iter_next(value, at)) {
        jv key = jv_object_iter_key(value, at);
        json_t *item = from_jv(jv_object_iter_value(value, at), depth);
        /* jansson's keys end at the first NUL: such a key cannot be kept. */
        bool is_kept = item != NULL && strlen(jv_string_value(key)) == (size_t)jv_string_length_bytes(jv_copy(key)) &&
                       json_object_set_new(object, jv_string_value(key), json_incref(item)) == 0;
        json_decref(item);
        jv_free(key);
        if (!is_kept) {
            json_decref(object);
            object = NULL;
            break;
        }
    }
    jv_free(value);
    return object;
}

/* Takes `value`; NULL when it is too deep or memory ran out. */
static json_t *from_jv(jv value, int depth)
{
    json_t *result = NULL;
    jv_kind kind = jv_get_kind(value);
    bool is_too_deep = (kind == JV_KIND_ARRAY || kind == JV_KIND_OBJECT) && depth > JQ_RESULT_DEPTH_MAX;
    switch (is_too_deep ? JV_KIND_INVALID : kind) {
    case JV_KIND_ARRAY:
        return array_from_jv(value, depth + 1);
    case JV_KIND_OBJECT:
        return object_from_jv(value, depth + 1);
    case JV_KIND_STRING:
        result = json_stringn(jv_string_value(value), (size_t)jv_string_length_bytes(jv_copy(value)));
        break;
    case JV_KIND_NUMBER:
        result = number_from_jv(jv_number_value(value));
        break;
    case JV_KIND_TRUE:
        result = json_true();
        break;
    case JV_KIND_FALSE:
        result = json_false();
        break;
    case JV_KIND_NULL:
        result = json_null();
        break;
    case JV_KIND_INVALID:
        break;
    }
    jv_free(value);
    return result;
}

/* --- programs --- */

static void cut_before(char *text, const char *suffix)
{
    char *found = strstr(text, suffix);
    if (found != NULL) {
        *found = '\0';
    }
}

/* "jq: error: syntax error, unexpected IDENT (Unix shell quoting issues?) at <top-level>, line 1:\n.a b" */
static void keep_message(void *context, jv message)
{
    struct jq_program *program = context;
    if (jv_get_kind(message) == JV_KIND_STRING && program->message[0] == '\0') {
        const char *text = jv_string_value(message);
        static const char prefix[] = "jq: error: ";
        text += strncmp(text, prefix, sizeof prefix - 1) == 0 ? sizeof prefix - 1 : 0;
        text_copy(program->message, sizeof program->message, text);
        cut_before(program->message, "\n");
        cut_before(program->message, " (Unix shell quoting issues?)");
        cut_before(program->message, " at <top-level>");
    }
    jv_free(message);
}

static void ignore_message(void *context, jv message)
{
    (void)context;
    jv_free(message);
}

/* Imports stand at the very start of a program or not at all; they would read files. */
static bool starts_with_module_keyword(const char *text)
{
    for (;;) {
        text += strspn(text, " \t\r\n");
        if (*text != '#') {
            break;
        }
        text += strcspn(text, "\n");
    }
    static const char *const keywords[] = {"import", "include", "module"};
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (strlen(keywords[i]) == length && memcmp(keywords[i], text, length) == 0) {
            return true;
        }
    }
    return false;
}

enum weir_status jq_program_open(const char *text, struct jq_program **ret_program, struct weir_error *error)
{
    if (starts_with_module_keyword(text)) {
        return error_set(error, WEIR_INVALID_ARGUMENT, "jq modules are not available");
    }
    struct jq_program *program = calloc(1, sizeof *program);
    if (program == NULL) {
        return error_out_of_memory(error);
    }
    program->state = jq_init();
    if (program->state == NULL) {
        free(program);
        return error_out_of_memory(error);
    }
    jq_set_error_cb(program->state, keep_message, program);
    /* jq_init() leaves these uninitialised: `debug` and `input` would call a random address. */
    jq_set_debug_cb(program->state, ignore_message, NULL);
    jq_set_input_cb(program->state, NULL, NULL);
    if (!jq_compile(program->state, text)) {
        error_set(error, WEIR_INVALID_ARGUMENT, "%s", program->message[0] == '\0' ? "not a jq program" : program->message);
        jq_program_close(program);
        return WEIR_INVALID_ARGUMENT;
    }
    *ret_program = program;
    return WEIR_OK;
}

void jq_program_close(struct jq_program *program)
{
    if (program != NULL) {
        jq_teardown(&program->state);
        free(program);
    }
}

/* Takes `end`, the invalid value with which a run stopped; an end without a message is a plain end. */
static bool has_failed(jv end, struct weir_error *error)
{
    if (!jv_invalid_has_msg(jv_copy(end))) {
        jv_free(end);
        return false;
    }
    jv message = jv_invalid_get_msg(end);
    if (jv_get_kind(message) != JV_KIND_STRING) {
        message = jv_dump_string(message, 0);
    }
    error_set(error, WEIR_FAILED, "%s", jv_string_value(message));
    jv_free(message);
    return true;
}

enum weir_status jq_program_run(struct jq_program *program, const json_t *input, json_t **ret_value,
                                struct weir_error *error)
{
    program->message[0] = '\0';
    jq_start(program->state, to_jv(input), 0);
    jv first = jq_next(program->state);
    if (!jv_is_valid(first)) {
        return has_failed(first, error) ? WEIR_FAILED : error_set(error, WEIR_FAILED, "the expression gives no value");
    }
    jv second = jq_next(program->state);
    if (jv_is_valid(second)) {
        jv_free(first);
        jv_free(second);
        return error_set(error, WEIR_FAILED, "the expression gives more than one value");
    }
    if (has_failed(second, error)) {
        jv_free(first);
        return WEIR_FAILED;
    }
    json_t *value = from_jv(first, 1);
    if (value == NULL) {
        return error_set(error, WEIR_FAILED, "the value is nested deeper than %d levels, or has a key with a NUL in it",
                         JQ_RESULT_DEPTH_MAX);
    }
    *ret_value = value;
    return WEIR_OK;
}

/* --- checking in a child --- */

struct check_answer {
    size_t wrong; /* count when all are right */
    bool is_finished;
    char message[JQ_MESSAGE_MAX];
};

/* "(a\n),(b\n)": each in brackets of its own, with a newline that ends a comment. */
static bool compiles_together(const char *const *programs, size_t count)
{
    struct text text = {.max = JQ_COMBINED_BYTES_MAX};
    bool is_fine = true;
    for (size_t i = 0; i < count && is_fine; i++) {
        is_fine = !starts_with_module_keyword(programs[i]) &&
                  text_format(&text, "%s(%s\n)", i == 0 ? "" : ",", programs[i]) == WEIR_OK;
    }
    struct jq_program *program = NULL;
    is_fine = is_fine && jq_program_open(text.data, &program, NULL) == WEIR_OK;
    jq_program_close(program);
    text_close(&text);
    return is_fine;
}

/* The first wrong program: by halves, because each compilation costs 40 ms at any size. */
static size_t find_wrong(const char *const *programs, size_t count)
{
    size_t fine = 0;
    size_t wrong = count;
    while (wrong - fine > 1) {
        size_t middle = fine + (wrong - fine) / 2;
        if (compiles_together(programs, middle)) {
            fine = middle;
        } else {
            wrong = middle;
        }
    }
    return fine;
}

static void check_programs_in_child(const char *const *programs, size_t count, struct check_answer *answer)
{
    answer->is_finished = true;
    answer->wrong = count;
    if (count == 0 || compiles_together(programs, count)) {
        return;
    }
    struct weir_error error = {.status = WEIR_OK};
    struct jq_program *program = NULL;
    answer->wrong = find_wrong(programs, count);
    if (jq_program_open(programs[answer->wrong], &program, &error) == WEIR_OK) {
        /* Compiles in the combined program, not alone, for example `) , (`: unbalanced, so it is wrong. */
        jq_program_close(program);
        text_copy(answer->message, sizeof answer->message, "not a jq program");
        return;
    }
    text_copy(answer->message, sizeof answer->message, error.message);
}

/* The child: steps 1 to 4 of the check in its own memory, one write to the pipe. */
_Noreturn static void check_main(const char *const *programs, size_t count, int out_fd)
{
    struct check_answer answer = {.wrong = 0};
    jq_confine_process(&out_fd, 1);
    jq_confine_cpu(JQ_CHECK_CPU_SECONDS_MAX);
    check_programs_in_child(programs, count, &answer);
    _exit(write(out_fd, &answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 1);
}

static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The answer is smaller than PIPE_BUF, so it arrives completely or not at all. */
static bool read_check_answer(int in_fd, struct check_answer *ret_answer, bool *ret_is_late)
{
    int64_t deadline_ms = now_ms() + JQ_CHECK_DEADLINE_MS;
    for (;;) {
        int64_t left_ms = deadline_ms - now_ms();
        struct pollfd ready = {.fd = in_fd, .events = POLLIN};
        int found = left_ms <= 0 ? 0 : poll(&ready, 1, (int)left_ms);
        if (found == 0) {
            *ret_is_late = true;
            return false;
        }
        if (found > 0) {
            ssize_t length = read(in_fd, ret_answer, sizeof *ret_answer);
            if (length >= 0) {
                return length == (ssize_t)sizeof *ret_answer && ret_answer->is_finished;
            }
        }
        if (errno != EINTR) {
            return false;
        }
    }
}

/* Signals stay blocked until the child has put its handlers back to the default: a handler of ours would run in it, with
 * our pipes. */
static pid_t fork_checker(const char *const *programs, size_t count, int out_fd)
{
    sigset_t before = thread_block_signals();
    pid_t child = fork();
    if (child == 0) {
        check_main(programs, count, out_fd);
    }
    int native = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = native;
    return child;
}

enum weir_status jq_check(const char *const *programs, size_t count, size_t *ret_wrong, struct weir_error *error)
{
    int pipe_fds[2];
    if (count == 0) {
        return WEIR_OK;
    }
    if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
        return error_set_native(error, WEIR_SYSTEM, errno, "the system cannot open a pipe for the check of expressions: %s",
                                strerror(errno));
    }
    pid_t child = fork_checker(programs, count, pipe_fds[1]);
    int native = errno;
    (void)close(pipe_fds[1]);
    if (child < 0) {
        (void)close(pipe_fds[0]);
        return error_set_native(error, WEIR_SYSTEM, native,
                                "the system cannot start a process for the check of expressions: %s", strerror(native));
    }
    struct check_answer answer = {.wrong = 0};
    bool is_late = false;
    bool has_answer = read_check_answer(pipe_fds[0], &answer, &is_late);
    (void)close(pipe_fds[0]);
    if (is_late) {
        (void)kill(child, SIGKILL);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    if (is_late) {
        return error_set(error, WEIR_SYSTEM, "checking the expressions took longer than %d ms", JQ_CHECK_DEADLINE_MS);
    }
    if (!has_answer && count == 1) {
        /* jq itself died while it compiled this program. */
        *ret_wrong = 0;
        return error_set(error, WEIR_INVALID_ARGUMENT, "jq cannot compile this");
    }
    if (!has_answer) {
        /* Step 4: one of them kills the compiler. */
        for (size_t i = 0; i < count; i++) {
            size_t wrong = 0;
            enum weir_status status = jq_check(programs + i, 1, &wrong, error);
            if (status != WEIR_OK) {
                *ret_wrong = i;
                return status;
            }
        }
        return error_set(error, WEIR_SYSTEM, "the process that checks expressions died");
    }
    if (answer.wrong >= count) {
        return WEIR_OK;
    }
    answer.message[sizeof answer.message - 1] = '\0';
    *ret_wrong = answer.wrong;
    return error_set(error, WEIR_INVALID_ARGUMENT, "%s", answer.message);
}
