package dev.weir.spring;

import dev.weir.client.EnqueueRequest;
import dev.weir.client.Enqueued;
import dev.weir.client.JdbcEnqueue;
import java.sql.Connection;
import java.sql.SQLException;
import org.springframework.jdbc.core.ConnectionCallback;
import org.springframework.jdbc.core.JdbcOperations;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Enqueues executions in the transaction of the caller: the commit of a method with
 * {@code @Transactional} starts the work, and its rollback leaves nothing. The store must be in the
 * PostgreSQL database of the application. Outside of a transaction each call commits by itself,
 * also where the connections of the pool have no auto-commit.
 */
public final class TransactionalEnqueue {
  private final JdbcOperations jdbc;
  private final JdbcEnqueue enqueue;

  /**
   * Makes the bean.
   *
   * @param jdbc has the connection of the transaction
   * @param enqueue calls the store
   */
  public TransactionalEnqueue(JdbcOperations jdbc, JdbcEnqueue enqueue) {
    this.jdbc = jdbc;
    this.enqueue = enqueue;
  }

  /**
   * Enqueues an execution.
   *
   * @param request the request
   * @return the execution
   * @throws dev.weir.client.WeirException a refusal, such as {@code workflow_not_found}; the
   *     transaction can go on
   * @throws org.springframework.dao.DataAccessException an error of the database
   */
  public Enqueued enqueue(EnqueueRequest request) {
    return jdbc.execute((ConnectionCallback<Enqueued>) connection -> enqueue(connection, request));
  }

  private Enqueued enqueue(Connection connection, EnqueueRequest request) throws SQLException {
    Enqueued enqueued = enqueue.enqueue(connection, request);
    boolean isInTransaction = TransactionSynchronizationManager.isActualTransactionActive();
    if (!isInTransaction && !connection.getAutoCommit()) {
      connection.commit(); // else the pool rolls it back
    }
    return enqueued;
  }
}
