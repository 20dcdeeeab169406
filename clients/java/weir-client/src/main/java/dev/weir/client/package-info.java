/**
 * Enqueues executions of weir, and runs handlers of workflows, over HTTP.
 *
 * <p>{@link dev.weir.client.WeirClient} enqueues executions and acts on them. {@link
 * dev.weir.client.Worker} claims tasks and runs their handlers.
 */
package dev.weir.client;
