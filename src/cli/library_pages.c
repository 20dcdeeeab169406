/* The function of libmicrohttpd that the program exports in its place. The library calls this one when it refuses bytes by
 * itself, because a function of the program precedes its own (server/library_answer.c). In a file of the program alone:
 * libweir must not export it. Runs in the thread of a listener. */
#include "server/library_answer.h"

#undef MHD_queue_response
#pragma GCC visibility push(default)
enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
    return library_answer_queue(connection, status, response);
}
#pragma GCC visibility pop
