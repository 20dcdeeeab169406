/* Temporal's messages: requests are encoded (encode.c), answers decoded (decode.c, decode_requests.c), payloads converted
 * (payloads.c). Pure; the only files that know protobuf (temporal.proto).
 *
 * Requests are malloc'ed bytes that the caller frees. Answers are read into plain structs. An answer that is not understood
 * is WEIR_FAILED, never a guess. Bytes come from a server that may be hostile: the caller has bounded their size, and these
 * functions bound their depth.
 *
 * Threads: any. Source of the field numbers and meanings: the public API of Temporal (see temporal.proto).
 */
#ifndef WEIR_ENGINE_TEMPORAL_ENCODE_H
#define WEIR_ENGINE_TEMPORAL_ENCODE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "definition/definition.h"
#include "queue/limits.h"
#include "weir/status.h"

enum {
    RUN_ID_MAX = 64,                               /* bytes with the closing NUL; a UUID has 37 */
    WORKFLOW_ID_MAX = TEMPORAL_NAME_BYTES_MAX + 1, /* bytes with the closing NUL */
    FAIRNESS_KEY_MAX = 64,                         /* bytes */
    FAILURE_DEPTH_MAX = 16,                        /* causes of a failure that are read */
    LIST_PAGE_SIZE = 1000,                         /* rows of one list call: the service's own maximum */
    SERVER_VERSION_MAX = 64,
    NAMESPACE_ID_MAX = 64, /* bytes with the closing NUL; a UUID has 37 */
    POLLERS_LISTED_MAX = 100,
    TASK_QUEUE_NAME_MAX = 255,
    POLLER_NAME_MAX = 255,
    PAYLOADS_BYTES_MAX = 4 * 1024 * 1024 /* of one call of a codec; the service takes 2 MiB */
};

/* The default workflow id is this and the execution's id; an id of a definition never begins so. */
#define WORKFLOW_ID_PREFIX "execution-"
#define OPERATOR_IDENTITY "weir" /* of requests by operators; the identity of a node also names its host */

/* Of a workflow execution, as the service numbers it. */
enum run_status {
    RUN_STATUS_RUNNING = 1,
    RUN_STATUS_COMPLETED = 2,
    RUN_STATUS_FAILED = 3,
    RUN_STATUS_CANCELED = 4,
    RUN_STATUS_TERMINATED = 5,
    RUN_STATUS_CONTINUED_AS_NEW = 6,
    RUN_STATUS_TIMED_OUT = 7,
    RUN_STATUS_PAUSED = 8
};
/* True for every status in which the run has ended, also when its chain goes on. */
bool run_status_is_closed(int status);

struct bytes {
    uint8_t *data; /* malloc'ed */
    size_t length;
};

/* --- requests: each returns {NULL, 0} when out of memory --- */

/* Of a search attribute, as the service numbers it. */
enum attribute_type {
    ATTRIBUTE_UNKNOWN = 0,
    ATTRIBUTE_TEXT = 1,
    ATTRIBUTE_KEYWORD = 2,
    ATTRIBUTE_INT = 3,
    ATTRIBUTE_DOUBLE = 4,
    ATTRIBUTE_BOOL = 5,
    ATTRIBUTE_DATETIME = 6,
    ATTRIBUTE_KEYWORD_LIST = 7
};
/* "Keyword", as the service's own tools write it; "" for ATTRIBUTE_UNKNOWN. */
const char *attribute_type_name(enum attribute_type type);

/* The fields that a definition gives to one start (fields.h evaluates them). Zero and NULL: not given. */
struct start_fields {
    char workflow_id[WORKFLOW_ID_MAX];
    char task_queue[TASK_QUEUE_NAME_MAX + 1];
    json_t *arguments; /* an array; NULL: the input is the one argument */
    int64_t execution_timeout_us;
    int64_t run_timeout_us;
    int64_t task_timeout_us;
    int64_t start_delay_us;
    int priority_key;               /* 1 to 5; 0: made of weir's priority */
    const struct step_retry *retry; /* of the definition */
    json_t *memo;                   /* objects, or NULL */
    json_t *attributes;
    json_t *headers;
};

