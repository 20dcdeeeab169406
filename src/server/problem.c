/* The title is the phrase of the status, so that a person who sees the body alone knows what it is. */
#include "server/problem.h"

#include <jansson.h>

#include "base/error.h"
#include "base/json.h"

static const char *title_of(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 411:
        return "Length Required";
    case 413:
        return "Content Too Large";
    case 421:
        return "Misdirected Request";
    case 503:
        return "Service Unavailable";
    case 505:
        return "HTTP Version Not Supported";
    default:
        return "Internal Server Error";
    }
}

void problem_write(struct http_answer *answer, int status, const char *code, const char *detail)
{
    INVARIANT(answer != NULL && status >= 400 && code != NULL && detail != NULL);
    answer->status = status;
    answer->type = "application/problem+json";
    text_clear(&answer->body);
    json_t *problem =
        json_pack("{s:s, s:i, s:s, s:s}", "title", title_of(status), "status", status, "code", code, "detail", detail);
    if (problem == NULL || json_write(problem, &answer->body, NULL) != WEIR_OK ||
        text_add(&answer->body, "\n", 1) != WEIR_OK) {
        text_clear(&answer->body);
    }
    json_decref(problem);
}
