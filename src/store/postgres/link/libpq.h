/* libpq, loaded when the first store or connection of PostgreSQL is opened. It needs twenty libraries (Kerberos, LDAP,
 * GnuTLS), which cost every process that links it 3 MiB and 3 ms: users of SQLite do not need it.
 *
 * Included by the files that call libpq, not by headers: a file that includes this calls the loaded functions. A file that
 * forgets it does not link.
 */
#ifndef WEIR_STORE_POSTGRES_LINK_LIBPQ_H
#define WEIR_STORE_POSTGRES_LINK_LIBPQ_H

#include <libpq-fe.h>

#include "weir/status.h"

/* Every function that is called. */
#define LIBPQ_FUNCTIONS(X)                                                                                                 \
    X(PQclear)                                                                                                             \
    X(PQcmdStatus)                                                                                                         \
    X(PQcmdTuples)                                                                                                         \
    X(PQconnectPoll)                                                                                                       \
    X(PQconnectStartParams)                                                                                                \
    X(PQconninfoFree)                                                                                                      \
    X(PQconninfoParse)                                                                                                     \
    X(PQconsumeInput)                                                                                                      \
    X(PQerrorMessage)                                                                                                      \
    X(PQfinish)                                                                                                            \
    X(PQflush)                                                                                                             \
    X(PQfname)                                                                                                             \
    X(PQfreemem)                                                                                                           \
    X(PQftype)                                                                                                             \
    X(PQgetResult)                                                                                                         \
    X(PQgetisnull)                                                                                                         \
    X(PQgetlength)                                                                                                         \
    X(PQgetvalue)                                                                                                          \
    X(PQisBusy)                                                                                                            \
    X(PQisnonblocking)                                                                                                     \
    X(PQnfields)                                                                                                           \
    X(PQnotifies)                                                                                                          \
    X(PQntuples)                                                                                                           \
    X(PQparameterStatus)                                                                                                   \
    X(PQpipelineStatus)                                                                                                    \
    X(PQresultErrorField)                                                                                                  \
    X(PQresultStatus)                                                                                                      \
    X(PQsendPrepare)                                                                                                       \
    X(PQsendQuery)                                                                                                         \
    X(PQsendQueryParams)                                                                                                   \
    X(PQsendQueryPrepared)                                                                                                 \
    X(PQserverVersion)                                                                                                     \
    X(PQsslInUse)                                                                                                          \
    X(PQsetErrorVerbosity)                                                                                                 \
    X(PQsetNoticeReceiver)                                                                                                 \
    X(PQsetnonblocking)                                                                                                    \
    X(PQsocket)                                                                                                            \
    X(PQstatus)                                                                                                            \
    X(PQtransactionStatus)                                                                                                 \
    X(PQunescapeBytea)

#define LIBPQ_MEMBER(name) __typeof__(name) *name;
struct libpq {
    LIBPQ_FUNCTIONS(LIBPQ_MEMBER)
};
#undef LIBPQ_MEMBER

/* Empty until libpq_load() has answered WEIR_OK; never changed after that, never unloaded. */
extern struct libpq libpq;

/* Any thread, any number of times; after a failure it tries again. WEIR_STORE_UNREACHABLE: it is not installed, or too old.
 */
WEIR_MUST_CHECK enum weir_status libpq_load(struct weir_error *error);

#define PQclear libpq.PQclear
#define PQcmdStatus libpq.PQcmdStatus
#define PQcmdTuples libpq.PQcmdTuples
#define PQconnectPoll libpq.PQconnectPoll
#define PQconnectStartParams libpq.PQconnectStartParams
#define PQconninfoFree libpq.PQconninfoFree
#define PQconninfoParse libpq.PQconninfoParse
#define PQconsumeInput libpq.PQconsumeInput
#define PQerrorMessage libpq.PQerrorMessage
#define PQfinish libpq.PQfinish
#define PQflush libpq.PQflush
#define PQfname libpq.PQfname
#define PQfreemem libpq.PQfreemem
#define PQftype libpq.PQftype
#define PQgetResult libpq.PQgetResult
#define PQgetisnull libpq.PQgetisnull
#define PQgetlength libpq.PQgetlength
#define PQgetvalue libpq.PQgetvalue
#define PQisBusy libpq.PQisBusy
#define PQisnonblocking libpq.PQisnonblocking
#define PQnfields libpq.PQnfields
#define PQnotifies libpq.PQnotifies
#define PQntuples libpq.PQntuples
#define PQparameterStatus libpq.PQparameterStatus
#define PQpipelineStatus libpq.PQpipelineStatus
#define PQresultErrorField libpq.PQresultErrorField
#define PQresultStatus libpq.PQresultStatus
#define PQsendPrepare libpq.PQsendPrepare
#define PQsendQuery libpq.PQsendQuery
#define PQsendQueryParams libpq.PQsendQueryParams
#define PQsendQueryPrepared libpq.PQsendQueryPrepared
#define PQserverVersion libpq.PQserverVersion
#define PQsslInUse libpq.PQsslInUse
#define PQsetErrorVerbosity libpq.PQsetErrorVerbosity
#define PQsetNoticeReceiver libpq.PQsetNoticeReceiver
#define PQsetnonblocking libpq.PQsetnonblocking
#define PQsocket libpq.PQsocket
#define PQstatus libpq.PQstatus
#define PQtransactionStatus libpq.PQtransactionStatus
#define PQunescapeBytea libpq.PQunescapeBytea

#endif