struct start_message {
    const char *namespace_name;
    const char *execution_id; /* request id <id> */
    const char *workspace;    /* fairness key and memo */
    const char *identity;     /* of the node, for people */
    const char *workflow_type;
    const char *input; /* bytes as they were enqueued */
    size_t input_length;
    const char *encoding; /* of the input payload: "json/plain" */
    int priority;         /* weir's, -100 to 100 */
    const struct start_fields *fields;
    const json_t *attribute_types; /* those of the namespace: names and numbers of enum attribute_type; NULL: not known.
                                      With TEMPORAL_WORKSPACE_ATTRIBUTE among them, the start has the workspace in it */
};
/* The same struct gives the same bytes, so a repeated start equals the first one. */
struct bytes encode_start(const struct start_message *start);
struct bytes encode_describe(const char *namespace_name, const char *workflow_id, const char *run_id);
/* `token` of the page before; {NULL, 0} = the first page. */
struct bytes encode_list(const char *namespace_name, const char *query, int page_size, struct bytes token);
/* The event that closes a run: read once, or by a long poll (`wait`). `token` as given by the last answer. */
struct bytes encode_close_event(const char *namespace_name, const char *workflow_id, const char *run_id, bool wait,
                                struct bytes token);
/* The last events, newest first. */
struct bytes encode_last_events(const char *namespace_name, const char *workflow_id, int count);
/* A workflow, or only a chain of its runs, or only one run: "" and NULL = any. The service refuses another chain or run. */
struct workflow_name {
    const char *workflow_id;
    const char *first_run_id; /* of the chain */
    const char *run_id;
};
struct bytes encode_cancel(const char *namespace_name, const struct workflow_name *workflow, const char *request_id,
                           const char *identity, const char *reason);
struct bytes encode_terminate(const char *namespace_name, const struct workflow_name *workflow, const char *identity,
                              const char *reason);
struct payloads;
/* `input` NULL = none. A signal cannot name a chain: first_run_id is not read. */
struct bytes encode_signal(const char *namespace_name, const struct workflow_name *workflow, const char *signal_name,
                           const char *request_id, const char *identity, const struct payloads *input);
/* As a signal, a query cannot name a chain. */
struct bytes encode_query(const char *namespace_name, const struct workflow_name *workflow, const char *type,
                          const struct payloads *input);
struct update_message {
    const char *namespace_name;
    struct workflow_name workflow;
    const char *update_id; /* makes it one update, however often it is sent */
    const char *identity;
    const char *name;
    const struct payloads *input; /* NULL = none */
};
/* Waits in the service for the update's end, for some seconds. */
struct bytes encode_update(const struct update_message *update);
struct bytes encode_system_info(void);
struct bytes encode_describe_namespace(const char *namespace_name);
struct bytes encode_list_attributes(const char *namespace_name);
/* Adds one search attribute to the namespace. */
struct bytes encode_add_attribute(const char *namespace_name, const char *name, enum attribute_type type);
/* Workflow pollers of a task queue. */
struct bytes encode_describe_task_queue(const char *namespace_name, const char *task_queue);

/* The key that stands for a workspace in the service's fairness: its name, or a digest where the name is too long. `to`
 * holds FAIRNESS_KEY_MAX + 1 bytes. */
void fairness_key(const char *workspace, char *to);
/* weir's priority as the service's 1 (first) to 5; 0 = its default, for 0. */
int priority_key(int priority);

/* --- answers: WEIR_FAILED when the bytes are none of that message, WEIR_OUT_OF_MEMORY --- */

struct start_answer {
    char run_id[RUN_ID_MAX];
    int status; /* 0: an older server does not report it */
};
WEIR_MUST_CHECK enum weir_status decode_start(const uint8_t *data, size_t length, struct start_answer *ret_answer);

