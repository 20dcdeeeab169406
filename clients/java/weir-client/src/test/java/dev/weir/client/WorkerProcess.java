package dev.weir.client;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;

/**
 * A worker that tests kill. It writes one line for the beginning of each run, and one for its end:
 * the process, the execution, the attempt, the fence, {@code begin} or {@code end}, and the time of
 * the clock of the machine that does not jump.
 */
final class WorkerProcess {
  private WorkerProcess() {}

  /** Arguments: the file for the lines, then the addresses of nodes. */
  public static void main(String[] words) throws Exception {
    Path file = Path.of(words[0]);
    WeirClient client = WeirClient.builder(Arrays.asList(words).subList(1, words.length)).build();
    Worker worker =
        Worker.builder(client)
            .slots(4)
            .handle(
                "effect",
                task -> {
                  write(file, task, "begin");
                  Thread.sleep(100); // the work
                  write(file, task, "end");
                  return task.attempt();
                })
            .build();
    worker.start();
    worker.awaitEnd();
  }

  /**
   * One write of a short line to a file that is open for appending is not mixed with those of other
   * processes.
   */
  private static void write(Path file, Task task, String what) throws IOException {
    String line =
        String.join(
            " ",
            Long.toString(ProcessHandle.current().pid()),
            task.executionId(),
            Integer.toString(task.attempt()),
            Long.toString(task.fence()),
            what,
            Long.toString(System.nanoTime()));
    Files.writeString(file, line + "\n", StandardOpenOption.APPEND);
  }
}
