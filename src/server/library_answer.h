/* A problem in the place of the page that libmicrohttpd sends for bytes that are no request. Thread: that of a listener. */
#ifndef WEIR_SERVER_LIBRARY_ANSWER_H
#define WEIR_SERVER_LIBRARY_ANSWER_H

#include "server/libmicrohttpd.h"

/* MHD_queue_response(), as the library itself calls it with a page of its own. The connection ends with the answer. */
enum MHD_Result library_answer_queue(struct MHD_Connection *connection, unsigned status, struct MHD_Response *page);

#endif
