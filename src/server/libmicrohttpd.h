/* libmicrohttpd, loaded when the first listener is opened, so that a node without one does not need it.
 *
 * Only the files that call it include this header: its macros turn each call into a call of the loaded function.
 */
#ifndef WEIR_SERVER_LIBMICROHTTPD_H
#define WEIR_SERVER_LIBMICROHTTPD_H

#include <microhttpd.h>

#include "weir/status.h"

/* Every function that is called. */
#define MICROHTTPD_FUNCTIONS(X)                                                                                            \
    X(MHD_add_response_header)                                                                                             \
    X(MHD_create_response_from_callback)                                                                                   \
    X(MHD_create_response_from_buffer)                                                                                     \
    X(MHD_destroy_response)                                                                                                \
    X(MHD_get_connection_info)                                                                                             \
    X(MHD_get_connection_values_n)                                                                                         \
    X(MHD_get_daemon_info)                                                                                                 \
    X(MHD_get_version)                                                                                                     \
    X(MHD_is_feature_supported)                                                                                            \
    X(MHD_queue_response)                                                                                                  \
    X(MHD_quiesce_daemon)                                                                                                  \
    X(MHD_resume_connection)                                                                                               \
    X(MHD_start_daemon)                                                                                                    \
    X(MHD_stop_daemon)                                                                                                     \
    X(MHD_suspend_connection)

#define MICROHTTPD_MEMBER(name) __typeof__(name) *name;
struct microhttpd {
    MICROHTTPD_FUNCTIONS(MICROHTTPD_MEMBER)
};
#undef MICROHTTPD_MEMBER

/* Empty until microhttpd_load() has answered WEIR_OK; never changed after that, never unloaded. */
extern struct microhttpd microhttpd;

/* Any thread, any number of times; a failed load is tried again. WEIR_INVALID_CONFIG: it is not installed, or too old. */
WEIR_MUST_CHECK enum weir_status microhttpd_load(struct weir_error *error);

#define MHD_add_response_header microhttpd.MHD_add_response_header
#define MHD_create_response_from_callback microhttpd.MHD_create_response_from_callback
#define MHD_create_response_from_buffer microhttpd.MHD_create_response_from_buffer
#define MHD_destroy_response microhttpd.MHD_destroy_response
#define MHD_get_connection_info microhttpd.MHD_get_connection_info
#define MHD_get_connection_values_n microhttpd.MHD_get_connection_values_n
#define MHD_get_daemon_info microhttpd.MHD_get_daemon_info
#define MHD_get_version microhttpd.MHD_get_version
#define MHD_is_feature_supported microhttpd.MHD_is_feature_supported
#define MHD_queue_response microhttpd.MHD_queue_response
#define MHD_quiesce_daemon microhttpd.MHD_quiesce_daemon
#define MHD_resume_connection microhttpd.MHD_resume_connection
#define MHD_start_daemon microhttpd.MHD_start_daemon
#define MHD_stop_daemon microhttpd.MHD_stop_daemon
#define MHD_suspend_connection microhttpd.MHD_suspend_connection

#endif
