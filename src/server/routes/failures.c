/* Failures, grouped by error code, workflow and workspace; store/failure_groups.h counts them. */
#include "base/error.h"
#include "server/routes/routes.h"
#include "store/failure_groups.h"

void answer_list_failures(struct api *api, struct store *store, struct http_request *request, struct http_answer *answer)
{
    (void)api;
    struct weir_error error = {.status = WEIR_OK};
    struct execution_filter filter = {.id = NULL};
    const char *at_fault = NULL;
    json_t *page = NULL;
    enum weir_status status = request_filter(request, store, &filter, &at_fault, &error);
    if (status == WEIR_OK) {
        at_fault = NULL;
        status = failure_groups_read(store, &filter, &page, &error);
    }
    if (status == WEIR_OK) {
        respond_json(answer, 200, page);
    } else {
        respond_error(request, answer, &error, at_fault);
    }
}
