/* The place where a node runs executions: its engine and, outside of the node, the service and the namespace.
 *
 * A store keeps the target of each node and of each start that may have arrived. The scheduler gives an item that may run
 * on a target to nodes with an equal target alone. Plain data; a caller owns the struct.
 */
#ifndef WEIR_QUEUE_ENGINE_TARGET_H
#define WEIR_QUEUE_ENGINE_TARGET_H

/* Where an engine runs executions. Two nodes with targets that are equal but for `address` can ask for each other's
 * executions. The name of the engine is all of it where executions live inside of the node: any node with this engine goes
 * on with them.
 */
enum { TARGET_ENGINE_MAX = 32, TARGET_SERVICE_MAX = 64, TARGET_NAMESPACE_MAX = 255, TARGET_ADDRESS_MAX = 255 };
struct engine_target {
    char engine[TARGET_ENGINE_MAX + 1];
    char service[TARGET_SERVICE_MAX + 1];          /* its identity, the same by any address; "" = inside of the node */
    char namespace_name[TARGET_NAMESPACE_MAX + 1]; /* "" = there is none */
    char address[TARGET_ADDRESS_MAX + 1];          /* where it was reached, for people only */
};
/* "in_process", or "temporal, namespace sales (01a20c52-...) at 127.0.0.1:7233". */
enum { TARGET_TEXT_MAX = 700 };
void engine_target_text(const struct engine_target *target, char *to);

#endif