struct describe_answer {
    char run_id[RUN_ID_MAX];
    char first_run_id[RUN_ID_MAX]; /* "" when the server does not report it */
    int status;
    char memo_execution[RUN_ID_MAX]; /* the execution id in the memo of the start; "" = none */
    char task_queue[TASK_QUEUE_NAME_MAX + 1];
    bool has_task;      /* a workflow task waits for a worker, or is with one */
    bool task_is_open;  /* ... waits */
    int task_attempt;   /* from 1 */
    int64_t task_at_us; /* when the first attempt of it was scheduled: the server's clock */
};
WEIR_MUST_CHECK enum weir_status decode_describe(const uint8_t *data, size_t length, struct describe_answer *ret_answer);

struct list_row {
    const char *workflow_id;
    const char *run_id;
    int status;
    int64_t close_us; /* the server's clock; 0 = open */
};
struct list_answer {
    size_t rows;
    int64_t latest_close_us; /* 0 = none */
    struct bytes token;      /* of the next page; the caller frees it. Empty on the last one */
};
/* `visit` is called once per row; its strings live as long as the call. */
WEIR_MUST_CHECK enum weir_status decode_list(const uint8_t *data, size_t length,
                                             void (*visit)(void *context, const struct list_row *row), void *context,
                                             struct list_answer *ret_answer);

enum close_kind {
    CLOSE_NONE, /* the run is open; poll again with `token` */
    CLOSE_COMPLETED,
    CLOSE_FAILED,
    CLOSE_TIMED_OUT,
    CLOSE_CANCELED,
    CLOSE_TERMINATED,
    CLOSE_CONTINUED
};
/* How a run ended. */
struct close_event {
    enum close_kind kind;
    int64_t at_us;                /* the server's clock; 0 = not reported */
    char next_run_id[RUN_ID_MAX]; /* the chain goes on there (continued as new, workflow retry, cron); "" = it ends here */
    char *result;                 /* JSON text, malloc'ed; NULL = none, or too large */
    size_t result_length;
    size_t result_bytes;                 /* as the service has it; > result_length when it was too large to keep */
    char error_code[ERROR_CODE_MAX + 1]; /* the application's type of failure, or that of the kind */
    char *error;                         /* message and causes, malloc'ed, or NULL */
    bool by_weir;                        /* CLOSE_TERMINATED: with OPERATOR_IDENTITY */
    struct bytes token;                  /* CLOSE_NONE: for the next call */
    struct text encoded;                 /* close_event_keep_encoded() */
    struct bytes answer;                 /* the same: the bytes that it was read from */
};
WEIR_MUST_CHECK enum weir_status decode_close_event(const uint8_t *data, size_t length, struct close_event *ret_closing);
void close_event_close(struct close_event *closing);
/* Keeps the payloads of the end that a codec must decode: `encoded` is its request, empty when there are none. `data`: the
 * bytes that `closing` was read from. False when out of memory. */
WEIR_MUST_CHECK bool close_event_keep_encoded(struct close_event *closing, const uint8_t *data, size_t length);
/* Reads the end again, with the codec's answer in place of the encoded payloads. WEIR_FAILED: the answer is no list of as
 * many payloads; then `closing` is unchanged. */
WEIR_MUST_CHECK enum weir_status close_event_decode(struct close_event *closing, const char *json, size_t length);

WEIR_MUST_CHECK enum weir_status decode_system_info(const uint8_t *data, size_t length, char *ret_version, size_t size);
struct namespace_answer {
    int state;            /* 1 = registered */
    int64_t retention_us; /* how long closed runs are remembered */
    char id[NAMESPACE_ID_MAX];
};
WEIR_MUST_CHECK enum weir_status decode_namespace(const uint8_t *data, size_t length, struct namespace_answer *ret_answer);
/* *ret_types: the search attributes of the namespace, as in start_message; the caller releases it. */
WEIR_MUST_CHECK enum weir_status decode_attributes(const uint8_t *data, size_t length, json_t **ret_types);
struct pollers_answer {
    size_t count;
    int64_t last_us;                /* of the last poll: the server's clock; 0 = not reported */
    char last[POLLER_NAME_MAX + 1]; /* the poller that made it; "" = none */
};
/* The pollers of the last minutes. */
WEIR_MUST_CHECK enum weir_status decode_task_queue(const uint8_t *data, size_t length, struct pollers_answer *ret_answer);
/* Writes the reason of the newest failed workflow task among the events of encode_last_events() into `to`; "" = there is
 * none. */
