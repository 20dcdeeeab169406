/* libcurl, loaded when it is needed for the first time, so that other nodes run without it. A payload codec, an
 * exporter of spans, an `http` step and a server as store need it.
 *
 * Only a file that calls libcurl includes this header: its macros turn each call into a call of the loaded function.
 */
#ifndef WEIR_BASE_LIBCURL_H
#define WEIR_BASE_LIBCURL_H

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
/* Macros of libcurl, which demand three arguments of these. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#include "weir/status.h"

/* Every function that is called. */
#define LIBCURL_FUNCTIONS(X)                                                                                               \
    X(curl_easy_cleanup)                                                                                                   \
    X(curl_easy_getinfo)                                                                                                   \
    X(curl_easy_init)                                                                                                      \
    X(curl_easy_perform)                                                                                                   \
    X(curl_easy_setopt)                                                                                                    \
    X(curl_easy_strerror)                                                                                                  \
    X(curl_global_init)                                                                                                    \
    X(curl_multi_add_handle)                                                                                               \
    X(curl_multi_cleanup)                                                                                                  \
    X(curl_multi_info_read)                                                                                                \
    X(curl_multi_init)                                                                                                     \
    X(curl_multi_remove_handle)                                                                                            \
    X(curl_multi_perform)                                                                                                  \
    X(curl_multi_poll)                                                                                                     \
    X(curl_multi_setopt)                                                                                                   \
    X(curl_multi_socket_action)                                                                                            \
    X(curl_multi_wakeup)                                                                                                   \
    X(curl_slist_append)                                                                                                   \
    X(curl_slist_free_all)                                                                                                 \
    X(curl_url)                                                                                                            \
    X(curl_url_cleanup)                                                                                                    \
    X(curl_url_get)                                                                                                        \
    X(curl_url_set)                                                                                                        \
    X(curl_free)

#define LIBCURL_MEMBER(name) __typeof__(name) *name;
struct libcurl {
    LIBCURL_FUNCTIONS(LIBCURL_MEMBER)
};
#undef LIBCURL_MEMBER

/* Empty until libcurl_load() has answered WEIR_OK; never changed after that, never unloaded. */
extern struct libcurl libcurl;

/* Any thread, any number of times; a failed load is tried again. `user` begins the message: what needs libcurl.
 * WEIR_INVALID_CONFIG: it is not installed, or too old. */
WEIR_MUST_CHECK enum weir_status libcurl_load(const char *user, struct weir_error *error);

#define curl_easy_cleanup libcurl.curl_easy_cleanup
#define curl_easy_getinfo libcurl.curl_easy_getinfo
#define curl_easy_init libcurl.curl_easy_init
#define curl_easy_perform libcurl.curl_easy_perform
#define curl_easy_setopt libcurl.curl_easy_setopt
#define curl_easy_strerror libcurl.curl_easy_strerror
#define curl_global_init libcurl.curl_global_init
#define curl_multi_add_handle libcurl.curl_multi_add_handle
#define curl_multi_cleanup libcurl.curl_multi_cleanup
#define curl_multi_info_read libcurl.curl_multi_info_read
#define curl_multi_init libcurl.curl_multi_init
#define curl_multi_remove_handle libcurl.curl_multi_remove_handle
#define curl_multi_perform libcurl.curl_multi_perform
#define curl_multi_poll libcurl.curl_multi_poll
#define curl_multi_setopt libcurl.curl_multi_setopt
#define curl_multi_socket_action libcurl.curl_multi_socket_action
#define curl_multi_wakeup libcurl.curl_multi_wakeup
#define curl_slist_append libcurl.curl_slist_append
#define curl_slist_free_all libcurl.curl_slist_free_all
#define curl_url libcurl.curl_url
#define curl_url_cleanup libcurl.curl_url_cleanup
#define curl_url_get libcurl.curl_url_get
#define curl_url_set libcurl.curl_url_set
#define curl_free libcurl.curl_free

#endif
