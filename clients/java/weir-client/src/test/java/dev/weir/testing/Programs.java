package dev.weir.testing;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** Programs that tests run, and waiting for them. */
public final class Programs {
  /** No test waits longer for an event. */
  public static final Duration MOST = Duration.ofSeconds(90);

  private Programs() {}

  /** The source of weir, above the folder of the module that is tested. */
  public static Path source() {
    Path folder = Path.of("").toAbsolutePath();
    while (!Files.exists(folder.resolve("tests/workers/cases.json"))) {
      folder = folder.getParent();
      if (folder == null) {
        throw new IllegalStateException("run the tests in the source of weir");
      }
    }
    return folder;
  }

  /** The program that is tested: WEIR_BINARY, or that of ./dev build. */
  public static Path weir() {
    String named = System.getenv("WEIR_BINARY");
    Path path = named == null ? source().resolve("build/weir") : Path.of(named);
    if (!Files.isExecutable(path)) {
      throw new IllegalStateException(
          "WEIR_BINARY must name the program weir: there is no " + path);
    }
    return path.toAbsolutePath();
  }

  /** Runs a program to its end and returns its output. Another status than 0 is an error. */
  public static String run(ProcessBuilder builder) {
    try {
      Path output = Files.createTempFile("weir", ".out");
      Process process = builder.redirectErrorStream(true).redirectOutput(output.toFile()).start();
      process.getOutputStream().close();
      boolean hasEnded = process.waitFor(MOST.toSeconds(), java.util.concurrent.TimeUnit.SECONDS);
      String text = Files.readString(output);
      Files.delete(output);
      if (!hasEnded || process.exitValue() != 0) {
        process.destroyForcibly();
        throw new AssertionError(builder.command() + " has failed: " + text);
      }
      return text;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Waits until the condition holds. */
  public static void await(String what, BooleanSupplier condition) {
    await(() -> what, condition);
  }

  /** Waits until the condition holds. The text of a failure is made when it is needed. */
  public static void await(Supplier<String> what, BooleanSupplier condition) {
    long deadline = System.nanoTime() + MOST.toNanos();
    while (!condition.getAsBoolean()) {
      if (System.nanoTime() > deadline) {
        throw new AssertionError("waited in vain for " + what.get());
      }
      try {
        Thread.sleep(20);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
  }
}
