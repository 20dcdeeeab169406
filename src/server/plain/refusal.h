/* The refusal of a page that needs no script.
 *
 * Pure; any thread.
 */
#ifndef WEIR_SERVER_PLAIN_REFUSAL_H
#define WEIR_SERVER_PLAIN_REFUSAL_H

#include "server/request.h"

/* Makes a page of the problem in the answer; of one without a token the form that signs in. */
void plain_refuse(struct http_request *request, struct http_answer *answer);

#endif
