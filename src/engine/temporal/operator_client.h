/* The client of operators: signals, terminations, the reason why a workflow does not go on, and the examination of the
 * service. It works without a node.
 *
 * Other programs may use a workflow id that a definition names. So such a workflow is described before it is acted upon,
 * and only the execution's own chain of runs is meant.
 *
 * Each call waits for its answer, at most `timeout_us`. One thread. The caller of temporal_operator_open() owns the client.
 */
#ifndef WEIR_ENGINE_TEMPORAL_OPERATOR_CLIENT_H
#define WEIR_ENGINE_TEMPORAL_OPERATOR_CLIENT_H

#include "engine/temporal/temporal.h"

struct temporal_operator;

#define TEMPORAL_AWAIT_US (200 * MICROSECONDS_PER_MS)
/* True while the service may still come to know the workflow, and time is left. Called after each "not found" and each lost
 * answer. */
typedef bool temporal_awaits(void *context);

/* The workflow of an execution. */
struct temporal_execution {
    const char *id;
    const char *workflow_id; /* NULL: the default one */
};

/* As temporal_open(). */
WEIR_MUST_CHECK enum weir_status temporal_operator_open(const struct temporal_options *options, int64_t timeout_us,
                                                        struct temporal_operator **ret_operator, struct weir_error *error);
/* Takes NULL. */
void temporal_operator_close(struct temporal_operator *operator);

/* The value of the payloads, decoded by the codec of the options; `payloads` is {"payloads": [...]}.
 * WEIR_ENGINE_UNREACHABLE: the codec cannot be reached; WEIR_FAILED: it refuses them, or there is none. */
WEIR_MUST_CHECK enum weir_status temporal_decode(struct temporal_operator *operator, const json_t * payloads,
                                                 json_t **ret_value, struct weir_error *error);
/* `request_id` makes it one signal however often it arrives. `input` is JSON text, which a codec encodes; NULL = none.
 * WEIR_EXECUTION_NOT_FOUND: the service knows no open workflow of this execution; WEIR_ENGINE_UNREACHABLE; WEIR_FAILED with
 * the message of the service. */
WEIR_MUST_CHECK enum weir_status temporal_signal(struct temporal_operator *operator,
                                                 const struct temporal_execution * execution, const char *name,
                                                 const char *input, const char *request_id, struct weir_error *error);
/* Ends the workflow at once, without its consent. While `may_retry` returns true, a call whose answer was lost is
 * repeated each TEMPORAL_AWAIT_US. So is one for a workflow that the service does not know, because its start may still
 * be on its way. A workflow that is closed already is WEIR_OK. Errors as above. */
WEIR_MUST_CHECK enum weir_status temporal_terminate(struct temporal_operator *operator,
                                                    const struct temporal_execution * execution, const char *reason,
                                                    temporal_awaits *may_retry, void *context, struct weir_error *error);

/* Requests about one workflow. */
enum question_kind { QUESTION_DESCRIBE, QUESTION_QUERY, QUESTION_UPDATE };
struct temporal_question {
    enum question_kind kind;
    const struct temporal_execution *execution;
    const char *name;       /* of the query's type, or of the update */
    const char *input;      /* JSON text; NULL = none */
    const char *request_id; /* of an update */
};
/* The description (decode_description()), or the value that the query or the update gives; an update is waited for to its
 * end, within the operator's time. WEIR_TIMED_OUT: the update goes on, or no worker answers the query.
 * WEIR_EXECUTION_NOT_FOUND; WEIR_ENGINE_UNREACHABLE;
 * WEIR_FAILED with the message of the service or of the workflow. */
WEIR_MUST_CHECK enum weir_status temporal_request(struct temporal_operator *operator,
                                                  const struct temporal_question * question, json_t **ret_answer,
                                                  struct weir_error *error);

/* Why a workflow that is open does not go on. */
enum held_up_by {
    HELD_UP_BY_NOTHING, /* it runs, waits by itself, or is not open */
    HELD_UP_NO_POLLER,  /* a task of it waits, and no worker polls its task queue */
    HELD_UP_TASK_FAILS, /* the worker does not have the workflow type, or its code fails */
    HELD_UP_BUSY        /* workers poll its task queue, and none has taken its task for some seconds */
};
/* "no_worker_polls" ...; NULL for HELD_UP_BY_NOTHING. */
const char *held_up_name(enum held_up_by by);
struct temporal_hold_up {
    enum held_up_by by;
    int64_t since_us;                  /* when the waiting task was scheduled: the server's clock; 0 = not reported */
    char text[WEIR_ERROR_MESSAGE_MAX]; /* one line for people */
};
/* A live poller polls again each minute. The service lists a dead one for some minutes. */
#define TEMPORAL_POLLER_LASTS_US (70 * MICROSECONDS_PER_SECOND)
#define TEMPORAL_BUSY_AFTER_US (5 * MICROSECONDS_PER_SECOND)
/* Two or three calls. WEIR_OK also when the service does not know the workflow. */
WEIR_MUST_CHECK enum weir_status temporal_hold_up(struct temporal_operator *operator,
                                                  const struct temporal_execution * execution,
                                                  struct temporal_hold_up *ret_hold_up, struct weir_error *error);

/* The execution that the workflow of this id was started for, by the memo of the first run of its chain. `to` holds
 * UUID_TEXT_MAX bytes. WEIR_EXECUTION_NOT_FOUND: the service has no such workflow, or weir did not start it. */
WEIR_MUST_CHECK enum weir_status temporal_find_execution(struct temporal_operator *operator, const char * workflow_id,
                                                         char *to, struct weir_error *error);

/* Adds the search attribute for the workspace to the namespace; *ret_was_there: it had it. WEIR_ILLEGAL_STATE: it has one
 * of that name and of another type. Other errors as above. */
WEIR_MUST_CHECK enum weir_status temporal_add_workspace_attribute(struct temporal_operator *operator, bool * ret_was_there,
                                                                  struct weir_error *error);

enum finding { FINDING_FINE, FINDING_WARNING, FINDING_PROBLEM };
typedef void temporal_finding(void *context, enum finding finding, const char *check, const char *text);
/* Address and TLS, namespace and retention, its search attribute for the workspace, pollers on the task queues (`queues`,
 * `count`; each looked at once). */
void temporal_examine(struct temporal_operator *operator, const char * const * queues, size_t count,
                      temporal_finding *report, void *context);

#endif
