package dev.weir.testing;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.TimeUnit;

/** A PostgreSQL server of the test's own, which ends with it. */
public final class Postgres implements AutoCloseable {
  private final Process process;
  private final BufferedWriter asked;
  private final BufferedReader answered;

  /** Starts a server. */
  public Postgres() {
    ProcessBuilder builder =
        new ProcessBuilder(
            "python3", Programs.source().resolve("tests/end_to_end/serve_postgres.py").toString());
    builder.redirectError(ProcessBuilder.Redirect.INHERIT);
    try {
      process = builder.start();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    asked = process.outputWriter();
    answered = process.inputReader();
  }

  /** The URL of a new database, as weir takes it. */
  public String database() {
    try {
      asked.write("\n");
      asked.flush();
      String url = answered.readLine();
      if (url == null) {
        throw new AssertionError("PostgreSQL has not started");
      }
      return url;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    try {
      asked.close();
      if (!process.waitFor(Programs.MOST.toSeconds(), TimeUnit.SECONDS)) {
        process.destroyForcibly();
        throw new AssertionError("PostgreSQL has not ended");
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