WEIR_MUST_CHECK enum weir_status decode_task_failure(const uint8_t *data, size_t length, char *to, size_t size);

/* --- answers to requests of operators --- */

/* The fields of the memo in an answer to encode_describe() that are not plain: decode_description() takes them decoded. */
WEIR_MUST_CHECK enum weir_status payloads_of_description(const uint8_t *data, size_t length,
                                                         struct payloads **ret_payloads);
/* A description for people and programs:
 *     {"workflow_id", "run_id", "first_run_id", "type", "status", "task_queue", "started_at", "closed_at",
 *      "history_length", "workflow_task_attempt", "memo", "search_attributes", "pending_activities"}.
 * `memo`: in place of those of payloads_of_description(); NULL = none. NULL when it cannot be read, or out of
 * memory. */
json_t *decode_description(const uint8_t *data, size_t length, const struct payloads *memo);
WEIR_MUST_CHECK enum weir_status decode_query(const uint8_t *data, size_t length, struct payloads **ret_result);
/* Both NULL: the update has not ended. The caller frees them. */
struct update_answer {
    struct payloads *result;
    char *failure; /* the message */
};
WEIR_MUST_CHECK enum weir_status decode_update(const uint8_t *data, size_t length, struct update_answer *ret_answer);

/* --- payloads as a codec has them: {"payloads": [{"metadata": {KEY: BASE64}, "data": BASE64}]} --- */

/* One payload. NULL when out of memory. */
struct payloads *payloads_of_text(const char *encoding, const char *text, size_t length);
/* WEIR_FAILED when it is no such JSON. */
WEIR_MUST_CHECK enum weir_status payloads_read(const char *json, size_t length, struct payloads **ret_payloads);
/* Appends. WEIR_OUT_OF_MEMORY, also for more than PAYLOADS_BYTES_MAX. */
WEIR_MUST_CHECK enum weir_status payloads_write(const struct payloads *payloads, struct text *to);
size_t payloads_count(const struct payloads *payloads);
/* The value as JSON text, as a result is read (struct close_event); appended. */
WEIR_MUST_CHECK enum weir_status payloads_value(const struct payloads *payloads, struct text *to);
/* Takes NULL. */
void payloads_free(struct payloads *payloads);
/* The arguments of a message of encode_start() and the memo of its definition; nothing is appended when it has none. */
WEIR_MUST_CHECK enum weir_status payloads_of_start(struct bytes start, struct text *to);
/* The same message with these. WEIR_FAILED when it is no list of as many payloads. */
WEIR_MUST_CHECK enum weir_status payloads_into_start(struct bytes start, const char *json, size_t length,
                                                     struct bytes *ret_start);
/* The encoded payloads in the answer to encode_close_event(); nothing is appended when there are none, or too large ones.
 */
WEIR_MUST_CHECK enum weir_status payloads_of_close_event(const uint8_t *data, size_t length, struct text *to);

/* --- the details of an error (grpc-status-details-bin) --- */

enum detail_kind {
    DETAIL_NONE,
    DETAIL_ALREADY_STARTED,
    DETAIL_RESOURCE_EXHAUSTED,
    DETAIL_NAMESPACE_NOT_FOUND,
    DETAIL_OTHER
};
struct detail {
    enum detail_kind kind;
    char start_request_id[RUN_ID_MAX]; /* ALREADY_STARTED */
    char run_id[RUN_ID_MAX];
    char first_run_id[RUN_ID_MAX];
    int cause; /* RESOURCE_EXHAUSTED */
    int scope;
};
/* DETAIL_NONE for bytes that are no such thing. */
void decode_detail(const uint8_t *data, size_t length, struct detail *ret_detail);

#endif
