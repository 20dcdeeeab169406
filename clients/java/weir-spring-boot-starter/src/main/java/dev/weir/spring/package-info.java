/**
 * A starter for Spring Boot: beans that enqueue executions, and a worker that runs methods with
 * {@link dev.weir.client.WeirHandler}.
 */
package dev.weir.spring;
