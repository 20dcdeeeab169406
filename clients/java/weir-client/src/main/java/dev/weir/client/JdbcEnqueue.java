package dev.weir.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Objects;

/**
 * Enqueues executions in a transaction of the caller, where the store is in the same PostgreSQL
 * database: the commit starts the work, and a rollback leaves nothing.
 *
 * <p>It calls the function {@code try_enqueue} of the store. Any thread may call; a connection
 * belongs to one thread at a time.
 */
public final class JdbcEnqueue {
  private final String sql;
  private final ObjectMapper mapper;

  /** Calls the functions of the schema {@code weir}. */
  public JdbcEnqueue() {
    this("weir");
  }

  /**
   * Calls the functions of another schema.
   *
   * @param schema the schema of the store
   */
  public JdbcEnqueue(String schema) {
    this(schema, Json.DEFAULT);
  }

  /**
   * Calls the functions of another schema, with params that a mapper writes.
   *
   * @param schema the schema of the store
   * @param mapper writes params
   */
  public JdbcEnqueue(String schema, ObjectMapper mapper) {
    this.mapper = Objects.requireNonNull(mapper);
    this.sql =
        "SELECT code, id, duplicate, message, hint FROM \""
            + schema.replace("\"", "\"\"")
            + "\".try_enqueue(?, ?, ?, ?, ?, CAST(? AS timestamptz), ?, CAST(? AS uuid), ?)";
  }

  /**
   * Enqueues an execution. It is part of the open transaction of the connection, or commits by
   * itself with auto-commit.
   *
   * @param connection the connection of the caller, which stays open
   * @param request the request
   * @return the execution
   * @throws WeirException a refusal, such as {@code workflow_not_found}; the transaction can go on
   * @throws SQLException an error of the database
   */
  public Enqueued enqueue(Connection connection, EnqueueRequest request) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      statement.setString(1, request.workspace());
      statement.setString(2, request.workflow());
      statement.setString(3, params(request));
      statement.setString(4, request.idempotencyKey());
      statement.setInt(5, request.priority());
      statement.setString(6, request.runAt());
      statement.setString(7, request.executorGroup());
      statement.setString(8, request.id());
      statement.setString(9, request.traceparent());
      try (ResultSet row = statement.executeQuery()) {
        if (!row.next()) {
          throw new SQLException("try_enqueue has returned no row");
        }
        if (!row.getString("code").equals("ok")) {
          throw WeirException.ofStore(
              row.getString("code"), row.getString("message"), row.getString("hint"));
        }
        return new Enqueued(row.getString("id"), row.getBoolean("duplicate"));
      }
    }
  }

  private String params(EnqueueRequest request) {
    try {
      return request.params() == null ? null : mapper.writeValueAsString(request.params());
    } catch (JsonProcessingException e) {
      throw new IllegalArgumentException(
          "the params cannot be written as JSON: " + e.getOriginalMessage(), e);
    }
  }
}
