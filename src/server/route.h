/* The table of routes: every path and method that the server answers, with all that documents, checks and tests need.
 *
 * To add a route: write its handler in routes/, declare it in routes/routes.h, add a row to route_table.c.
 */
#ifndef WEIR_SERVER_ROUTE_H
#define WEIR_SERVER_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "server/request.h"
#include "store/store.h"

/* The right that a token must have. Each includes those before it. */
enum route_scope {
    SCOPE_OPEN,    /* no token: probes and documents */
    SCOPE_READ,    /* */
    SCOPE_ENQUEUE, /* */
    SCOPE_OPERATE, /* acts on executions, pauses */
    SCOPE_ADMIN    /* plans, limits, workflows, nodes, tokens */
};
const char *route_scope_name(enum route_scope scope);

/* Where the workspace of a request comes from, so that a token of some workspaces can be held to them. */
enum route_workspace {
    WORKSPACE_NONE,        /* it has none: only for tokens of all workspaces */
    WORKSPACE_OF_PATH,     /* {workspace} */
    WORKSPACE_OF_ID,       /* that of the execution {id}, which the handler reads */
    WORKSPACE_OF_FILTER,   /* the argument `workspace`, which a token of some workspaces must give */
    WORKSPACE_OF_SCHEDULE, /* those of the schedule {schedule}; without it the handler leaves the schedules of others out */
    WORKSPACE_OF_BODY,     /* each item of the body names its own; the handler checks them */
    WORKSPACE_ANY          /* the same for everybody: no data of a workspace */
};

/* Kinds of bodies; 0 = the route takes none. */
enum route_body { BODY_NONE = 0, BODY_JSON = 1 << 0, BODY_NDJSON = 1 << 1, BODY_YAML = 1 << 2, BODY_FORM = 1 << 3 };

/* A field of the head that a route reads, as a bit of `fields`. */
#define ROUTE_FIELD(field) (1U << (field))

struct route_argument {
    const char *name;
    const char *help; /* one line, no full stop */
};
enum { ROUTE_ARGUMENTS_MAX = 18 };

struct api;

/* Answers one request in a thread of the server. `store`: for this call; its actor is set. */
typedef void route_handler(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer);
/* Answers all requests of the route that wait, at most ROUTE_SET_MAX: for enqueues, which are one transaction then. */
typedef void route_set_handler(struct api *api, struct store *store, struct http_request *const *requests,
                               struct http_answer *const *answers, size_t count);
enum { ROUTE_SET_MAX = 256 };
/* Makes of the problem in the answer what a person can read. Any thread. */
typedef void route_explainer(struct http_request *request, struct http_answer *answer);

struct http_route {
    const char *method;
    const char *path;      /* "/v1/executions/{id}/cancel" */
    const char *operation; /* "cancelExecution" */
    enum route_scope scope;
    enum route_workspace workspace;
    const char *command; /* of the command line, with the same meaning; NULL = none */
    const char *summary; /* one line, imperative, no full stop */
    unsigned bodies;     /* enum route_body */
    size_t body_max;     /* bytes */
    bool is_slow;        /* may take seconds: such requests are answered one after the other */
    bool takes_any;      /* arguments that are not its own are ignored: another server builds the address */
    bool takes_filter;   /* the keys of a filter are arguments as well */
    unsigned fields;     /* of the head, for the description: ROUTE_FIELD() of those that not every route reads */
    bool gives_location; /* an answer of success may have the field Location */
    struct route_argument arguments[ROUTE_ARGUMENTS_MAX]; /* of the query; ended by one without a name */
    const char *body_schema;                              /* name of a schema of /openapi.json; NULL = none */
    const char *answer_schema;                            /* of 200, 201 or 202 */
    const char *answer_type;                              /* of those, several with ", "; NULL = application/json */
    route_handler *handle; /* NULL: answered at once with 200 and the text "ok", unless it has `handle_set` */
    route_set_handler *handle_set;
    route_explainer *explain; /* of a page for people, which takes the cookie of such pages; NULL = of none */
};

/* The rows, in the order of the documents. Static. */
const struct http_route *route_table(size_t *ret_count);
/* The route of the target and method; fills request->route and request->values. 0, or 404, or 405 with the methods of the
 * path in `allow`, ROUTE_ALLOW_MAX bytes. A HEAD goes to the route of GET. */
enum { ROUTE_ALLOW_MAX = 64 };
int route_find(struct http_request *request, const char *method, char *allow);
/* The path of the table that differs from the target in one misspelt segment, or NULL. Its parameters are not compared. */
const char *route_nearest_path(const struct http_request *request);
/* Refuses a condition that the route does not compare: its client would take a change without the condition for one
 * with it. Route by route, If-Match and If-None-Match are among its `fields`. */
WEIR_MUST_CHECK enum weir_status route_check_conditions(const struct http_request *request, struct weir_error *error);
/* Refuses arguments of the query that the route does not have: a misspelt one would otherwise have no effect. */
WEIR_MUST_CHECK enum weir_status route_check_arguments(const struct http_request *request, const char **ret_name,
                                                       struct weir_error *error);

#endif
