package dev.weir.client;

/**
 * The answer to an enqueue.
 *
 * @param id the id of the execution
 * @param duplicate whether an earlier request has made it
 */
public record Enqueued(String id, boolean duplicate) {}
